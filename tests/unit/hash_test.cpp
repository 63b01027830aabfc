// SPDX-License-Identifier: Apache-2.0
#include "holdfast/detail/hash.hpp"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cstring>
#include <set>
#include <vector>

#include "support/seed.hpp"

namespace {

using namespace holdfast;

std::uint64_t hash_of(const std::vector<unsigned char>& key, std::uint64_t seed) {
    return detail::hash_key(reinterpret_cast<const std::byte*>(key.data()), key.size(),
                            detail::hash_start(seed, key.size()));
}

std::uint64_t hash_of(std::uint64_t key, std::uint64_t seed) {
    return detail::hash_key(reinterpret_cast<const std::byte*>(&key), 8, detail::hash_start(seed, 8));
}

// A second reading of the definition in hash.hpp, byte by byte, with a product made of 32-bit halves.
std::uint64_t fold_by_halves(std::uint64_t a, std::uint64_t b) {
    const std::uint64_t al = a & 0xffffffffU, ah = a >> 32, bl = b & 0xffffffffU, bh = b >> 32;
    const std::uint64_t low = al * bl, cross1 = ah * bl, cross2 = al * bh, high = ah * bh;
    const std::uint64_t middle = (low >> 32) + (cross1 & 0xffffffffU) + (cross2 & 0xffffffffU);
    return ((middle << 32) | (low & 0xffffffffU)) ^ (high + (cross1 >> 32) + (cross2 >> 32) + (middle >> 32));
}

std::uint64_t hash_by_definition(const std::vector<unsigned char>& key, std::uint64_t seed) {
    std::uint64_t h =
        fold_by_halves(seed ^ detail::hash_multipliers[1], detail::hash_multipliers[2] + 2 * key.size()) ^ seed;
    for (std::size_t at = 0, word = 0; at < key.size(); at += 8, ++word) {
        std::uint64_t w = 0;
        for (std::size_t i = at; i < key.size() && i < at + 8; ++i) w |= std::uint64_t{key[i]} << (8 * (i - at));
        h = fold_by_halves(h ^ w, detail::hash_multipliers[word % 4]);
    }
    return fold_by_halves(h, detail::hash_finish);
}

TEST(Hash, GoldenValuesOfTheLayout) {
    // These lie in files. A change here is a new layout version, never a repair of the test.
    const std::string text = "the quick brown fox jumps over the lazy dog";
    struct golden {
        std::size_t bytes;
        std::uint64_t seed, hash;
    };
    const golden expected[] = {{1, 0x0U, 0x08e45d9f7ebc1764U},  {1, 0x123456789abcdef0U, 0x533ec5c67ffed52dU},
                               {4, 0x0U, 0xef946bf5ea9f18d0U},  {4, 0x123456789abcdef0U, 0x85cdba3eb94a0b31U},
                               {7, 0x0U, 0x6c08f429e60fd5edU},  {7, 0x123456789abcdef0U, 0x42ee19cb4fc778d4U},
                               {8, 0x0U, 0xa32b9d7c081a0d67U},  {8, 0x123456789abcdef0U, 0xe3615cbd1efa7d57U},
                               {9, 0x0U, 0x66e56fac1489d2ceU},  {9, 0x123456789abcdef0U, 0x38635e011ef2ffa0U},
                               {12, 0x0U, 0xe92514064a77d4a1U}, {12, 0x123456789abcdef0U, 0x9d5b7c3bd1656375U},
                               {16, 0x0U, 0x1355b78113a7ca15U}, {16, 0x123456789abcdef0U, 0x20b43676c88ac14aU},
                               {17, 0x0U, 0x7719643f95e8a5d3U}, {17, 0x123456789abcdef0U, 0x7c9edebfbc8cae43U},
                               {24, 0x0U, 0x5000eaacf87dce13U}, {24, 0x123456789abcdef0U, 0xbcdc234fa5afa860U},
                               {31, 0x0U, 0xec85eb275f1a8ce3U}, {31, 0x123456789abcdef0U, 0x927b60241a1124bfU},
                               {32, 0x0U, 0x4734ea2bd6bd31aaU}, {32, 0x123456789abcdef0U, 0xc74c8668a5d1f659U},
                               {40, 0x0U, 0x2ff994d77c1a7d95U}, {40, 0x123456789abcdef0U, 0x8fabf823ef453d2bU},
                               {43, 0x0U, 0xdd320366f05503f4U}, {43, 0x123456789abcdef0U, 0x79b4d2ba29541945U}};
    for (const golden& g : expected) {
        const std::vector<unsigned char> key(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(g.bytes));
        EXPECT_EQ(hash_of(key, g.seed), g.hash)
            << "{" << g.bytes << ", " << g.seed << ", 0x" << std::hex << hash_of(key, g.seed) << "}";
    }
}

TEST(Hash, EqualsItsDefinitionForAllSizes) {
    test::seeded_random random;
    for (std::size_t bytes = 1; bytes <= 100; ++bytes) {
        std::vector<unsigned char> key(bytes);
        for (unsigned char& b : key) b = static_cast<unsigned char>(random());
        const std::uint64_t seed = random();
        EXPECT_EQ(hash_of(key, seed), hash_by_definition(key, seed)) << bytes;
    }
}

TEST(Hash, NeedsNoAlignmentAndReadsNothingBehindTheKey) {
    for (std::size_t bytes = 1; bytes <= 40; ++bytes) {
        std::vector<unsigned char> key(bytes, 7), shifted(bytes + 1, 7);  // address sanitizer guards the ends
        EXPECT_EQ(hash_of(key, 3), detail::hash_key(reinterpret_cast<const std::byte*>(shifted.data() + 1), bytes,
                                                    detail::hash_start(3, bytes)));
    }
}

TEST(Hash, ZeroBytesAtTheEndCount) {
    std::set<std::uint64_t> seen;
    for (std::size_t bytes = 1; bytes <= 64; ++bytes) seen.insert(hash_of(std::vector<unsigned char>(bytes, 0), 5));
    EXPECT_EQ(seen.size(), 64U);
}

TEST(Hash, EveryBitOfKeyAndSeedReachesTheResult) {
    for (std::uint64_t key : {std::uint64_t{0}, std::uint64_t{1}, ~std::uint64_t{0}, std::uint64_t{0x0123456789abcdef}})
        for (unsigned bit = 0; bit < 64; ++bit) {
            EXPECT_NE(hash_of(key, 9), hash_of(key ^ (std::uint64_t{1} << bit), 9));
            EXPECT_NE(hash_of(key, 9), hash_of(key, 9 ^ (std::uint64_t{1} << bit)));
        }
}

// Keys as programs have them. Buckets come from the top bits, tags from the low 16: both must look random.
TEST(Hash, StructuredKeysSpreadOverTopAndLowBits) {
    constexpr std::size_t count = 1U << 18, bins = 1U << 10;
    for (unsigned shift : {0U, 3U, 6U, 12U, 16U, 20U, 24U, 32U, 40U, 46U}) {
        for (std::uint64_t seed : {0U, 1U, 77U}) {
            std::vector<unsigned> top(bins), low(bins);
            for (std::uint64_t i = 0; i < count; ++i) {
                const std::uint64_t h = hash_of(i << shift, seed);
                ++top[h >> 54];
                ++low[h & (bins - 1)];
            }
            for (const auto* counts : {&top, &low}) {
                const double expected = static_cast<double>(count) / bins;
                double chi = 0;
                for (unsigned c : *counts) chi += (c - expected) * (c - expected) / expected;
                // 1023 degrees of freedom: mean 1023, deviation 45. More even than random is welcome, lumps are not.
                EXPECT_LT(chi, 1023 + 8 * 45.2) << "shift " << shift << " seed " << seed;
            }
        }
    }
}

}  // namespace
