// SPDX-License-Identifier: Apache-2.0
// load.cpp - a text file into a segment.
#include <memory>

#include "cli/exit_code.hpp"
#include "cli/format.hpp"
#include "cli/new_segment.hpp"
#include "cli/output.hpp"
#include "cli/program.hpp"
#include "cli/progress.hpp"
#include "cli/write_access.hpp"
#include "holdfast/layout/hash_table_layout.hpp"
#include "holdfast/layout/snapshot_layout.hpp"
#include "holdfast/segment/lease.hpp"
#include "inspect/loader.hpp"

namespace holdfast::cli {

namespace {

struct options {
    std::string segment;
    std::string file;
    std::string schema;
    std::string key;
    std::string value;
    std::string range_end;
    std::string format;
    std::string into;
    std::uint64_t capacity = 0;
    std::uint64_t writer_slots = 0;
    std::uint64_t slots = 0;
    std::uint64_t pinned_readers = 0;
    bool skip_bad = false;
    bool allow_empty = false;
    bool merge = false;
    bool json = false;
    bool quiet = false;
    new_segment made;
    write_access access;
};

[[noreturn]] void refuse(const char* option, const std::string& why) {
    throw error(errc::invalid_argument, option, why);
}

[[nodiscard]] std::optional<inspect::table_schema> schema_of(const options& chosen) {
    if (!chosen.schema.empty()) {
        if (!chosen.key.empty() || !chosen.value.empty())
            refuse("--schema", "says it all; leave --key and --value out");
        inspect::table_schema all = inspect::table_schema::parse(chosen.schema);
        if (chosen.range_end.empty()) return all;
        return inspect::table_schema::make(std::move(all.schema), chosen.range_end);
    }
    if (chosen.key.empty()) {
        if (!chosen.value.empty()) refuse("--value", "needs a --key beside it");
        if (!chosen.range_end.empty()) refuse("--range-end", "needs a --schema, or --key and --value, beside it");
        return std::nullopt;
    }
    container_schema parts;
    parts.key = record_schema::parse_list(chosen.key);
    if (!chosen.value.empty()) parts.value = record_schema::parse_list(chosen.value);
    return inspect::table_schema::make(std::move(parts),
                                       chosen.range_end.empty() ? std::nullopt : std::optional(chosen.range_end));
}

[[nodiscard]] std::uint32_t small(const char* option, std::uint64_t number, std::uint64_t most) {
    if (number > most) refuse(option, format("is at most {}", most));
    return static_cast<std::uint32_t>(number);
}

[[nodiscard]] std::optional<inspect::file_format> format_of(const std::string& name) {
    if (name.empty()) return std::nullopt;
    return name == "csv"   ? inspect::file_format::csv
           : name == "tsv" ? inspect::file_format::tsv
                           : inspect::file_format::json_lines;
}

[[nodiscard]] inspect::load_options load_options_of(const options& chosen) {
    inspect::load_options all;
    all.format = format_of(chosen.format);
    all.schema = schema_of(chosen);
    all.into = chosen.into == "hash_table"     ? inspect::load_target::hash_table
               : chosen.into == "sorted_index" ? inspect::load_target::sorted_index
               : chosen.into == "snapshot"     ? inspect::load_target::snapshot
                                               : inspect::load_target::automatic;
    all.skip_bad = chosen.skip_bad;
    all.allow_empty = chosen.allow_empty;
    all.merge = chosen.merge;
    all.capacity = chosen.capacity;
    all.writer_slots = small("--writer-slots", chosen.writer_slots, layout::writer_slots_max);
    all.slots = small("--slots", chosen.slots, layout::snapshot_slots_max);
    all.pinned_readers = small("--pinned-readers", chosen.pinned_readers, layout::snapshot_slots_max - 2);
    all.attach = chosen.access.options();
    all.create = chosen.made.options();
    return all;
}

void print(const inspect::load_report& done, double seconds) {
    std::string text = format("{}: {} records", done.uri, count_text(done.records));
    if (done.skipped != 0) text += format(", {} lines skipped", count_text(done.skipped));
    if (done.version != 0) text += format(", version {} published", done.version);
    text += format(", {} in {:.2f} s", bytes_text(done.bytes), seconds);
    put(text + "\n");
}

int load(const options& chosen) {
    constexpr std::uint64_t bad_lines_shown = 10;
    inspect::load_options all = load_options_of(chosen);
    progress_line progress(!chosen.quiet && !chosen.json);
    std::uint64_t bad = 0;
    all.on_progress = [&](const inspect::load_progress& now) {
        progress.show(now.bytes_read, now.bytes_total, now.records, "records");
    };
    all.on_bad = [&](const inspect::input_fault& fault) {
        if (++bad > bad_lines_shown) return;
        progress.clear();
        say(fault.text() + (bad == bad_lines_shown ? "; further bad lines are only counted" : ""));
    };
    const std::uint64_t begin = detail::monotonic_ns();
    try {
        const inspect::load_report done = inspect::load(chosen.segment, chosen.file, all);
        progress.clear();
        if (chosen.json) {
            std::string text;
            inspect::json_out out(text);
            append_json(out, done);
            put(text + "\n");
        } else if (!chosen.quiet) {
            print(done, static_cast<double>(detail::monotonic_ns() - begin) / 1e9);
        }
        return success;
    } catch (const inspect::input_error& failure) {
        progress.clear();
        say(failure.fault().text());
        return bad_input;
    }
}

}  // namespace

void add_load(command_line& line) {
    const auto chosen = std::make_shared<options>();
    command file =
        line.add("load", "Load CSV, TSV or JSON lines into a hash table, a sorted index or a snapshot of one");
    file.positional("SEGMENT", chosen->segment, "the segment; a snapshot that is there gets its next version")
        .positional("FILE", chosen->file, "the file; - is standard input")
        .option("--schema", chosen->schema, "NAME:TYPE[:ROLE],...", "the fields; roles: key, end (of the range)")
        .option("--key", chosen->key, "NAME:TYPE,...", "instead of --schema: the key's fields")
        .option("--value", chosen->value, "NAME:TYPE,...", "and the value's")
        .option("--range-end", chosen->range_end, "NAME", "the value's field with the last key of the record's range")
        .choice("--format", chosen->format, {"csv", "tsv", "jsonl"}, "default: by the file's name, else csv")
        .choice("--into", chosen->into, {"hash_table", "sorted_index", "snapshot"},
                "kind of a new segment; default: snapshot for ranges, else hash_table")
        .flag("--skip-bad", chosen->skip_bad, "leave out lines that cannot be read, and count them")
        .flag("--allow-empty", chosen->allow_empty, "let a file without records empty a snapshot that is there")
        .flag("--merge", chosen->merge, "add to a hash table that is there, replacing values of equal keys")
        .option("--capacity", chosen->capacity, "N", "records to make room for; default: a quarter more than there are")
        .option("--writer-slots", chosen->writer_slots, "N",
                "hash table: for so many writers at once, 1024 at most; default: for one")
        .option("--slots", chosen->slots, "N", "snapshot: versions kept; default 4")
        .option("--pinned-readers", chosen->pinned_readers, "N", "snapshot: places for registered readers; default 0")
        .flag("--json", chosen->json, "print what was done as a JSON object")
        .flag("-q,--quiet", chosen->quiet, "print nothing but errors")
        .details(
            "Types: u8 u16 u32 u64 i8 i16 i32 i64 f32 f64 bool char[N] bytes[N] ipv4 ipv6 timestamp, TYPE[N].\n"
            "Without --schema the file says it (first line low:ipv4:key,high:ipv4:end,country:char[2], or\n"
            "{\"$schema\":\"...\"}), or the segment that is there. Lines that begin with # are comments.\n"
            "Nothing is published unless every line was read (or skipped): exit code 7 names file:line:column.")
        .run([chosen] { return load(*chosen); });
    chosen->made.declare(file);
    chosen->access.declare(file);
}

}  // namespace holdfast::cli
