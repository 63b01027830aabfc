// SPDX-License-Identifier: Apache-2.0
// Buckets and quantiles against sorted samples.
#include "holdfast/metrics/histogram_counts.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "holdfast/metrics/log_linear.hpp"
#include "support/seed.hpp"

namespace {

namespace log_linear = holdfast::log_linear;
using holdfast::histogram_counts;

histogram_counts counts_of(const std::vector<std::uint64_t>& samples) {
    histogram_counts counts;
    for (const std::uint64_t sample : samples) counts.record(sample);
    return counts;
}

std::uint64_t exact_quantile(const std::vector<std::uint64_t>& sorted, double q) {
    const auto rank = static_cast<std::size_t>(std::max(1.0, std::ceil(q * static_cast<double>(sorted.size()))));
    return sorted[rank - 1];
}

// I1 of log_linear.hpp: the buckets tile the numbers without a gap or an overlap.
TEST(LogLinear, BucketsTileEveryValue) {
    std::uint64_t next = 0;
    for (std::size_t bucket = 0; bucket < log_linear::buckets; ++bucket) {
        ASSERT_EQ(log_linear::lowest_of(bucket), next);
        ASSERT_EQ(log_linear::bucket_of(log_linear::lowest_of(bucket)), bucket);
        ASSERT_EQ(log_linear::bucket_of(log_linear::highest_of(bucket)), bucket);
        next = log_linear::highest_of(bucket) + 1;
    }
    EXPECT_EQ(next, 0U) << "the last bucket ends at 2^64 - 1";
}

TEST(LogLinear, WidthIsAtMostOneSixtyFourthOfTheValue) {
    for (std::size_t bucket = 0; bucket < log_linear::overflow_bucket; ++bucket) {
        const std::uint64_t low = log_linear::lowest_of(bucket);
        EXPECT_LE(log_linear::highest_of(bucket) - low + 1, std::max<std::uint64_t>(1, low / 64)) << bucket;
    }
}

TEST(HistogramCounts, EmptyHasNoQuantile) {
    EXPECT_EQ(histogram_counts().quantile(0.5), std::nullopt);
    const histogram_counts one = counts_of({5});
    EXPECT_EQ(one.quantile(-0.1), std::nullopt);
    EXPECT_EQ(one.quantile(1.1), std::nullopt);
    EXPECT_EQ(one.quantile(std::nan("")), std::nullopt);
}

TEST(HistogramCounts, ConstantIsExact) {
    for (const std::uint64_t value :
         {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{63}, std::uint64_t{1000}, std::uint64_t{123456789},
          log_linear::overflow_from + 12345, std::numeric_limits<std::uint64_t>::max()}) {
        const histogram_counts counts = counts_of(std::vector<std::uint64_t>(1000, value));
        for (const double q : {0.0, 0.5, 0.99, 1.0}) {
            const auto answer = counts.quantile(q).value();
            EXPECT_EQ(answer.estimate, static_cast<double>(value)) << q;
            EXPECT_EQ(answer.lower, value);
            EXPECT_EQ(answer.upper, value);
        }
    }
}

TEST(HistogramCounts, ExtremesAreExact) {
    const histogram_counts counts = counts_of({1001, 5000, 70001, 999983});
    EXPECT_EQ(counts.quantile(0)->estimate, 1001);
    EXPECT_EQ(counts.quantile(1)->estimate, 999983);
    EXPECT_EQ(counts.total(), 4U);
    EXPECT_EQ(counts.sum(), 1001U + 5000 + 70001 + 999983);
}

struct distribution {
    std::string name;
    std::function<double(std::mt19937_64&)> draw;
};

std::vector<distribution> distributions() {
    return {
        {"exponential", [](auto& r) { return std::exponential_distribution<>(1.0 / 50000)(r); }},
        {"normal", [](auto& r) { return std::max(0.0, std::normal_distribution<>(200000, 20000)(r)); }},
        {"lognormal", [](auto& r) { return std::lognormal_distribution<>(10, 1)(r); }},
        {"uniform", [](auto& r) { return std::uniform_real_distribution<>(1000, 90000)(r); }},
        {"pareto", [](auto& r) { return 1000 / std::pow(1 - std::uniform_real_distribution<>(0, 1)(r), 1 / 1.5); }},
        {"bimodal",
         [](auto& r) {
             const bool slow = std::bernoulli_distribution(0.1)(r);
             return std::normal_distribution<>(slow ? 500000 : 20000, slow ? 25000 : 1000)(r);
         }},
        {"small", [](auto& r) { return std::uniform_real_distribution<>(0, 60)(r); }},
    };
}

// The three promises of quantile(): the bounds hold the exact sample quantile, the estimate lies between them, and its
// error is a fraction of a bucket where buckets are well filled.
TEST(HistogramCounts, QuantilesAgreeWithSortedSamples) {
    holdfast::test::seeded_random random;
    for (const distribution& shape : distributions()) {
        std::mt19937_64 engine(random());
        std::vector<std::uint64_t> samples;
        for (int i = 0; i < 200000; ++i) samples.push_back(static_cast<std::uint64_t>(shape.draw(engine)));
        const histogram_counts counts = counts_of(samples);
        std::sort(samples.begin(), samples.end());
        for (const double q : {0.0, 0.001, 0.1, 0.5, 0.9, 0.95, 0.99, 0.999, 0.9999, 1.0}) {
            const double exact = static_cast<double>(exact_quantile(samples, q));
            const auto answer = counts.quantile(q).value();
            EXPECT_LE(static_cast<double>(answer.lower), exact) << shape.name << " " << q;
            EXPECT_GE(static_cast<double>(answer.upper), exact) << shape.name << " " << q;
            EXPECT_LE(static_cast<double>(answer.lower), answer.estimate) << shape.name << " " << q;
            EXPECT_GE(static_cast<double>(answer.upper), answer.estimate) << shape.name << " " << q;
            EXPECT_NEAR(answer.estimate, exact, exact / 64 + 1) << shape.name << " " << q;
            if (q >= 0.1 && q <= 0.99) {
                EXPECT_NEAR(answer.estimate, exact, exact * 0.005 + 1) << shape.name << " " << q;
            }
        }
    }
}

// The interval is for the quantile of the distribution, not of the sample: over many samples it holds it 95 times of
// 100 or more (bucket edges only widen it). 400 trials: fewer than 360 hits would be 5 standard errors short.
TEST(HistogramCounts, IntervalCoversTheTrueQuantile) {
    holdfast::test::seeded_random random;
    std::mt19937_64 engine(random());
    std::exponential_distribution<> draw(1.0 / 100000);
    for (const double q : {0.5, 0.9, 0.99}) {
        const double truth = -100000 * std::log(1 - q);
        int hits = 0;
        for (int trial = 0; trial < 400; ++trial) {
            std::vector<std::uint64_t> samples;
            for (int i = 0; i < 2000; ++i) samples.push_back(static_cast<std::uint64_t>(draw(engine)));
            const auto answer = counts_of(samples).quantile(q).value();
            EXPECT_TRUE(answer.bounded);
            hits += static_cast<double>(answer.lower) <= truth && truth <= static_cast<double>(answer.upper) + 1;
        }
        EXPECT_GE(hits, 360) << q;
    }
}

TEST(HistogramCounts, TooFewSamplesForTheTailAreNotCalledBounded) {
    const histogram_counts counts = counts_of(std::vector<std::uint64_t>(100, 5000));
    EXPECT_FALSE(counts.quantile(0.999)->bounded);
    EXPECT_TRUE(counts.quantile(0.5)->bounded);
    // All there is to say of the 99.9th percentile: one of 100 samples is above it with probability 1 - 0.999^100.
    EXPECT_NEAR(counts.quantile(0.999)->confidence, 1 - std::pow(0.999, 100), 1e-9);
    EXPECT_EQ(counts.quantile(0)->confidence, 0) << "samples say nothing about the least value there can be";
    EXPECT_EQ(counts.quantile(1)->confidence, 0);
}

TEST(HistogramCounts, MergeEqualsRecordingEverythingInOne) {
    holdfast::test::seeded_random random;
    std::vector<std::uint64_t> all, left, right;
    for (int i = 0; i < 10000; ++i) {
        const std::uint64_t sample = random() >> random.below(64);
        all.push_back(sample);
        (i % 3 == 0 ? left : right).push_back(sample);
    }
    histogram_counts merged = counts_of(left);
    merged.merge(counts_of(right));
    const histogram_counts whole = counts_of(all);
    EXPECT_TRUE(std::ranges::equal(merged.counts(), whole.counts()));
    EXPECT_EQ(merged.sum(), whole.sum());
    EXPECT_EQ(merged.quantile(0.99)->estimate, whole.quantile(0.99)->estimate);
}

TEST(HistogramCounts, WindowHoldsOnlyWhatCameSince) {
    const histogram_counts before = counts_of(std::vector<std::uint64_t>(1000, 100));
    histogram_counts after = before;
    after.merge(counts_of(std::vector<std::uint64_t>(500, 1000000)));
    const histogram_counts window = after.since(before);
    EXPECT_EQ(window.total(), 500U);
    EXPECT_EQ(window.sum(), 500U * 1000000);
    EXPECT_NEAR(window.quantile(0.01)->estimate, 1000000, 1000000.0 / 128);
}

TEST(HistogramCounts, CumulativeCountsAtPowersOfTwoAreExact) {
    holdfast::test::seeded_random random;
    std::vector<std::uint64_t> samples;
    for (int i = 0; i < 20000; ++i) samples.push_back(random() >> random.below(60));
    std::vector<std::uint64_t> bounds;
    for (unsigned e = 0; e <= 40; ++e) bounds.push_back(std::uint64_t{1} << e);
    const auto below = counts_of(samples).cumulative(bounds);
    for (std::size_t i = 0; i < bounds.size(); ++i)
        EXPECT_EQ(below[i],
                  static_cast<std::uint64_t>(std::ranges::count_if(samples, [&](auto s) { return s < bounds[i]; })))
            << bounds[i];
}

// Hostile counts: sums saturate, and an answer still lies between its bounds.
TEST(HistogramCounts, HugeCountsSaturate) {
    histogram_counts counts;
    counts.add(100, std::numeric_limits<std::uint64_t>::max());
    counts.add(200, std::numeric_limits<std::uint64_t>::max());
    counts.add(log_linear::buckets, 1);  // outside: ignored
    counts.note(1, 77, 3);               // extremes that contradict each other: not believed
    EXPECT_EQ(counts.total(), std::numeric_limits<std::uint64_t>::max());
    for (const double q : {0.0, 0.3, 0.99, 1.0}) {
        const auto answer = counts.quantile(q).value();
        EXPECT_LE(static_cast<double>(answer.lower), answer.estimate);
        EXPECT_GE(static_cast<double>(answer.upper), answer.estimate);
    }
}

}  // namespace
