// SPDX-License-Identifier: Apache-2.0
// concat.hpp - one string out of texts, characters and integers: messages without a chain of temporaries.
//
// `"text" + std::to_string(n)` also makes g++ 12 warn of overlapping copies that cannot happen (-Wrestrict at -O3),
// which would be an error in the builds of those who include our headers with -Werror.
#pragma once

#include <charconv>
#include <string>
#include <string_view>
#include <type_traits>

namespace holdfast::detail {

inline void concat_part(std::string& out, std::string_view text) { out += text; }
inline void concat_part(std::string& out, char c) { out += c; }

template <class Integer>
    requires(std::is_integral_v<Integer> && !std::is_same_v<Integer, char> && !std::is_same_v<Integer, bool>)
void concat_part(std::string& out, Integer value) {
    char digits[24];
    out.append(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
}

/// The parts, each a text, a character or an integer (in decimal), one after the other.
template <class... Parts>
[[nodiscard]] std::string concat(const Parts&... parts) {
    std::string out;
    (concat_part(out, parts), ...);
    return out;
}

}  // namespace holdfast::detail
