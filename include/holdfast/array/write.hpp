// SPDX-License-Identifier: Apache-2.0
// write.hpp - the one writer of an array: every store, of one element or of several, is one redo record, carried out in
// an order of stores that is right after any of them.
//
// Invariants
// (I1) The sequence is odd exactly while a committed record is not known to be carried out. Then where, check, next and
//      image are that record's, whole, and the next writer carries it out (again).
// (I2) A version is even, except those of the groups that `where` names.
// (I3) Cells change only while the sequence is odd, and, if wide, while the version of their group is.
// (I4) A group's digest is the sum of its cells while the sequence is even. While it is odd, the sum with the record's
//      elements taken from the image is `next` of the group. What a record adds to a digest is made from the caller's
//      bytes, and nothing is summed anew from the array: so no digest ever covers up damage. Only a record that
//      replaces a whole group leaves its damage behind.
//
// Stores of a record, in order (U1 and U3 for wide elements only)
//   J1 where, image, next, check | U1 versions odd | J2 sequence odd = commit | U2 cells | D2 digests | U3 versions
//   even | J3 sequence even
//
// Synchronisation (store here -> load in read.hpp, or in verify.hpp for R4)
//   U1, U3 version   -> R1   changed cells are never accepted under the old version; an odd one leads to the journal
//   J2, J3 sequence  -> R2   all elements of the record change at once; an image is never taken for another record's
//   J2, J3 sequence  -> R4   whoever sees a store of a record sees its sequence, or a later one
//
// Killed after  readers see                                      repaired by
//   J1          the state before                                 nobody must: an uncommitted record means nothing
//   U1          the state before; some by way of the sequence    versions made even at the next attach
//   J2          wide: the state after, all of it, by way of the  the record is carried out at the next attach
//               journal; narrow: the state before
//   U2, D2      wide: the same; narrow: each element before or   the same
//               after, and never back
//   U3          the state after                                  the same: the same bytes once more
//   J3          the state after                                  nobody must
// The repair stores in the same manner and may be killed itself (recover.hpp).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "holdfast/array/read.hpp"

namespace holdfast::detail {

/// Makes the versions of a record's groups odd: U1. Wide elements only.
template <class Element>
void versions_odd(const array_view<std::byte, Element>& view, element_range range) noexcept {
    if (view.versions == nullptr) return;
    for (std::uint64_t group = view.group_of(range.first); view.touches(range, group); ++group) {
        std::byte* const version = view.version_of(group);
        // Relaxed: nobody else stores to it. Release: pairs with R1; whoever sees it sees the record and the sequence
        // before it.
        store_release<std::uint64_t>(version, load_relaxed<std::uint64_t>(version) | 1U);
    }
}

/// Makes them even again where they are odd: U3.
template <class Element>
void versions_even(const array_view<std::byte, Element>& view, element_range range) noexcept {
    if (view.versions == nullptr) return;
    for (std::uint64_t group = view.group_of(range.first); view.touches(range, group); ++group) {
        std::byte* const version = view.version_of(group);
        const std::uint64_t now = load_relaxed<std::uint64_t>(version);  // relaxed: nobody else stores to it
        // Release: pairs with R1; whoever sees it sees the new cells.
        if (now % 2 != 0) store_release<std::uint64_t>(version, now + 1);
    }
}

/// The sequence: J2, J3. Release: pairs with R2 and R4; behind an odd one the record is whole, behind an even one it is
/// carried out.
template <class Element>
void set_sequence(const array_view<std::byte, Element>& view, std::uint64_t sequence) noexcept {
    store_release<std::uint64_t>(view.journal + layout::array_sequence_offset, sequence);
}

template <class Element>
class array_mutator {
 public:
    using view = array_view<std::byte, Element>;

    array_mutator() = default;
    /// Requires: this is the only writer, and recover() has run. A writer knows the whole element.
    explicit array_mutator(const view& v) noexcept
        : view_(v),
          // Relaxed: nobody else stores to it. Even, whatever the bytes say: only the count goes on.
          sequence_(load_relaxed<std::uint64_t>(v.journal + layout::array_sequence_offset) & ~std::uint64_t{1}) {}

    /// Stores the elements at `from`, each element.bytes() long and `step` bytes behind the one before, at
    /// [first, first + count). Requires: view::is_record of that range. After a crash: all of them, or none.
    void store(std::uint64_t first, std::uint64_t count, const std::byte* from, std::size_t step) noexcept {
        if constexpr (narrow)
            if (count == 1) return store_narrow(first, from);
        store_record({first, count}, from, step);
    }

    /// Stores one element in all of whole groups; their digests are made anew, whatever they were. Otherwise as
    /// store().
    void store_groups(std::uint64_t first, std::uint64_t count, const std::byte* from) noexcept {
        store_record({first, count}, from, 0);
    }

    [[nodiscard]] const view& bytes() const noexcept { return view_; }

 private:
    static constexpr bool narrow = [] {
        if constexpr (Element::fixed) return Element::bytes() <= 8;
        return false;
    }();
    // Known to the compiler where the element is.
    [[nodiscard]] std::size_t cell_bytes() const noexcept {
        if constexpr (Element::fixed) return layout::array_cell_bytes(Element::bytes());
        return view_.cell_bytes;
    }
    [[nodiscard]] std::size_t stride() const noexcept {
        if constexpr (Element::fixed) return layout::array_stride(Element::bytes());
        return view_.stride;
    }

    void store_narrow(std::uint64_t index, const std::byte* from) noexcept {
        constexpr std::size_t bytes = layout::array_stride(Element::bytes());
        std::uint64_t cell = 0;
        std::memcpy(&cell, from, Element::bytes());
        std::byte* const at = view_.elements + index * bytes;
        std::byte* const digest = view_.digest_of(view_.group_of(index));
        const std::uint64_t multiplier = digest_multiplier(8 * index);
        // Relaxed: nobody else stores to it.
        const std::uint64_t next = load_relaxed<std::uint64_t>(digest) - digest_term(load_cell(at, bytes), multiplier) +
                                   digest_term(cell, multiplier);
        store_release<std::uint64_t>(view_.image_at(0), cell);  // J1, from here on
        store_release<std::uint64_t>(view_.next_at(0), next);
        sign({index, 1});
        set_sequence(view_, sequence_ + 1);          // J2
        store_cell(at, bytes, cell);                 // U2
        store_release<std::uint64_t>(digest, next);  // D2
        set_sequence(view_, sequence_ += 2);         // J3
    }

    [[gnu::noinline]] void store_record(element_range range, const std::byte* from, std::size_t step) noexcept {
        const std::uint64_t first_group = view_.group_of(range.first);
        std::array<std::uint64_t, layout::array_next_max> next;
        write_record(range, from, step, next);  // J1
        versions_odd(view_, range);             // U1
        set_sequence(view_, sequence_ + 1);     // J2
        copy_image(range);                      // U2
        for (std::uint64_t group = first_group; view_.touches(range, group); ++group)
            store_release<std::uint64_t>(view_.digest_of(group), next[group - first_group]);  // D2
        versions_even(view_, range);                                                          // U3
        set_sequence(view_, sequence_ += 2);                                                  // J3
    }

    /// J1.
    void write_record(element_range range, const std::byte* from, std::size_t step,
                      std::array<std::uint64_t, layout::array_next_max>& next) noexcept {
        const std::uint64_t first_group = view_.group_of(range.first);
        for (std::uint64_t group = first_group; view_.touches(range, group); ++group)
            // Relaxed: nobody else stores to it.
            next[group - first_group] =
                is_all_new(range, group) ? 0 : load_relaxed<std::uint64_t>(view_.digest_of(group));
        // The bytes behind narrow elements, up to a whole word.
        if (range.count * stride() % 8 != 0)
            store_release<std::uint64_t>(view_.image_at(0) + range.count * stride() / 8 * 8, 0);
        for (std::uint64_t i = 0; i < range.count; ++i, from += step) {
            const std::uint64_t index = range.first + i, group = view_.group_of(index);
            next[group - first_group] += write_image(view_.image_at(i), index, from, is_all_new(range, group));
        }
        for (std::uint64_t group = first_group; view_.touches(range, group); ++group)
            store_release<std::uint64_t>(view_.next_at(group - first_group), next[group - first_group]);
        sign(range);
    }

    /// Whether the record holds all elements of the group: then its digest is made from them alone, and damage that
    /// was there is gone with the damaged bytes.
    [[nodiscard]] bool is_all_new(element_range range, std::uint64_t group) const noexcept {
        const element_range all = view_.elements_of(group);
        return range.first <= all.first && range.first + range.count >= all.first + all.count;
    }

    /// Stores the element in the journal. Returns: what its group's digest gains by it.
    [[nodiscard]] std::uint64_t write_image(std::byte* image, std::uint64_t index, const std::byte* from,
                                            bool all_new) noexcept {
        const std::byte* const now = view_.elements + index * stride();
        std::uint64_t multiplier = digest_multiplier(8 * index * (stride() / cell_bytes()));
        std::uint64_t gained = 0;
        for (std::size_t at = 0; at < stride(); at += cell_bytes(), multiplier += 8 * hash_multipliers[0]) {
            const std::uint64_t cell = cell_of(from, at);
            store_cell(image + at, cell_bytes(), cell);
            gained += digest_term(cell, multiplier) -
                      digest_term(all_new ? 0 : load_cell(now + at, cell_bytes()), multiplier);
        }
        return gained;
    }
    /// U2, from the journal and never from the caller's bytes: those may be elements that this very store replaces, or
    /// change meanwhile.
    void copy_image(element_range range) noexcept {
        std::byte* const to = view_.element_at(range.first);
        const std::byte* const from = view_.image_at(0);
        for (std::size_t at = 0; at < range.count * stride(); at += cell_bytes())
            store_cell(to + at, cell_bytes(), load_cell(from + at, cell_bytes()));
    }
    /// The cell at an offset of the caller's element; zero where the cell goes beyond it.
    [[nodiscard]] std::uint64_t cell_of(const std::byte* from, std::size_t at) const noexcept {
        std::uint64_t cell = 0;
        if (cell_bytes() == 8 && at + 8 <= view_.element.bytes())
            std::memcpy(&cell, from + at, 8);
        else
            std::memcpy(&cell, from + at, std::min(cell_bytes(), view_.element.bytes() - at));
        return cell;
    }

    /// Where and check: the last stores of J1.
    void sign(element_range range) noexcept {
        store_release<std::uint64_t>(view_.journal + layout::array_where_offset, range.word());
        store_release<std::uint64_t>(view_.journal + layout::array_check_offset,
                                     record_check(sequence_ + 1, range.word()));
    }

    view view_;
    std::uint64_t sequence_ = 0;  // even
};

}  // namespace holdfast::detail
