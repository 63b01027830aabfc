// SPDX-License-Identifier: Apache-2.0
// scan.cpp - the entries of a segment, for eyes and pipes: chosen fields, a prefix of the key, a limit.
#include <memory>

#include "cli/exit_code.hpp"
#include "cli/format.hpp"
#include "cli/output.hpp"
#include "cli/program.hpp"
#include "holdfast/detail/concat.hpp"
#include "inspect/attach.hpp"
#include "inspect/dumper.hpp"
#include "inspect/keyed_reader.hpp"
#include "inspect/map_reader.hpp"
#include "inspect/metrics_reader.hpp"

namespace holdfast::cli {

namespace {

struct options {
    std::string segment;
    std::vector<std::string> fields;
    std::string prefix;
    std::uint64_t limit = 0;
    bool json = false;
};

/// The fields that were asked for, which may be given as --fields a,b or --fields a --fields b.
[[nodiscard]] std::vector<std::string> names_in(const std::vector<std::string>& given) {
    std::vector<std::string> names;
    for (std::string_view text : given)
        while (!text.empty()) {
            const std::size_t comma = text.find(',');
            names.emplace_back(text.substr(0, comma));
            text.remove_prefix(comma == std::string_view::npos ? text.size() : comma + 1);
        }
    return names;
}

int scan_counters(const options& chosen, const segment& from) {
    std::uint64_t shown = 0;
    const auto show = [&](std::string_view family, std::string_view labels, std::uint64_t value) {
        if (!family.starts_with(chosen.prefix)) return true;
        if (chosen.json) {
            std::string text;
            inspect::json_out out(text);
            out.begin_object().member("name", family).member("labels", labels).member("value", value).end_object();
            put(text + "\n");
        } else {
            put(labels.empty() ? detail::concat(family, "\t", value, "\n")
                               : detail::concat(family, "{", labels, "}\t", value, "\n"));
        }
        return ++shown != chosen.limit;
    };
    const counter_walk met = inspect::walk_counters(from, show);
    inspect::require_whole(from);
    if (met.damaged != 0)
        throw error(errc::corrupt, from.uri(), "damage was met on the way; holdfast verify says where");
    return shown == 0 ? negative : success;
}

[[nodiscard]] std::vector<inspect::table_column> chosen_columns(const container_schema& schema,
                                                                const std::vector<std::string>& names) {
    if (names.empty()) return inspect::columns_of(schema);
    std::vector<inspect::table_column> columns;
    for (const std::string& name : names) columns.push_back(inspect::column_of(schema, name));
    return columns;
}

[[nodiscard]] std::string heading(const std::vector<inspect::table_column>& columns) {
    std::string text;
    for (const inspect::table_column& column : columns) {
        if (!text.empty()) text += '\t';
        text += column.what->name;
    }
    return styled(text, style::strong) + "\n";
}

int scan_entries(const options& chosen) {
    const auto reader = inspect::keyed_reader::open(chosen.segment);
    const container_schema& schema = reader->schema().schema;
    const std::vector<std::string> names = names_in(chosen.fields);
    const std::vector<inspect::table_column> columns = chosen_columns(schema, names);
    const std::vector<std::string_view> views(names.begin(), names.end());
    const json_writer writer(schema, views);
    const field& first = schema.key->fields().front();
    inspect::text_pieces pieces(put);
    std::string& text = pieces.text();
    std::string key_text;
    std::uint64_t shown = 0;
    if (!chosen.json) text += heading(columns);
    reader->scan([&](std::span<const std::byte> key, std::span<const std::byte> value) {
        if (!chosen.prefix.empty()) {
            key_text.clear();
            append_text(key_text, first, key.data());
            if (!key_text.starts_with(chosen.prefix)) return true;
        }
        if (chosen.json) {
            writer.append(text, key, value);
            text += '\n';
        } else {
            inspect::append_row(text, columns, inspect::file_format::tsv, key, value);
        }
        pieces.line_done();
        return ++shown != chosen.limit;
    });
    if (shown != 0) pieces.flush();
    inspect::require_whole(reader->memory());
    if (const auto fault = reader->fault(); fault == errc::contended)
        throw error(*fault, reader->memory().uri(),
                    "the writer changed it faster than it could be read: some entries are missing; try again");
    else if (fault)
        throw error(*fault, reader->memory().uri(), "damage was met on the way; holdfast verify says where");
    return shown == 0 ? negative : success;
}

int scan_map(const options& chosen, const std::shared_ptr<const segment>& from) {
    if (!chosen.fields.empty())
        throw error(errc::invalid_argument, from->uri(), "a hash_map's values have no fields; leave --fields out");
    const inspect::map_reader map(from);
    inspect::text_pieces pieces(put);
    std::string& text = pieces.text();
    std::uint64_t shown = 0;
    if (!chosen.json) text = styled("key\tbytes\tttl_s\tvalue", style::strong) + "\n";
    map.scan([&](const hash_map_entry& entry) {
        if (!chosen.prefix.empty() && !map.key_text(entry).starts_with(chosen.prefix)) return true;
        if (chosen.json) {
            map.append_json(text, entry);
            text += '\n';
        } else {
            map.append_line(text, entry);
        }
        pieces.line_done();
        return ++shown != chosen.limit;
    });
    if (shown != 0) pieces.flush();
    return shown == 0 ? negative : success;
}

int scan(const options& chosen) {
    const std::shared_ptr<const segment> from = inspect::attach_to_look(chosen.segment);
    switch (from->info().kind) {
        case container_kind::counter_set: return scan_counters(chosen, *from);
        case container_kind::hash_map: return scan_map(chosen, from);
        default: return scan_entries(chosen);
    }
}

}  // namespace

void add_scan(command_line& line) {
    const auto chosen = std::make_shared<options>();
    line.add("scan", "Print the entries of a hash table or map, an array, an index or a counter set, one a line")
        .positional("SEGMENT", chosen->segment, "the segment")
        .option("--fields", chosen->fields, "NAME,...", "these fields, in this order")
        .option("--prefix", chosen->prefix, "TEXT", "entries whose key's text begins so (its first field)")
        .option("-n,--limit", chosen->limit, "N", "at most so many; 0: all")
        .flag("--json", chosen->json, "one JSON object a line")
        .details(
            "An index comes in order and in one version, an array in order; a table or map in no order. "
            "Exit code 1: nothing matched.")
        .run([chosen] { return scan(*chosen); });
}

}  // namespace holdfast::cli
