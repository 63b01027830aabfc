// SPDX-License-Identifier: Apache-2.0
// one_word.hpp - a checksum that does not hold tells more than that: whether a change of one single word, or of the
// checksum itself, would make it hold, and what stood there.
//
// All sums of the layouts are one-to-one in each word, so for each place there is just one word that makes the sum
// hold. That word is random unless the place is the damaged one, and then it is what was stored. It is believed where
// it differs from what lies there in two bytes at most: among n words a wrong one does so with a chance of n * 10^-13.
// Wider damage is not put right: nothing tells it from any other.
// detail::checksum mixes upwards only, so a change of the upper bits of a word is the same to it as one of some more
// bits of the next word of its lane. Therefore there must be no second candidate that differs in up to four bytes.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "holdfast/detail/checksum.hpp"
#include "holdfast/detail/digest_term.hpp"

namespace holdfast::inspect {

/// In how many bytes two words differ.
[[nodiscard]] constexpr unsigned bytes_apart(std::uint64_t a, std::uint64_t b) noexcept {
    unsigned bytes = 0;
    for (std::uint64_t rest = a ^ b; rest != 0; rest >>= 8U) bytes += (rest & 0xFFU) != 0 ? 1U : 0U;
    return bytes;
}
/// Whether two words differ, in two bytes at most.
[[nodiscard]] constexpr bool differ_little(std::uint64_t a, std::uint64_t b) noexcept {
    const unsigned bytes = bytes_apart(a, b);
    return bytes == 1 || bytes == 2;
}

/// The inverse of an odd number modulo 2^64.
[[nodiscard]] constexpr std::uint64_t inverse_of(std::uint64_t odd) noexcept {
    std::uint64_t inverse = odd;  // right in 3 bits; each round doubles them
    for (int round = 0; round < 5; ++round) inverse *= 2 - odd * inverse;
    return inverse;
}

/// The word whose digest_term() this is. Requires: an odd multiplier.
[[nodiscard]] constexpr std::uint64_t word_of_term(std::uint64_t term, std::uint64_t multiplier) noexcept {
    const std::uint64_t x = term ^ (term >> 32U);
    const std::uint64_t folded = x * inverse_of(multiplier) - multiplier;
    return folded ^ (folded >> 32U);
}
static_assert(word_of_term(detail::digest_term(0x0123456789abcdef, 77), 77) == 0x0123456789abcdef);

/// A word that stood in the place of the one at `offset`.
struct word_change {
    std::size_t offset = 0;
    std::uint64_t word = 0;
    std::size_t bytes = 8;  ///< fewer where the bytes end before the word does
    bool little = false;    ///< whether it differs from what lies there in two bytes at most
};

/// Of checksum_step(lane, word): lane ^ word.
[[nodiscard]] constexpr std::uint64_t undo_checksum_step(std::uint64_t stepped) noexcept {
    return std::rotr(stepped, 29) * inverse_of(detail::checksum_factor);
}

/// The changes of up to four bytes of a word, each of which makes checksum(bytes, basis) the expected sum. Requires:
/// private bytes, 8-byte aligned. Cost: three passes, and memory of a quarter of the bytes.
[[nodiscard]] inline std::vector<word_change> changed_words(std::span<const std::byte> bytes, std::uint64_t basis,
                                                            std::uint64_t expected) {
    const auto undo = undo_checksum_step;
    const auto word_at = [&](std::size_t offset) { return detail::shared_load<std::uint64_t>(bytes.data() + offset); };
    const std::size_t stripes = bytes.size() / 32;
    const std::size_t behind = bytes.size() % 32 / 8;  // whole words behind the last stripe: 0 to 3
    std::uint64_t tail = 0;
    for (std::size_t i = bytes.size() / 8 * 8; i < bytes.size(); ++i)
        tail |= std::to_integer<std::uint64_t>(bytes[i]) << (8 * (i % 8));

    std::uint64_t lanes[4] = {1, 2, 3, 4};
    for (std::size_t i = 0; i < 4; ++i) {
        for (std::size_t s = 0; s < stripes; ++s) lanes[i] = detail::checksum_step(lanes[i], word_at(32 * s + 8 * i));
        if (i < behind) lanes[i] = detail::checksum_step(lanes[i], word_at(32 * stripes + 8 * i));
    }
    lanes[3] = detail::checksum_step(lanes[3], tail);

    std::vector<word_change> found;
    const auto add = [&](std::size_t offset, std::size_t size, std::uint64_t present, std::uint64_t needed) {
        const unsigned apart = bytes_apart(present, needed);
        if (apart != 0 && apart <= 4) found.push_back({offset, needed, size, apart <= 2});
    };
    std::vector<std::uint64_t> before;  // the lane in front of each of its words
    for (std::size_t i = 0; i < 4; ++i) {
        // What this lane would have to end with, if the others are right.
        std::uint64_t sum = expected ^ (expected >> 32U);
        for (std::size_t j = 4; j-- > i + 1;) sum = undo(sum) ^ lanes[j];
        std::uint64_t front = detail::checksum_step(basis, bytes.size());
        for (std::size_t j = 0; j < i; ++j) front = detail::checksum_step(front, lanes[j]);
        std::uint64_t wanted = undo(sum) ^ front;
        const std::uint64_t behind_words = wanted;
        if (i == 3) wanted = undo(wanted) ^ tail;

        before.clear();
        std::uint64_t lane = i + 1;
        const std::size_t words = stripes + (i < behind ? 1 : 0);
        for (std::size_t s = 0; s < words; ++s) {
            before.push_back(lane);
            lane = detail::checksum_step(lane, word_at(32 * s + 8 * i));
        }
        for (std::size_t s = words; s-- > 0;) {
            const std::uint64_t present = word_at(32 * s + 8 * i);
            const std::uint64_t needed = undo(wanted) ^ before[s];
            add(32 * s + 8 * i, 8, present, needed);
            wanted = undo(wanted) ^ present;
        }
        const std::size_t rest = bytes.size() % 8;
        const std::uint64_t needed = undo(behind_words) ^ lane;
        if (i == 3 && rest != 0 && needed >> 8 * rest == 0) add(bytes.size() - rest, rest, tail, needed);
    }
    return found;
}

/// The one such change, of two bytes at most; nothing where there is none, or several.
[[nodiscard]] inline std::optional<word_change> changed_word(std::span<const std::byte> bytes, std::uint64_t basis,
                                                             std::uint64_t expected) {
    const std::vector<word_change> all = changed_words(bytes, basis, expected);
    return all.size() == 1 && all.front().little ? std::optional(all.front()) : std::nullopt;
}

/// The basis of a checksum of these bytes. Cost: one pass.
[[nodiscard]] inline std::uint64_t basis_of(std::span<const std::byte> bytes, std::uint64_t sum) noexcept {
    // The lanes depend on the bytes alone.
    std::uint64_t lanes[4] = {1, 2, 3, 4};
    std::size_t at = 0;
    for (; at + 32 <= bytes.size(); at += 32)
        for (std::size_t i = 0; i < 4; ++i)
            lanes[i] = detail::checksum_step(lanes[i], detail::shared_load<std::uint64_t>(bytes.data() + at + 8 * i));
    for (std::size_t i = 0; i < 3 && at + 8 <= bytes.size(); at += 8, ++i)
        lanes[i] = detail::checksum_step(lanes[i], detail::shared_load<std::uint64_t>(bytes.data() + at));
    std::uint64_t tail = 0;
    for (std::size_t i = 0; at + i < bytes.size(); ++i)
        tail |= std::uint64_t{detail::shared_load<unsigned char>(bytes.data() + at + i)} << (8 * i);
    lanes[3] = detail::checksum_step(lanes[3], tail);
    std::uint64_t folded = sum ^ (sum >> 32U);
    for (std::size_t i = 4; i-- > 0;) folded = undo_checksum_step(folded) ^ lanes[i];
    return undo_checksum_step(folded) ^ bytes.size();
}

}  // namespace holdfast::inspect
