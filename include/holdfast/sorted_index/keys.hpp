// SPDX-License-Identifier: Apache-2.0
// keys.hpp - how the keys of a sorted index compare: from a C++ type at compile time, from a schema at run time, with
// the same answer.
//
// One field compares by its type: integers, enums, booleans, ipv4 and timestamps as numbers, floats as numbers (a NaN
// is refused), text, bytes and ipv6 byte by byte. A key of several fields compares field by field in the order of their
// offsets; padding does not count.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "holdfast/error.hpp"
#include "holdfast/layout/sorted_index_layout.hpp"
#include "holdfast/layout/sorted_index_search.hpp"
#include "holdfast/record.hpp"

namespace holdfast {

/// The order of one field.
[[nodiscard]] constexpr key_order order_of(field_type type) noexcept {
    switch (type) {
        case field_type::u8:
        case field_type::boolean: return key_order::u8;
        case field_type::u16: return key_order::u16;
        case field_type::u32:
        case field_type::ipv4: return key_order::u32;
        case field_type::u64: return key_order::u64;
        case field_type::i8: return key_order::i8;
        case field_type::i16: return key_order::i16;
        case field_type::i32: return key_order::i32;
        case field_type::i64:
        case field_type::timestamp: return key_order::i64;
        case field_type::f32: return key_order::f32;
        case field_type::f64: return key_order::f64;
        case field_type::text:
        case field_type::bytes:
        case field_type::ipv6: return key_order::bytes;
    }
    return key_order::bytes;
}

/// How keys of that schema compare.
[[nodiscard]] inline layout::key_description describe_key(const record_schema& schema) {
    layout::key_description out;
    out.key_bytes = schema.bytes();
    // A stored schema is input: no more parts than the longest key has bytes.
    for (const field& f : schema.fields())
        for (std::uint32_t i = 0; i < f.count && out.parts.size() < layout::sorted_index_key_bytes_max; ++i)
            out.parts.push_back({order_of(f.type), f.offset + i * f.bytes, f.bytes});
    const layout::key_part& first = out.parts.front();
    const bool whole = out.parts.size() == 1 && first.offset == 0 && first.bytes == out.key_bytes;
    out.order = whole ? first.order : key_order::fields;
    return out;
}

/// The shape of one index: how keys compare, how long values are, whether records are ranges.
struct index_shape {
    layout::key_description key;
    std::uint32_t value_bytes = 0;
    std::uint32_t range_end_offset = layout::sorted_index_no_range;

    /// As four words of a segment's geometry.
    [[nodiscard]] std::array<std::uint64_t, 4> words() const noexcept {
        const bool ranges = range_end_offset != layout::sorted_index_no_range;
        return {key.key_bytes, value_bytes, static_cast<std::uint64_t>(key.order),
                ranges ? std::uint64_t{range_end_offset} + 1 : 0};
    }

    /// The shape of an index with that schema; `range_end` names the value's field that ends the record's range, empty
    /// for single keys. Throws: error(invalid_argument).
    [[nodiscard]] static index_shape of(const container_schema& schema, std::string_view range_end = {}) {
        const auto refuse = [](const std::string& why) { throw error(errc::invalid_argument, "sorted index", why); };
        if (!schema.key) refuse("its schema names no key; give one");
        index_shape shape;
        shape.key = describe_key(*schema.key);
        shape.value_bytes = schema.value ? schema.value->bytes() : 0;
        if (range_end.empty()) return shape;
        const field* end = schema.value ? schema.value->find(range_end) : nullptr;
        if (end == nullptr) refuse("the value has no field " + std::string(range_end) + " to end the range; name one");
        const field& key = schema.key->fields().front();
        if (shape.key.order == key_order::fields || end->type != key.type || end->bytes != key.bytes ||
            end->count != key.count)
            refuse("the range's end " + std::string(range_end) + " is " + type_text(*end) + ", the key is " +
                   schema.key->text() + "; give both one and the same type");
        shape.range_end_offset = end->offset;
        return shape;
    }

    /// The shape that a segment's words and schema describe together.
    /// Throws: error(geometry_mismatch), error(schema_mismatch) where they contradict each other or are damaged.
    [[nodiscard]] static index_shape parse(std::span<const std::uint64_t> words, const std::string& schema_text,
                                           const std::string& subject) {
        const container_schema schema = container_schema::parse(schema_text);
        if (!schema.key)
            throw error(errc::schema_mismatch, subject, "a sorted index whose schema names no key; recreate it");
        index_shape shape;
        shape.key = describe_key(*schema.key);
        shape.value_bytes = schema.value ? schema.value->bytes() : 0;
        const std::uint64_t end = words.size() < 4 ? ~std::uint64_t{0} : words[3];
        const bool fits = end == 0 || (shape.value_bytes >= shape.key.key_bytes &&
                                       end - 1 <= shape.value_bytes - shape.key.key_bytes);
        if (fits && end != 0) shape.range_end_offset = static_cast<std::uint32_t>(end - 1);
        const auto expected = shape.words();
        if (!fits || !std::equal(expected.begin(), expected.end(), words.begin()))
            throw error(errc::geometry_mismatch, subject,
                        "key, value or range in the header contradict its schema; the header is damaged: recreate it");
        return shape;
    }

    /// The name of the value's field that ends a range; empty without ranges.
    [[nodiscard]] std::string range_end(const container_schema& schema) const {
        if (!schema.value || range_end_offset == layout::sorted_index_no_range) return {};
        for (const field& f : schema.value->fields())
            if (f.offset == range_end_offset) return f.name;
        return {};
    }

    /// nullptr, or how an image differs from this shape (a static text).
    [[nodiscard]] const char* mismatch(const layout::sorted_index_header& header) const noexcept {
        if (header.key_bytes != key.key_bytes || header.key_order != static_cast<std::uint32_t>(key.order))
            return "the image's keys are not of the segment's schema";
        if (header.value_bytes != value_bytes) return "the image's values are not of the segment's schema";
        if (header.range_end_offset != range_end_offset) return "the image's ranges are not those of the segment";
        return nullptr;
    }
};

namespace detail {

/// A key: any record without padding, or a float.
template <class K>
concept index_key = record_key<K> || (record<K> && std::is_floating_point_v<K>);

template <class K>
inline constexpr bool is_byte_array = false;
template <class E, std::size_t N>
inline constexpr bool is_byte_array<std::array<E, N>> = is_one_of<E, char, std::byte, unsigned char>;

template <class K>
[[nodiscard]] const layout::key_description& description_of() {
    static const layout::key_description description = describe_key(schema_of<K>());
    return description;
}

/// The order of K's keys as a type, so that searches compile to it.
template <class K>
[[nodiscard]] auto order_for() {
    if constexpr (std::is_same_v<K, ipv4>) {
        return layout::scalar_order<std::uint32_t>{};
    } else if constexpr (std::is_same_v<K, timestamp>) {
        return layout::scalar_order<std::int64_t>{};
    } else if constexpr (std::is_same_v<K, bool>) {
        return layout::scalar_order<std::uint8_t>{};
    } else if constexpr (std::is_enum_v<K>) {
        return layout::scalar_order<std::underlying_type_t<K>>{};
    } else if constexpr (std::is_arithmetic_v<K>) {
        return layout::scalar_order<K>{};
    } else if constexpr (std::is_same_v<K, ipv6> || fixed_text_bytes<K> == 16 ||
                         (is_byte_array<K> && sizeof(K) == 16)) {
        return layout::bytes16_order{};
    } else if constexpr (fixed_text_bytes<K> != 0 || is_byte_array<K>) {
        return layout::bytes_order{sizeof(K)};
    } else {
        return layout::fields_order{&description_of<K>()};
    }
}

/// Where in V the member RangeEnd lies; sorted_index_no_range without one.
template <class K, class V, auto RangeEnd>
[[nodiscard]] std::uint32_t range_end_offset_of() {
    if constexpr (std::is_null_pointer_v<decltype(RangeEnd)>) {
        return layout::sorted_index_no_range;
    } else {
        static_assert(std::is_same_v<std::remove_cvref_t<decltype(std::declval<V&>().*RangeEnd)>, K>,
                      "holdfast: the member that ends a range has the key's type");
        return static_cast<std::uint32_t>(offset_in<V, RangeEnd>());
    }
}

template <class K, class V, auto RangeEnd>
[[nodiscard]] index_shape shape_of() {
    return {description_of<K>(), static_cast<std::uint32_t>(sizeof(V)), range_end_offset_of<K, V, RangeEnd>()};
}

}  // namespace detail

}  // namespace holdfast
