// SPDX-License-Identifier: Apache-2.0
// characters.hpp - the character classes of the HTTP and URI grammars, as one table of bits.
//
// Source: RFC 9110 section 5.6.2 (token), 5.5 (field values); RFC 3986 appendix A (URI).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#if defined(__SSE2__)
#include <emmintrin.h>

#include <bit>
#endif

namespace holdfast::net::detail {

enum character_class : std::uint8_t {
    token_char = 1,     // tchar
    value_char = 2,     // VCHAR, obs-text, SP, HTAB: what a field value may hold
    target_char = 4,    // any character of any request target; '%' is checked separately
    path_char = 8,      // pchar and '/', '%' included
    host_char = 16,     // reg-name, '%' included
    hex_char = 32,      // HEXDIG of either case
    unreserved = 64,    // ALPHA DIGIT - . _ ~
    scheme_char = 128,  // ALPHA DIGIT + - .
};

consteval std::array<std::uint8_t, 256> make_character_table() {
    std::array<std::uint8_t, 256> table{};
    const auto add = [&table](std::string_view characters, unsigned bits) {
        for (const char c : characters) {
            auto& entry = table[static_cast<unsigned char>(c)];
            entry = static_cast<std::uint8_t>(entry | bits);
        }
    };
    constexpr std::string_view alphanumeric = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    add(alphanumeric, token_char | target_char | path_char | host_char | unreserved | scheme_char);
    add("0123456789abcdefABCDEF", hex_char);
    add("!#$%&'*+-.^_`|~", token_char);
    add("-._~", target_char | path_char | host_char | unreserved);
    add("+-.", scheme_char);
    add("%!$&'()*+,;=", target_char | path_char | host_char);  // sub-delims, and the start of an escape
    add(":@/", target_char | path_char);
    add("?[]", target_char);
    for (unsigned c = 0x20; c < 0x100; ++c)
        if (c != 0x7F) table[c] = static_cast<std::uint8_t>(table[c] | value_char);
    table['\t'] = value_char;
    return table;
}

inline constexpr std::array<std::uint8_t, 256> character_table = make_character_table();

[[nodiscard]] inline bool is(char c, unsigned classes) noexcept {
    return (character_table[static_cast<unsigned char>(c)] & classes) != 0;
}

/// Whether every character of a text is of one of the classes; true for an empty one.
[[nodiscard]] inline bool all(std::string_view text, unsigned classes) noexcept {
    for (const char c : text)
        if (!is(c, classes)) return false;
    return true;
}

/// The value of a hexadecimal digit. Requires: is(c, hex_char).
[[nodiscard]] inline unsigned hex_value(char c) noexcept {
    return c <= '9' ? static_cast<unsigned>(c - '0') : static_cast<unsigned>((c | 0x20) - 'a' + 10);
}

[[nodiscard]] inline bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }
[[nodiscard]] inline bool is_blank(char c) noexcept { return c == ' ' || c == '\t'; }

[[nodiscard]] inline std::string_view trim_blanks(std::string_view text) noexcept {
    while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
    while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
    return text;
}

/// Whether every '%' is followed by two hexadecimal digits.
[[nodiscard]] inline bool escapes_are_whole(std::string_view text) noexcept {
    for (std::size_t at = text.find('%'); at != std::string_view::npos; at = text.find('%', at + 3))
        if (text.size() - at < 3 || !is(text[at + 1], hex_char) || !is(text[at + 2], hex_char)) return false;
    return true;
}

/// First position in [from, end) whose character is in none of the classes; else end.
[[nodiscard]] inline std::size_t skip(const char* data, std::size_t from, std::size_t end, unsigned classes) noexcept {
    while (from < end && is(data[from], classes)) ++from;
    return from;
}

/// skip() for a class that has letters and what lies from '-' to '9' but for `alien`: those sixteen at a time where the
/// machine can, others by the table.
[[nodiscard]] inline std::size_t skip_common(const char* data, std::size_t from, std::size_t end, unsigned classes,
                                             [[maybe_unused]] char alien) noexcept {
#if defined(__SSE2__)
    while (end - from >= 16) {
        const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(data + from));
        const auto between = [](__m128i each, char first, char last) {  // with sign: nothing from 0x80 on is
            return _mm_and_si128(_mm_cmpgt_epi8(each, _mm_set1_epi8(static_cast<char>(first - 1))),
                                 _mm_cmplt_epi8(each, _mm_set1_epi8(static_cast<char>(last + 1))));
        };
        const __m128i letter = between(_mm_or_si128(bytes, _mm_set1_epi8(0x20)), 'a', 'z');
        const __m128i other = _mm_andnot_si128(_mm_cmpeq_epi8(bytes, _mm_set1_epi8(alien)), between(bytes, '-', '9'));
        const auto common = static_cast<unsigned>(_mm_movemask_epi8(_mm_or_si128(letter, other)));
        const auto run = static_cast<std::size_t>(std::countr_one(common));
        from += run;
        if (run == 16) continue;
        if (!is(data[from], classes)) return from;
        ++from;
    }
#endif
    return skip(data, from, end, classes);
}
/// skip() for token_char and for path_char, which are most of what is not a value.
[[nodiscard]] inline std::size_t skip_token(const char* data, std::size_t from, std::size_t end) noexcept {
    return skip_common(data, from, end, token_char, '/');
}
[[nodiscard]] inline std::size_t skip_path(const char* data, std::size_t from, std::size_t end) noexcept {
    return skip_common(data, from, end, path_char, '\0');
}

/// skip() for value_char, sixteen at a time where the machine can: values are most of a head.
[[nodiscard]] inline std::size_t skip_value(const char* data, std::size_t from, std::size_t end) noexcept {
#if defined(__SSE2__)
    for (; end - from >= 16; from += 16) {
        const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(data + from));
        // Below 0x20 without sign: unchanged by the minimum with 0x1F.
        const __m128i control = _mm_cmpeq_epi8(_mm_min_epu8(bytes, _mm_set1_epi8(0x1F)), bytes);
        const __m128i tab = _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\t'));
        const __m128i del = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(0x7F));
        const __m128i stop = _mm_or_si128(_mm_andnot_si128(tab, control), del);
        if (const auto mask = static_cast<unsigned>(_mm_movemask_epi8(stop)); mask != 0)
            return from + static_cast<std::size_t>(std::countr_zero(mask));
    }
#endif
    return skip(data, from, end, value_char);
}

inline constexpr std::array<bool, 256> plain_json_table = [] {
    std::array<bool, 256> table{};
    for (std::size_t c = 0x20; c < 0x7F; ++c) table[c] = c != '"' && c != '\\';
    return table;
}();

/// First position in [from, end) that does not stand for itself between the quotes of a JSON string: a control
/// character, a quote, a backslash, or what is not ASCII; else end. Sixteen at a time where the machine can.
[[nodiscard]] inline std::size_t skip_plain_json(const char* data, std::size_t from, std::size_t end) noexcept {
#if defined(__SSE2__)
    for (; end - from >= 16; from += 16) {
        const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(data + from));
        const __m128i outside = _mm_or_si128(_mm_cmplt_epi8(bytes, _mm_set1_epi8(0x20)),  // with sign: 0x80 on as well
                                             _mm_cmpeq_epi8(bytes, _mm_set1_epi8(0x7F)));
        const __m128i quoted =
            _mm_or_si128(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('"')), _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\\')));
        if (const auto mask = static_cast<unsigned>(_mm_movemask_epi8(_mm_or_si128(outside, quoted))); mask != 0)
            return from + static_cast<std::size_t>(std::countr_zero(mask));
    }
#endif
    while (from < end && plain_json_table[static_cast<unsigned char>(data[from])]) ++from;
    return from;
}

}  // namespace holdfast::net::detail
