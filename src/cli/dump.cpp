// SPDX-License-Identifier: Apache-2.0
// dump.cpp - a segment as text that load reads back.
#include <memory>

#include "cli/exit_code.hpp"
#include "cli/format.hpp"
#include "cli/output.hpp"
#include "cli/output_file.hpp"
#include "cli/program.hpp"
#include "cli/progress.hpp"
#include "holdfast/segment.hpp"
#include "inspect/dumper.hpp"
#include "inspect/json_out.hpp"

namespace holdfast::cli {

namespace {

struct options {
    std::string segment;
    std::string file;
    std::string format;
    bool no_header = false;
};

int dump(const options& chosen) {
    const auto reader = inspect::keyed_reader::open(chosen.segment);
    inspect::dump_options how;
    how.header = !chosen.no_header;
    how.format = chosen.format == "tsv"     ? inspect::file_format::tsv
                 : chosen.format == "jsonl" ? inspect::file_format::json_lines
                 : chosen.format == "csv"   ? inspect::file_format::csv
                                            : inspect::format_of(chosen.file);
    if (chosen.file.empty() || chosen.file == "-") {
        (void)inspect::dump(*reader, how, [](std::string_view text) { put(text); });
        return success;
    }
    output_file file(chosen.file);
    progress_line progress(true);
    std::uint64_t written = 0;
    const std::uint64_t count = inspect::dump(*reader, how, [&](std::string_view text) {
        file.write(text);
        written += text.size();
        progress.show(written, std::nullopt, written, "bytes");
    });
    progress.clear();
    file.finish();
    if (!file.replaces()) return success;  // the pipe or terminal may be the very stdout
    put(format("{}: {} records, {}\n", inspect::printable(chosen.file), count_text(count), bytes_text(written)));
    return success;
}

}  // namespace

void add_dump(command_line& line) {
    const auto chosen = std::make_shared<options>();
    line.add("dump", "Write a hash table, an array or an index as text that load reads back")
        .positional("SEGMENT", chosen->segment, "the segment")
        .option("-o,--output", chosen->file, "FILE",
                "the file, replaced at once when it is whole, or a device or FIFO; default: stdout")
        .choice("--format", chosen->format, {"csv", "tsv", "jsonl"}, "default: by the file's name, else csv")
        .flag("--no-header", chosen->no_header, "leave the schema out")
        .run([chosen] { return dump(*chosen); });
}

}  // namespace holdfast::cli
