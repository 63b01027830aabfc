// SPDX-License-Identifier: Apache-2.0
// checksum.hpp - a 64-bit sum of bytes at rest: tells damage (a flipped bit, a torn page), not malice.
//
// Four lanes take the 8-byte little-endian words in turn: lane = rotate((lane ^ word) * P, 29), P odd. Each step is a
// bijection of the lane and of the word, and so is the way lanes and length are folded at the end, hence any change
// confined to one word (every single flipped bit) always changes the sum; other damage goes unseen with odds 2^-64.
// Part of the layout: a stored sum must mean the same for ever (checksum_test pins values).
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "holdfast/detail/shared_bytes.hpp"

namespace holdfast::detail {

inline constexpr std::uint64_t checksum_factor = 0x9E3779B97F4A7C15U;  // 2^64 / golden ratio, odd

[[nodiscard]] constexpr std::uint64_t checksum_step(std::uint64_t lane, std::uint64_t word) noexcept {
    return std::rotl((lane ^ word) * checksum_factor, 29);
}

/// The sum of `bytes`, going on from `basis`: checksum(b, checksum(a)) covers a and b, which need not be neighbours.
/// The bytes may be changing (a reader that checks a live segment): the sum is then of some mix.
/// Requires: bytes.data() 8-byte aligned.
[[nodiscard]] inline std::uint64_t checksum(std::span<const std::byte> bytes, std::uint64_t basis = 0) noexcept {
    std::uint64_t lane[4] = {1, 2, 3, 4};
    const std::byte* at = bytes.data();
    std::size_t left = bytes.size();
    for (; left >= 32; left -= 32, at += 32) {
        for (std::size_t i = 0; i < 4; ++i) lane[i] = checksum_step(lane[i], shared_load<std::uint64_t>(at + 8 * i));
    }
    for (std::size_t i = 0; i < 3 && left >= 8; left -= 8, at += 8, ++i)
        lane[i] = checksum_step(lane[i], shared_load<std::uint64_t>(at));
    std::uint64_t tail = 0;
    for (std::size_t i = 0; i < left; ++i) tail |= std::uint64_t{shared_load<unsigned char>(at + i)} << (8 * i);
    lane[3] = checksum_step(lane[3], tail);
    std::uint64_t sum = checksum_step(basis, bytes.size());
    for (const std::uint64_t value : lane) sum = checksum_step(sum, value);
    return sum ^ (sum >> 32);
}

}  // namespace holdfast::detail
