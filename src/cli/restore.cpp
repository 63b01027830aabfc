// SPDX-License-Identifier: Apache-2.0
// restore.cpp - a segment out of a file that save wrote.
#include <memory>

#include "cli/exit_code.hpp"
#include "cli/format.hpp"
#include "cli/new_segment.hpp"
#include "cli/output.hpp"
#include "cli/program.hpp"
#include "cli/progress.hpp"
#include "inspect/lasting_name.hpp"
#include "inspect/saver.hpp"

namespace holdfast::cli {

namespace {

struct options {
    std::string file;
    std::string segment;
    std::uint64_t capacity = 0;
    bool json = false;
    bool quiet = false;
    new_segment made;
};

int restore(const options& chosen) {
    inspect::require_lasting(chosen.segment);
    progress_line progress(!chosen.quiet && !chosen.json);
    inspect::restore_options all;
    all.create = chosen.made.options();
    all.capacity = chosen.capacity;
    all.progress = [&](std::uint64_t items) { progress.show(items, std::nullopt, items, "items"); };
    const inspect::save_report done = inspect::restore(chosen.file, chosen.segment, all);
    progress.clear();
    if (chosen.json) {
        std::string text;
        inspect::json_out out(text);
        append_json(out, done);
        put(text + "\n");
    } else if (!chosen.quiet) {
        put(format("{}: {} of {}, {}\n", done.uri, count_text(done.items), kind_name(done.kind),
                   bytes_text(done.bytes)));
    }
    return success;
}

}  // namespace

void add_restore(command_line& line) {
    const auto chosen = std::make_shared<options>();
    command restore_line = line.add("restore", "Make a segment of a file that save wrote");
    restore_line.positional("FILE", chosen->file, "the file; - is standard input")
        .positional("SEGMENT", chosen->segment, "the segment, which must not be there yet")
        .option("--capacity", chosen->capacity, "N",
                "hash table or map, counter set: what to make room for; default: as before")
        .flag("--json", chosen->json, "print what was done as a JSON object")
        .flag("-q,--quiet", chosen->quiet, "print nothing but errors")
        .details("The segment appears when all of the file was read and every checksum in it was right.")
        .run([chosen] { return restore(*chosen); });
    chosen->made.declare(restore_line);
}

}  // namespace holdfast::cli
