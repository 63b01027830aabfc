// SPDX-License-Identifier: Apache-2.0
// grow.cpp - moves a hash table's entries to a larger or smaller table of the same name, under its readers.
#include <memory>

#include "cli/exit_code.hpp"
#include "cli/format.hpp"
#include "cli/output.hpp"
#include "cli/program.hpp"
#include "cli/progress.hpp"
#include "cli/write_access.hpp"
#include "holdfast/hash_table/dynamic.hpp"
#include "holdfast/hash_table/grow.hpp"
#include "inspect/json_out.hpp"

namespace holdfast::cli {

namespace {

struct options {
    std::string segment;
    std::uint64_t capacity = 0;
    bool json = false;
    bool quiet = false;
    write_access access;
};

void move_alone(dynamic_hash_table& table, std::uint64_t capacity, progress_line& progress) {
    const std::uint64_t slots = table.slots();
    detail::table_growth<dynamic_hash_table> growth(table, capacity);
    while (!growth.advance(table)) progress.show(growth.copied_slots(), slots, growth.copied_slots(), "slots");
}

/// One of many writers leads, the others go on.
void move_beside_others(dynamic_hash_table& table, std::uint64_t capacity, progress_line& progress) {
    const std::uint64_t slots = table.slots();
    table.grow(capacity);
    while (table.advance()) progress.show(table.carried_slots(), slots, table.carried_slots(), "slots");
    if (table.growth_failure()) throw error(*table.growth_failure());
}

int grow(const options& chosen) {
    if (chosen.capacity == 0)
        throw error(errc::invalid_argument, "--capacity", "is missing or 0; say how many entries to make room for");
    dynamic_hash_table table = dynamic_hash_table::attach(chosen.segment, chosen.access.options());
    const std::uint64_t before = table.capacity();
    progress_line progress(!chosen.quiet && !chosen.json);
    if (table.segment().info().policy == writers::many)
        move_beside_others(table, chosen.capacity, progress);
    else
        move_alone(table, chosen.capacity, progress);
    progress.clear();
    const std::uint64_t bytes = table.segment().info().total_bytes;
    if (chosen.json) {
        std::string text;
        inspect::json_out out(text);
        out.begin_object().member("uri", table.segment().uri()).member("entries", table.size());
        out.member("capacity_before", before).member("capacity", table.capacity()).member("bytes", bytes).end_object();
        put(text + "\n");
    } else if (!chosen.quiet) {
        put(format("{}: {} entries, capacity {} before and {} now, {}\n", table.segment().uri(),
                   count_text(table.size()), count_text(before), count_text(table.capacity()), bytes_text(bytes)));
    }
    return success;
}

}  // namespace

void add_grow(command_line& line) {
    const auto chosen = std::make_shared<options>();
    command grow_line = line.add(
        "grow", "Move a hash table's entries to one of another capacity under the same name, beside its readers");
    grow_line.positional("SEGMENT", chosen->segment, "a hash table, posix: or file:; of one writer: at rest")
        .option("--capacity", chosen->capacity, "N", "entries to make room for: more, or fewer, but all that are there")
        .flag("--json", chosen->json, "print what was done as a JSON object")
        .flag("-q,--quiet", chosen->quiet, "print nothing but errors")
        .details(
            "Both tables take their memory until the move is over. Whatever stops it, a kill too, leaves the table as "
            "it was; of many writers, which go on meanwhile, another one then ends what was begun.\n"
            "Readers by growing_hash_table_reader go on in the new one; others keep the old one as it was, until they "
            "attach anew.")
        .run([chosen] { return grow(*chosen); });
    chosen->access.declare(grow_line);
}

}  // namespace holdfast::cli
