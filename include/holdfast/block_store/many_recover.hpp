// SPDX-License-Identifier: Apache-2.0
// many_recover.hpp - what is done for a dead writer of a block store of many writers, by whoever holds its slot's lock:
// the next holder, or a living writer that met what it left (many_write.hpp).
//
// At most: the old value of a replacement is taken, or the new one withdrawn; the operation is marked complete, or
// followed by one that does nothing; two claims are dropped. The same stores in the same order as the dead one would
// have made them. Killed between them, it is done again or has nothing left to do. Cost: one journal a slot; where
// records are damaged, a pass over the words for all of them together.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bitset>
#include <cstddef>
#include <cstdint>

#include "holdfast/block_store/many_view.hpp"
#include "holdfast/block_store/recover.hpp"

namespace holdfast::detail {

/// Some writer slots: those whose locks the caller holds.
using slot_set = std::bitset<layout::block_writer_slots_max>;

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

/// A number for each writer slot.
using slot_numbers = std::array<std::uint64_t, layout::block_writer_slots_max>;

/// Drops what the slots have claimed. Raises the number of those that have none yet to the highest that a word carries:
/// words are asked only where nothing else is left, since who frees a value puts a number of its own in the place of
/// the value's, and words that stand since long ago may name numbers of another round. Cost: one pass over the words.
inline void drop_claims_of(const block_slots<std::byte>& slots, const slot_set& of, const slot_set& unnumbered,
                           slot_numbers& numbers) noexcept {
    const auto& view = slots.view();
    for (std::uint64_t i = 0; i < view.units(); ++i) {
        const std::uint64_t word = view.word(i);
        const std::uint64_t handle = slots.dropped(word) | layout::block_live_bit;
        if (!view.is_handle(handle)) continue;
        const std::uint64_t slot = slots.slot_of(handle);  // input: it may be above all slots
        if (slot >= of.size() || !of[slot]) continue;
        // Freed handles too, and those of dead claims: none of their numbers is given out again.
        if (unnumbered[slot]) numbers[slot] = std::max(numbers[slot], slots.number_of(view.serial_of(handle)));
        if (view.index_of(word) == i && slots.is_claim(word)) drop_claim(slots, handle);
    }
}

/// The slot's journal is damaged: until it begins again no record of it counts, whatever is dropped meanwhile.
inline void spoil_journal(const block_slots<std::byte>& slots, std::uint64_t slot, std::uint64_t operation) noexcept {
    // Release: as all stores to records. The one in force first, as in spoil_records().
    for (const std::uint64_t each : {operation, operation + 1})
        store_release<std::uint64_t>(slots.record_at(slot, each) + 8 * block_record::sum, 1);
}

/// The journal begins again with nothing and says so. Requires: it is spoilt, and the slot's claims are dropped;
/// `number` is the last that the slot gave out.
[[nodiscard]] inline block_counts begin_again(const block_slots<std::byte>& slots, std::uint64_t slot,
                                              std::uint64_t number) noexcept {
    block_counts counts;
    counts.operation = operation_to_go_on_from(slots.selector(slot) / 2);
    counts.serial = slots.serial(slot, number);
    counts.flags = block_record::rebuilt_flag;
    begin_anew(slots, slot, counts);
    return counts;
}

/// Finishes what the last holder of a slot with a sound journal was killed in: `s`, as it was found.
inline block_counts finish_operation(const block_slots<std::byte>& slots, std::uint64_t slot, block_state s,
                                     block_store_recovery& done) noexcept {
    const auto& view = slots.view();
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

/// Finishes what the last holders of some writer slots were killed in. Requires: the caller holds the locks of all of
/// them. Idempotent. told(slot, const block_counts&) learns what a writer of that slot goes on from.
template <class Told>
void recover_slots(const block_slots<std::byte>& slots, const slot_set& which, block_store_recovery& done,
                   Told&& told) noexcept {
    slot_set damaged, unnumbered;
    slot_numbers numbers;
    for (std::uint64_t slot = 0; slot < slots.slots(); ++slot) {
        if (!which[slot]) continue;
        const block_state s = slots.look(slot);
        if (s.sound) {
            told(slot, finish_operation(slots, slot, s, done));
            continue;
        }
        damaged.set(slot);
        numbers[slot] = last_number_left(slots, slot, s.operation());
        unnumbered.set(slot, numbers[slot] == 0);
        spoil_journal(slots, slot, s.operation());
    }
    if (damaged.none()) return;
    done.counts_rebuilt = true;
    drop_claims_of(slots, damaged, unnumbered, numbers);
    for (std::uint64_t slot = 0; slot < slots.slots(); ++slot)
        if (damaged[slot]) told(slot, begin_again(slots, slot, numbers[slot]));
}

/// The same for one slot. Returns: what a writer of it goes on from.
inline block_counts recover_slot(const block_slots<std::byte>& slots, std::uint64_t slot,
                                 block_store_recovery& done) noexcept {
    block_counts counts;
    recover_slots(slots, slot_set().set(slot), done, [&](std::uint64_t, const block_counts& c) { counts = c; });
    return counts;
}

/// Gives back the locks that were taken one by one.
template <class Locks>
void give_back_all(const slot_set& taken, Locks& locks) noexcept {
    for (std::size_t slot = 0; slot < taken.size(); ++slot)
        if (taken[slot]) locks.give_back(static_cast<std::uint32_t>(slot));
}

/// Finishes for each other slot that left something and that nobody living holds. Returns: how many. The slots of sound
/// journals are held one at a time, those of damaged ones together. Locks::take(slot) takes the slot's lock if no
/// living process has it, give_back(slot) gives it back, pid() is the caller's.
template <class Locks>
std::uint64_t recover_others(const block_slots<std::byte>& slots, std::uint64_t own, Locks& locks,
                             block_store_recovery& done) noexcept {
    std::uint64_t found = 0;
    slot_set damaged;
    for (std::uint64_t other = 0; other < slots.slots(); ++other) {
        if (other == own || !slots.left_something(other) || !locks.take(static_cast<std::uint32_t>(other))) continue;
        name_holder(slots, other, locks.pid());
        ++found;
        if (!slots.look(other).sound) {
            damaged.set(other);
            continue;
        }
        (void)recover_slot(slots, other, done);
        locks.give_back(static_cast<std::uint32_t>(other));
    }
    if (damaged.none()) return found;
    recover_slots(slots, damaged, done, [](std::uint64_t, const block_counts&) {});
    give_back_all(damaged, locks);
    return found;
}

}  // namespace holdfast::detail
