// SPDX-License-Identifier: Apache-2.0
// hash.hpp - the hash of keys in hash_table segments. It is part of their layout: a change of one bit here is a new
// layout version.
//
// A key is a fixed number of bytes. It is read as little-endian 64-bit words, the last one padded with zero bytes, and
//   h = start(seed, key_bytes);  for each word w: h = fold(h ^ w, multiplier of that position);  fold(h, finish)
// where fold(a, b) is the 128-bit product with its halves xored. A key of up to 8 bytes costs two multiplications. One
// would do for random keys, but leaves keys that count up in steps lumpy in every part of the hash: chi-squared over
// 1024 bins up to 400 standard deviations above even, against 4 with two.
//
// (I1) Every fold has a constant, odd multiplier. Folding two words of the key with each other would be twice as fast
//      for long keys, but a word that makes one factor zero then erases the other factor, and anybody can compute it.
// (I2) The size comes in only through start(), so sizes known at compile time and at run time give the same value.
// The seed is drawn at random for each table: who does not know it cannot choose keys that collide. This makes
// flooding hard; it is not a cryptographic promise.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace holdfast::detail {

static_assert(std::endian::native == std::endian::little,
              "segments are little-endian; no big-endian machine is supported");

__extension__ using uint128 = unsigned __int128;  // both compilers have it on every 64-bit target

/// The high half of the 128-bit product: scales x, seen as a fraction of 2^64, to [0, range).
[[nodiscard]] constexpr std::uint64_t multiply_high(std::uint64_t x, std::uint64_t range) noexcept {
    return static_cast<std::uint64_t>((uint128{x} * range) >> 64);
}

/// The 128-bit product with its halves xored.
[[nodiscard]] constexpr std::uint64_t multiply_fold(std::uint64_t a, std::uint64_t b) noexcept {
    const uint128 product = uint128{a} * b;
    return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

/// The same at run time. Written out where a processor has the instruction for it: compilers move what it takes and
/// gives from register to register.
[[nodiscard, gnu::always_inline]] inline std::uint64_t multiply_fold_now(std::uint64_t a, std::uint64_t b) noexcept {
#if defined(__x86_64__) && defined(__BMI2__)
    std::uint64_t low;
    asm("mulx %[b], %[low], %[a]\n\txor %[low], %[a]" : [a] "+d"(a), [low] "=&r"(low) : [b] "r"(b) : "cc");
    return a;
#else
    return multiply_fold(a, b);
#endif
}

/// Odd, 64 bits wide, about half of the bits set: fractional parts of the golden ratio and of square roots.
inline constexpr std::uint64_t hash_multipliers[4] = {0x9e3779b97f4a7c15U, 0x6a09e667f3bcc909U, 0xbb67ae8584caa73bU,
                                                      0xa54ff53a5f1d36f1U};

inline constexpr std::uint64_t hash_finish = 0x510e527fade682d1U;

/// The state before the first word; computed once for each table.
[[nodiscard]] constexpr std::uint64_t hash_start(std::uint64_t seed, std::uint64_t key_bytes) noexcept {
    return multiply_fold(seed ^ hash_multipliers[1], hash_multipliers[2] + 2 * key_bytes) ^ seed;
}

/// The hash of `key_bytes` bytes at `key`, which need no alignment. Requires: start = hash_start(seed, key_bytes).
/// Cost: one multiplication per 8 bytes, and one more. In line, as a lookup that calls needs a stack.
[[nodiscard, gnu::always_inline]] inline std::uint64_t hash_key(const std::byte* key, std::size_t key_bytes,
                                                                std::uint64_t start) noexcept {
    std::uint64_t h = start;
    std::size_t at = 0;
    for (; at + 8 <= key_bytes; at += 8) {
        std::uint64_t word;
        std::memcpy(&word, key + at, 8);
        h = multiply_fold_now(h ^ word, hash_multipliers[(at / 8) % 4]);
    }
    if (at < key_bytes) {
        std::uint64_t word = 0;
        std::memcpy(&word, key + at, key_bytes - at);
        h = multiply_fold_now(h ^ word, hash_multipliers[(at / 8) % 4]);
    }
    return multiply_fold_now(h, hash_finish);
}

}  // namespace holdfast::detail
