// SPDX-License-Identifier: Apache-2.0
// types.hpp - the value types a record can hold beyond the language's own: addresses, instants and fixed text.
//
// All are trivially copyable, have no padding and compare by value, so they serve as keys as well as values.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace holdfast {

/// An IPv4 address as a number in the host's byte order (192.0.2.1 is 0xC0000201), so that it orders and counts like
/// one.
struct ipv4 {
    std::uint32_t value = 0;
    friend constexpr auto operator<=>(const ipv4&, const ipv4&) = default;
};

/// An IPv6 address in network byte order; comparison is lexicographic, which is numeric order.
struct ipv6 {
    std::array<std::uint8_t, 16> bytes{};
    friend constexpr auto operator<=>(const ipv6&, const ipv6&) = default;
};

/// An instant: nanoseconds since 1970-01-01T00:00:00Z without leap seconds; reaches from 1677 to 2262.
struct timestamp {
    std::int64_t ns = 0;
    friend constexpr auto operator<=>(const timestamp&, const timestamp&) = default;
};

namespace detail {

/// Bytes before the zero padding of a fixed text. Only trailing zeros are padding; a zero inside belongs to the text.
[[nodiscard]] inline std::size_t text_bytes(const char* data, std::size_t capacity) noexcept {
    while (capacity > 0 && data[capacity - 1] == '\0') --capacity;
    return capacity;
}

}  // namespace detail

/// The text in a zero-padded `char[N]`, which may fill all N bytes.
[[nodiscard]] inline std::string_view view_text(std::span<const char> fixed) noexcept {
    return {fixed.data(), detail::text_bytes(fixed.data(), fixed.size())};
}

/// Writes a text into a `char[N]` and zeroes the rest, so that equal texts are equal bytes.
/// Returns: false, with nothing written, if it does not fit.
[[nodiscard]] inline bool set_text(std::span<char> fixed, std::string_view text) noexcept {
    if (text.size() > fixed.size()) return false;
    std::size_t i = 0;
    for (; i < text.size(); ++i) fixed[i] = text[i];
    for (; i < fixed.size(); ++i) fixed[i] = '\0';
    return true;
}

/// A zero-padded text of at most N bytes: `char[N]` for places where an array cannot stand, such as a scalar key.
template <std::size_t N>
struct fixed_text {
    static_assert(N > 0, "a fixed text needs room for at least one byte");
    std::array<char, N> bytes{};

    [[nodiscard]] std::string_view view() const noexcept { return view_text(bytes); }
    /// Returns: false, with nothing changed, if the text does not fit.
    [[nodiscard]] bool assign(std::string_view text) noexcept { return set_text(bytes, text); }
    /// Order is that of the bytes as unsigned numbers, so it agrees with memcmp.
    friend std::strong_ordering operator<=>(const fixed_text& a, const fixed_text& b) noexcept {
        return std::memcmp(a.bytes.data(), b.bytes.data(), N) <=> 0;
    }
    friend bool operator==(const fixed_text& a, const fixed_text& b) noexcept { return (a <=> b) == 0; }
};

}  // namespace holdfast
