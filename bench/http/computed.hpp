// SPDX-License-Identifier: Apache-2.0
// computed.hpp - user and name as they follow from an id by arithmetic alone: what a reply is computed from where
// nothing is looked up.
//
// Peers in other languages have the same arithmetic (peers/*). Every answer is compared with the records, which are
// made by it (exchange.cpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace holdfast::bench::http {

struct computed_entry {
    std::uint64_t user = 0;
    char letters[8] = {};
    std::size_t letters_count = 0;

    [[nodiscard]] std::string_view name() const noexcept { return {letters, letters_count}; }
};

/// A number of 32 bits, and three to eight lower-case letters.
[[nodiscard]] inline computed_entry computed_from(std::uint64_t id) noexcept {
    const std::uint64_t mixed = id * 0x9E3779B97F4A7C15U;  // golden ratio: spreads, and is the same everywhere
    computed_entry made{.user = mixed >> 32U, .letters_count = 3 + (mixed >> 61U) % 6};
    std::uint64_t rest = mixed >> 20U;
    for (std::size_t i = 0; i < made.letters_count; ++i, rest /= 26)
        made.letters[i] = static_cast<char>('a' + rest % 26);
    return made;
}

}  // namespace holdfast::bench::http
