// SPDX-License-Identifier: Apache-2.0
// dump.cpp - a segment as text that load reads back.
#include <functional>
#include <memory>

#include "cli/exit_code.hpp"
#include "cli/format.hpp"
#include "cli/output.hpp"
#include "cli/output_file.hpp"
#include "cli/program.hpp"
#include "cli/progress.hpp"
#include "holdfast/segment.hpp"
#include "inspect/attach.hpp"
#include "inspect/dumper.hpp"
#include "inspect/json_out.hpp"
#include "inspect/map_reader.hpp"

namespace holdfast::cli {

namespace {

struct options {
    std::string segment;
    std::string file;
    std::string format;
    bool no_header = false;
};

/// A map's entries as JSON lines, the only form that bytes of any length have.
std::uint64_t dump_map(const inspect::map_reader& map, const inspect::text_sink& sink) {
    inspect::text_pieces pieces(sink);
    std::uint64_t count = 0;
    map.scan([&](const hash_map_entry& entry) {
        map.append_json(pieces.text(), entry);
        pieces.text() += '\n';
        ++count;
        pieces.line_done();
        return true;
    });
    pieces.flush();
    return count;
}

/// Opens the segment, which may fail, before a file is touched. Returns: what writes it.
[[nodiscard]] std::function<std::uint64_t(const inspect::text_sink&)> opened(const options& chosen) {
    const auto from = inspect::attach_to_look(chosen.segment);
    if (from->info().kind == container_kind::hash_map) {
        if (!chosen.format.empty() && chosen.format != "jsonl")
            throw error(errc::invalid_argument, from->uri(), "a hash_map is dumped as JSON lines; leave --format out");
        return [map = std::make_shared<inspect::map_reader>(from)](const inspect::text_sink& sink) {
            return dump_map(*map, sink);
        };
    }
    const std::shared_ptr<inspect::keyed_reader> reader = inspect::keyed_reader::open(chosen.segment);
    inspect::dump_options how;
    how.header = !chosen.no_header;
    how.format = chosen.format == "tsv"     ? inspect::file_format::tsv
                 : chosen.format == "jsonl" ? inspect::file_format::json_lines
                 : chosen.format == "csv"   ? inspect::file_format::csv
                                            : inspect::format_of(chosen.file);
    return [reader, how](const inspect::text_sink& sink) { return inspect::dump(*reader, how, sink); };
}

int dump(const options& chosen) {
    const auto dump_to = opened(chosen);
    if (chosen.file.empty() || chosen.file == "-") {
        (void)dump_to([](std::string_view text) { put(text); });
        return success;
    }
    output_file file(chosen.file);
    progress_line progress(true);
    std::uint64_t written = 0;
    const std::uint64_t count = dump_to([&](std::string_view text) {
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
    line.add("dump", "Write a hash table, an array or an index as text that load reads back; a hash map as JSON lines")
        .positional("SEGMENT", chosen->segment, "the segment")
        .option("-o,--output", chosen->file, "FILE",
                "the file, replaced at once when it is whole, or a device or FIFO; default: stdout")
        .choice("--format", chosen->format, {"csv", "tsv", "jsonl"}, "default: by the file's name, else csv")
        .flag("--no-header", chosen->no_header, "leave the schema out")
        .run([chosen] { return dump(*chosen); });
}

}  // namespace holdfast::cli
