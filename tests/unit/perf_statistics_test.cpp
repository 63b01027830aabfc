// SPDX-License-Identifier: Apache-2.0
// Descriptions, intervals and tests against values computed elsewhere (exact sums of binomial terms and enumerations in
// rational arithmetic, and published tables), coverage by simulation, and input that is no measurement.
#include "holdfast/perf_test/statistics.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "holdfast/error.hpp"
#include "support/scale.hpp"
#include "support/seed.hpp"

namespace {

using namespace holdfast::perf_test;
using ::testing::Contains;
using ::testing::Field;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

auto has(const std::string& code) { return Contains(Field(&warning::code, code)); }

TEST(Describe, NothingIsAllZero) {
    const summary s = describe({});
    EXPECT_EQ(s.count, 0U);
    EXPECT_EQ(s.median, 0);
    EXPECT_EQ(s.modes, 0U);
    EXPECT_THAT(warnings_of(s), IsEmpty());
}

TEST(Describe, OneSampleIsEveryPercentile) {
    const summary s = describe(std::vector<double>{3});
    EXPECT_EQ(s.count, 1U);
    for (const double x :
         {s.minimum, s.p05, s.p25, s.median, s.p75, s.p95, s.maximum, s.mean, s.median_95.low, s.median_95.high})
        EXPECT_EQ(x, 3);
    EXPECT_DOUBLE_EQ(s.geometric_mean, 3);
    EXPECT_EQ(s.deviation, 0);
    EXPECT_EQ(s.modes, 1U);
    EXPECT_THAT(warnings_of(s), has("unstable"));
}

TEST(Describe, KnownSample) {
    const std::vector<double> samples{9, 2, 4, 4, 5, 4, 5, 7};  // mean 5, sum of squared differences 32
    const summary s = describe(samples);
    EXPECT_DOUBLE_EQ(s.mean, 5);
    EXPECT_DOUBLE_EQ(s.deviation, std::sqrt(32.0 / 7));
    EXPECT_DOUBLE_EQ(s.median, 4.5);
    EXPECT_DOUBLE_EQ(s.p25, 4);     // 0.25 * 7 = 1.75: between the second and third, 4 and 4
    EXPECT_DOUBLE_EQ(s.p75, 5.5);   // 5.25: between 5 and 7
    EXPECT_DOUBLE_EQ(s.p95, 8.3);   // 6.65: between 7 and 9
    EXPECT_DOUBLE_EQ(s.p05, 2.7);   // 0.35: between 2 and 4
    EXPECT_DOUBLE_EQ(s.mad, 0.5);   // differences .5 .5 .5 .5 .5 2.5 2.5 4.5
    EXPECT_EQ(s.median_95.low, 2);  // ranks 1 and 8: 1 - 2 / 2^8 >= 0.95, 1 - 18 / 2^8 < 0.95
    EXPECT_EQ(s.median_95.high, 9);
    EXPECT_NEAR(s.geometric_mean, std::pow(2.0 * 4 * 4 * 4 * 5 * 5 * 7 * 9, 1.0 / 8), 1e-12);
    EXPECT_NEAR(s.autocorrelation, (4 * -3 + -3 * -1 + 1 + 0 + 0 + 0 + 0) / 32.0, 1e-12);
    EXPECT_NEAR(coefficient_of_variation(s), std::sqrt(32.0 / 7) / 5, 1e-12);
}

TEST(Describe, EqualSamplesHaveNoSpread) {
    const summary s = describe(std::vector<double>(50, 0.1));
    EXPECT_EQ(s.minimum, s.maximum);
    EXPECT_DOUBLE_EQ(s.mean, 0.1);
    EXPECT_EQ(s.deviation, 0);
    EXPECT_EQ(s.mad, 0);
    EXPECT_EQ(s.autocorrelation, 0);
    EXPECT_EQ(s.drift, 0);
    EXPECT_EQ(s.outliers.total(), 0U);
    EXPECT_EQ(s.modes, 1U);
    EXPECT_THAT(warnings_of(s), IsEmpty());
}

TEST(Describe, OutliersByTukeysFences) {
    std::vector<double> samples;
    for (int i = 0; i < 101; ++i) samples.push_back(100 + i);  // quartiles 125 and 175 with the four below: near enough
    samples.insert(samples.end(), {-1000, 40, 265, 1000});
    const summary s = describe(samples);
    const double range = s.p75 - s.p25;
    ASSERT_LT(40, s.p25 - 1.5 * range);
    ASSERT_GT(40, s.p25 - 3 * range);
    EXPECT_EQ(s.outliers.low_severe, 1U);
    EXPECT_EQ(s.outliers.low_mild, 1U);
    EXPECT_EQ(s.outliers.high_mild, 1U);
    EXPECT_EQ(s.outliers.high_severe, 1U);
}

TEST(Describe, HugeAndTinyNumbersNeitherOverflowNorVanish) {
    const summary huge = describe(std::vector<double>{1e308, 1.2e308, 1.4e308, 1.6e308, -1e308, 1.7e308});
    for (const double x :
         {huge.mean, huge.median, huge.deviation, huge.mad, huge.p25, huge.drift, huge.autocorrelation})
        EXPECT_TRUE(std::isfinite(x)) << x;
    const summary tiny = describe(std::vector<double>{1e-300, 2e-300, 3e-300});
    EXPECT_DOUBLE_EQ(tiny.mean, 2e-300);
    EXPECT_DOUBLE_EQ(tiny.deviation, 1e-300);
    EXPECT_NEAR(tiny.geometric_mean / std::cbrt(6.0), 1e-300, 1e-312);
}

TEST(Describe, WhatIsNoNumberIsRefused) {
    for (const double wrong : {nan, infinity, -infinity}) {
        const std::vector<double> samples{1, wrong, 2};
        EXPECT_THROW((void)describe(samples), holdfast::error);
        EXPECT_THROW((void)quantile(samples, 0.5), holdfast::error);
        EXPECT_THROW((void)median_interval(samples), holdfast::error);
        EXPECT_THROW((void)robust_drift(samples), holdfast::error);
        EXPECT_THROW((void)count_modes(samples), holdfast::error);
        EXPECT_THROW((void)geometric_mean(samples), holdfast::error);
        EXPECT_THROW((void)harmonic_mean(samples), holdfast::error);
    }
    EXPECT_THROW((void)wilcoxon_signed_rank(std::vector<double>{1, nan}), holdfast::error);
    EXPECT_THROW((void)quantile(std::vector<double>{1}, 1.5), holdfast::error);
    EXPECT_THROW((void)quantile(std::vector<double>{1}, nan), holdfast::error);
    EXPECT_THROW((void)quantile_ranks(10, 0.5, 1), holdfast::error);
    EXPECT_THROW((void)decayed_mean(std::vector<double>{1}, 0), holdfast::error);
}

TEST(Describe, MillionSamplesTakeLessThanASecond) {
    std::mt19937_64 random(1);
    std::vector<double> samples(1'000'000);
    for (double& x : samples) x = std::exp(std::normal_distribution<>()(random));
    timespec before{}, after{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
    const summary s = describe(samples);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
    const double seconds =
        static_cast<double>(after.tv_sec - before.tv_sec) + static_cast<double>(after.tv_nsec - before.tv_nsec) * 1e-9;
    EXPECT_NEAR(s.median, 1, 0.01);
    EXPECT_LT(seconds, holdfast::test::sanitized ? 20.0 : 1.0);
}

TEST(Means, KnownValues) {
    const std::vector<double> rates{40, 60};
    EXPECT_DOUBLE_EQ(harmonic_mean(rates), 48);  // there at 40, back at 60: 48 on the whole way
    EXPECT_NEAR(geometric_mean(rates), std::sqrt(2400.0), 1e-12);
    EXPECT_EQ(harmonic_mean(std::vector<double>{1, 0}), 0);
    EXPECT_EQ(geometric_mean(std::vector<double>{1, -1}), 0);
    EXPECT_EQ(harmonic_mean({}), 0);
    EXPECT_DOUBLE_EQ(harmonic_mean(std::vector<double>{1e-310, 1e-310}), 1e-310);
    EXPECT_NEAR(decayed_mean(std::vector<double>{8, 8, 2}, 1), (8 * 0.25 + 8 * 0.5 + 2) / 1.75, 1e-12);
    EXPECT_DOUBLE_EQ(decayed_mean(std::vector<double>{5}, 3), 5);
    EXPECT_EQ(coefficient_of_variation(describe(std::vector<double>{-1, 1})), 0);
}

struct known_ranks {
    std::size_t n;
    double q;
    std::optional<std::size_t> low, high;
};

// Sums of binomial terms in rational arithmetic; the medians agree with the usual tables of the sign test.
TEST(QuantileRanks, KnownValues) {
    const known_ranks known[] = {
        {5, 0.5, {}, {}},       {6, 0.5, 1, 6},          {10, 0.5, 2, 9},           {15, 0.5, 4, 12},
        {20, 0.5, 6, 15},       {25, 0.5, 8, 18},        {30, 0.5, 10, 21},         {50, 0.5, 18, 33},
        {100, 0.5, 40, 61},     {1000, 0.5, 469, 532},   {20, 0.25, 2, 10},         {35, 0.9, 28, {}},
        {36, 0.9, 29, 36},      {59, 0.95, 52, {}},      {100, 0.9, 84, 96},        {100, 0.99, 97, {}},
        {1000, 0.99, 983, 997}, {3000, 0.999, 2993, {}}, {5000, 0.999, 4990, 5000},
    };
    for (const auto& [n, q, low, high] : known) {
        const rank_interval ranks = quantile_ranks(n, q);
        EXPECT_EQ(ranks.low, low) << n << " at " << q;
        EXPECT_EQ(ranks.high, high) << n << " at " << q;
    }
    EXPECT_EQ(quantile_ranks(0, 0.5).low, std::nullopt);
    EXPECT_EQ(quantile_ranks(100, 0).low, std::nullopt);
    EXPECT_EQ(quantile_ranks(100, 1).high, std::nullopt);
}

TEST(QuantileRanks, LargeSamplesFollowTheNormalApproximation) {
    const rank_interval ranks = quantile_ranks(100'000'000, 0.5);
    EXPECT_NEAR(static_cast<double>(*ranks.low), 5e7 - 1.959964 * 5000, 2);
    EXPECT_NEAR(static_cast<double>(*ranks.high), 5e7 + 1.959964 * 5000, 2);
}

TEST(Quantile, TooFewSamplesForALevelAreSaidToBe) {
    std::vector<double> samples(100);
    for (std::size_t i = 0; i < samples.size(); ++i) samples[i] = static_cast<double>(100 - i);
    const percentile p99 = quantile(samples, 0.99), p90 = quantile(samples, 0.9);
    EXPECT_FALSE(p99.bounded);
    EXPECT_EQ(p99.lower, 97);
    EXPECT_EQ(p99.upper, 100);
    EXPECT_TRUE(p90.bounded);
    EXPECT_EQ(p90.lower, 84);
    EXPECT_EQ(p90.upper, 96);
    EXPECT_DOUBLE_EQ(p90.estimate, 90.1);
    EXPECT_FALSE(quantile({}, 0.5).bounded);
}

// The promise of I2: whatever the distribution, the median's interval holds it in 95 of 100 samples or more.
TEST(MedianInterval, HoldsTheMedianAsOftenAsItSays) {
    std::mt19937_64 random(20240607);
    std::uniform_real_distribution<> uniform;
    std::normal_distribution<> normal;
    std::exponential_distribution<> exponential;
    std::student_t_distribution<> heavy(1.5);
    const auto two_peaks = [&] { return normal(random) + (uniform(random) < 0.6 ? 0 : 30); };
    struct shape {
        const char* name;
        std::function<double()> draw;
        double median;
    };
    const shape shapes[] = {
        {"normal", [&] { return normal(random); }, 0},
        {"exponential", [&] { return exponential(random); }, std::log(2.0)},
        {"log-normal", [&] { return std::exp(2 * normal(random)); }, 1},
        {"t(1.5)", [&] { return heavy(random); }, 0},
        {"two peaks", two_peaks, 0.967421566},  // where 0.6 of a standard normal's mass makes a half: its 5/6 quantile
    };
    const int trials = holdfast::test::sanitized ? 1000 : 4000;
    for (const shape& s : shapes) {
        for (const std::size_t n : {6U, 30U, 101U}) {
            int held = 0;
            std::vector<double> samples(n);
            for (int t = 0; t < trials; ++t) {
                for (double& x : samples) x = s.draw();
                const interval i = median_interval(samples);
                held += i.low <= s.median && s.median <= i.high ? 1 : 0;
            }
            const double coverage = static_cast<double>(held) / trials;
            EXPECT_GT(coverage, 0.95 - 3.5 * std::sqrt(0.05 * 0.95 / trials)) << s.name << " " << n;
            EXPECT_LT(coverage, 0.985) << s.name << " " << n << ": wider than need be";
        }
    }
}

TEST(Drift, SlopeIsFoundThroughSpikes) {
    holdfast::test::seeded_random random;
    std::normal_distribution<> normal;
    std::vector<double> samples(1000);
    for (std::size_t i = 0; i < samples.size(); ++i) {
        samples[i] = 100 * (1 + 0.2 * static_cast<double>(i) / 999) + normal(random);
        if (i % 7 == 0) samples[i] *= 30;
    }
    EXPECT_NEAR(robust_drift(samples), 0.2 / 1.1, 0.03);
    std::reverse(samples.begin(), samples.end());
    EXPECT_NEAR(robust_drift(samples), -0.2 / 1.1, 0.03);
    EXPECT_EQ(robust_drift(std::vector<double>{1, 2}), 0);
    EXPECT_DOUBLE_EQ(robust_drift(std::vector<double>{1, 2, 3}), 1);
    EXPECT_EQ(robust_drift(std::vector<double>{-1, 0, 1}), 0) << "no median to be a part of";
}

TEST(Wilcoxon, KnownValues) {
    // Tables: 10 differences, smaller rank sum 8: 25 of 1024 sign patterns on each side.
    EXPECT_DOUBLE_EQ(wilcoxon_signed_rank(std::vector<double>{1, 2, -3, 4, -5, 6, 7, 8, 9, 10}), 50.0 / 1024);
    // Depression scores of nine patients, Hollander and Wolfe, Nonparametric Statistical Methods: 40 against 5.
    const double x[] = {1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30};
    const double y[] = {0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29};
    std::vector<double> d(9);
    std::transform(std::begin(x), std::end(x), std::begin(y), d.begin(), std::minus<>());
    EXPECT_DOUBLE_EQ(wilcoxon_signed_rank(d), 20.0 / 512);
    // Ties: 57 of the 4096 sign patterns of these ranks have a sum of 11.5 or less (counted one by one).
    EXPECT_DOUBLE_EQ(wilcoxon_signed_rank(std::vector<double>{1, 1, -2, 2, 3, 3, 3, -4, 5, 6, 6, 7}), 114.0 / 4096);
    // 67 differences that are not zero, with ties: sum 1482, variance 25583.5, z = 2.1413151835.
    std::vector<double> many;
    for (int i = 0; i < 70; ++i) many.push_back((i * 37) % 23 - 9);
    EXPECT_NEAR(wilcoxon_signed_rank(many), 0.032248629509451454, 1e-12);
}

TEST(Wilcoxon, NothingToTellApart) {
    EXPECT_EQ(wilcoxon_signed_rank({}), 1);
    EXPECT_EQ(wilcoxon_signed_rank(std::vector<double>(100, 0.0)), 1);
    EXPECT_EQ(wilcoxon_signed_rank(std::vector<double>{5}), 1);
    EXPECT_EQ(wilcoxon_signed_rank(std::vector<double>{3, -3}), 1);
    EXPECT_DOUBLE_EQ(wilcoxon_signed_rank(std::vector<double>(10, 2.0)), 2.0 / 1024);
    EXPECT_LT(wilcoxon_signed_rank(std::vector<double>(2000, infinity)), 1e-100);
}

TEST(Wilcoxon, ExactAndApproximateMeet) {
    holdfast::test::seeded_random random;
    std::normal_distribution<> normal(0.3);
    std::vector<double> d(50);
    for (double& x : d) x = normal(random);
    const double exact = wilcoxon_signed_rank(d);
    d.push_back(1e-9);  // the smallest rank: hardly any weight
    EXPECT_NEAR(wilcoxon_signed_rank(d), exact, 0.01 + 0.1 * exact);
}

TEST(Wilcoxon, FalseAlarmsAreAsRareAsTheLevel) {
    std::mt19937_64 random(7);
    std::student_t_distribution<> heavy(2);
    for (const std::size_t n : {12U, 80U}) {
        int alarms = 0;
        const int trials = 2000;
        std::vector<double> d(n);
        for (int t = 0; t < trials; ++t) {
            for (double& x : d) x = heavy(random);
            alarms += wilcoxon_signed_rank(d) < 0.05 ? 1 : 0;
        }
        EXPECT_LT(alarms, 0.05 * trials + 3.5 * std::sqrt(0.05 * 0.95 * trials)) << n;
        EXPECT_GT(alarms, 0.03 * trials) << n << ": a test that never speaks is none";
    }
}

TEST(Holm, KnownValues) {
    const std::vector<double> adjusted = holm_adjusted(std::vector<double>{0.01, 0.04, 0.03, 0.005});
    const double wanted[] = {0.03, 0.06, 0.06, 0.02};
    ASSERT_EQ(adjusted.size(), 4U);
    for (std::size_t i = 0; i < 4; ++i) EXPECT_DOUBLE_EQ(adjusted[i], wanted[i]);
    EXPECT_EQ(holm_adjusted(std::vector<double>{0.9, 0.8}), (std::vector<double>{1, 1}));
    EXPECT_THAT(holm_adjusted({}), IsEmpty());
    EXPECT_THROW((void)holm_adjusted(std::vector<double>{nan}), holdfast::error);
    EXPECT_THROW((void)holm_adjusted(std::vector<double>{-0.1}), holdfast::error);
}

std::vector<double> noise(std::size_t n, std::uint64_t seed, double centre = 100, double deviation = 1) {
    std::mt19937_64 random(seed);
    std::normal_distribution<> normal(centre, deviation);
    std::vector<double> out(n);
    for (double& x : out) x = normal(random);
    return out;
}

TEST(Warnings, EachFindsItsOwnFault) {
    EXPECT_THAT(warnings_of(describe(noise(200, 1))), IsEmpty());
    EXPECT_THAT(warnings_of(describe(noise(20, 1, 100, 60))), has("unstable"));
    std::vector<double> drifting = noise(200, 2);
    for (std::size_t i = 0; i < drifting.size(); ++i) drifting[i] += static_cast<double>(i) * 0.1;
    EXPECT_THAT(warnings_of(describe(drifting)), has("drift"));
    std::vector<double> split = noise(200, 3);
    for (std::size_t i = 0; i < split.size(); i += 2) split[i] += 20;
    EXPECT_THAT(warnings_of(describe(split)), has("modes"));
    EXPECT_THAT(warnings_of(describe(split)), Not(has("drift")));
    std::vector<double> sluggish = noise(400, 4);
    for (std::size_t i = 1; i < sluggish.size(); ++i)
        sluggish[i] = 100 + 0.8 * (sluggish[i - 1] - 100) + 0.6 * (sluggish[i] - 100);
    EXPECT_THAT(warnings_of(describe(sluggish)), has("autocorrelation"));
    for (const warning& w : warnings_of(describe(sluggish))) EXPECT_GT(w.text.size(), 40U) << "says what to do";
}

TEST(Warnings, QuietNoiseIsRarelySuspected) {
    int alarms = 0;
    const std::uint64_t trials = holdfast::test::sanitized ? 300 : 3000;
    for (std::uint64_t t = 0; t < trials; ++t)
        alarms += warnings_of(describe(noise(60, 1000 + t, 100, 4))).empty() ? 0 : 1;
    EXPECT_LE(alarms, static_cast<int>(trials / 100));
}

}  // namespace
