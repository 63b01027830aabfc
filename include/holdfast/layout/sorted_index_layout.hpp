// SPDX-License-Identifier: Apache-2.0
// sorted_index_layout.hpp - the image of a sorted index: records in key order, keys apart from values.
//
// An image stands by itself: it is the body of a segment of its own kind, or what a snapshot publishes.
//
// Layout v1 (little-endian; the image begins 16-byte aligned)
//   offset  bytes  field              meaning
//        0      8  magic              "HFSINDX1"
//        8      4  format_version     1
//       12      4  key_order          how keys compare (key_order)
//       16      8  count              records
//       24      8  image_bytes        the whole image, header and gaps included
//       32      8  keys_offset        64-byte aligned; key i at keys_offset + i * key_bytes
//       40      8  values_offset      64-byte aligned; value i at values_offset + i * value_bytes
//       48      4  key_bytes
//       52      4  value_bytes        0: a set
//       56      4  range_end_offset   where in a value its range's last key lies; 0xFFFFFFFF: records are single keys
//       60      4  reserved           0
//       64      8  checksum           over the header with this field 0, then over all behind it
//       72     56  reserved           0
//
// (I1) keys ascend strictly.
// (I2) with ranges: key i <= end i < key i+1.
// A reader relies on neither for its own safety: every position it computes stays below its private copy of count.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

#include "holdfast/detail/checksum.hpp"
#include "holdfast/detail/shared_copy.hpp"

namespace holdfast {

/// How the keys of a sorted index compare. Stored in images: values are only added.
enum class key_order : std::uint32_t {
    bytes = 0,  ///< byte by byte as unsigned numbers: text (zero-padded), ipv6, raw bytes
    u8 = 1,
    u16 = 2,
    u32 = 3,
    u64 = 4,
    i8 = 5,
    i16 = 6,
    i32 = 7,
    i64 = 8,
    f32 = 9,
    f64 = 10,
    fields = 11,  ///< several fields, one after the other, as the schema names them
};

}  // namespace holdfast

namespace holdfast::layout {

inline constexpr std::uint64_t sorted_index_magic = 0x3158444E49534648U;  // "HFSINDX1" as stored
inline constexpr std::uint32_t sorted_index_format_version = 1;
inline constexpr std::uint32_t sorted_index_no_range = 0xFFFFFFFFU;
inline constexpr std::uint64_t sorted_index_alignment = 16;
inline constexpr std::uint64_t sorted_index_array_alignment = 64;
inline constexpr std::uint32_t sorted_index_key_bytes_max = 4096;
inline constexpr std::uint32_t sorted_index_value_bytes_max = 1U << 24;
inline constexpr std::uint64_t sorted_index_count_max = std::uint64_t{1} << 36;

struct sorted_index_header {
    std::uint64_t magic;
    std::uint32_t format_version;
    std::uint32_t key_order;
    std::uint64_t count;
    std::uint64_t image_bytes;
    std::uint64_t keys_offset;
    std::uint64_t values_offset;
    std::uint32_t key_bytes;
    std::uint32_t value_bytes;
    std::uint32_t range_end_offset;
    std::uint32_t reserved_0;
    std::uint64_t checksum;
    std::uint64_t reserved_1[7];
};
static_assert(sizeof(sorted_index_header) == 128 && std::is_trivially_copyable_v<sorted_index_header>);
static_assert(offsetof(sorted_index_header, count) == 16 && offsetof(sorted_index_header, keys_offset) == 32 &&
              offsetof(sorted_index_header, key_bytes) == 48 && offsetof(sorted_index_header, range_end_offset) == 56 &&
              offsetof(sorted_index_header, checksum) == 64);

/// Bytes of one key of that order; 0 where any number will do.
[[nodiscard]] constexpr std::uint32_t key_order_bytes(key_order order) noexcept {
    switch (order) {
        case key_order::u8:
        case key_order::i8: return 1;
        case key_order::u16:
        case key_order::i16: return 2;
        case key_order::u32:
        case key_order::i32:
        case key_order::f32: return 4;
        case key_order::u64:
        case key_order::i64:
        case key_order::f64: return 8;
        case key_order::bytes:
        case key_order::fields: return 0;
    }
    return 0;
}

/// Where the arrays of an image with these numbers lie. No sum here can wrap within the limits above.
struct sorted_index_placement {
    std::uint64_t keys_offset, values_offset, image_bytes;

    [[nodiscard]] static constexpr sorted_index_placement of(std::uint64_t count, std::uint32_t key_bytes,
                                                             std::uint32_t value_bytes) noexcept {
        const std::uint64_t keys = sizeof(sorted_index_header);
        const std::uint64_t values = round_up(keys + count * key_bytes);
        return {keys, values, round_up(values + count * value_bytes)};
    }

 private:
    [[nodiscard]] static constexpr std::uint64_t round_up(std::uint64_t bytes) noexcept {
        return (bytes + sorted_index_array_alignment - 1) / sorted_index_array_alignment * sorted_index_array_alignment;
    }
};

/// A validated image: the private copy of its header's numbers and where its bytes are.
class sorted_index_image {
 public:
    sorted_index_image() = default;

    /// Reads and validates a header. Any bytes are safe, also bytes that change meanwhile.
    /// Returns: nullptr and the image in `out`, or what is wrong (a static string), `out` untouched.
    [[nodiscard]] static const char* parse(std::span<const std::byte> bytes, sorted_index_image& out) noexcept {
        if (reinterpret_cast<std::uintptr_t>(bytes.data()) % sorted_index_alignment != 0)
            return "image is not 16-byte aligned";
        if (bytes.size() < sizeof(sorted_index_header)) return "shorter than a sorted index's header";
        std::byte copied[sizeof(sorted_index_header)];
        holdfast::detail::copy_from_shared(copied, bytes.data(), sizeof copied);
        sorted_index_image image;
        std::memcpy(&image.header_, copied, sizeof copied);
        image.base_ = bytes.data();
        if (const char* wrong = image.check(bytes.size())) return wrong;
        out = image;
        return nullptr;
    }

    /// An image that is being built: its header is the builder's own, whatever peers make of the shared copy meanwhile.
    /// Requires: the header's numbers are right, and `base` has so many bytes.
    [[nodiscard]] static sorted_index_image of_builder(const sorted_index_header& header,
                                                       const std::byte* base) noexcept {
        sorted_index_image image;
        image.header_ = header;
        image.base_ = base;
        return image;
    }

    [[nodiscard]] const sorted_index_header& header() const noexcept { return header_; }
    [[nodiscard]] std::uint64_t size() const noexcept { return header_.count; }
    [[nodiscard]] bool has_ranges() const noexcept { return header_.range_end_offset != sorted_index_no_range; }
    [[nodiscard]] key_order order() const noexcept { return static_cast<key_order>(header_.key_order); }
    /// The image alone, without what may follow it in its segment or slot.
    [[nodiscard]] std::span<const std::byte> bytes() const noexcept {
        return {base_, static_cast<std::size_t>(header_.image_bytes)};
    }
    /// The sum that header().checksum should be. Cost: one pass over the image.
    [[nodiscard]] std::uint64_t computed_checksum() const noexcept {
        alignas(8) sorted_index_header copy = header_;
        copy.checksum = 0;
        return holdfast::detail::checksum(bytes().subspan(sizeof copy),
                                          holdfast::detail::checksum(std::as_bytes(std::span(&copy, 1))));
    }
    [[nodiscard]] const std::byte* keys() const noexcept { return base_ + header_.keys_offset; }
    [[nodiscard]] const std::byte* values() const noexcept { return base_ + header_.values_offset; }
    /// Requires: index < size().
    [[nodiscard]] const std::byte* key(std::uint64_t index) const noexcept {
        return keys() + index * header_.key_bytes;
    }
    [[nodiscard]] const std::byte* value(std::uint64_t index) const noexcept {
        return values() + index * header_.value_bytes;
    }

 private:
    [[nodiscard]] const char* check(std::uint64_t available) const noexcept {
        if (header_.magic != sorted_index_magic) return "no sorted index: its magic number is missing";
        if (header_.format_version != sorted_index_format_version) return "format version this library does not read";
        if (header_.key_order > static_cast<std::uint32_t>(key_order::fields)) return "unknown key order";
        if (header_.key_bytes == 0 || header_.key_bytes > sorted_index_key_bytes_max) return "impossible key size";
        const std::uint32_t scalar = key_order_bytes(order());
        if (scalar != 0 && scalar != header_.key_bytes) return "key size contradicts key order";
        if (header_.value_bytes > sorted_index_value_bytes_max) return "impossible value size";
        if (header_.count > sorted_index_count_max) return "impossible record count";
        if (has_ranges() && (header_.value_bytes < header_.key_bytes ||
                             header_.range_end_offset > header_.value_bytes - header_.key_bytes))
            return "range end lies outside the value";
        const auto placed = sorted_index_placement::of(header_.count, header_.key_bytes, header_.value_bytes);
        if (header_.keys_offset != placed.keys_offset || header_.values_offset != placed.values_offset ||
            header_.image_bytes != placed.image_bytes)
            return "offsets contradict the record count";
        if (header_.image_bytes > available) return "truncated: shorter than its header says";
        return nullptr;
    }

    const std::byte* base_ = nullptr;
    sorted_index_header header_{};
};

// The largest image within the limits fits 64 bits many times over.
static_assert(sorted_index_count_max * sorted_index_value_bytes_max <= std::uint64_t{1} << 60);

}  // namespace holdfast::layout
