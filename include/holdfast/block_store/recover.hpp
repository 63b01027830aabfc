// SPDX-License-Identifier: Apache-2.0
// recover.hpp - what the next writer does before its first operation.
//
// After any kill there are at most two stores to make: the old value of a replacement that was committed is taken out,
// and an operation that is done is marked complete. Everything else that a kill can leave is right as it is (the table
// in write.hpp). Cost: one record, whatever the capacity. Killed between its stores, it is done again or has nothing
// left to do.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "holdfast/block_store/view.hpp"

namespace holdfast {

/// What the next writer found and finished.
struct block_store_recovery {
    bool replacement_finished = false;  ///< the writer was killed in a replacement; its old value is gone now
    bool counts_rebuilt = false;  ///< the record of the last operation was damaged, not by a crash; the counts were
                                  ///< taken anew from the units, and verify() goes on to say so
    bool claims_dropped = false;  ///< of many writers: one was killed between its claim and its commit
};

namespace detail {

/// What a writer goes on from.
struct block_counts {
    std::uint64_t operation = 0;
    std::uint64_t units = 0;
    std::uint64_t values = 0;
    std::uint64_t serial = 0;
    std::uint64_t flags = 0;
};

/// Takes a value out: one store. W2, pairs with R2 in block_view::still. Release: the record that counts it is there.
inline void retire(const block_view<std::byte>& view, std::uint64_t handle) noexcept {
    store_release<std::uint64_t>(view.word_at(view.index_of(handle)), handle & ~layout::block_live_bit);
}

/// C2 and C3, or F1 and F2: writes the record of an operation to `at`, the place of the one that is not in force, and
/// puts it in force. Release throughout, W3: a reader that meets a word of this record finds the selector moved on from
/// the operation that had its place.
inline void put_in_force(std::byte* at, std::byte* selector, std::uint64_t operation, block_record record) noexcept {
    record.word[block_record::sum] = record.sum_as(operation);
    for (std::size_t i = 0; i < layout::block_record_words; ++i)
        store_release<std::uint64_t>(at + 8 * i, record.word[i]);
    store_release<std::uint64_t>(selector, 2 * operation);
}

/// Marks an operation complete. From here on a word that says otherwise is damage. W3, release: behind all its stores.
inline void complete(const block_view<std::byte>& view, std::uint64_t operation) noexcept {
    store_release<std::uint64_t>(view.selector_at(), 2 * operation + 1);
}

/// The number that a journal goes on from where its own is damaged: as far as nobody counts, so that the selectors of
/// those that follow do not wrap, and with its parity, which says in which record an operation is described.
[[nodiscard]] constexpr std::uint64_t operation_to_go_on_from(std::uint64_t damaged) noexcept {
    return damaged & (~std::uint64_t{0} >> 2);
}

/// The counts as the units have them. For a damaged record only: what is missing from the units stays missing.
[[nodiscard]] inline block_counts count_units(const block_view<std::byte>& view) noexcept {
    block_counts counts;
    for (std::uint64_t i = 0; i < view.units(); ++i) {
        const std::uint64_t word = view.word(i);
        // Freed handles too, and those of operations that were killed: none of their serials is given out again.
        if (view.is_handle(word | layout::block_live_bit))
            counts.serial = std::max(counts.serial, view.serial_of(word));
        if (!view.in_use(i)) continue;
        ++counts.units;
        if (view.index_of(word) == i) ++counts.values;
    }
    return counts;
}

/// Leaves neither record sound. Where the selector was damaged, the other record may be the true one, and of an
/// operation that is to come again by the selector's count: taken for it later, it would call the rebuilt store
/// damaged. The one in force first: whatever is done of this, the store stays to be rebuilt until the next operation.
/// The sum is not made 0, since a blank record beside a selector of 0 is an empty store.
inline void spoil_records(const block_view<std::byte>& view, std::uint64_t operation) noexcept {
    for (const std::uint64_t each : {operation, operation + 1})
        // Release: as all stores to records.
        store_release<std::uint64_t>(view.record_at(each) + 8 * block_record::sum, 1);
}

/// Whether a writer can go on from what the record says. A sum finds accidents; a record that somebody made may have
/// one that fits.
[[nodiscard]] inline bool is_plausible(const block_view<std::byte>& view, const block_state& s) noexcept {
    return s.sound && s.units() <= view.units() && s.values() <= s.units();
}

/// Requires: the caller is the only writer. Idempotent.
[[nodiscard]] inline block_counts recover(const block_view<std::byte>& view, block_store_recovery& done) noexcept {
    const block_state found = view.look();
    block_state s = found;
    s.take_gone = s.take_gone || s.replacing();  // as it will be: nothing is stored on the word of a forged record
    if (!is_plausible(view, found) || !is_plausible(view, s)) {
        block_counts counts = count_units(view);
        counts.operation = operation_to_go_on_from(s.operation());
        counts.flags = block_record::rebuilt_flag;
        done.counts_rebuilt = true;
        spoil_records(view, s.operation());
        return counts;
    }
    if (found.replacing()) {
        retire(view, s.record.word[block_record::take]);
        done.replacement_finished = true;
    }
    if (s.is_done() && !s.is_complete()) complete(view, s.operation());
    return {s.operation(), s.units(), s.values(), s.record.word[block_record::serial],
            s.record.word[block_record::flags]};
}

}  // namespace detail
}  // namespace holdfast
