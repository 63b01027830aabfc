// SPDX-License-Identifier: Apache-2.0
#include "holdfast/detail/checksum.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <vector>

#include "support/seed.hpp"

namespace {

using holdfast::detail::checksum;

std::vector<std::byte> counting(std::size_t bytes) {
    std::vector<std::byte> out(bytes);
    for (std::size_t i = 0; i < bytes; ++i) out[i] = static_cast<std::byte>(i + 1);
    return out;
}

// Sums lie in segments and files: these values hold for ever.
TEST(Checksum, KnownValues) {
    EXPECT_EQ(checksum(counting(0)), 0xA2E049E894D5643FU);
    EXPECT_EQ(checksum(counting(1)), 0x07F1B7F63C1AD6EEU);
    EXPECT_EQ(checksum(counting(8)), 0x1527252FAED30802U);
    EXPECT_EQ(checksum(counting(31)), 0xC6E567ADC0AA46F9U);
    EXPECT_EQ(checksum(counting(100)), 0x3D4E24D87071D533U);
}

TEST(Checksum, EverySingleFlippedBitShows) {
    for (const std::size_t bytes : {1U, 7U, 8U, 9U, 31U, 32U, 33U, 200U}) {
        std::vector<std::byte> data = counting(bytes);
        const std::uint64_t whole = checksum(data);
        for (std::size_t bit = 0; bit < 8 * bytes; ++bit) {
            data[bit / 8] ^= std::byte{1} << (bit % 8);
            EXPECT_NE(checksum(data), whole) << "bit " << bit << " of " << bytes << " bytes";
            data[bit / 8] ^= std::byte{1} << (bit % 8);
        }
    }
}

TEST(Checksum, LengthCountsEvenWhenTheBytesAreZero) {
    std::set<std::uint64_t> sums;
    const std::vector<std::byte> zero(300);
    for (std::size_t bytes = 0; bytes <= 300; ++bytes) sums.insert(checksum(std::span(zero).first(bytes)));
    EXPECT_EQ(sums.size(), 301U);
}

TEST(Checksum, OrderOfWordsCounts) {
    std::vector<std::byte> data = counting(96);
    const std::uint64_t whole = checksum(data);
    for (std::size_t i = 0; i + 16 <= data.size(); i += 8) {
        auto swapped = data;
        std::swap_ranges(swapped.begin() + static_cast<long>(i), swapped.begin() + static_cast<long>(i + 8),
                         swapped.begin() + static_cast<long>(i + 8));
        EXPECT_NE(checksum(swapped), whole) << i;
    }
}

TEST(Checksum, GoesOnFromABasis) {
    const std::vector<std::byte> data = counting(80);
    const auto both = checksum(std::span(data).subspan(32), checksum(std::span(data).first(32)));
    for (std::size_t i = 0; i < data.size(); ++i) {
        auto changed = data;
        changed[i] ^= std::byte{4};
        EXPECT_NE(checksum(std::span(changed).subspan(32), checksum(std::span(changed).first(32))), both) << i;
    }
}

}  // namespace
