// SPDX-License-Identifier: Apache-2.0
// fixed_text.hpp - the bytes of a char[N] as text that is fit for a terminal, a line of CSV or JSON, and comes back
// whole.
//
// A char[N] may hold any bytes: half a character cut off at N, another encoding, control characters, damage. Rather
// than lose or refuse them, they are written as `\xHH` with two lower-case hexadecimal digits, and every reader turns
// exactly that form back into the byte. All other text is itself, backslashes included: `C:\new` needs no escaping.
// Only a backslash that would be taken for an escape, because `x` and two such digits follow it, is written `\x5c`.
// Escaped in text: bytes that are not valid UTF-8, control characters (C0, DEL, C1: terminals obey them).
// Escaped in JSON: bytes that are not valid UTF-8; controls are JSON's own business.
// Trailing zeros are padding, a zero before the last other byte is text.
// Why not U+FFFD: it loses the byte, and two keys would become one. Why not refuse: a damaged segment must be shown.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "holdfast/record/types.hpp"

namespace holdfast::detail {

/// Bytes of the UTF-8 character at the front of a text that is not empty, 0 if it is none (RFC 3629: no surrogates, no
/// overlong forms, nothing beyond U+10FFFF).
[[nodiscard]] constexpr std::size_t utf8_bytes(std::string_view text) noexcept {
    const auto at = [text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    const unsigned char first = at(0);
    if (first < 0x80) return 1;
    const std::size_t n = first >= 0xc2 && first <= 0xdf ? 2 : first >= 0xe0 && first <= 0xef ? 3 : 4;
    if (first < 0xc2 || first > 0xf4 || text.size() < n) return 0;
    for (std::size_t i = 1; i < n; ++i)
        if ((at(i) & 0xc0) != 0x80) return 0;
    const unsigned char second = at(1);
    const bool wrong = (first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f) ||
                       (first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f);
    return wrong ? 0 : n;
}

[[nodiscard]] constexpr bool is_escape_digit(char c) noexcept {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

/// Whether `\xHH` is at the front.
[[nodiscard]] constexpr bool starts_with_escape(std::string_view text) noexcept {
    return text.size() >= 4 && text[0] == '\\' && text[1] == 'x' && is_escape_digit(text[2]) &&
           is_escape_digit(text[3]);
}

inline void append_hex(std::string& out, unsigned char byte) {
    constexpr std::string_view digits = "0123456789abcdef";
    out += digits[byte >> 4];
    out += digits[byte & 15];
}

/// Whether a valid character of n bytes is one that terminals obey: C0, DEL, or C1 (U+0080 to U+009F).
[[nodiscard]] constexpr bool is_control(std::string_view text, std::size_t n) noexcept {
    const auto first = static_cast<unsigned char>(text[0]);
    if (n == 1) return first < 0x20 || first == 0x7f;
    return n == 2 && first == 0xc2 && static_cast<unsigned char>(text[1]) < 0xa0;
}

/// Appends one valid character as it stands in a JSON string (RFC 8259 section 7). All that terminals obey is escaped:
/// DEL and C1 too, which JSON would take as they are.
inline void append_json_character(std::string& out, std::string_view character) {
    switch (character.front()) {
        case '"': out += "\\\""; return;
        case '\\': out += "\\\\"; return;
        case '\n': out += "\\n"; return;
        case '\r': out += "\\r"; return;
        case '\t': out += "\\t"; return;
        default: break;
    }
    if (!is_control(character, character.size())) {
        out += character;
        return;
    }
    out += "\\u00";
    append_hex(out, static_cast<unsigned char>(character.back()));  // of two bytes the second is the number
}

/// Appends the text in a char[N], escaped as the top of this file says.
inline void append_escaped(std::string& out, std::string_view fixed, bool escape_controls) {
    std::string_view rest = view_text(fixed);
    while (!rest.empty()) {
        std::size_t n = utf8_bytes(rest);
        const bool plain = n != 0 && !(escape_controls && is_control(rest, n)) && !starts_with_escape(rest);
        if (n == 0) n = 1;
        if (plain) {
            out += rest.substr(0, n);
        } else {
            for (const char c : rest.substr(0, n)) {
                out += "\\x";
                append_hex(out, static_cast<unsigned char>(c));
            }
        }
        rest.remove_prefix(n);
    }
}

/// Writes an escaped text into a char[N]. Returns: false if it needs more than `capacity` bytes, of which `needed`
/// tells.
[[nodiscard]] inline bool read_escaped(std::string_view text, char* out, std::size_t capacity,
                                       std::size_t& needed) noexcept {
    needed = 0;
    const auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
    while (!text.empty()) {
        char c = text[0];
        std::size_t n = 1;
        if (starts_with_escape(text)) {
            c = static_cast<char>(digit(text[2]) << 4 | digit(text[3]));
            n = 4;
        }
        if (needed < capacity) out[needed] = c;
        ++needed;
        text.remove_prefix(n);
    }
    for (std::size_t i = needed; i < capacity; ++i) out[i] = '\0';
    return needed <= capacity;
}

}  // namespace holdfast::detail
