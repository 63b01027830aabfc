// SPDX-License-Identifier: Apache-2.0
// digest.hpp - what the table of a hash map knows of a key: 16 bytes. Part of the layout.
//
// A key of up to 8 bytes is its own digest: its bytes, then its size with bit 63 set. A longer one has two 64-bit
// hashes with secrets of their own, the second without bit 63. So short keys never share a digest, neither among each
// other nor with a long one; two long keys of a billion do with a chance of 10^-21. Who stores a key compares it all
// the same with the one that lies under its digest.
//
// A long key is read as little-endian words, the last one padded with zero bytes, in blocks of four words. Of a block
//   sum = (w0 + s0) * (w1 + s1) + (w2 + s2) * (w3 + s3)      products of 128 bits, factors modulo 2^64; in the last
//                                                            block a missing w1 or w3 is 0, a missing pair left out
//   h   = fold(h ^ low half of sum, high half of sum)        from h = s4 ^ key bytes on
// The multiplications of a block wait for nobody, and those of the other hash are others'. The sum is NH (Black,
// Halevi, Krawczyk, Krovetz, Rogaway, UMAC, CRYPTO 1999): if s is random, two blocks have one sum with a chance of
// 2^-64 at most, whoever chose them. So words may be multiplied with each other here, unlike in detail/hash.hpp (I1):
// which word makes a factor zero is a secret of the map.
//
// (I1) The table takes the first word of a long key's digest for its hash: it is one already. A short key's digest is
//      hashed with two multiplications, as any key of 8 bytes is.
// (I2) A key that lies in several runs of a store needs no copy: its words may come one by one.
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

/// The secrets of one of the two hashes: s0 to s3, and s4.
struct map_hash_secrets {
    std::uint64_t add[4] = {};
    std::uint64_t begin = 0;

    [[nodiscard]] constexpr uint128 product(unsigned pair, std::uint64_t even, std::uint64_t odd) const noexcept {
        return uint128{even + add[2 * pair]} * (odd + add[2 * pair + 1]);
    }
};
[[nodiscard]] constexpr std::uint64_t map_hash_step(std::uint64_t hash, uint128 sum) noexcept {
    return multiply_fold(hash ^ static_cast<std::uint64_t>(sum), static_cast<std::uint64_t>(sum >> 64));
}

/// Those of both, drawn from the map's seed by SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
struct map_secrets {
    map_hash_secrets hash[2];

    map_secrets() = default;
    explicit constexpr map_secrets(std::uint64_t seed) noexcept {
        for (map_hash_secrets& h : hash) {
            for (std::uint64_t& word : h.add) word = draw(seed);
            h.begin = draw(seed);
        }
    }

 private:
    [[nodiscard]] static constexpr std::uint64_t draw(std::uint64_t& state) noexcept {
        std::uint64_t x = state += 0x9e3779b97f4a7c15U;
        x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
        x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
        return x ^ (x >> 31);
    }
};

/// Takes the words of one key after the other and gives its digest.
class map_digester {
 public:
    constexpr map_digester(const map_secrets& secrets, std::uint64_t key_bytes) noexcept
        : secrets_(secrets),
          bytes_(key_bytes),
          hash_{secrets.hash[0].begin ^ key_bytes, secrets.hash[1].begin ^ key_bytes} {}

    constexpr void add(std::uint64_t word) noexcept {
        if (at_ == 4) end_block();
        if (at_ % 2 == 0)
            even_ = word;
        else
            add_pair(word);
        ++at_;
    }
    [[nodiscard]] constexpr map_digest digest() noexcept {
        if (bytes_ <= short_key_bytes_max) return {{even_, short_key_bit | bytes_}};
        if (at_ % 2 != 0) {
            add_pair(0);
            ++at_;
        }
        end_block();
        return {{hash_[0], hash_[1] & ~short_key_bit}};
    }

 private:
    // Requires: at_ is that of the pair's first or second word.
    constexpr void add_pair(std::uint64_t odd) noexcept {
        for (unsigned i = 0; i < 2; ++i) sum_[i] += secrets_.hash[i].product((at_ - 1) / 2, even_, odd);
    }
    constexpr void end_block() noexcept {
        for (unsigned i = 0; i < 2; ++i) {
            hash_[i] = map_hash_step(hash_[i], sum_[i]);
            sum_[i] = 0;
        }
        at_ = 0;
    }

    map_secrets secrets_;
    std::uint64_t bytes_;
    std::uint64_t hash_[2];
    uint128 sum_[2] = {};
    std::uint64_t even_ = 0;
    unsigned at_ = 0;  // words of the block
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

/// One of the two hashes of a key in private memory. Requires: it is a long one. Always in place: a find that calls it
/// saves and brings back as many registers as the hash of 17 bytes has instructions.
[[nodiscard, gnu::always_inline]] inline std::uint64_t map_hash(std::span<const std::byte> key,
                                                                const map_hash_secrets& secrets) noexcept {
    const auto word = [](const std::byte* from) {
        std::uint64_t w;
        std::memcpy(&w, from, 8);
        return w;
    };
    std::uint64_t hash = secrets.begin ^ key.size();
    const std::byte* at = key.data();
    std::size_t left = key.size();
    for (; left > 32; left -= 32, at += 32)
        hash = map_hash_step(
            hash, secrets.product(0, word(at), word(at + 8)) + secrets.product(1, word(at + 16), word(at + 24)));
    uint128 sum = 0;
    unsigned pair = 0;
    if (left > 16) {
        sum = secrets.product(pair++, word(at), word(at + 8));
        left -= 16, at += 16;
    }
    // The last 8 bytes, without those of the word before; a long key has so many.
    const std::uint64_t last = word(at + left - 8) >> ((64 - 8 * left) % 64);
    sum += left > 8 ? secrets.product(pair, word(at), last) : secrets.product(pair, last, 0);
    return map_hash_step(hash, sum);
}

/// The digest of a key in private memory. Cost: a multiplication for each 8 bytes, and two for each 32; none for up
/// to 8.
[[nodiscard]] inline map_digest digest_of(std::span<const std::byte> key, const map_secrets& secrets) noexcept {
    if (key.size() <= short_key_bytes_max) return {{word_of_bytes(key.data(), key.size()), short_key_bit | key.size()}};
    return {{map_hash(key, secrets.hash[0]), map_hash(key, secrets.hash[1]) & ~short_key_bit}};
}

/// The same for who asks once.
[[nodiscard]] inline map_digest digest_of(std::span<const std::byte> key, std::uint64_t seed) noexcept {
    return digest_of(key, map_secrets(seed));
}

/// The hash by which the table places a digest. Requires: start = hash_start(the table's seed, its key size).
[[nodiscard]] constexpr std::uint64_t hash_of_digest(const map_digest& digest, std::uint64_t start) noexcept {
    if ((digest.word[1] & short_key_bit) == 0) return digest.word[0];
    return multiply_fold(multiply_fold(start ^ digest.word[0], hash_multipliers[0]) ^ digest.word[1], hash_finish);
}

}  // namespace holdfast::detail
