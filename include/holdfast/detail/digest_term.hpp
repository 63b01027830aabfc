// SPDX-License-Identifier: Apache-2.0
// digest_term.hpp - what one 8-byte word adds to a checksum that is a sum, so that a writer can take words out and put
// others in without looking at the rest.
//
// (I1) For a given position the term is a one-to-one function of the word: damage inside one word always changes the
//      sum. The position chooses the multiplier, so words that changed places, or bits that flipped in opposite
//      directions, do not cancel. Wider damage goes unnoticed by chance alone.
// Part of the layout of every container that uses it. It finds accidents; who may write the words can write the sum as
// well.
#pragma once

#include <cstdint>

#include "holdfast/detail/hash.hpp"

namespace holdfast::detail {

/// Of a word that lies so many bytes, a multiple of 8, behind the start of what is summed: odd, and no two alike.
[[nodiscard]] constexpr std::uint64_t digest_multiplier(std::uint64_t position) noexcept {
    return (position + 1) * hash_multipliers[0];
}

/// What one word adds to its sum.
[[nodiscard]] constexpr std::uint64_t digest_term(std::uint64_t word, std::uint64_t multiplier) noexcept {
    // High bits take part below as well: a product modulo 2^64 passes bits upwards only.
    const std::uint64_t x = ((word ^ (word >> 32)) + multiplier) * multiplier;
    return x ^ (x >> 32);
}

}  // namespace holdfast::detail
