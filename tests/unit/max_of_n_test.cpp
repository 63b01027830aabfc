// SPDX-License-Identifier: Apache-2.0
// The mean of block maxima: its block sizes, its edges, and what merging may and may not do.
#include "holdfast/metrics/max_of_n.hpp"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "support/seed.hpp"

namespace {

using holdfast::max_of_n;
using holdfast::max_of_n_block;
using holdfast::max_of_n_state;
using holdfast::max_of_n_total;

double harmonic(std::uint64_t n) {
    double sum = 0;
    for (std::uint64_t i = n; i > 0; --i) sum += 1.0 / static_cast<double>(i);
    return sum;
}

TEST(MaxOfN, BlockIsTheNearestToTheRealRoot) {
    EXPECT_EQ(max_of_n_block(0.9), 5U);
    EXPECT_EQ(max_of_n_block(0.95), 11U);
    EXPECT_EQ(max_of_n_block(0.99), 56U);
    EXPECT_EQ(max_of_n_block(0.995), 112U);
    EXPECT_EQ(max_of_n_block(0.999), 561U);
    EXPECT_EQ(max_of_n_block(0.9999), 5614U);
    EXPECT_EQ(max_of_n_block(0.01), 1U);
    EXPECT_GT(max_of_n_block(1 - 1e-12), 500000000000U);
}

// The real root lies within half a step: H(n - 1/2) < -ln(1 - p) < H(n + 1/2), where H between whole numbers is bounded
// by its concavity: it lies above the chord, and below the chord through the next ones.
TEST(MaxOfN, BlockIsWithinHalfAStepForManyLevels) {
    for (double p = 0.5; p < 0.9995; p += 0.0007) {
        const std::uint64_t n = max_of_n_block(p);
        const double wanted = -std::log1p(-p);
        EXPECT_LT(std::abs(harmonic(n) - wanted), 0.75 / static_cast<double>(n)) << p;
        if (n > 2) {
            EXPECT_LE(std::abs(harmonic(n) - wanted), std::abs(harmonic(n + 1) - wanted) * 1.2) << p;
            EXPECT_LE(std::abs(harmonic(n) - wanted), std::abs(harmonic(n - 1) - wanted) * 1.2) << p;
        }
    }
}

TEST(MaxOfN, NothingBeforeTheFirstBlock) {
    max_of_n_state state;
    max_of_n estimator(state, 5);
    EXPECT_EQ(estimator.total().estimate(), std::nullopt);
    for (int i = 0; i < 4; ++i) estimator.record(10);
    EXPECT_EQ(estimator.total().estimate(), std::nullopt);
    estimator.record(3);
    EXPECT_EQ(estimator.total().estimate(), 10);
    EXPECT_EQ(max_of_n_total().estimate(), std::nullopt);
}

TEST(MaxOfN, NegativeSamplesCount) {
    max_of_n_state state;
    max_of_n estimator(state, 3);
    for (const std::int64_t sample : {-7, -5, -9, std::numeric_limits<int>::min(), -20, -30}) estimator.record(sample);
    EXPECT_EQ(estimator.total().blocks, 2U);
    EXPECT_EQ(estimator.total().estimate(), (-5 + -20) / 2.0);
}

TEST(MaxOfN, SumDoesNotOverflow) {
    max_of_n_state state;
    max_of_n estimator(state, 1);
    constexpr std::int64_t huge = std::numeric_limits<std::int64_t>::max();
    for (int i = 0; i < 1000; ++i) estimator.record(huge);
    EXPECT_NEAR(*estimator.total().estimate(), static_cast<double>(huge), static_cast<double>(huge) * 1e-12);
}

// The published merge divides the sum of all maxima by the number of all samples over n, unfinished blocks included.
TEST(MaxOfN, MergeOfShortStreamsIsUnbiased) {
    holdfast::test::seeded_random random;
    std::mt19937_64 engine(random());
    std::exponential_distribution<> draw(1e-6);
    const std::uint64_t n = max_of_n_block(0.999);
    max_of_n_total all;
    for (int host = 0; host < 4000; ++host) {  // 1100 samples each: one block, and half of another that must not count
        max_of_n_state state;
        max_of_n estimator(state, n);
        for (int i = 0; i < 1100; ++i) estimator.record(static_cast<std::int64_t>(draw(engine)));
        all.merge(estimator.total());
    }
    EXPECT_EQ(all.blocks, 4000U);
    const double truth = -std::log(0.001) * 1e6;
    // A block's maximum has a standard deviation of 1.28 means, 0.3 % of the quantile for 4000 of them.
    EXPECT_NEAR(*all.estimate(), truth, truth * 0.015);
}

TEST(MaxOfN, GoesOnFromItsState) {
    max_of_n_state state;
    for (int i = 1; i <= 10; ++i) max_of_n(state, 5).record(i);
    EXPECT_EQ(max_of_n(state, 5).total().blocks, 2U);
    EXPECT_EQ(max_of_n(state, 5).total().estimate(), 7.5);
}

// The state is input: any bytes are some state, and the next block ends after at most n samples.
TEST(MaxOfN, AnyBytesAreAState) {
    holdfast::test::seeded_random random;
    for (int round = 0; round < 2000; ++round) {
        std::array<std::uint64_t, 5> bytes;
        for (auto& word : bytes) word = random() >> random.below(64);
        auto state = std::bit_cast<max_of_n_state>(bytes);
        max_of_n estimator(state, 16);
        const std::uint64_t before = estimator.total().blocks;
        for (int i = 0; i < 16; ++i) estimator.record(1);
        EXPECT_EQ(estimator.total().blocks, before + 1);
    }
}

}  // namespace
