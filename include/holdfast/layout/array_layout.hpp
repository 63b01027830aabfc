// SPDX-License-Identifier: Apache-2.0
// array_layout.hpp - the bytes of an array behind the segment header, and the numbers ("geometry") that describe them.
//
// Body, layout v1 (little-endian; offsets from the start of the body, which is 4096-aligned)
//   offset           bytes              field     written by
//   journal_offset   128 + image        journal   the writer; readers need it only where a version is odd
//   digests_offset   groups * 8         digests   the writer: one checksum per group of elements
//   versions_offset  groups * 8         versions  the writer; wide elements only, else 0 bytes
//   elements_offset  size * stride      elements  the writer
//
// Narrow elements have up to 8 bytes. Each is one cell of 1, 2, 4 or 8 bytes, the least that holds it, and is read and
// written by one access. Wide elements are cells of 8 bytes, as many as hold them. Bytes of a cell that belong to no
// element are zero. A group is so many elements, a power of two, that they take 1024 bytes at most, or one element.
//
// Journal
//    0   8  sequence  odd = the record below is to be carried out
//    8   8  where     first element << 16 | number of elements
//   16   8  check     sum of terms (detail/digest_term.hpp) of the odd sequence, as word 0, and of where, as word 1
//   24   8  zero
//   32  80  next      the digests to come of the groups that the elements lie in, in order
//  112  16  zero
//  128  ..  image     the elements as they will be, `stride` apart; zero up to a multiple of 8
//
// (I1) The geometry words in the segment header never change. They are input: copied once, checked against the size of
//      the body, and only the checked copy is used.
// (I2) A zero-filled body is an array of zeros.
// (I3) The digest of a group is the sum, modulo 2^64, of term(cell) - term(0) over its cells; the position of cell n of
//      the array is 8 * n. The exception is a record that is being carried out: see array/write.hpp.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace holdfast::layout {

inline constexpr std::uint32_t array_version = 1;

inline constexpr std::size_t array_sequence_offset = 0;
inline constexpr std::size_t array_where_offset = 8;
inline constexpr std::size_t array_check_offset = 16;
inline constexpr std::size_t array_next_offset = 32;
inline constexpr std::size_t array_image_offset = 128;
inline constexpr std::uint64_t array_next_max = 10;  ///< groups that one record may touch

inline constexpr std::uint64_t array_group_bytes = 1024;     ///< of several elements, at most
inline constexpr std::uint64_t array_record_bytes = 4096;    ///< of several elements in one record, at most
inline constexpr std::uint64_t array_size_max = 1ULL << 40;  ///< elements
inline constexpr std::uint64_t array_element_bytes_max = 65536;

/// Bytes of one cell of an element of so many bytes.
[[nodiscard]] constexpr std::uint64_t array_cell_bytes(std::uint64_t element_bytes) noexcept {
    return element_bytes > 8 ? 8 : std::bit_ceil(element_bytes);
}
/// Bytes from one element to the next.
[[nodiscard]] constexpr std::uint64_t array_stride(std::uint64_t element_bytes) noexcept {
    return element_bytes > 8 ? (element_bytes + 7) / 8 * 8 : std::bit_ceil(element_bytes);
}
/// Elements that share a digest.
[[nodiscard]] constexpr std::uint64_t array_group_elements(std::uint64_t stride) noexcept {
    return stride > array_group_bytes ? 1 : std::bit_floor(array_group_bytes / stride);
}

/// Elements that one record holds: a group at least. However they lie, they touch array_next_max groups at most.
[[nodiscard]] constexpr std::uint64_t array_range_max(std::uint64_t stride) noexcept {
    return stride > array_record_bytes ? 1 : array_record_bytes / stride;
}

/// The numbers of one array. Made by plan_array() or, checked, by read_array_geometry().
struct array_geometry {
    std::uint64_t size = 0;            ///< elements
    std::uint64_t element_bytes = 0;   ///< sizeof the element
    std::uint64_t stride = 0;          ///< array_stride(element_bytes)
    std::uint64_t group_elements = 0;  ///< array_group_elements(stride), a power of two
    std::uint64_t range_max = 0;       ///< array_range_max(stride): elements that one record holds
    std::uint64_t journal_offset = 0;
    std::uint64_t digests_offset = 0;
    std::uint64_t versions_offset = 0;
    std::uint64_t elements_offset = 0;

    [[nodiscard]] constexpr bool wide() const noexcept { return element_bytes > 8; }
    [[nodiscard]] constexpr std::uint64_t groups() const noexcept {
        return (size + group_elements - 1) / group_elements;
    }
    [[nodiscard]] constexpr std::uint64_t journal_bytes() const noexcept {
        return array_image_offset + (range_max * stride + 63) / 64 * 64;
    }
    [[nodiscard]] constexpr std::uint64_t versions_bytes() const noexcept { return wide() ? groups() * 8 : 0; }
    [[nodiscard]] constexpr std::uint64_t body_bytes() const noexcept { return elements_offset + size * stride; }
    friend constexpr bool operator==(const array_geometry&, const array_geometry&) = default;
};

/// Why there cannot be such an array, or nullptr.
[[nodiscard]] constexpr const char* check_array(std::uint64_t size, std::uint64_t element_bytes) noexcept {
    if (size == 0) return "the size is 0; ask for at least one element";
    if (size > array_size_max) return "the size is above 2^40 elements; split the array";
    if (element_bytes == 0 || element_bytes > array_element_bytes_max)
        return "an element must have 1 to 65536 bytes; publish larger objects in a snapshot";
    return nullptr;
}

/// Where everything lies. Requires: check_array() == nullptr.
[[nodiscard]] constexpr array_geometry plan_array(std::uint64_t size, std::uint64_t element_bytes) noexcept {
    array_geometry g;
    g.size = size;
    g.element_bytes = element_bytes;
    g.stride = array_stride(element_bytes);
    g.group_elements = array_group_elements(g.stride);
    g.range_max = array_range_max(g.stride);
    g.digests_offset = g.journal_bytes();
    g.versions_offset = g.digests_offset + (g.groups() * 8 + 63) / 64 * 64;
    g.elements_offset = g.versions_offset + (g.versions_bytes() + 63) / 64 * 64;
    return g;
}

/// The geometry as the segment header keeps it.
[[nodiscard]] constexpr std::array<std::uint64_t, 16> geometry_words_of(const array_geometry& g) noexcept {
    return {g.size,
            g.element_bytes,
            g.stride,
            g.group_elements,
            g.range_max,
            g.journal_offset,
            g.digests_offset,
            g.versions_offset,
            g.elements_offset,
            0,
            0,
            0,
            0,
            0,
            0,
            0};
}

/// Reads and checks untrusted geometry words against the size of the body. After success every element, digest,
/// version and the journal lie inside the body, aligned and apart from each other, whatever else the body holds.
/// Returns: nullptr and the geometry, or what is wrong.
[[nodiscard]] constexpr const char* read_array_geometry(const std::array<std::uint64_t, 16>& words,
                                                        std::uint64_t body_bytes, array_geometry& out) noexcept {
    const array_geometry g{words[0], words[1], words[2], words[3], words[4], words[5], words[6], words[7], words[8]};
    for (std::size_t i = 9; i < words.size(); ++i)
        if (words[i] != 0) return "a geometry word that this layout version leaves zero is not zero";

    // Bounds of the single numbers first: after them no product or sum below can overflow 64 bits.
    if (check_array(g.size, g.element_bytes) != nullptr)
        return "the size of the array or of its elements is out of range";
    if (g.stride != array_stride(g.element_bytes)) return "the distance of the elements does not fit their size";
    // Whatever else: verify() reads a group at a time, and beside a writer again.
    if (g.group_elements != array_group_elements(g.stride))
        return "the number of elements in a group does not fit their size";
    if (g.range_max != array_range_max(g.stride)) return "the number of elements in a record does not fit their size";
    if (g.journal_offset > body_bytes || g.digests_offset > body_bytes || g.versions_offset > body_bytes ||
        g.elements_offset > body_bytes)
        return "an offset lies behind the end of the body";
    if (g.journal_offset % 64 != 0 || g.digests_offset % 64 != 0 || g.versions_offset % 64 != 0 ||
        g.elements_offset % 64 != 0)
        return "an offset is not aligned";
    if (g.journal_offset + g.journal_bytes() > g.digests_offset ||
        g.digests_offset + g.groups() * 8 > g.versions_offset ||
        g.versions_offset + g.versions_bytes() > g.elements_offset)
        return "journal, digests, versions and elements overlap";
    if (g.body_bytes() > body_bytes) return "the elements reach behind the end of the body";
    out = g;
    return nullptr;
}

}  // namespace holdfast::layout
