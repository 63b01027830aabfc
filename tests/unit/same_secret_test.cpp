// SPDX-License-Identifier: Apache-2.0
// The comparison that takes as long wherever two texts differ: what it answers.
#include "holdfast/detail/same_secret.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <string_view>

#include "support/seed.hpp"

namespace {

using holdfast::detail::is_same_secret;

TEST(SameSecret, IsToldOfEverySizeAndMissesNoBit) {
    holdfast::test::seeded_random random;
    std::string text;
    for (std::size_t size = 0; size <= 70; ++size, text.push_back(static_cast<char>(random()))) {
        const std::string same = text;
        ASSERT_TRUE(is_same_secret(text, same)) << size;
        for (std::size_t bit = 0; bit < 8 * size; ++bit) {
            std::string other = text;
            other[bit / 8] = static_cast<char>(other[bit / 8] ^ (1 << (bit % 8)));
            ASSERT_FALSE(is_same_secret(text, other)) << size << ", bit " << bit;
        }
    }
}

TEST(SameSecret, OfAnotherSizeIsAnother) {
    const std::string_view all = "0123456789abcdef0123456789abcdef";
    for (std::size_t size = 0; size < all.size(); ++size) {
        EXPECT_FALSE(is_same_secret(all.substr(0, size), all.substr(0, size + 1)));
        EXPECT_FALSE(is_same_secret(all.substr(0, size + 1), all.substr(0, size)));
    }
}

}  // namespace
