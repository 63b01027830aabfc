// SPDX-License-Identifier: Apache-2.0
// field.hpp - one field of a record as data: its name, type, place, and how the type is spelled.
//
// Spelling (a public format, see record/schema.hpp):
//   u8 u16 u32 u64 i8 i16 i32 i64 f32 f64 bool ipv4 ipv6 timestamp   one element
//   char[N]  bytes[N]                                                one element of N bytes
//   TYPE[N]                                                          N elements of any type of the first line
//   INT<name=value|name=value>                                       an enum: its integer and the names it may show
#pragma once

#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace holdfast {

/// What the bytes of one element mean. An enum is its integer type plus `field::enumerators`.
enum class field_type : std::uint8_t {
    u8,
    u16,
    u32,
    u64,
    i8,
    i16,
    i32,
    i64,
    f32,
    f64,
    boolean,    ///< one byte, 0 or 1
    text,       ///< zero-padded, may use all its bytes; UTF-8 by convention
    bytes,      ///< opaque; hexadecimal in text
    ipv4,       ///< holdfast::ipv4
    ipv6,       ///< holdfast::ipv6
    timestamp,  ///< holdfast::timestamp
};

/// A name of an enum's value.
struct enumerator {
    std::string name;
    std::int64_t value = 0;
    friend bool operator==(const enumerator&, const enumerator&) = default;
};

/// One field of a record. `bytes` is one element's; the field occupies bytes * count from `offset`.
struct field {
    std::string name;
    field_type type = field_type::u8;
    std::uint32_t offset = 0;
    std::uint32_t bytes = 1;
    std::uint32_t count = 1;
    std::vector<enumerator> enumerators{};

    [[nodiscard]] std::uint64_t total_bytes() const noexcept { return std::uint64_t{bytes} * count; }
    friend bool operator==(const field&, const field&) = default;
};

namespace detail {

struct type_facts {
    field_type type;
    std::string_view name;
    std::uint32_t bytes;      // 0: given by [N]
    std::uint32_t alignment;  // as g++ and clang lay it out on a 64-bit machine
};

inline constexpr std::array<type_facts, 16> type_table{{
    {field_type::u8, "u8", 1, 1},
    {field_type::u16, "u16", 2, 2},
    {field_type::u32, "u32", 4, 4},
    {field_type::u64, "u64", 8, 8},
    {field_type::i8, "i8", 1, 1},
    {field_type::i16, "i16", 2, 2},
    {field_type::i32, "i32", 4, 4},
    {field_type::i64, "i64", 8, 8},
    {field_type::f32, "f32", 4, 4},
    {field_type::f64, "f64", 8, 8},
    {field_type::boolean, "bool", 1, 1},
    {field_type::text, "char", 0, 1},
    {field_type::bytes, "bytes", 0, 1},
    {field_type::ipv4, "ipv4", 4, 4},
    {field_type::ipv6, "ipv6", 16, 1},
    {field_type::timestamp, "timestamp", 8, 8},
}};

[[nodiscard]] constexpr const type_facts& facts_of(field_type type) noexcept {
    return type_table[static_cast<std::size_t>(type)];
}

[[nodiscard]] constexpr bool is_integer(field_type type) noexcept { return type <= field_type::i64; }
[[nodiscard]] constexpr bool is_signed(field_type type) noexcept {
    return type >= field_type::i8 && type <= field_type::i64;
}
[[nodiscard]] constexpr bool is_float(field_type type) noexcept {
    return type == field_type::f32 || type == field_type::f64;
}

/// The least and greatest value an integer type holds, as far as an int64 reaches (enumerators are int64).
[[nodiscard]] constexpr std::pair<std::int64_t, std::int64_t> integer_range(field_type type) noexcept {
    const unsigned bits = facts_of(type).bytes * 8;
    if (bits == 64)
        return {is_signed(type) ? std::numeric_limits<std::int64_t>::min() : 0,
                std::numeric_limits<std::int64_t>::max()};
    if (!is_signed(type)) return {0, (std::int64_t{1} << bits) - 1};
    return {-(std::int64_t{1} << (bits - 1)), (std::int64_t{1} << (bits - 1)) - 1};
}

template <class Integer>
void append_integer(std::string& out, Integer value) {
    std::array<char, 24> digits{};
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
    out.append(digits.data(), end);
}

}  // namespace detail

/// The type's plain name: u8, char, ipv4 ... without extent and enumerators.
[[nodiscard]] constexpr std::string_view type_name(field_type type) noexcept { return detail::facts_of(type).name; }

/// Appends the field's type as the schema spells it: `u32[4]`, `char[2]`, `u8<red=0|green=3>`.
inline void append_type(std::string& out, const field& f) {
    out += type_name(f.type);
    if (!f.enumerators.empty()) {
        char separator = '<';
        for (const enumerator& e : f.enumerators) {
            out += separator;
            out += e.name;
            out += '=';
            detail::append_integer(out, e.value);
            separator = '|';
        }
        out += '>';
    }
    const bool sized = detail::facts_of(f.type).bytes == 0;
    if (sized || f.count > 1) {
        out += '[';
        detail::append_integer(out, sized ? f.bytes : f.count);
        out += ']';
    }
}

/// The field's type as the schema spells it.
[[nodiscard]] inline std::string type_text(const field& f) {
    std::string out;
    append_type(out, f);
    return out;
}

}  // namespace holdfast
