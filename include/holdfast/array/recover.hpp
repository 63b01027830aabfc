// SPDX-License-Identifier: Apache-2.0
// recover.hpp - what the next writer does before its first store: carry out the record that the last one was killed in.
//
// Cost: one record, whatever the size. Every step may be killed and is then done again: the record stays committed
// until all of it is in place, and carrying it out twice stores the same bytes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "holdfast/array/write.hpp"

namespace holdfast {

/// What the next writer found and finished.
struct array_recovery {
    bool store_finished = false;  ///< a committed store was carried out
    bool store_dropped = false;   ///< a store had begun and was not committed: nothing had changed
    bool journal_rejected =
        false;  ///< the committed record is none of a writer's: damage, not a crash. Nothing was stored
};

namespace detail {

/// U1 to U3 of a committed record, from the journal.
template <class Element>
void carry_out(const array_view<std::byte, Element>& view, element_range range) noexcept {
    versions_odd(view, range);  // U1
    for (std::uint64_t i = 0; i < range.count; ++i)
        for (std::uint64_t at = 0; at < view.stride; at += view.cell_bytes)
            store_cell(view.element_at(range.first + i) + at, view.cell_bytes,
                       load_cell(view.image_at(i) + at, view.cell_bytes));  // U2
    const std::uint64_t first_group = view.group_of(range.first);
    for (std::uint64_t group = first_group; view.touches(range, group); ++group)
        // Relaxed: there is no other writer, and the lease that was taken orders us behind the last one.
        store_release<std::uint64_t>(view.digest_of(group),
                                     load_relaxed<std::uint64_t>(view.next_at(group - first_group)));  // D2
    versions_even(view, range);                                                                        // U3
}

/// Makes the array whole after any crash of its writer. Requires: the caller holds the lease. Idempotent.
template <class Element>
array_recovery recover(const array_view<std::byte, Element>& view) noexcept {
    array_recovery done;
    // Relaxed, all three: as above.
    const std::uint64_t sequence = load_relaxed<std::uint64_t>(view.journal + layout::array_sequence_offset);
    const std::uint64_t where = load_relaxed<std::uint64_t>(view.journal + layout::array_where_offset);
    const std::uint64_t check = load_relaxed<std::uint64_t>(view.journal + layout::array_check_offset);
    const element_range range = element_range::of_word(where);
    if (sequence % 2 != 0) {
        done.store_finished = view.is_record(range) && check == record_check(sequence, where);
        done.journal_rejected = !done.store_finished;
        if (done.store_finished) carry_out(view, range);
        set_sequence(view, sequence + 1);  // J3
        return done;
    }
    // A record that did not come to be committed may have left versions odd.
    if (view.versions == nullptr || !view.is_record(range)) return done;
    for (std::uint64_t group = view.group_of(range.first); view.touches(range, group); ++group)
        // Relaxed: as above.
        done.store_dropped |= load_relaxed<std::uint64_t>(view.version_of(group)) % 2 != 0;
    versions_even(view, range);
    return done;
}

}  // namespace detail
}  // namespace holdfast
