// SPDX-License-Identifier: Apache-2.0
// words.hpp - adding up what lies somewhere: how a reader in place touches every byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace holdfast::workload {

/// The whole 64-bit words of these bytes, at any address, added up; what is left over of a last one is not looked at.
[[nodiscard]] inline std::uint64_t sum_of_words(const void* bytes, std::size_t size) noexcept {
    const auto* const from = static_cast<const std::byte*>(bytes);
    std::uint64_t sum = 0;
    for (std::size_t at = 0; at + 8 <= size; at += 8) {
        std::uint64_t word = 0;
        std::memcpy(&word, from + at, 8);
        sum += word;
    }
    return sum;
}

}  // namespace holdfast::workload
