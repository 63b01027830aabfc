// SPDX-License-Identifier: Apache-2.0
// Verdicts: known cases, false alarms and power by simulation with fixed seeds, and a real pair of programs in turn.
#include "holdfast/perf_test/compare.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "holdfast/error.hpp"
#include "support/scale.hpp"

namespace {

using namespace holdfast::perf_test;
using ::testing::HasSubstr;

std::vector<double> times(std::size_t n, double value) { return std::vector<double>(n, value); }

summary run_of(double median) {
    summary s;
    s.median = median;
    s.median_95 = {median * 0.999, median * 1.001};
    return s;
}

std::vector<summary> runs_of(const std::vector<double>& medians) {
    std::vector<summary> out;
    for (const double m : medians) out.push_back(run_of(m));
    return out;
}

// Tables of Student's distribution: two-sided 5 % and 0.1 %.
TEST(Student, KnownValues) {
    const struct {
        double df, p05, p001;
    } known[] = {{1, 12.7062, 636.619}, {2, 4.30265, 31.5991},  {4, 2.77645, 8.61030},
                 {8, 2.30600, 5.04131}, {30, 2.04227, 3.64596}, {1e300, 1.95996, 3.29053}};
    for (const auto& k : known) {
        EXPECT_NEAR(student_quantile(0.05, k.df), k.p05, 1e-5 * k.p05) << k.df;
        EXPECT_NEAR(student_quantile(0.001, k.df), k.p001, 1e-5 * k.p001) << k.df;
        EXPECT_NEAR(student_two_sided(k.p05, k.df), 0.05, 1e-5);
    }
    EXPECT_EQ(student_two_sided(0, 3), 1);
    EXPECT_EQ(student_two_sided(std::numeric_limits<double>::infinity(), 3), 0);
    EXPECT_NEAR(student_two_sided(1, 1), 0.5, 1e-14);
    EXPECT_EQ(student_quantile(1, 5), 0);
}

TEST(ComparePaired, PlainCases) {
    EXPECT_EQ(compare_paired(times(40, 10), times(40, 10)).outcome, verdict::same);
    EXPECT_EQ(compare_paired(times(40, 10), times(40, 10.2)).outcome, verdict::same) << "2 % is no change by default";
    const comparison slower = compare_paired(times(60, 10), times(60, 11));
    EXPECT_EQ(slower.outcome, verdict::slower);
    EXPECT_NEAR(slower.ratio, 1.1, 1e-12);
    EXPECT_NEAR(slower.p_value, std::ldexp(1.0, -19), 1e-15) << "20 blocks of three, all beyond";
    EXPECT_THAT(slower.text, HasSubstr("slower: +10.0 % time"));
    EXPECT_EQ(compare_paired(times(40, 10), times(40, 9)).outcome, verdict::faster);
    compare_options exact;
    exact.min_effect = 0;
    EXPECT_EQ(compare_paired(times(40, 10), times(40, 10.001), exact).outcome, verdict::slower);
}

TEST(ComparePaired, FewRoundsNeverGiveAnAlarm) {
    for (std::size_t n = 0; n <= 21; ++n)
        EXPECT_NE(compare_paired(times(n, 1), times(n, 100)).outcome, verdict::slower) << n;
    EXPECT_EQ(compare_paired(times(22, 1), times(22, 100)).outcome, verdict::slower);
    EXPECT_EQ(compare_paired(times(5, 1), times(5, 1)).outcome, verdict::too_noisy) << "five agree by chance";
    EXPECT_EQ(compare_paired({}, {}).outcome, verdict::too_noisy);
    EXPECT_EQ(compare_paired(times(50, 0), times(50, 1)).ratio, 0);
    EXPECT_EQ(compare_paired(times(50, 0), times(50, 1)).outcome, verdict::too_noisy);
}

TEST(ComparePaired, NonsenseIsRefused) {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    EXPECT_THROW((void)compare_paired(times(3, 1), times(4, 1)), holdfast::error);
    EXPECT_THROW((void)compare_paired(times(3, 1), times(3, nan)), holdfast::error);
    EXPECT_THROW((void)compare_paired(times(3, -1), times(3, 1)), holdfast::error);
    for (const double wrong : {-0.1, nan, 1e9}) {
        compare_options o;
        o.min_effect = wrong;
        EXPECT_THROW((void)compare_paired(times(3, 1), times(3, 1), o), holdfast::error) << wrong;
        o = {};
        o.alpha = wrong;
        EXPECT_THROW((void)compare_paired(times(3, 1), times(3, 1), o), holdfast::error) << wrong;
    }
}

// Rounds as a busy machine gives them: both slowed together by a slow wave, each by its own noise and rare
// interruptions.
struct machine {
    std::mt19937_64 random;
    double noise = 0.02, stuck = 0;  // stuck: how much of a round's own noise the next one keeps
    double own = 0;

    std::pair<std::vector<double>, std::vector<double>> rounds(std::size_t n, double slow_down) {
        std::normal_distribution<> normal;
        std::uniform_real_distribution<> uniform;
        std::pair<std::vector<double>, std::vector<double>> out;
        double wave = 0;
        for (std::size_t i = 0; i < n; ++i) {
            wave = 0.9 * wave + 0.1 * normal(random);
            own = stuck * own + std::sqrt(1 - stuck * stuck) * noise * normal(random);
            const auto interrupted = [&] { return uniform(random) < 0.15 ? 1 + 5 * uniform(random) : 1; };
            out.first.push_back(100 * std::exp(wave) * interrupted());
            out.second.push_back(100 * (1 + slow_down) * std::exp(wave + own) * interrupted());
        }
        return out;
    }
};

std::size_t count(verdict wanted, machine m, std::size_t trials, std::size_t rounds, double slow_down) {
    std::size_t found = 0;
    for (std::size_t t = 0; t < trials; ++t) {
        const auto [base, now] = m.rounds(rounds, slow_down);
        found += compare_paired(base, now).outcome == wanted ? 1 : 0;
    }
    return found;
}

TEST(ComparePaired, NoFalseAlarmsInSimulatedNoise) {
    const std::size_t trials = holdfast::test::scaled(1000);
    for (const double noise : {0.005, 0.05, 0.3})
        for (const double stuck : {0.0, 0.7})
            for (const std::size_t rounds : {30U, 200U}) {
                const machine m{std::mt19937_64(11), noise, stuck};
                // 1 in 1000 is promised of both together, in the worst case of a true change that reaches the limit
                const std::size_t alarms =
                    count(verdict::slower, m, trials, rounds, 0) + count(verdict::faster, m, trials, rounds, 0);
                EXPECT_LE(alarms, 2 + trials / 1000) << noise << " " << stuck << " " << rounds;
            }
}

TEST(ComparePaired, FalseAlarmsAtTheLimitAreAsRareAsAlpha) {
    compare_options o;
    o.alpha = 0.05;
    machine m{std::mt19937_64(12), 0.02, 0};
    std::size_t alarms = 0;
    const std::size_t trials = 2000;
    for (std::size_t t = 0; t < trials; ++t) {
        const auto [base, now] = m.rounds(100, 0.03);
        alarms += compare_paired(base, now, o).outcome == verdict::slower ? 1 : 0;
    }
    EXPECT_LE(alarms, 0.025 * trials + 3.5 * std::sqrt(0.025 * trials));
    EXPECT_GE(alarms, 0.005 * trials) << "a test that never speaks is none";
}

TEST(ComparePaired, SlowDownsAreFound) {
    const machine m{std::mt19937_64(13), 0.02, 0};
    EXPECT_GE(count(verdict::slower, m, 300, 300, 0.05), 270U);
    EXPECT_GE(count(verdict::same, m, 300, 300, 0), 270U);
    EXPECT_GE(count(verdict::slower, m, 300, 60, 0.10), 270U);
}

TEST(CompareRuns, KnownValues) {
    // Logarithms -0.01, 0, 0.01 and the same plus 0.2: pooled deviation 0.01, error 0.01 sqrt(2 / 3), df 4.
    std::vector<double> base, now;
    for (const double x : {-0.01, 0.0, 0.01}) {
        base.push_back(std::exp(x));
        now.push_back(std::exp(x + 0.2));
    }
    const comparison c = compare_runs(runs_of(base), runs_of(now));
    const double error = 0.01 * std::sqrt(2.0 / 3);
    EXPECT_NEAR(c.ratio, std::exp(0.2), 1e-12);
    EXPECT_NEAR(c.ratio_95.low, std::exp(0.2 - 2.77645 * error), 1e-6);
    EXPECT_NEAR(c.ratio_95.high, std::exp(0.2 + 2.77645 * error), 1e-6);
    EXPECT_NEAR(c.p_value, student_two_sided((0.2 - std::log(1.03)) / error, 4), 1e-12);
    EXPECT_EQ(c.outcome, verdict::slower);
    EXPECT_EQ(compare_runs(runs_of(now), runs_of(base)).outcome, verdict::faster);
    EXPECT_EQ(compare_runs(runs_of(base), runs_of(base)).outcome, verdict::same);
    EXPECT_EQ(compare_runs(runs_of({1, 1.1, 1.2, 1.3}), runs_of({1.05, 1.2, 1.25, 1.5})).outcome, verdict::too_noisy);
}

TEST(CompareRuns, AnIntervalWithAFarEndIsWideAndNotEndless) {
    // Of nine batches a busy machine held four up: the upper end of the median's interval is 70 times the median.
    summary base, now;
    base.median = 0.04;
    base.median_95 = {0.0399, 0.0401};
    now.median = 4.2;
    now.median_95 = {4.19, 296};
    const comparison found = compare_runs({&base, 1}, {&now, 1});
    EXPECT_NEAR(found.ratio, 105, 1e-9);
    EXPECT_GT(found.ratio_95.low, 3);
    EXPECT_LT(found.ratio_95.high, 5000);
    EXPECT_EQ(found.outcome, verdict::too_noisy) << "at 1 in 1000";
    now.median_95 = {4.19, 42};
    EXPECT_EQ(compare_runs({&base, 1}, {&now, 1}).outcome, verdict::slower);
}

TEST(CompareRuns, FewRunsWidenTheVerdict) {
    const comparison one = compare_runs(runs_of({100}), runs_of({115}));
    EXPECT_EQ(one.outcome, verdict::too_noisy) << "15 % between two processes may be their layout";
    EXPECT_THAT(one.text, HasSubstr("5 % between them is assumed"));
    EXPECT_NEAR(one.ratio_95.high / one.ratio, std::exp(1.95996 * std::sqrt(2.0) * std::hypot(0.05, 0.002 / 3.92)),
                1e-4);
    EXPECT_EQ(compare_runs(runs_of({100}), runs_of({140})).outcome, verdict::slower);
    EXPECT_EQ(compare_runs(runs_of(times(5, 100)), runs_of(times(5, 115))).outcome, verdict::slower);
    comparison again = one;
    judge({&again, 1});
    EXPECT_THAT(again.text, HasSubstr("assumed")) << "a family's verdict still says what it stands on";
    summary noisy = run_of(100);
    noisy.median_95 = {60, 140};
    EXPECT_LT(compare_runs({&noisy, 1}, {&noisy, 1}).ratio_95.low,
              compare_runs(runs_of({100}), runs_of({100})).ratio_95.low);
}

TEST(CompareRuns, NonsenseIsRefused) {
    EXPECT_THROW((void)compare_runs({}, runs_of({1})), holdfast::error);
    EXPECT_THROW((void)compare_runs(runs_of({1}), {}), holdfast::error);
    EXPECT_THROW((void)compare_runs(runs_of({0}), runs_of({1})), holdfast::error);
    EXPECT_THROW((void)compare_runs(runs_of({1}), runs_of({std::numeric_limits<double>::infinity()})), holdfast::error);
}

// Process runs whose layout is drawn from two kinds, one of them rare and 8 % slower: the bad case for few runs.
TEST(CompareRuns, NoFalseAlarmsBetweenProcessRuns) {
    std::mt19937_64 random(14);
    std::normal_distribution<> normal(0, 0.01);
    std::uniform_real_distribution<> uniform;
    const auto draw = [&](double rare) {
        std::vector<summary> out;
        for (int i = 0; i < 5; ++i)
            out.push_back(run_of(100 * std::exp(normal(random)) * (uniform(random) < rare ? 1.08 : 1)));
        return out;
    };
    const std::size_t trials = holdfast::test::scaled(3000);
    for (const double rare : {0.0, 0.2, 0.5}) {
        std::size_t alarms = 0;
        for (std::size_t t = 0; t < trials; ++t) {
            const auto base = draw(rare), now = draw(rare);
            const verdict v = compare_runs(base, now).outcome;
            alarms += v == verdict::slower || v == verdict::faster ? 1 : 0;
        }
        EXPECT_LE(alarms, 2 + trials / 500) << rare;
    }
}

TEST(Judge, AFamilyIsCorrectedForItself) {
    std::vector<comparison> family(3);
    const double p[] = {0.0004, 0.0004, 0.5};
    for (std::size_t i = 0; i < 3; ++i) {
        family[i].ratio = 1.1;
        family[i].ratio_95 = {1.05, 1.15};
        family[i].p_value = p[i];
    }
    std::vector<comparison> alone(family.begin(), family.begin() + 1);
    judge(alone);
    EXPECT_EQ(alone[0].outcome, verdict::slower);
    judge(family);
    EXPECT_DOUBLE_EQ(family[0].p_adjusted, 0.0012);
    EXPECT_EQ(family[0].outcome, verdict::too_noisy);
    EXPECT_THAT(family[0].text, HasSubstr("after correction for 3 tests"));
    judge({});
}

subject chain(std::string name, double part) {
    return {std::move(name),
            [part](std::uint64_t n) {
                std::uint64_t x = n;
                for (auto i = static_cast<std::uint64_t>(static_cast<double>(n) * part); i > 0; --i) {
                    x = x * 6364136223846793005U + 1;
                    asm volatile("" : "+r"(x));
                }
            },
            {},
            100'000};
}

// The short form of studies/ab_noise: on whatever machine this is, however busy, nothing is cried that is not there.
TEST(MeasureAb, InTurnNothingIsSeenWhereNothingIs) {
    interleaved_options o;
    o.seconds = 0.01;
    for (std::uint64_t i = 0; i < holdfast::test::scaled(10); ++i) {
        const comparison c = measure_ab(chain("a", 1), chain("b", 1), o).change;
        EXPECT_TRUE(c.outcome == verdict::same || c.outcome == verdict::too_noisy) << c.text;
    }
}

TEST(MeasureAb, ABigChangeIsSeen) {
    interleaved_options o;
    o.seconds = 0.05;
    const ab_result twice = measure_ab(chain("a", 1), chain("b", 2), o);
    EXPECT_EQ(twice.change.outcome, verdict::slower) << twice.change.text;
    EXPECT_EQ(twice.change.name, "b");
    EXPECT_EQ(measure_ab(chain("a", 2), chain("b", 1), o).change.outcome, verdict::faster);
}

TEST(MeasureAb, ADeletedBodyIsNoVerdict) {
    interleaved_options o;
    o.seconds = 0.01;
    const ab_result r = measure_ab(chain("a", 1), {"gone", [](std::uint64_t) {}, {}, 0}, o);
    EXPECT_EQ(r.change.outcome, verdict::too_noisy);
    EXPECT_THAT(r.change.text, HasSubstr("deleted"));
}

}  // namespace
