// SPDX-License-Identifier: Apache-2.0
// Quantiles from block maxima: against the true quantile where blocks are exchangeable, and where the documentation
// says that they fail.
#include "holdfast/metrics/tail_tracker.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "holdfast/metrics/latency_histogram.hpp"
#include "support/seed.hpp"

namespace {

using holdfast::histogram_counts;
using holdfast::tail_lanes;
using holdfast::tail_quantile;
using holdfast::tail_state;
using holdfast::tail_tracker;

std::uint64_t exponential(std::mt19937_64& engine) {
    return static_cast<std::uint64_t>(std::exponential_distribution<>(1e-6)(engine));
}
std::uint64_t lognormal(std::mt19937_64& engine) {
    return static_cast<std::uint64_t>(1e6 * std::lognormal_distribution<>(0, 1)(engine));
}
std::uint64_t two_modes(std::mt19937_64& engine) {
    return static_cast<std::uint64_t>(std::bernoulli_distribution(0.1)(engine) ? 9e6 : 1e5) + engine() % 1000;
}

// Standard errors at 1.6 million samples are below 1 % for each of these.
TEST(TailTracker, HighQuantilesOfAnyDistribution) {
    holdfast::test::seeded_random random;
    for (auto* const draw : {exponential, lognormal, two_modes}) {
        std::mt19937_64 engine(random());
        histogram_counts all;
        histogram_counts maxima;
        tail_state state;
        tail_tracker tracker(state, maxima);
        for (int i = 0; i < 1'600'000; ++i) {
            const std::uint64_t sample = draw(engine);
            all.record(sample);
            tracker.record(sample);
        }
        EXPECT_EQ(maxima.total(), 100'000U);
        for (const double p : {0.99, 0.999}) {
            const double exact = all.quantile(p)->estimate;
            const auto answer = tail_quantile(maxima, p);
            EXPECT_NEAR(answer->estimate, exact, exact * 0.04) << p;
            EXPECT_LE(static_cast<double>(answer->lower), answer->estimate);
            EXPECT_GE(static_cast<double>(answer->upper), answer->estimate);
            EXPECT_TRUE(answer->bounded);
        }
    }
}

TEST(TailTracker, RecordsIntoASegment) {
    const auto histogram = holdfast::latency_histogram::create("anon:", {.shards = 1});
    auto recorder = histogram.make_recorder();
    tail_state state;
    tail_tracker tracker(state, recorder);
    for (std::uint64_t i = 0; i < 40; ++i) tracker.record(1000 + i);
    EXPECT_EQ(histogram.merged().total(), 2U);
    EXPECT_EQ(histogram.merged().sum(), 1015U + 1031);
    EXPECT_EQ(state.seen, 8U);
}

TEST(TailTracker, NothingBeforeTheFirstBlock) {
    histogram_counts maxima;
    EXPECT_EQ(tail_quantile(maxima, 0.99), std::nullopt);
    maxima.record(5);
    EXPECT_EQ(tail_quantile(maxima, 1.5), std::nullopt);
    EXPECT_EQ(tail_quantile(maxima, 0.99)->estimate, 5);
}

TEST(TailTracker, AnyBytesAreAState) {
    histogram_counts maxima;
    tail_state state{~std::uint64_t{0}, ~std::uint64_t{0}};
    tail_tracker tracker(state, maxima);
    for (int i = 0; i < 16; ++i) tracker.record(7);
    EXPECT_EQ(maxima.total(), 1U);
    EXPECT_EQ(maxima.sum(), 7U);
}

// Bursts of 500 slow samples: a plain tracker is far off, lanes are not. Both are stated in the header.
TEST(TailLanes, SurviveBursts) {
    holdfast::test::seeded_random random;
    std::mt19937_64 engine(random());
    histogram_counts all, plain_maxima, lane_maxima;
    tail_state state;
    tail_tracker plain(state, plain_maxima);
    tail_lanes lanes(4096, lane_maxima);
    for (int burst = 0; burst < 4000; ++burst) {
        const bool slow = std::bernoulli_distribution(0.05)(engine);
        for (int i = 0; i < 500; ++i) {
            const std::uint64_t sample = exponential(engine) * (slow ? 10 : 1);
            all.record(sample);
            plain.record(sample);
            lanes.record(sample);
        }
    }
    lanes.flush();
    const double exact = all.quantile(0.99)->estimate;
    EXPECT_LT(tail_quantile(plain_maxima, 0.99)->estimate, exact * 1.5);
    EXPECT_GT(std::abs(tail_quantile(plain_maxima, 0.99)->estimate / exact - 1), 0.05) << "bursts should hurt";
    EXPECT_NEAR(tail_quantile(lane_maxima, 0.99, lanes.partial())->estimate, exact, exact * 0.05);
}

// A window shorter than one block a lane is answered too: by the lengths of the blocks that flush() cut short.
TEST(TailLanes, FlushAnswersShortWindows) {
    holdfast::test::seeded_random random;
    std::mt19937_64 engine(random());
    double sum = 0;
    constexpr int trials = 40;
    for (int trial = 0; trial < trials; ++trial) {
        histogram_counts maxima;
        tail_lanes lanes(1024, maxima);
        for (int i = 0; i < 10'000; ++i) lanes.record(exponential(engine));
        EXPECT_EQ(maxima.total(), 0U);
        lanes.flush();
        EXPECT_EQ(maxima.total(), 1024U);
        EXPECT_EQ(lanes.partial().blocks[9] + lanes.partial().blocks[10], 1024U);
        sum += tail_quantile(maxima, 0.99, lanes.partial())->estimate;
    }
    const double truth = -std::log(0.01) * 1e6;
    EXPECT_NEAR(sum / trials, truth, truth * 0.02);  // a trial's standard error is 2.2 %
}

}  // namespace
