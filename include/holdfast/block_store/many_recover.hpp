// SPDX-License-Identifier: Apache-2.0
// many_recover.hpp - what is done for a dead writer of a block store of many writers, by whoever holds its slot's lock:
// the next holder, or a living writer that met what it left (many_write.hpp).
//
// At most: the old value of a replacement is taken, or the new one withdrawn; the operation is marked complete, or
// followed by one that does nothing; two claims are dropped. The same stores in the same order as the dead one would
// have made them. Killed between them, it is done again or has nothing left to do. Cost: one journal; where its record
// is damaged, a pass over the words.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "holdfast/block_store/many_view.hpp"
#include "holdfast/block_store/recover.hpp"

namespace holdfast::detail {

/// Writes down who holds a writer slot, for people: its writer, or who finishes for a dead one and may be stopped in
/// that. Requires: the slot's lock.
inline void name_holder(const block_slots<std::byte>& slots, std::uint64_t slot, std::uint64_t pid) noexcept {
    store_release<std::uint64_t>(slots.pid_at(slot), pid);
}

/// Swaps the word of a unit. Returns: whether it was `expected`.
[[nodiscard]] inline bool swap_word(std::byte* at, std::uint64_t expected, std::uint64_t desired) noexcept {
    std::atomic_ref<std::uint64_t> word(*reinterpret_cast<std::uint64_t*>(at));
    // R1, W1 and W2 at once: who takes a unit sees what those who had it stored, and whoever sees the new word sees the
    // journal that names it. Acquire on failure, too: the word found is judged.
    return word.compare_exchange_strong(expected, desired, std::memory_order_acq_rel, std::memory_order_acquire);
}

/// Drops a claim: one store frees all its units. Release: behind the end of the operation that it belongs to. Requires:
/// the first unit carries it, and the caller holds its slot.
inline void drop_claim(const block_slots<std::byte>& slots, std::uint64_t handle) noexcept {
    const auto& view = slots.view();
    store_release<std::uint64_t>(view.word_at(view.index_of(handle)), slots.dropped(handle));
}

/// C2 and C3, or F1 and F2, in the slot's journal.
inline void begin_operation(const block_slots<std::byte>& slots, std::uint64_t slot, std::uint64_t operation,
                            const block_record& record) noexcept {
    put_in_force(slots.record_at(slot, operation), slots.selector_at(slot), operation, record);
}

/// C6, W3, release: behind all stores of the operation, and before its traces are taken away.
inline void complete_operation(const block_slots<std::byte>& slots, std::uint64_t slot,
                               std::uint64_t operation) noexcept {
    store_release<std::uint64_t>(slots.selector_at(slot), 2 * operation + 1);
}

/// An operation that does nothing, after one that will not be done: the counts stand by themselves.
inline void begin_anew(const block_slots<std::byte>& slots, std::uint64_t slot, block_counts& counts) noexcept {
    ++counts.operation;
    begin_operation(slots, slot, counts.operation,
                    {{0, 0, counts.units, counts.values, 0, counts.serial, counts.flags, 0}});
    complete_operation(slots, slot, counts.operation);
}

/// What a damaged journal still tells of the last number that its slot gave to a value; 0 = nothing. `claim` names each
/// claim before anything carries it, so no value has a later one; a slot that has claimed nothing yet has a number in
/// its records only, of which one may have been left alone.
[[nodiscard]] inline std::uint64_t last_number_left(const block_slots<std::byte>& slots, std::uint64_t slot,
                                                    std::uint64_t operation) noexcept {
    block_record other = slots.record_of(slot, operation + 1);  // that of the operation before, or of one not in force
    if (!slots.is_sound(other, slot, operation - 1) && !slots.is_sound(other, slot, operation + 1)) other = {};
    return slots.last_number(slot, other);
}

/// The slot's journal is damaged: it begins again with nothing and says so, and what the slot has claimed is dropped.
[[nodiscard]] inline block_counts reject_journal(const block_slots<std::byte>& slots, std::uint64_t slot,
                                                 std::uint64_t operation) noexcept {
    const auto& view = slots.view();
    const std::uint64_t left = last_number_left(slots, slot, operation);
    std::uint64_t highest = 0;  // that a word carries
    for (std::uint64_t i = 0; i < view.units(); ++i) {
        const std::uint64_t word = view.word(i);
        const std::uint64_t handle = slots.dropped(word) | layout::block_live_bit;
        if (!view.is_handle(handle) || slots.slot_of(handle) != slot) continue;
        // Freed handles too, and those of dead claims: none of their numbers is given out again.
        highest = std::max(highest, slots.number_of(view.serial_of(handle)));
        if (view.index_of(word) == i && slots.is_claim(word)) drop_claim(slots, handle);
    }
    // Release: as all stores to records. The one in force first, as in spoil_records().
    for (const std::uint64_t each : {operation, operation + 1})
        store_release<std::uint64_t>(slots.record_at(slot, each) + 8 * block_record::sum, 1);
    block_counts counts;
    counts.operation = operation_to_go_on_from(operation);
    // Words are asked only where nothing else is left: who frees a value puts a number of its own in the place of the
    // value's, and words that stand since long ago may name numbers of another round.
    counts.serial = slots.serial(slot, left != 0 ? left : highest);
    counts.flags = block_record::rebuilt_flag;
    begin_anew(slots, slot, counts);
    return counts;
}

/// Finishes what the last holder of a writer slot was killed in. Requires: the caller holds the lock of the slot.
/// Idempotent. Returns: what a writer of that slot goes on from.
inline block_counts recover_slot(const block_slots<std::byte>& slots, std::uint64_t slot,
                                 block_store_recovery& done) noexcept {
    const auto& view = slots.view();
    block_state s = slots.look(slot);
    if (!s.sound) {
        done.counts_rebuilt = true;
        return reject_journal(slots, slot, s.operation());
    }
    if (s.replacing()) {
        const std::uint64_t add = s.record.word[block_record::add], take = s.record.word[block_record::take];
        if (!swap_word(view.word_at(view.index_of(take)), take, slots.claim_of(slots.taker(s.record))))  // F3
            store_release<std::uint64_t>(view.word_at(view.index_of(add)), slots.claim_of(add));  // W2: withdrawn
        done.replacement_finished = true;
        s = slots.look(slot);
    }
    const std::uint64_t claim = slots.claimed(slot);
    // A record whose writer was killed in front of the selector stays. Its number counts as used (M2).
    const block_record next = slots.next_record(slot, s.operation());
    const std::uint64_t number =
        slots.later(slots.last_number(slot, s.record), slots.number_of(next.word[block_record::serial]));
    block_counts counts{s.operation(), s.units(), s.values(), slots.serial(slot, number),
                        s.record.word[block_record::flags]};
    if (s.selector != 0 && !s.is_complete()) {
        if (s.is_done())
            complete_operation(slots, slot, counts.operation);
        else
            begin_anew(slots, slot, counts);
    }
    if (claim != 0 && slots.is_open(claim)) {
        drop_claim(slots, claim);
        done.claims_dropped = true;
    }
    if (slots.has_gone(s.record)) drop_claim(slots, slots.taker(s.record));  // F4
    return counts;
}

/// The same for each other slot that left something and that nobody living holds. Returns: how many.
/// Locks::take(slot) takes the slot's lock if no living process has it, give_back(slot) gives it back, pid() is the
/// caller's.
template <class Locks>
std::uint64_t recover_others(const block_slots<std::byte>& slots, std::uint64_t own, Locks& locks,
                             block_store_recovery& done) noexcept {
    std::uint64_t found = 0;
    for (std::uint64_t other = 0; other < slots.slots(); ++other) {
        if (other == own || !slots.left_something(other) || !locks.take(static_cast<std::uint32_t>(other))) continue;
        name_holder(slots, other, locks.pid());
        (void)recover_slot(slots, other, done);
        locks.give_back(static_cast<std::uint32_t>(other));
        ++found;
    }
    return found;
}

}  // namespace holdfast::detail
