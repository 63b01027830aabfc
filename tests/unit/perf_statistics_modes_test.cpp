// SPDX-License-Identifier: Apache-2.0
// How often separate peaks are seen where there is one, and how often where there are two.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <vector>

#include "holdfast/perf_test/statistics.hpp"
#include "support/scale.hpp"

namespace {

using holdfast::perf_test::count_modes;

struct shape {
    const char* name;
    std::function<double(std::mt19937_64&)> draw;
};

double uniform(std::mt19937_64& random) { return std::uniform_real_distribution<>()(random); }
double normal(std::mt19937_64& random) { return std::normal_distribution<>()(random); }
double exponential(std::mt19937_64& random) { return std::exponential_distribution<>()(random); }

// Trials out of a thousand, by scale, in which more than one peak is seen.
double share_of_many(const shape& s, std::size_t samples, std::uint64_t trials) {
    std::mt19937_64 random(977);
    std::vector<double> x(samples);
    std::uint64_t seen = 0;
    for (std::uint64_t t = 0; t < trials; ++t) {
        for (double& value : x) value = s.draw(random);
        seen += count_modes(x) > 1 ? 1U : 0U;
    }
    return static_cast<double>(seen) / static_cast<double>(trials);
}

TEST(Modes, OnePeakIsRarelyTakenForTwo) {
    const shape shapes[] = {
        {"normal", [](auto& r) { return 100 + 3 * normal(r); }},
        {"uniform", [](auto& r) { return 100 + 10 * uniform(r); }},
        {"exponential", [](auto& r) { return 3 * exponential(r); }},
        {"log-normal", [](auto& r) { return 100 * std::exp(normal(r)); }},
        {"Laplace", [](auto& r) { return 100 + (uniform(r) < 0.5 ? -5 : 5) * exponential(r); }},
        {"gamma(2)", [](auto& r) { return 20 + 5 * (exponential(r) + exponential(r)); }},
        {"t(3)", [](auto& r) { return 100 + 5 * std::student_t_distribution<>(3)(r); }},
    };
    for (const shape& s : shapes)
        for (const std::size_t n : {10U, 30U, 100U, 300U, 1000U, 10'000U}) {
            const std::uint64_t trials = holdfast::test::scaled(n > 1000 ? 100 : 1000);
            const auto slack = 3.5 * std::sqrt(0.01 * 0.99 / static_cast<double>(trials));
            EXPECT_LE(share_of_many(s, n, trials), 0.01 + slack) << s.name << ", " << n << " samples";
        }
}

TEST(Modes, SeparatePeaksAreFound) {
    const shape even{"50/50, 6 deviations", [](auto& r) { return 100 + 3 * normal(r) + (uniform(r) < 0.5 ? 18 : 0); }};
    EXPECT_GE(share_of_many(even, 60, 500), 0.95);
    const shape uneven{"80/20, 8 deviations",
                       [](auto& r) { return 100 + 3 * normal(r) + (uniform(r) < 0.2 ? 24 : 0); }};
    EXPECT_GE(share_of_many(uneven, 100, 500), 0.95);
}

TEST(Modes, AreCounted) {
    std::mt19937_64 random(3);
    std::vector<double> x;
    for (int i = 0; i < 300; ++i) x.push_back(100 + 20 * (i % 3) + normal(random));
    EXPECT_EQ(count_modes(x), 3U);
    for (int i = 0; i < 6; ++i) x.push_back(1000);
    EXPECT_EQ(count_modes(x), 3U) << "six of 306 samples are outliers, not a peak";
    for (int i = 0; i < 100; ++i) x.push_back(160 + normal(random));
    EXPECT_EQ(count_modes(x), 4U);
}

TEST(Modes, AtomsCount) {
    std::vector<double> x(40, 10.0);
    EXPECT_EQ(count_modes(x), 1U);
    x.resize(80, 20.0);
    EXPECT_EQ(count_modes(x), 2U);
    x.insert(x.end(), 1000, 10.0);  // 40 of 1080
    EXPECT_EQ(count_modes(x), 1U);
}

TEST(Modes, GrainOfTheClockIsNoPeak) {
    std::mt19937_64 random(5);
    std::vector<double> x;
    for (int i = 0; i < 5000; ++i) x.push_back(std::round(1000 + 2 * normal(random)));  // some nine values
    EXPECT_EQ(count_modes(x), 1U);
}

TEST(Modes, HostileSamplesEnd) {
    constexpr double most = std::numeric_limits<double>::max(), least = std::numeric_limits<double>::denorm_min();
    EXPECT_EQ(count_modes({}), 0U);
    EXPECT_EQ(count_modes(std::vector<double>{0, 0, 0}), 1U);
    EXPECT_EQ(count_modes(std::vector<double>{-most, most}), 1U);
    EXPECT_EQ(count_modes(std::vector<double>{least, 2 * least, most}), 1U);
    std::vector<double> halves(50, -most);
    halves.resize(100, most);
    EXPECT_EQ(count_modes(halves), 2U);
    std::vector<double> powers;
    for (int e = -1000; e <= 1000; ++e) powers.push_back(std::ldexp(1.0, e));
    EXPECT_GE(count_modes(powers), 1U);
}

}  // namespace
