// SPDX-License-Identifier: Apache-2.0
// Shapes that are known, with and without noise and a constant; laws of scalability that are known.
#include "holdfast/perf_test/complexity.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "holdfast/error.hpp"

namespace {

using namespace holdfast::perf_test;
using ::testing::HasSubstr;

constexpr growth all_shapes[] = {growth::constant, growth::logarithmic, growth::linear, growth::linear_logarithmic,
                                 growth::quadratic};

double shape_at(growth shape, double n) {
    const double values[] = {1, std::log2(n), n, n * std::log2(n), n * n};
    return values[static_cast<std::size_t>(shape)];
}

std::vector<size_and_time> points_of(growth shape, double constant, double noise, std::uint64_t seed, int sizes = 12) {
    std::mt19937_64 random(seed);
    std::normal_distribution<> normal;
    std::vector<size_and_time> out;
    for (int e = 0; e < sizes; ++e) {
        const double n = std::ldexp(4.0, e);
        out.push_back({n, (constant + 3 * shape_at(shape, n)) * std::exp(noise * normal(random))});
    }
    return out;
}

TEST(Growth, ExactDataIsFitExactly) {
    for (const growth shape : all_shapes)
        for (const double constant : {0.0, 50.0}) {
            const growth_result r = fit_growth(points_of(shape, constant, 0, 1));
            EXPECT_EQ(r.best.shape, shape) << r.text;
            EXPECT_NEAR(r.best.relative_rms, 0, 1e-9);
            EXPECT_GT(r.best.weight, 0.6) << "a constant shape is also any other with a factor near zero";
            if (shape == growth::constant) {
                EXPECT_NEAR(r.best.constant, constant + 3, 1e-9);
            } else {
                EXPECT_NEAR(r.best.factor, 3, 1e-9);
                EXPECT_NEAR(r.best.constant, constant, 1e-6);
            }
        }
}

TEST(Growth, NoisyDataIsMostlyRecognised) {
    for (const growth shape : all_shapes) {
        int right = 0, covered = 0;
        const int trials = 200;
        for (int t = 0; t < trials; ++t) {
            const growth_result r = fit_growth(points_of(shape, 20, 0.03, 100 + static_cast<std::uint64_t>(t)));
            if (r.best.shape != shape) continue;
            ++right;
            covered += r.best.factor_95.low <= 3 && 3 <= r.best.factor_95.high ? 1 : 0;
        }
        EXPECT_GE(right, trials * 9 / 10) << to_string(shape);
        if (shape != growth::constant) {
            EXPECT_GE(covered, right * 88 / 100) << to_string(shape);
        }
    }
}

TEST(Growth, KnownLeastSquares) {
    // Through (1, 2) (2, 4) (4, 8) (8, 17) without constant: sum(x / y) / sum((x / y)^2) of relative errors.
    const std::vector<size_and_time> p{{1, 2}, {2, 4}, {4, 8}, {8, 17}};
    const growth_result r = fit_growth(p);
    EXPECT_EQ(r.best.shape, growth::linear) << "four points are too few for a constant";
    const double a = 0.5, b = 8.0 / 17;
    EXPECT_NEAR(r.best.factor, (3 * a + b) / (3 * a * a + b * b), 1e-12);
    EXPECT_EQ(r.best.constant, 0);
    EXPECT_THAT(r.text, HasSubstr("n: 2.028 ns times it"));
}

TEST(Growth, FallingTimesAreConstantAtBest) {
    const std::vector<size_and_time> p{{1, 100}, {10, 50}, {100, 20}, {1000, 10}, {10'000, 5}};
    EXPECT_EQ(fit_growth(p).best.shape, growth::constant);
}

TEST(Growth, NonsenseIsRefused) {
    const double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
    EXPECT_THROW((void)fit_growth({}), holdfast::error);
    EXPECT_THROW((void)fit_growth(std::vector<size_and_time>(10, {5, 5})), holdfast::error) << "one size";
    for (const size_and_time wrong :
         {size_and_time{0, 1}, {nan, 1}, {infinity, 1}, {5, 0}, {5, -1}, {5, nan}, {5, infinity}}) {
        std::vector<size_and_time> p = points_of(growth::linear, 0, 0, 1);
        p.push_back(wrong);
        EXPECT_THROW((void)fit_growth(p), holdfast::error) << wrong.n << " " << wrong.ns;
    }
    std::vector<size_and_time> wide;
    for (int e = 0; e <= 9; ++e) wide.push_back({std::pow(10.0, 2 * e), e % 2 == 0 ? 1e-9 : 1e18});
    EXPECT_TRUE(std::isfinite(fit_growth(wide).best.aicc));
}

result timed(const std::string& name, const std::string& parameter, double ns) {
    result out;
    out.suite = "Sizes/SortTest";
    out.name = name;
    out.parameter = parameter;
    out.time.count = 30;
    out.time.median = ns;
    return out;
}

TEST(GrowthOfTests, EachNameIsACurveOverItsParameter) {
    std::vector<result> results;
    for (int i = 0; i < 5; ++i) {
        const double n = std::pow(10, i);
        const std::string number = std::to_string(i), parameter = std::to_string(static_cast<int>(n));
        results.push_back(timed("Sort/" + number, parameter, 7 * n));
        results.push_back(timed("Find/" + number, parameter, 20));
        results.push_back(timed("Find/" + number + "/cold", parameter, 3 * n * n));
    }
    const std::vector<test_growth> all = growth_of(results);
    ASSERT_EQ(all.size(), 3U);
    EXPECT_EQ(all[0].suite, "Sizes/SortTest");
    EXPECT_EQ(all[0].name, "Sort");
    EXPECT_EQ(all[0].points.size(), 5U);
    EXPECT_EQ(all[0].found.best.shape, growth::linear);
    EXPECT_NEAR(time_at(all[0].found.best, 500), 3500, 1e-6);
    EXPECT_EQ(all[1].name, "Find");
    EXPECT_EQ(all[1].found.best.shape, growth::constant);
    EXPECT_EQ(all[2].name, "Find/cold");
    EXPECT_EQ(all[2].found.best.shape, growth::quadratic);
}

TEST(GrowthOfTests, OnlySizesAndTimesMakeACurve) {
    const auto curves = [](auto change) {
        std::vector<result> results;
        for (int i = 0; i < 5; ++i) {
            results.push_back(timed("Sort/" + std::to_string(i), std::to_string(1 << i), 7.0 * (1 << i)));
            if (i < 2) change(results.back());
        }
        return growth_of(results).size();
    };
    EXPECT_EQ(curves([](result&) {}), 1U);
    EXPECT_EQ(curves([](result& r) { r.parameter = "\"text\""; }), 0U) << "three sizes are left";
    EXPECT_EQ(curves([](result& r) { r.parameter = "0"; }), 0U);
    EXPECT_EQ(curves([](result& r) { r.parameter = "(1, 2)"; }), 0U);
    EXPECT_EQ(curves([](result& r) { r.failure = "it threw"; }), 0U);
    EXPECT_EQ(curves([](result& r) { r.warnings = {{"deleted", "nothing is left"}}; }), 0U);
    EXPECT_EQ(curves([](result& r) { r.rate.emplace(); }), 0U);
    EXPECT_EQ(curves([](result& r) { r.workers.emplace_back(); }), 0U);
    EXPECT_EQ(curves([](result& r) { r.name = "Plain"; }), 0U);
    EXPECT_EQ(curves([](result& r) {
                  r.time = {};
                  r.latency.emplace().percentiles = {{0.5, 9, 8, 10, true}};
              }),
              1U)
        << "the median of single calls is a time";
}

std::vector<workers_and_rate> rates(double rate, double contention, double coherency, double noise = 0) {
    std::mt19937_64 random(9);
    std::normal_distribution<> normal;
    std::vector<workers_and_rate> out;
    for (const double n : {1, 2, 4, 8, 16, 32})
        out.push_back(
            {n, rate * n / (1 + contention * (n - 1) + coherency * n * (n - 1)) * std::exp(noise * normal(random))});
    return out;
}

TEST(Scalability, KnownLawsAreFound) {
    const scalability_fit usl = fit_scalability(rates(1000, 0.02, 0.0005));
    EXPECT_NEAR(usl.rate, 1000, 1e-6);
    EXPECT_NEAR(usl.contention, 0.02, 1e-9);
    EXPECT_NEAR(usl.coherency, 0.0005, 1e-9);
    EXPECT_NEAR(usl.best_workers, std::sqrt(0.98 / 0.0005), 1e-3);
    EXPECT_THAT(usl.text, HasSubstr("best with 44 workers"));
    const scalability_fit amdahl = fit_scalability(rates(1000, 0.1, 0));
    EXPECT_NEAR(amdahl.contention, 0.1, 1e-6);
    EXPECT_NEAR(amdahl.coherency, 0, 1e-9);
    const scalability_fit perfect = fit_scalability(rates(7, 0, 0));
    EXPECT_NEAR(perfect.rate, 7, 1e-6);
    EXPECT_LT(perfect.contention, 1e-9);
    const scalability_fit noisy = fit_scalability(rates(1000, 0.05, 0.001, 0.02));
    EXPECT_NEAR(noisy.contention, 0.05, 0.02);
    EXPECT_NEAR(noisy.coherency, 0.001, 0.0006);
}

TEST(Scalability, MoreThanLinearIsNoNegativeContention) {
    std::vector<workers_and_rate> p;
    for (const double n : {1, 2, 4, 8}) p.push_back({n, 100 * std::pow(n, 1.2)});
    const scalability_fit f = fit_scalability(p);
    EXPECT_EQ(f.contention, 0);
    EXPECT_EQ(f.coherency, 0);
    EXPECT_EQ(f.limit, std::numeric_limits<double>::infinity());
    EXPECT_NEAR(f.efficiency, std::pow(8, 0.2), 1e-9);
    EXPECT_EQ(f.efficiency_workers, 8);
    EXPECT_THAT(f.text, HasSubstr("with 8 workers each does 152 % of one in the smallest group"));
    EXPECT_THAT(f.text, HasSubstr("do not read its coefficients"));
    EXPECT_THAT(fit_scalability(rates(1000, 0.02, 0)).text, testing::Not(HasSubstr("smallest group")));
    EXPECT_LT(fit_scalability(rates(1000, 0.02, 0)).efficiency, 1);
}

TEST(Scalability, ContentionAboveAllOfTheWorkIsSaidInWords) {
    const scalability_fit f = fit_scalability(rates(1000, 1.4, 0));
    EXPECT_NEAR(f.contention, 1.4, 1e-9);
    EXPECT_EQ(f.best_workers, 1);
    EXPECT_EQ(f.limit, 1) << "the greatest throughput is that of one worker";
    EXPECT_THAT(f.text, HasSubstr("more than 100 % contention, so that two workers together do less than one alone"));
    EXPECT_THAT(fit_scalability(rates(1000, 0.5, 0.6)).text, HasSubstr("best with one worker, more of them do less"));
}

TEST(Scalability, NonsenseIsRefused) {
    EXPECT_THROW((void)fit_scalability({}), holdfast::error);
    EXPECT_THROW((void)fit_scalability(std::vector<workers_and_rate>{{1, 1}, {2, 2}, {2, 2}, {3, 3}}), holdfast::error);
    EXPECT_THROW((void)fit_scalability(std::vector<workers_and_rate>{{1, 1}, {2, 0}, {3, 2}, {4, 3}}), holdfast::error);
    EXPECT_THROW((void)fit_scalability(std::vector<workers_and_rate>{{0, 1}, {2, 2}, {3, 2}, {4, 3}}), holdfast::error);
}

}  // namespace
