// SPDX-License-Identifier: Apache-2.0
// recover.hpp - what the next writer of a hash map does behind the recoveries of its table and its store.
//
// One rule: of the entries that the record of an open operation names, the one which the table holds stays; every other
// one that still stands is freed. Freeing what does not stand is `stale`, so the rule may be applied any number of
// times, also by a recovery that is killed. What is to be told of the operation is told before: the entry that it is
// about stands until then. Cost: one record, two lookups.
//
// A damaged record is the one thing that takes a pass over the store: each entry to which no key leads is freed.
#pragma once

#include <algorithm>
#include <cstdint>

#include "holdfast/block_store/reading_budget.hpp"
#include "holdfast/block_store/write.hpp"
#include "holdfast/hash_map/sink.hpp"
#include "holdfast/hash_map/view.hpp"
#include "holdfast/hash_table/recover.hpp"

namespace holdfast {

/// What the next writer found and finished.
struct hash_map_recovery {
    bool operation_finished = false;  ///< the writer was killed in an operation; it has happened, or has not
    bool change_told = false;         ///< a change was done and not told, and the feed took it now
    bool record_rebuilt = false;      ///< the record of the last operation was damaged, not by a crash
    hash_table_recovery table;        ///< what was found in the table
    block_store_recovery store;       ///< what was found in the store
};

namespace detail {

/// What the writer goes on from.
struct map_counts {
    std::uint64_t operation = 0;
    std::uint64_t changes = 0;
};

inline constexpr std::uint64_t operation_max = std::uint64_t{1} << 62;

/// Writes the record that is not in force and puts it in force. Release throughout, W1, pairs with R1: a reader that
/// meets a word of this record finds the selector moved on from the operation that had its place.
inline void begin_operation(const map_view<std::byte>& view, map_counts& counts, map_record record) noexcept {
    ++counts.operation;
    record.word[map_record::sum] = record.sum_as(counts.operation);
    std::byte* const at = view.record_at(counts.operation);
    for (std::size_t i = 0; i < layout::map_record_words; ++i) store_release<std::uint64_t>(at + 8 * i, record.word[i]);
    store_release<std::uint64_t>(view.control(layout::map_selector_offset), 2 * counts.operation);
}
/// W1, release: behind all stores of the operation.
inline void complete_operation(const map_view<std::byte>& view, const map_counts& counts) noexcept {
    store_release<std::uint64_t>(view.control(layout::map_selector_offset), 2 * counts.operation + 1);
}
/// Notes that an operation came to nothing, and how many changes there are.
inline void forget_operation(const map_view<std::byte>& view, map_counts& counts) noexcept {
    map_record record;
    record.word[map_record::change] = counts.changes;
    begin_operation(view, counts, record);
    complete_operation(view, counts);
}

/// Whether the change that a record describes was committed: by the table's word alone.
[[nodiscard]] inline bool is_committed(const map_reader_core& reader, const map_record& record) noexcept {
    if (record.what() == entry_change::none) return false;
    return reader.handle_under(record.key()) == record.word[map_record::add];  // behind an erase: nothing, 0
}

/// Whether the table leads to the entry under a handle by the key that lies there, or cannot tell: a leak can be
/// mended, a loss not.
[[nodiscard]] inline bool may_be_reached(const map_reader_core& reader, std::uint64_t handle) {
    map_digest digest;
    std::uint64_t held = 0;
    if (reader.digest_under(handle, digest) != outcome::ok) return false;
    return reader.look_under(digest, held) == outcome::corrupt || held == handle;
}

/// Frees an entry that a record names, unless the table leads to it.
template <class Store>
void free_if_unreached(const map_reader_core& reader, Store& store, const map_record& record, map_record::field which) {
    const std::uint64_t handle = record.word[which];
    if (handle == 0 || !reader.blocks().contains(handle)) return;
    // By its own key as well: a forged record cannot take a foreign entry out.
    std::uint64_t held = 0;
    if (reader.look_under(record.key(), held) == outcome::corrupt || held == handle) return;
    if (!may_be_reached(reader, handle)) (void)store.free(handle);
}

/// For a damaged record: whatever no key leads to goes. Changes are counted on from the record before it, or from the
/// last one told.
inline void rebuild_record(const map_view<std::byte>& view, const map_reader_core& reader, block_writer_core& store,
                           map_sink* sink, map_counts& counts) {
    const block_reader_core& blocks = reader.blocks();
    block_reading_budget budget(blocks.bytes());  // what is beyond it is damaged, and stays
    for (std::uint64_t h = blocks.next_value(0); h != 0; h = blocks.next_value(view.store.index_of(h) + 1))
        if (budget.spend(h) && !may_be_reached(reader, h)) (void)store.free(h);
    // The record before it may tell how many changes there were, but for the last.
    const map_record other = view.record_of(counts.operation + 1);
    if (counts.operation != 0 && other.word[map_record::sum] == other.sum_as(counts.operation - 1))
        counts.changes = other.word[map_record::change] + 1;
    if (sink != nullptr) counts.changes = std::max(counts.changes, sink->last_told());
    forget_operation(view, counts);
    // Where the selector was the damage, the other record may be that of an operation to come. Release: as any of it.
    store_release<std::uint64_t>(view.record_at(counts.operation + 1) + 8 * map_record::sum, 0);
}

/// Requires: the caller is the only writer; table and store have recovered. Idempotent.
[[nodiscard]] inline map_counts recover_map(const map_view<std::byte>& view, const map_reader_core& reader,
                                            block_writer_core& store, map_sink* sink, hash_map_recovery& done) {
    const map_state s = view.look();
    map_counts counts{s.operation(), 0};
    if (!s.sound) {
        if (counts.operation > operation_max) counts.operation = 0;  // no writer came so far
        rebuild_record(view, reader, store, sink, counts);
        done.record_rebuilt = true;
        return counts;
    }
    counts.changes = s.record.word[map_record::change];
    if (!s.is_open()) return counts;
    done.operation_finished = true;
    const bool committed = is_committed(reader, s.record);
    // The ring's last message is that of this operation, or it was not told: a ring that is older or newer than the
    // map, after a restore, may have any other number.
    if (committed && sink != nullptr && sink->last_told() != counts.changes) {
        const std::uint64_t add = s.record.word[map_record::add];
        done.change_told =
            sink->tell({counts.changes, s.record.what(), add != 0 ? add : s.record.word[map_record::take]}, reader);
    }
    free_if_unreached(reader, store, s.record, map_record::add);
    free_if_unreached(reader, store, s.record, map_record::take);
    if (committed) {
        complete_operation(view, counts);
    } else {
        counts.changes -= s.record.what() != entry_change::none ? 1U : 0U;
        forget_operation(view, counts);
    }
    return counts;
}

}  // namespace detail
}  // namespace holdfast
