// SPDX-License-Identifier: Apache-2.0
// same_secret.hpp - a comparison that does not tell by its time where two texts differ.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace holdfast::detail {

/// Whether both are the same. How long it takes follows from their sizes alone.
[[nodiscard]] inline bool is_same_secret(std::string_view a, std::string_view b) noexcept {
    if (a.size() != b.size()) return false;
    std::uint64_t differ = 0;
    const auto add_word = [&](std::size_t at) {
        std::uint64_t left = 0, right = 0;
        std::memcpy(&left, a.data() + at, sizeof left);
        std::memcpy(&right, b.data() + at, sizeof right);
        differ |= left ^ right;
        asm volatile("" : "+r"(differ));  // else a compiler may end the loop at the first difference
    };
    const std::size_t size = a.size();
    if (size < sizeof differ) {
        for (std::size_t i = 0; i < size; ++i) {
            differ |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
            asm volatile("" : "+r"(differ));
        }
        return differ == 0;
    }
    for (std::size_t i = 0; i + sizeof differ < size; i += sizeof differ) add_word(i);
    add_word(size - sizeof differ);  // the last one, over what the one before it may have had
    return differ == 0;
}

}  // namespace holdfast::detail
