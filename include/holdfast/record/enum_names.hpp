// SPDX-License-Identifier: Apache-2.0
// enum_names.hpp - the names of an enum's values, as the compiler prints them.
//
// One function template takes every candidate value as an argument; its own name then lists them, the named ones by
// name and the others as casts. One instantiation an enum keeps this at a few milliseconds of compile time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "holdfast/record/field.hpp"

namespace holdfast {

/// Which values of an enum get names in schemas: 0 to 127, for signed ones -16 to 127. Specialise it for another range
/// of at most 1024 values; values outside are stored and shown as numbers.
///
///     template <> struct holdfast::enum_range<http_status> { static constexpr std::int64_t min = 100, max = 599; };
template <class Enum>
struct enum_range {
    static constexpr std::int64_t min = std::is_signed_v<std::underlying_type_t<Enum>> ? -16 : 0;
    static constexpr std::int64_t max = 127;
};

namespace detail {

template <auto... HoldfastValues>
constexpr std::string_view list_values() noexcept {
    return __PRETTY_FUNCTION__;
}

template <class Enum, std::size_t... I>
constexpr std::string_view list_enum(std::index_sequence<I...>) noexcept {
    return list_values<static_cast<Enum>(enum_range<Enum>::min + static_cast<std::int64_t>(I))...>();
}

/// What the compiler prints for the values enum_range names.
template <class Enum>
constexpr std::string_view enum_listing() noexcept {
    using range = enum_range<Enum>;
    constexpr bool listable = range::min <= range::max && range::max - range::min < 1024;
    static_assert(listable, "holdfast::enum_range: min to max must be 1 to 1024 values");
    constexpr std::size_t values =
        listable ? static_cast<std::size_t>(range::max - range::min + 1) : 1;  // no million of them before it is said
    return list_enum<Enum>(std::make_index_sequence<values>{});
}

/// The identifier at the end of what the compiler prints for a value or member, or nothing for a cast: `(color)7`.
[[nodiscard]] constexpr std::string_view last_identifier(std::string_view printed) noexcept {
    const auto part = [](char c) {
        return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
    };
    std::size_t begin = printed.size();
    while (begin > 0 && part(printed[begin - 1])) --begin;
    const std::string_view name = printed.substr(begin);
    if (name.empty() || (name[0] >= '0' && name[0] <= '9')) return {};
    if (begin > 0 && printed[begin - 1] != ':' && printed[begin - 1] != '.' && printed[begin - 1] != '>') return {};
    return name;
}

/// Reads a listing: g++ prints `... = {a::red, (a)1}; ...`, clang `... = <a::red, (a)1>]`.
[[nodiscard]] inline std::vector<enumerator> read_enum_listing(std::string_view listing, std::int64_t first) {
    std::vector<enumerator> names;
    std::size_t at = listing.find("HoldfastValues = ");
    const std::size_t brace = listing.find("= {");
    at = at == std::string_view::npos ? brace + 3 : at + std::string_view("HoldfastValues = <").size();
    int depth = 0;
    std::size_t begin = at;
    for (std::int64_t value = first; at < listing.size(); ++at) {
        const char c = listing[at];
        const bool closes = c == '>' || c == '}' || c == ')';
        if (depth == 0 && (c == ',' || closes)) {
            const std::string_view name = last_identifier(listing.substr(begin, at - begin));
            if (!name.empty()) names.push_back({std::string(name), value});
            ++value;
            begin = at + 1;
            if (closes) break;
        } else if (c == '<' || c == '{' || c == '(') {
            ++depth;
        } else if (closes) {
            --depth;
        }
    }
    return names;
}

}  // namespace detail
}  // namespace holdfast
