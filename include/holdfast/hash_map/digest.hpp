// SPDX-License-Identifier: Apache-2.0
// digest.hpp - what the table of a hash map knows of a key: 16 bytes. Part of the layout.
//
// A key of up to 8 bytes is its own digest: its bytes, then its size with bit 63 set. A longer one has two 64-bit
// hashes with two secrets of the map, the second without bit 63. So short keys never share a digest, neither among each
// other nor with a long one; two long keys of a billion do with a chance of 10^-21. Who stores a key compares it all
// the same with the one that lies under its digest.
//
// The two hashes read the key once, word by word, little-endian, the last one padded with zero bytes; the size comes in
// through the first state (detail/hash.hpp, I1, I2). So a key that lies in several runs of a store needs no copy.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "holdfast/detail/hash.hpp"

namespace holdfast::detail {

struct map_digest {
    std::uint64_t word[2] = {};
    friend constexpr bool operator==(const map_digest&, const map_digest&) = default;
    [[nodiscard]] const std::byte* bytes() const noexcept { return reinterpret_cast<const std::byte*>(word); }
};

inline constexpr std::uint64_t short_key_bit = std::uint64_t{1} << 63;
inline constexpr std::uint64_t short_key_bytes_max = 8;

/// Takes the words of one key after the other and gives its digest.
class map_digester {
 public:
    constexpr map_digester(std::uint64_t seed, std::uint64_t key_bytes) noexcept
        : bytes_(key_bytes),
          first_(hash_start(seed, key_bytes)),
          second_(hash_start(multiply_fold(seed ^ hash_multipliers[3], hash_multipliers[0]), key_bytes)) {}

    constexpr void add(std::uint64_t word) noexcept {
        short_ = word;  // meant for a key of one word or none
        first_ = multiply_fold(first_ ^ word, hash_multipliers[at_ % 4]);
        second_ = multiply_fold(second_ ^ word, hash_multipliers[(at_ + 2) % 4]);
        ++at_;
    }
    [[nodiscard]] constexpr map_digest digest() const noexcept {
        if (bytes_ <= short_key_bytes_max) return {{short_, short_key_bit | bytes_}};
        return {{multiply_fold(first_, hash_finish), multiply_fold(second_, hash_finish) & ~short_key_bit}};
    }

 private:
    std::uint64_t bytes_;
    std::uint64_t first_, second_;
    std::uint64_t short_ = 0;
    std::size_t at_ = 0;
};

/// Up to 8 private bytes as a word; those missing are zero. Loads of fixed sizes that overlap, since a copy of any
/// size would be a call.
[[nodiscard]] inline std::uint64_t word_of_bytes(const std::byte* from, std::size_t bytes) noexcept {
    std::uint64_t word = 0;
    if (bytes >= 8) {
        std::memcpy(&word, from, 8);
    } else if (bytes >= 4) {
        std::uint32_t low = 0, high = 0;
        std::memcpy(&low, from, 4);
        std::memcpy(&high, from + bytes - 4, 4);
        word = low | std::uint64_t{high} << (8 * (bytes - 4));
    } else if (bytes != 0) {
        const auto at = [&](std::size_t i) { return std::to_integer<std::uint64_t>(from[i]) << (8 * i); };
        word = at(0) | at(bytes / 2) | at(bytes - 1);
    }
    return word;
}

/// The digest of a key in private memory. Cost: two multiplications for each 8 bytes; none for up to 8.
[[nodiscard]] inline map_digest digest_of(std::span<const std::byte> key, std::uint64_t seed) noexcept {
    if (key.size() <= short_key_bytes_max) return {{word_of_bytes(key.data(), key.size()), short_key_bit | key.size()}};
    map_digester digester(seed, key.size());
    std::size_t at = 0;
    for (; at + 8 <= key.size(); at += 8) digester.add(word_of_bytes(key.data() + at, 8));
    // The last 8 bytes, without those that were taken already.
    if (at < key.size()) digester.add(word_of_bytes(key.data() + key.size() - 8, 8) >> (8 * (at + 8 - key.size())));
    return digester.digest();
}

}  // namespace holdfast::detail
