// SPDX-License-Identifier: Apache-2.0
// view.hpp - the checked geometry of an array turned into addresses, its cells, and the checksum of a group.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "holdfast/detail/digest_term.hpp"
#include "holdfast/detail/words.hpp"
#include "holdfast/layout/array_layout.hpp"

namespace holdfast::detail {

/// Element description with a size known at compile time. A reader's T may be a prefix of the stored element.
template <class T>
struct fixed_element {
    static constexpr bool fixed = true;
    [[nodiscard]] static constexpr std::size_t bytes() noexcept { return sizeof(T); }
};

/// Element description with a size known at run time.
struct runtime_element {
    static constexpr bool fixed = false;
    std::size_t size = 0;
    [[nodiscard]] constexpr std::size_t bytes() const noexcept { return size; }
};

/// One cell; acquire, so that whoever sees it sees what the writer stored before it.
[[nodiscard]] inline std::uint64_t load_cell(const std::byte* at, std::size_t bytes) noexcept {
    switch (bytes) {
        case 1: return load_acquire<std::uint8_t>(at);
        case 2: return load_acquire<std::uint16_t>(at);
        case 4: return load_acquire<std::uint32_t>(at);
        default: return load_acquire<std::uint64_t>(at);
    }
}
/// Release: whoever sees it sees the committed record (J2 in write.hpp) that it comes from.
inline void store_cell(std::byte* at, std::size_t bytes, std::uint64_t value) noexcept {
    switch (bytes) {
        case 1: return store_release<std::uint8_t>(at, static_cast<std::uint8_t>(value));
        case 2: return store_release<std::uint16_t>(at, static_cast<std::uint16_t>(value));
        case 4: return store_release<std::uint32_t>(at, static_cast<std::uint32_t>(value));
        default: return store_release<std::uint64_t>(at, value);
    }
}

/// The elements [first, first + count).
struct element_range {
    std::uint64_t first = 0;
    std::uint64_t count = 0;

    [[nodiscard]] static constexpr element_range of_word(std::uint64_t where) noexcept {
        return {where >> 16, where & 0xffff};
    }
    [[nodiscard]] constexpr std::uint64_t word() const noexcept { return first << 16 | count; }
    /// Also for numbers below first: the difference wraps.
    [[nodiscard]] constexpr bool holds(std::uint64_t index) const noexcept { return index - first < count; }
};

/// The journal's check: tells whether a record was written for this very sequence and these very elements.
[[nodiscard]] constexpr std::uint64_t record_check(std::uint64_t sequence, std::uint64_t where) noexcept {
    return digest_term(sequence, digest_multiplier(0)) + digest_term(where, digest_multiplier(8));
}

/// Addresses inside one body. Byte is std::byte for the writer, const std::byte for readers.
///
/// Requires: g came from plan_array() or read_array_geometry() for at most this many body bytes; the body is
/// 64-aligned; the element description has at most g.element_bytes. Then every address for index < size and group <
/// groups lies inside the body, and so does the image of elements below range_max.
template <class Byte, class Element>
struct array_view {
    Byte* elements = nullptr;
    Byte* versions = nullptr;  // nullptr for narrow elements
    std::uint64_t size = 0;
    std::uint64_t stride = 0;
    unsigned group_shift = 0;
    [[no_unique_address]] Element element{};
    Byte* journal = nullptr;
    Byte* digests = nullptr;
    std::uint64_t range_max = 0;
    std::uint64_t cell_bytes = 0;

    array_view() = default;
    array_view(std::span<Byte> body, const layout::array_geometry& g, Element description) noexcept
        : elements(body.data() + g.elements_offset),
          versions(g.wide() ? body.data() + g.versions_offset : nullptr),
          size(g.size),
          stride(g.stride),
          group_shift(static_cast<unsigned>(std::countr_zero(g.group_elements))),
          element(description),
          journal(body.data() + g.journal_offset),
          digests(body.data() + g.digests_offset),
          range_max(g.range_max),
          cell_bytes(layout::array_cell_bytes(g.element_bytes)) {}

    /// The same view for reading only.
    [[nodiscard]] array_view<const Byte, Element> as_const() const noexcept {
        array_view<const Byte, Element> v;
        v.elements = elements;
        v.versions = versions;
        v.size = size;
        v.stride = stride;
        v.group_shift = group_shift;
        v.element = element;
        v.journal = journal;
        v.digests = digests;
        v.range_max = range_max;
        v.cell_bytes = cell_bytes;
        return v;
    }

    [[nodiscard]] std::uint64_t groups() const noexcept { return ((size - 1) >> group_shift) + 1; }
    [[nodiscard]] std::uint64_t group_of(std::uint64_t index) const noexcept { return index >> group_shift; }
    /// The elements of a group; the last group may have fewer.
    [[nodiscard]] element_range elements_of(std::uint64_t group) const noexcept {
        const std::uint64_t first = group << group_shift, all = std::uint64_t{1} << group_shift;
        return {first, size - first < all ? size - first : all};
    }
    [[nodiscard]] Byte* element_at(std::uint64_t index) const noexcept { return elements + index * stride; }
    [[nodiscard]] Byte* version_of(std::uint64_t group) const noexcept { return versions + group * 8; }
    [[nodiscard]] Byte* digest_of(std::uint64_t group) const noexcept { return digests + group * 8; }
    [[nodiscard]] Byte* next_at(std::uint64_t number) const noexcept {
        return journal + layout::array_next_offset + number * 8;
    }
    /// Where the journal holds the element that comes so many behind the record's first.
    [[nodiscard]] Byte* image_at(std::uint64_t number) const noexcept {
        return journal + layout::array_image_offset + number * stride;
    }
    /// Whether a record of these elements could be in the journal. False for whatever lies outside the array.
    [[nodiscard]] bool is_record(element_range range) const noexcept {
        return range.count != 0 && range.count <= range_max && range.first < size && range.count <= size - range.first;
    }
    [[nodiscard]] bool touches(element_range range, std::uint64_t group) const noexcept {
        return group >= group_of(range.first) && group <= group_of(range.first + range.count - 1);
    }
};

/// The terms of the cells of one element at `index`, less those of zeros; `cells` is where they lie, in the array or in
/// the journal. Cost: two multiplications for each cell.
template <class Byte, class Element>
[[nodiscard]] std::uint64_t digest_element(const array_view<Byte, Element>& view, std::uint64_t index,
                                           const std::byte* cells) noexcept {
    const std::uint64_t count = view.stride / view.cell_bytes;
    std::uint64_t multiplier = digest_multiplier(8 * index * count);
    std::uint64_t sum = 0;
    for (std::uint64_t i = 0; i < count; ++i, multiplier += 8 * hash_multipliers[0])
        sum += digest_term(load_cell(cells + i * view.cell_bytes, view.cell_bytes), multiplier) -
               digest_term(0, multiplier);
    return sum;
}

/// The digest of a group as its bytes are now, with the elements of `pending` taken from the journal.
template <class Byte, class Element>
[[nodiscard]] std::uint64_t digest_group(const array_view<Byte, Element>& view, std::uint64_t group,
                                         element_range pending) noexcept {
    const element_range all = view.elements_of(group);
    std::uint64_t sum = 0;
    for (std::uint64_t index = all.first; index < all.first + all.count; ++index)
        sum += digest_element(view, index,
                              pending.holds(index) ? view.image_at(index - pending.first) : view.element_at(index));
    return sum;
}

}  // namespace holdfast::detail
