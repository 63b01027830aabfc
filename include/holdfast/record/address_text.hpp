// SPDX-License-Identifier: Apache-2.0
// address_text.hpp - IPv4 and IPv6 addresses to and from text.
//
// Written: dotted decimal; RFC 5952 (lower case, no leading zeros, the longest run of two or more zero groups as "::",
// the first of equals, IPv4-mapped addresses with a dotted tail). Read: for IPv4 also one decimal integer, as
// geolocation tables print it, but no leading zeros in octets (readers disagree on whether they are octal); for IPv6
// every form of RFC 4291 section 2.2, no zone.
#pragma once

#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "holdfast/record/field.hpp"
#include "holdfast/record/types.hpp"

namespace holdfast {

namespace detail {

/// Reads a decimal number of at most max from the front of text and removes it; no sign, no leading zeros.
[[nodiscard]] inline std::optional<std::uint32_t> take_decimal(std::string_view& text, std::uint32_t max) noexcept {
    std::uint64_t value = 0;
    std::size_t n = 0;
    for (; n < text.size() && text[n] >= '0' && text[n] <= '9'; ++n) {
        value = value * 10 + static_cast<std::uint64_t>(text[n] - '0');
        if (value > max || (n > 0 && text[0] == '0')) return std::nullopt;
    }
    if (n == 0) return std::nullopt;
    text.remove_prefix(n);
    return static_cast<std::uint32_t>(value);
}

[[nodiscard]] inline std::optional<std::uint32_t> read_dotted(std::string_view text) noexcept {
    std::uint32_t value = 0;
    for (int octet = 0; octet < 4; ++octet) {
        if (octet > 0) {
            if (text.empty() || text[0] != '.') return std::nullopt;
            text.remove_prefix(1);
        }
        const auto part = take_decimal(text, 255);
        if (!part) return std::nullopt;
        value = value << 8 | *part;
    }
    return text.empty() ? std::optional(value) : std::nullopt;
}

[[nodiscard]] constexpr int hex_digit(char c) noexcept {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

/// Reads groups separated by ':', the last perhaps dotted IPv4, into at most `room` bytes. Returns the bytes written.
[[nodiscard]] inline std::optional<std::size_t> read_groups(std::string_view text, std::uint8_t* out, std::size_t room,
                                                            bool dotted_tail) noexcept {
    if (text.empty()) return 0;
    std::size_t written = 0;
    while (true) {
        const std::size_t colon = text.find(':');
        const std::string_view group = text.substr(0, colon);
        if (dotted_tail && colon == std::string_view::npos && group.find('.') != std::string_view::npos) {
            const auto tail = read_dotted(group);
            if (!tail || written + 4 > room) return std::nullopt;
            for (int shift = 24; shift >= 0; shift -= 8) out[written++] = static_cast<std::uint8_t>(*tail >> shift);
            return written;
        }
        if (group.empty() || group.size() > 4 || written + 2 > room) return std::nullopt;
        unsigned value = 0;
        for (const char c : group) {
            const int digit = hex_digit(c);
            if (digit < 0) return std::nullopt;
            value = value << 4 | static_cast<unsigned>(digit);
        }
        out[written++] = static_cast<std::uint8_t>(value >> 8);
        out[written++] = static_cast<std::uint8_t>(value);
        if (colon == std::string_view::npos) return written;
        text.remove_prefix(colon + 1);
    }
}

/// The longest run of two or more zero groups, first of equals: [first, last), empty if there is none.
[[nodiscard]] inline std::array<std::size_t, 2> longest_zero_run(const std::array<unsigned, 8>& groups,
                                                                 std::size_t count) noexcept {
    std::array<std::size_t, 2> best{count, count};
    std::size_t best_length = 1;
    for (std::size_t i = 0; i < count;) {
        std::size_t end = i;
        while (end < count && groups[end] == 0) ++end;
        if (end - i > best_length) {
            best = {i, end};
            best_length = end - i;
        }
        i = end + 1;
    }
    return best;
}

}  // namespace detail

inline void append_text(std::string& out, ipv4 address) {
    std::array<char, 16> text{};
    char* end = text.data();
    for (unsigned shift = 32; shift > 0; shift -= 8) {
        if (shift < 32) *end++ = '.';
        const std::uint32_t octet = address.value >> (shift - 8) & 255U;
        if (octet >= 100) *end++ = static_cast<char>('0' + octet / 100);
        if (octet >= 10) *end++ = static_cast<char>('0' + octet / 10 % 10);
        *end++ = static_cast<char>('0' + octet % 10);
    }
    out.append(text.data(), end);
}

inline void append_text(std::string& out, const ipv6& address) {
    std::array<unsigned, 8> groups{};
    for (std::size_t i = 0; i < 8; ++i)
        groups[i] = static_cast<unsigned>(address.bytes[2 * i]) << 8 | address.bytes[2 * i + 1];
    const bool mapped = groups[5] == 0xffff && !(groups[0] | groups[1] | groups[2] | groups[3] | groups[4]);
    const std::size_t count = mapped ? 6 : 8;
    const auto [zero_begin, zero_end] = detail::longest_zero_run(groups, count);
    for (std::size_t i = 0; i < count; ++i) {
        if (i == zero_begin) out += "::";
        if (i >= zero_begin && i < zero_end) continue;
        if (i > 0 && i != zero_end) out += ':';
        std::array<char, 4> digits{};
        out.append(digits.data(), std::to_chars(digits.data(), digits.data() + 4, groups[i], 16).ptr);
    }
    if (mapped) {
        out += ':';
        append_text(out, ipv4{groups[6] << 16 | groups[7]});
    }
}

/// Reads dotted decimal or one decimal integer.
[[nodiscard]] inline std::optional<ipv4> parse_ipv4(std::string_view text) noexcept {
    if (const auto dotted = detail::read_dotted(text)) return ipv4{*dotted};
    const auto number = detail::take_decimal(text, 0xffffffffU);
    if (!number || !text.empty()) return std::nullopt;
    return ipv4{*number};
}

/// Reads any form of RFC 4291.
[[nodiscard]] inline std::optional<ipv6> parse_ipv6(std::string_view text) noexcept {
    ipv6 address;
    const std::size_t gap = text.find("::");
    if (gap == std::string_view::npos) {
        const auto n = detail::read_groups(text, address.bytes.data(), 16, true);
        return n == 16U ? std::optional(address) : std::nullopt;
    }
    const auto head = detail::read_groups(text.substr(0, gap), address.bytes.data(), 14, false);
    if (!head) return std::nullopt;
    std::array<std::uint8_t, 16> tail{};
    const auto rest = detail::read_groups(text.substr(gap + 2), tail.data(), 14 - *head, true);
    if (!rest) return std::nullopt;
    for (std::size_t i = 0; i < *rest; ++i) address.bytes[16 - *rest + i] = tail[i];
    return address;
}

}  // namespace holdfast
