// SPDX-License-Identifier: Apache-2.0
// text.hpp - one field of a record to and from text, by its schema alone. What append_text writes, parse_text reads
// back to the same bytes, with two exceptions: a NaN's payload and a bool byte that is neither 0 nor 1.
//
//   integers    decimal; the whole range of the type, no leading '+'
//   f32, f64    the shortest decimal that reads back to the same value; NaN, Infinity, -Infinity (read in any case)
//   bool        true, false; read also 1, 0. A stored byte that is neither is shown as its number and cannot be read
//   enum        its name, or the number where it has none; read by name or number
//   char[N]     the text, see record/fixed_text.hpp       bytes[N]   2N hexadecimal digits, lower case
//   ipv4, ipv6  see record/address_text.hpp               timestamp  see record/time_text.hpp
//   arrays      [1,2,3]: exactly as many elements as the field has, blanks allowed
#pragma once

#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "holdfast/record/address_text.hpp"
#include "holdfast/record/field.hpp"
#include "holdfast/record/fixed_text.hpp"
#include "holdfast/record/number_text.hpp"
#include "holdfast/record/schema.hpp"
#include "holdfast/record/time_text.hpp"
#include "holdfast/record/types.hpp"

namespace holdfast {

namespace detail {

template <class T>
[[nodiscard]] T load(const std::byte* at) noexcept {
    T value;
    std::memcpy(&value, at, sizeof(T));
    return value;
}
template <class T>
void store(std::byte* at, const T& value) noexcept {
    std::memcpy(at, &value, sizeof(T));
}

/// Calls f with a value of the C++ type of an integer or float field.
template <class F>
decltype(auto) with_number_type(field_type type, F&& f) {
    switch (type) {
        case field_type::u8: return f(std::uint8_t{});
        case field_type::u16: return f(std::uint16_t{});
        case field_type::u32: return f(std::uint32_t{});
        case field_type::u64: return f(std::uint64_t{});
        case field_type::i8: return f(std::int8_t{});
        case field_type::i16: return f(std::int16_t{});
        case field_type::i32: return f(std::int32_t{});
        case field_type::i64: return f(std::int64_t{});
        case field_type::f32: return f(float{});
        default: return f(double{});
    }
}

template <class T>
void append_number(std::string& out, T value) {
    if constexpr (std::is_floating_point_v<T>) {
        if (std::isnan(value)) {
            out += "NaN";
            return;
        }
        if (std::isinf(value)) {
            out += value < 0 ? "-Infinity" : "Infinity";
            return;
        }
    }
    char digits[number_chars_max];
    out.append(digits, write_number(digits, value));
}

/// The name of an enum's value, or null.
[[nodiscard]] inline const enumerator* find_enumerator(const field& f, const std::byte* at) noexcept {
    if (f.enumerators.empty()) return nullptr;
    return with_number_type(f.type, [&](auto zero) -> const enumerator* {
        using T = decltype(zero);
        if constexpr (std::is_integral_v<T>) {
            const T value = load<T>(at);
            for (const enumerator& e : f.enumerators)
                if (static_cast<T>(e.value) == value) return &e;
        }
        return nullptr;
    });
}

/// Appends one element, without what JSON or an array puts around it. Of a text, `escape_controls` is the only choice.
inline void append_element(std::string& out, const field& f, const std::byte* at, bool escape_controls) {
    switch (f.type) {
        case field_type::boolean: {
            const auto value = load<std::uint8_t>(at);
            if (value > 1) return append_integer(out, value);
            out += value == 1 ? "true" : "false";
            return;
        }
        case field_type::text:
            return append_escaped(out, {reinterpret_cast<const char*>(at), f.bytes}, escape_controls);
        case field_type::bytes:
            for (std::uint32_t i = 0; i < f.bytes; ++i) append_hex(out, static_cast<unsigned char>(at[i]));
            return;
        case field_type::ipv4: return append_text(out, load<ipv4>(at));
        case field_type::ipv6: return append_text(out, load<ipv6>(at));
        case field_type::timestamp: return append_text(out, load<timestamp>(at));
        default:
            if (const enumerator* const named = find_enumerator(f, at)) {
                out += named->name;
                return;
            }
            with_number_type(f.type, [&](auto zero) { append_number(out, load<decltype(zero)>(at)); });
    }
}

using reason = std::optional<std::string>;

template <class T>
[[nodiscard]] reason parse_integer(std::string_view text, std::byte* at) {
    T value{};
    const char* const end = text.data() + text.size();
    const auto [ptr, status] = std::from_chars(text.data(), end, value);
    const bool digits_only =
        text.find_first_not_of("0123456789", text.starts_with('-') ? 1 : 0) == std::string_view::npos;
    if (!digits_only || (status == std::errc::invalid_argument && !text.starts_with('-')) || text.empty() ||
        text == "-")
        return concat(quoted(text), " is not an integer");
    if (status != std::errc() || ptr != end)
        return concat(quoted(text), " is outside ", std::numeric_limits<T>::min(), " to ",
                      std::numeric_limits<T>::max());
    store(at, value);
    return std::nullopt;
}

template <class T>
[[nodiscard]] reason parse_float(std::string_view text, std::byte* at) {
    T value{};
    const char* const end = text.data() + text.size();
    const auto [ptr, status] = std::from_chars(text.data(), end, value);
    if (status == std::errc::invalid_argument || ptr != end || text.find('(') != std::string_view::npos)
        return concat(quoted(text), " is not a number");
    if (status != std::errc())
        return concat(quoted(text), " is too large or too small for ", (sizeof(T) == 4 ? "f32" : "f64"));
    if (std::isnan(value)) value = std::numeric_limits<T>::quiet_NaN();
    store(at, value);
    return std::nullopt;
}

[[nodiscard]] inline reason parse_number(const field& f, std::string_view text, std::byte* at) {
    return with_number_type(f.type, [&](auto zero) -> reason {
        using T = decltype(zero);
        if constexpr (std::is_integral_v<T>) {
            for (const enumerator& e : f.enumerators) {
                if (e.name != text) continue;
                store(at, static_cast<T>(e.value));
                return std::nullopt;
            }
            reason why = parse_integer<T>(text, at);
            if (why && !f.enumerators.empty()) *why += concat(", nor a name of ", type_text(f));
            return why;
        } else {
            return parse_float<T>(text, at);
        }
    });
}

[[nodiscard]] inline reason parse_hex(const field& f, std::string_view text, std::byte* at) {
    if (text.size() != std::size_t{f.bytes} * 2)
        return concat("needs ", std::size_t{f.bytes} * 2, " hexadecimal digits, has ", text.size(), " characters");
    for (std::size_t i = 0; i < text.size(); ++i)
        if (hex_digit(text[i]) < 0) return concat(quoted(text.substr(i, 1)), " is not a hexadecimal digit");
    for (std::size_t i = 0; i < f.bytes; ++i)
        at[i] = static_cast<std::byte>(hex_digit(text[2 * i]) << 4 | hex_digit(text[2 * i + 1]));
    return std::nullopt;
}

[[nodiscard]] inline reason parse_fixed_text(const field& f, std::string_view text, std::byte* at) {
    std::size_t needed = 0;
    if (read_escaped(text, reinterpret_cast<char*>(at), f.bytes, needed)) return std::nullopt;
    return concat("text of ", needed, " bytes does not fit ", type_text(f));
}

/// Reads one element from text.
[[nodiscard]] inline reason parse_element(const field& f, std::string_view text, std::byte* at) {
    switch (f.type) {
        case field_type::boolean:
            if (text != "true" && text != "false" && text != "1" && text != "0")
                return concat(quoted(text), " is neither true nor false");
            store(at, static_cast<std::uint8_t>(text == "true" || text == "1" ? 1 : 0));
            return std::nullopt;
        case field_type::text: return parse_fixed_text(f, text, at);
        case field_type::bytes: return parse_hex(f, text, at);
        case field_type::ipv4: {
            const auto address = parse_ipv4(text);
            if (!address) return concat(quoted(text), " is not an IPv4 address");
            store(at, *address);
            return std::nullopt;
        }
        case field_type::ipv6: {
            const auto address = parse_ipv6(text);
            if (!address) return concat(quoted(text), " is not an IPv6 address");
            store(at, *address);
            return std::nullopt;
        }
        case field_type::timestamp: {
            timestamp time;
            if (reason why = parse_timestamp(text, time)) return concat(quoted(text), ": ", *why);
            store(at, time);
            return std::nullopt;
        }
        default: return parse_number(f, text, at);
    }
}

[[nodiscard]] inline std::string_view trim(std::string_view text) noexcept {
    while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
    while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
    return text;
}

[[nodiscard]] inline reason parse_array(const field& f, std::string_view text, std::byte* at) {
    text = trim(text);
    if (text.size() < 2 || text.front() != '[' || text.back() != ']')
        return "an array is written [element,element,...]";
    text = text.substr(1, text.size() - 2);
    for (std::uint32_t i = 0; i < f.count; ++i) {
        const std::size_t comma = text.find(',');
        if ((comma == std::string_view::npos) != (i + 1 == f.count))
            return concat("has ", i + 1 == f.count ? "more" : "fewer", " elements than ", type_text(f));
        if (reason why = parse_element(f, trim(text.substr(0, comma)), at + std::size_t{i} * f.bytes))
            return concat("element ", i + 1, ": ", *why);
        text.remove_prefix(comma == std::string_view::npos ? text.size() : comma + 1);
    }
    return std::nullopt;
}

}  // namespace detail

/// Appends a field of a record as text.
/// Requires: `record` points at the record's first byte and the record is as long as f's schema says.
inline void append_text(std::string& out, const field& f, const std::byte* record) {
    const std::byte* at = record + f.offset;
    if (f.count == 1) return detail::append_element(out, f, at, true);
    for (std::uint32_t i = 0; i < f.count; ++i, at += f.bytes) {
        out += i == 0 ? '[' : ',';
        detail::append_element(out, f, at, true);
    }
    out += ']';
}

/// Reads a field of a record from text, without a blank around it.
/// Requires: as append_text. Returns: the reason if the text is no value of the field's type; then the record's bytes
/// outside the field are untouched and those in it unspecified.
[[nodiscard]] inline std::optional<std::string> parse_text(const field& f, std::string_view text, std::byte* record) {
    if (f.count == 1) return detail::parse_element(f, text, record + f.offset);
    return detail::parse_array(f, text, record + f.offset);
}

}  // namespace holdfast
