// SPDX-License-Identifier: Apache-2.0
// save.cpp - a segment's contents into a file that checks itself.
#include <memory>

#include "cli/exit_code.hpp"
#include "cli/format.hpp"
#include "cli/output.hpp"
#include "cli/output_file.hpp"
#include "cli/program.hpp"
#include "cli/progress.hpp"
#include "inspect/saver.hpp"

namespace holdfast::cli {

namespace {

struct options {
    std::string segment;
    std::string file;
    bool json = false;
    bool quiet = false;
};

void warn_of_change(const inspect::save_report& done) {
    if (!done.still) say(format("{} changed while it was saved: what the file holds is of several moments", done.uri));
}

int save(const options& chosen) {
    if (chosen.file == "-") {
        warn_of_change(inspect::save(chosen.segment, [](std::string_view text) { put(text); }));
        return success;
    }
    constexpr mode_t private_to_owner = 0600;  // as segments are; whoever may read all of them says so by chmod
    output_file file(chosen.file, private_to_owner);
    progress_line progress(!chosen.quiet && !chosen.json);
    std::uint64_t written = 0;
    const inspect::save_report done = inspect::save(
        chosen.segment,
        [&](std::string_view text) {
            file.write(text);
            written += text.size();
        },
        [&](std::uint64_t items) { progress.show(written, std::nullopt, items, "items"); });
    progress.clear();
    file.finish();
    warn_of_change(done);
    if (chosen.json) {
        std::string text;
        inspect::json_out out(text);
        append_json(out, done);
        put(text + "\n");
    } else if (!chosen.quiet && file.replaces()) {
        put(format("{}: {} of {} {}, {}\n", inspect::printable(chosen.file), count_text(done.items),
                   kind_name(done.kind), done.uri, bytes_text(done.bytes)));
    }
    return success;
}

}  // namespace

void add_save(command_line& line) {
    const auto chosen = std::make_shared<options>();
    line.add("save", "Save what a segment holds to a file that checks itself, while its writer works")
        .positional("SEGMENT", chosen->segment, "the segment, of any kind")
        .positional("FILE", chosen->file, "the file, replaced at once when it is whole; - is standard output")
        .flag("--json", chosen->json, "print what was done as a JSON object")
        .flag("-q,--quiet", chosen->quiet, "print nothing but errors")
        .details(
            "Contents are saved, not memory: the file can be restored on another machine and by later versions.\n"
            "A damaged segment is not saved (exit code 4): holdfast verify shows where, holdfast dump takes out\n"
            "what can be read. A raw segment (without a container) is saved byte by byte, and a warning says when\n"
            "it changed meanwhile.")
        .run([chosen] { return save(*chosen); });
}

}  // namespace holdfast::cli
