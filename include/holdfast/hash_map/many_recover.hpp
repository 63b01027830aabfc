// SPDX-License-Identifier: Apache-2.0
// many_recover.hpp - what is done for a dead writer of a hash map of many writers, by whoever holds its slot's lock,
// behind the recoveries of that slot in table and store (many_write.hpp).
//
// The rule is that of recover.hpp: of the entries that the record of an open operation names, the one which the table
// holds under the digest stays; every other one that still stands is freed. It holds beside writers at work: what the
// record adds can be led to by nobody but the dead one, and what it takes was in the table and never comes back to it.
// If another writer frees it first, or does later, the answer is `stale`. Cost: one record, two lookups.
//
// Damaged records take a pass over the store, one for all of them: what is lost to all, and no record of another writer
// names, is freed. A blank record that is open stands for the pass: whoever finds it makes the pass again.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "holdfast/block_store/many_recover.hpp"
#include "holdfast/block_store/reading_budget.hpp"
#include "holdfast/hash_map/many_view.hpp"
#include "holdfast/hash_map/recover.hpp"
#include "holdfast/hash_table/many_mutate.hpp"

namespace holdfast::detail {

/// O2 and O3: writes the record that is not in force and puts it in force. Release throughout, W1.
inline void begin_operation(const map_slots<std::byte>& slots, std::uint64_t slot, std::uint64_t operation,
                            map_record record) noexcept {
    record.word[map_record::sum] = record.sum_as(operation);
    std::byte* const at = slots.record_at(slot, operation);
    for (std::size_t i = 0; i < layout::map_record_words; ++i) store_release<std::uint64_t>(at + 8 * i, record.word[i]);
    store_release<std::uint64_t>(slots.selector_at(slot), 2 * operation);
}

/// O8, W1, release: behind all stores of the operation.
inline void complete_operation(const map_slots<std::byte>& slots, std::uint64_t slot,
                               std::uint64_t operation) noexcept {
    store_release<std::uint64_t>(slots.selector_at(slot), 2 * operation + 1);
}

/// Frees those of some entries that are lost to all. Returns: whether that could be told; else a record of another slot
/// is damaged, and who mends it looks for them again.
template <class Store>
[[nodiscard]] bool free_lost(const map_slots<std::byte>& slots, const map_reader_core& reader, Store& store,
                             std::span<std::uint64_t> handles) {
    constexpr unsigned looks_max = 64;
    map_stray told = map_stray::busy;
    for (unsigned look = 0; told == map_stray::busy && look < looks_max; ++look)
        told = slots.keep_strays(reader, handles);
    if (told == map_stray::yes)
        for (const std::uint64_t handle : handles)
            if (!may_be_reached(reader, handle)) (void)store.free(handle);
    return told != map_stray::hidden;
}

/// Frees what is lost to all. Cost: a lookup for each entry, and free_lost for each `at_once` to which no key leads.
template <class Store>
void free_strays(const map_slots<std::byte>& slots, const map_reader_core& reader, Store& store) {
    constexpr std::size_t at_once = 512;
    const block_reader_core& blocks = reader.blocks();
    const auto& view = slots.view().store;
    block_reading_budget budget(blocks.bytes());  // what is beyond it is damaged, and stays
    std::array<std::uint64_t, at_once> found;
    std::size_t size = 0;
    for (std::uint64_t h = blocks.next_value(0); h != 0; h = blocks.next_value(view.index_of(h) + 1)) {
        if (!budget.spend(h) || may_be_reached(reader, h)) continue;
        found[size++] = h;
        if (size < at_once) continue;
        if (!free_lost(slots, reader, store, found)) return;
        size = 0;
    }
    (void)free_lost(slots, reader, store, std::span(found).first(size));
}

/// The slot's record is damaged: a blank one is put in force and stays open, which no operation's does, until what is
/// lost to all is gone.
inline void reject_record(const map_slots<std::byte>& slots, std::uint64_t slot, std::uint64_t operation) noexcept {
    if (operation > operation_max) operation = 0;  // no writer came so far
    begin_operation(slots, slot, ++operation, {});
    // Where the selector was the damage, the other record may be that of an operation to come. Release: as any of it.
    store_release<std::uint64_t>(slots.record_at(slot, operation + 1) + 8 * map_record::sum, 0);
}

/// Whether what a dead writer left in the slot takes a pass over the store: a record that does not add up, or a blank
/// one that is open.
[[nodiscard]] inline bool takes_a_pass(const map_state& s) noexcept {
    return !s.sound || (s.is_open() && s.record.what() == entry_change::none);
}

/// Finishes what the last holders of some writer slots were killed in. Requires: the caller holds the locks of all of
/// them, whose recoveries in table and store have run; `store` is the caller's own part. Idempotent.
template <class Store>
void recover_map_slots(const map_slots<std::byte>& slots, const slot_set& which, const map_reader_core& reader,
                       Store& store, hash_map_recovery& done) {
    slot_set damaged;
    for (std::uint64_t slot = 0; slot < slots.slots(); ++slot) {
        if (!which[slot]) continue;
        const map_state s = slots.look(slot);
        if (takes_a_pass(s)) {
            if (!s.sound) reject_record(slots, slot, s.operation());
            damaged.set(slot);
        } else if (s.is_open()) {
            done.operation_finished = true;
            free_if_unreached(reader, store, s.record, map_record::add);
            free_if_unreached(reader, store, s.record, map_record::take);
            complete_operation(slots, slot, s.operation());
        }
    }
    if (damaged.none()) return;
    done.record_rebuilt = true;
    free_strays(slots, reader, store);
    for (std::uint64_t slot = 0; slot < slots.slots(); ++slot)
        if (damaged[slot]) complete_operation(slots, slot, slots.selector(slot) / 2);
}

}  // namespace holdfast::detail
