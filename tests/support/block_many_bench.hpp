// SPDX-License-Identifier: Apache-2.0
// block_many_bench.hpp - writers of a block store of many over plain bytes, without a segment: what rigs step,
// interleave and kill. Who lives is said by the test, not by the kernel.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "holdfast/block_store/many_write.hpp"
#include "support/block_bench.hpp"
#include "support/writer_roll.hpp"

namespace holdfast::test {

using many_block_writer = holdfast::detail::block_many_core<rolled_locks>;

/// Writer number `process`, which attaches: it recovers what any dead writer left.
[[nodiscard]] inline many_block_writer block_writer_of(const writable_blocks& view, writer_roll& roll,
                                                       unsigned process) {
    return {view, process, rolled_locks(roll, process)};
}

/// Whether any slot has something open: an operation, or a claim.
[[nodiscard]] inline bool something_open(const writable_blocks& view) {
    const holdfast::detail::block_slots slots(view);
    for (std::uint64_t slot = 0; slot < slots.slots(); ++slot)
        if (slots.left_something(slot)) return true;
    return false;
}

/// Whoever has a dead one's slot next claims a unit, and dies with that; so does the one behind. Nothing is open then.
[[nodiscard]] inline std::string claimed_again(const writable_blocks& view, writer_roll& roll, unsigned dead) {
    for (unsigned life = 0; life < 3; ++life) {
        roll.come_behind(dead);
        many_block_writer next = block_writer_of(view, roll, dead);
        if (next.recovery().counts_rebuilt) return "who has the slot next calls its journal damaged";
        const bool room = block_reader(view.as_const()).usage().units_free() != 0;
        if (life < 2 && (next.prepare(0) == outcome::ok) != room) return "a claim of who has the slot next was refused";
        if (std::string text = damage_of(view.as_const()); !text.empty()) return "claimed again: " + text;
        if (std::string text = miscounted(view.as_const()); !text.empty()) return "claimed again: " + text;
        roll.die(dead);
    }
    return {};
}

/// The writer goes on: every free unit can be allocated by it, every used one freed, nothing is left over, and then one
/// value fills the store. The image is used up by that.
[[nodiscard]] inline std::string leaks(const writable_blocks& view, many_block_writer& writer) {
    const std::uint64_t free = block_reader(view.as_const()).usage().units_free();
    std::uint64_t got = 0;
    while (put(writer, {got, 40})) ++got;  // one unit each
    if (got != free) return "of " + std::to_string(free) + " free units " + std::to_string(got) + " could be allocated";
    if (block_reader(view.as_const()).usage().units_free() != 0) return "a full store counts free units";
    if (std::string text = damage_of(view.as_const()); !text.empty()) return "filled: " + text;
    for (const std::uint64_t h : handles_of(writer.reader()))
        if (writer.free(h) != outcome::ok) return "a value could not be freed";
    if (block_reader(view.as_const()).usage().units_used != 0) return "an emptied store counts used units";
    if (std::string text = miscounted(view.as_const()); !text.empty()) return "emptied: " + text;
    const block_content all{7, static_cast<std::size_t>(view.geometry().value_bytes_max())};
    const block_result whole = put(writer, all);
    if (!whole || !holds(writer.reader(), whole.handle, all)) return "one value cannot fill the emptied store";
    if (something_open(view)) return "something was left open";
    return damage_of(view.as_const());
}

}  // namespace holdfast::test
