// SPDX-License-Identifier: Apache-2.0
// map_many_bench.hpp - writers of a hash map of many over plain bytes, without a segment: what rigs step, interleave
// and kill. Who lives is said by the test, not by the kernel.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "holdfast/hash_map/many_write.hpp"
#include "support/map_bench.hpp"
#include "support/writer_roll.hpp"

namespace holdfast::test {

using many_map_writer = holdfast::detail::map_many_core<rolled_locks>;

/// A map of few units for many writers.
[[nodiscard]] inline layout::hash_map_geometry small_map_of_many(std::uint64_t units, std::uint64_t capacity = 120,
                                                                 std::uint64_t slots = writer_roll::processes) {
    return layout::plan_hash_map({.capacity = capacity,
                                  .bytes = units * 64,
                                  .entry_bytes = 0,
                                  .unit_bytes = 64,
                                  .evicting = false,
                                  .seed = 42,
                                  .writer_slots = slots});
}

/// Writer number `process`, which attaches: it recovers what any dead writer left.
[[nodiscard]] inline many_map_writer map_writer_of(const writable_map& view, writer_roll& roll, unsigned process) {
    return {view, process, rolled_locks(roll, process)};
}

inline hash_map_result put(many_map_writer& writer, std::string_view key, map_content what,
                           const holdfast::detail::map_condition& when = {}) {
    return writer.set(as_key(key), whole_object(what.seed, what.bytes), 0, when);
}

/// Whether any slot of any part has something open: an operation, a claim, a stripe.
[[nodiscard]] inline bool something_open(const writable_map& view) {
    const holdfast::detail::map_slots slots(view);
    const holdfast::detail::block_slots store(view.store);
    for (std::uint32_t slot = 0; slot < slots.slots(); ++slot)
        if (slots.left_something(slot) || store.left_something(slot) ||
            holdfast::detail::left_something(view.table, slot))
            return true;
    return false;
}

/// The writer goes on: every free unit can be filled, those included that a dead writer left without a key, each entry
/// can be erased, nothing is left over, and then one value fills the map. The image is used up by that. Requires: a
/// capacity of more entries than there are units.
[[nodiscard]] inline std::string leaks(const writable_map& view, many_map_writer& writer) {
    const std::uint64_t free = writer.reader().usage().units_free();
    std::uint64_t got = 0;
    while (put(writer, std::string("f").append(std::to_string(got)), {got, 0})) ++got;  // one unit each
    if (got < free) return "of " + std::to_string(free) + " free units " + std::to_string(got) + " could be filled";
    if (writer.reader().usage().units_free() != 0) return "a full map counts free units";
    if (something_open(view)) return "filled, and something is open";
    if (std::string text = damage_of(view.as_const()); !text.empty()) return "filled: " + text;
    for (const std::string& key : keys_of(writer.reader()))
        if (!writer.erase(as_key(key))) return "an entry could not be erased";
    const map_content all{
        7, static_cast<std::size_t>(view.geometry().store.value_bytes_max() - layout::map_value_offset(3))};
    if (!put(writer, "all", all) || !holds(writer.reader(), "all", all)) return "one value cannot fill the map";
    if (std::string text = damage_of(view.as_const()); !text.empty()) return "full: " + text;
    if (!writer.erase(as_key("all"))) return "the value that fills the map could not be erased";
    const hash_map_usage usage = writer.reader().usage();
    if (!usage || usage.units_used != 0 || usage.entries != 0) return "an emptied map is not empty";
    if (std::string text = miscounted(view.store.as_const()); !text.empty()) return "emptied: " + text;
    return damage_of(view.as_const());
}

}  // namespace holdfast::test
