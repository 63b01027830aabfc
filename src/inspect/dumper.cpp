// SPDX-License-Identifier: Apache-2.0
#include "inspect/dumper.hpp"

#include "holdfast/record/text.hpp"
#include "holdfast/segment.hpp"
#include "inspect/attach.hpp"
#include "inspect/delimited_text.hpp"

namespace holdfast::inspect {

void append_header(std::string& out, const table_schema& schema, file_format format) {
    if (format == file_format::json_lines) {
        out += "{\"$schema\":\"" + schema.text() + "\"}\n";
        return;
    }
    // A layout that names and types do not tell goes before them in full.
    if (!schema.natural()) out += "#schema " + schema.text() + "\n";
    bool first = true;
    for (const std::string& heading : schema.headings()) {
        if (!first) out += format == file_format::tsv ? '\t' : ',';
        out += heading;
        first = false;
    }
    out += '\n';
}

void append_row(std::string& out, const std::vector<table_column>& columns, file_format format,
                std::span<const std::byte> key, std::span<const std::byte> value) {
    thread_local std::string cell;  // keeps its room from row to row
    bool first = true;
    for (const table_column& column : columns) {
        if (!first) out += format == file_format::tsv ? '\t' : ',';
        cell.clear();
        append_text(cell, *column.what, column.in_key ? key.data() : value.data());
        if (format == file_format::tsv)
            append_tsv_field(out, cell, first);
        else
            append_csv_field(out, cell, first);
        first = false;
    }
    out += '\n';
}

std::uint64_t dump(keyed_reader& from, const dump_options& options, const text_sink& sink) {
    text_pieces pieces(sink);
    std::string& text = pieces.text();
    std::uint64_t count = 0;
    if (options.header) append_header(text, from.schema(), options.format);
    const std::vector<table_column> columns = columns_of(from.schema().schema);
    from.scan([&](std::span<const std::byte> key, std::span<const std::byte> value) {
        if (options.format == file_format::json_lines) {
            from.codec().append_json(text, key, value);
            text += '\n';
        } else {
            append_row(text, columns, options.format, key, value);
        }
        ++count;
        pieces.line_done();
        return true;
    });
    pieces.flush();
    require_whole(from.memory());
    if (const auto fault = from.fault(); fault == errc::contended)
        throw error(
            *fault, from.memory().uri(),
            "the writer changed it faster than it could be read: what was written is not all there is; try again");
    else if (fault)
        throw error(*fault, from.memory().uri(),
                    "damage was met: what was written is not all there is; holdfast verify says where it lies");
    return count;
}

}  // namespace holdfast::inspect
