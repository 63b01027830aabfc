// SPDX-License-Identifier: Apache-2.0
// number_text.hpp - numbers as the shortest text that reads back as the same number.
#pragma once

#include <charconv>
#include <cmath>
#include <cstddef>
#include <type_traits>

namespace holdfast::detail {

inline constexpr std::size_t number_chars_max = 32;

/// Writes a number in decimal. A real one that no integer of 64 bits can be has an exponent where it would be digits
/// alone: many a reader of JSON takes those for an integer, and refuses one so large. Requires: room for
/// number_chars_max characters. Returns: their end. A NaN or an infinity is for the caller to tell.
template <class T>
[[nodiscard]] char* write_number(char* to, T value) noexcept {
    if constexpr (std::is_floating_point_v<T>) {
        constexpr T beyond_integers = static_cast<T>(9223372036854775808.0);  // 2^63
        if (std::fabs(value) >= beyond_integers)
            return std::to_chars(to, to + number_chars_max, value, std::chars_format::scientific).ptr;
    }
    return std::to_chars(to, to + number_chars_max, value).ptr;
}

}  // namespace holdfast::detail
