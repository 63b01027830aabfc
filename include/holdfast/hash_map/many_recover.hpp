// SPDX-License-Identifier: Apache-2.0
// many_recover.hpp - what is done for a dead writer of a hash map of many writers, by whoever holds its slot's lock,
// behind the recoveries of that slot in table and store (many_write.hpp).
//
// The rule is that of recover.hpp: of the entries that the record of an open operation names, the one which the table
// holds under the digest stays; every other one that still stands is freed. It holds beside writers at work: what the
// record adds can be led to by nobody but the dead one, and what it takes was in the table and never comes back to it.
// If another writer frees it first, or does later, the answer is `stale`. Cost: one record, two lookups.
//
// A damaged record takes a pass over the store: what is lost to all, and no record of another writer names, is freed. A
// blank record that is open stands for the pass: whoever finds it makes the pass again.
#pragma once

#include <cstdint>

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

/// Frees what is lost to all.
template <class Store>
void free_strays(const map_slots<std::byte>& slots, const map_reader_core& reader, Store& store) {
    const block_reader_core& blocks = reader.blocks();
    const auto& view = slots.view().store;
    block_reading_budget budget(blocks.bytes());  // what is beyond it is damaged, and stays
    for (std::uint64_t h = blocks.next_value(0); h != 0; h = blocks.next_value(view.index_of(h) + 1)) {
        if (!budget.spend(h)) continue;
        const map_stray stray = slots.is_stray(reader, h);
        if (stray == map_stray::hidden) return;  // all of them are: who mends the other record comes here again
        if (stray == map_stray::yes && !may_be_reached(reader, h)) (void)store.free(h);
    }
}

/// The slot's record is damaged: a blank one is put in force and stays open, which no operation's does, until what is
/// lost to all is gone. Returns: the number of its operation.
inline std::uint64_t reject_record(const map_slots<std::byte>& slots, std::uint64_t slot,
                                   std::uint64_t operation) noexcept {
    if (operation > operation_max) operation = 0;  // no writer came so far
    begin_operation(slots, slot, ++operation, {});
    // Where the selector was the damage, the other record may be that of an operation to come. Release: as any of it.
    store_release<std::uint64_t>(slots.record_at(slot, operation + 1) + 8 * map_record::sum, 0);
    return operation;
}

/// Finishes what the last holder of a writer slot was killed in. Requires: the caller holds the lock of the slot, whose
/// recoveries in table and store have run; `store` is the caller's own part. Idempotent. Returns: the number of the
/// slot's last operation.
template <class Store>
std::uint64_t recover_map_slot(const map_slots<std::byte>& slots, std::uint64_t slot, const map_reader_core& reader,
                               Store& store, hash_map_recovery& done) {
    const map_state s = slots.look(slot);
    if (!s.sound || (s.is_open() && s.record.what() == entry_change::none)) {
        const std::uint64_t operation = s.sound ? s.operation() : reject_record(slots, slot, s.operation());
        free_strays(slots, reader, store);
        complete_operation(slots, slot, operation);
        done.record_rebuilt = true;
        return operation;
    }
    if (!s.is_open()) return s.operation();
    done.operation_finished = true;
    free_if_unreached(reader, store, s.record, map_record::add);
    free_if_unreached(reader, store, s.record, map_record::take);
    complete_operation(slots, slot, s.operation());
    return s.operation();
}

}  // namespace holdfast::detail
