// SPDX-License-Identifier: Apache-2.0
// same_secret.hpp - a comparison that does not tell by its time where two texts differ.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace holdfast::detail {

/// Whether both are the same. How long it takes follows from their sizes alone.
[[nodiscard]] inline bool is_same_secret(std::string_view a, std::string_view b) noexcept {
    if (a.size() != b.size()) return false;
    std::uint64_t differ = 0;
    for (std::size_t i = 0; i < a.size(); i += sizeof differ) {
        std::uint64_t left = 0, right = 0;
        const std::size_t bytes = std::min(sizeof differ, a.size() - i);
        std::memcpy(&left, a.data() + i, bytes);
        std::memcpy(&right, b.data() + i, bytes);
        differ |= left ^ right;
        asm volatile("" : "+r"(differ));  // else a compiler may end the loop at the first difference
    }
    return differ == 0;
}

}  // namespace holdfast::detail
