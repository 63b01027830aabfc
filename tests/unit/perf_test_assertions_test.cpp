// SPDX-License-Identifier: Apache-2.0
// Measuring inside an ordinary test: limits are refuted only by what noise cannot explain, ratios have to be shown.
#include <gtest/gtest-spi.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "holdfast/perf_test.hpp"
#include "support/perf_results.hpp"

namespace {

namespace perf = holdfast::perf_test;
using holdfast::test::warns;
using namespace std::chrono_literals;

perf::measured between(double low, double value, double high) {
    return {.value = value, .range = {low, high}, .void_reason = {}};
}

perf::perf_result with_samples(double around) {
    perf::perf_result made;
    made.name = "made";
    for (int i = 0; i < 100; ++i) made.samples.push_back(around * (1 + 0.001 * (i % 10)));
    made.time.median = around;
    made.time.median_95 = {around * 0.99, around * 1.01};
    return made;
}

TEST(PerfTestAssertions, AMeasurementOfABlockHasNumbers) {
    std::uint64_t sum = 0;
    const auto found = PERF_RUN_OPT(-1, 200) {
        for (int i = 0; i < 20; ++i) PERF_USE(sum += 3);
    };
    EXPECT_TRUE(found.good());
    EXPECT_TRUE(found.samples.size() >= 30 || warns(found, "few")) << found.samples.size();
    EXPECT_GT(sum, found.count);
    EXPECT_EQ(found.suite, "PerfTestAssertions");
    EXPECT_PERF_LT(found.median(), 1ms);
    EXPECT_PERF_GT(found.hz(), 1000);
}

TEST(PerfTestAssertions, ANamedRunTakesOptions) {
    perf::test_options options;
    options.seconds = 0.02;
    options.batch = 50;
    std::uint64_t sum = 0;
    const auto found = perf::run("adding", options, [&] { PERF_USE(++sum); });
    EXPECT_EQ(found.batch, 50U);
    EXPECT_EQ(found.name, "ANamedRunTakesOptions/adding");
}

TEST(PerfTestAssertions, TheCommandLineBeatsTheOptionsOfARun) {
    const auto measured = [](std::vector<std::string> arguments) {
        arguments.insert(arguments.begin(), {"program", "-time=50"});
        perf::session::get().configure(perf::parse_flags(arguments, perf::unknown_arguments::refuse));
        const auto works = [] {
            std::uint64_t sum = 0;
            for (int i = 0; i < 1000; ++i) perf::do_not_optimize(sum += 1);
        };
        perf::test_options options;
        options.seconds = 100;
        const perf::perf_result found = perf::run("", options, works);
        perf::session::get().configure({});
        return found;
    };
    const auto random = measured({"-hz=1000", "-arrival=poisson", "-pace=sleep", "-seed=5"});
    ASSERT_TRUE(random.rate);
    EXPECT_EQ(random.rate->arrival, perf::arrivals::poisson);
    EXPECT_EQ(random.rate->seed, 5U);
    EXPECT_TRUE(measured({"-latency"}).latency);
    EXPECT_EQ(measured({"-threads=1,2"}).workers.size(), 2U);
    const auto forked = measured({"-procs=2"});
    ASSERT_EQ(forked.workers.size(), 1U);
    EXPECT_TRUE(forked.workers[0].processes);
    EXPECT_EQ(measured({"-batch=7"}).batch, 7U);
}

TEST(PerfTestAssertions, EveryMeasurementOfATestHasANameOfItsOwn) {
    perf::test_options options;
    options.seconds = 0.001;
    std::vector<std::string> names;
    for (const char* const own : {"", "own", "own", "", "2", "own"}) {
        std::uint64_t sum = 0;
        names.push_back(perf::run(own, options, [&] { PERF_USE(++sum); }).name);
        names.back().erase(0, std::string("EveryMeasurementOfATestHasANameOfItsOwn").size());
    }
    EXPECT_EQ(names, (std::vector<std::string>{"", "/own", "/own/2", "/2", "/2/2", "/own/3"}));
}

TEST(PerfTestAssertions, ALimitIsBrokenOnlyByAWholeInterval) {
    const auto about_5us = between(4900, 5000, 5100);
    EXPECT_PERF_LT(about_5us, 6us);
    EXPECT_PERF_LT(about_5us, 4950ns);  // neither shown nor refuted: no alarm
    EXPECT_PERF_LE(about_5us, 4900ns);
    EXPECT_PERF_GT(about_5us, 5050);
    EXPECT_PERF_GE(about_5us, 4us);
    EXPECT_NONFATAL_FAILURE(EXPECT_PERF_LT(about_5us, 4900ns), "5000 (95 %: 4900 to 5100) against 4900");
    EXPECT_NONFATAL_FAILURE(EXPECT_PERF_GT(about_5us, 5200.0), "more than noise explains");
    EXPECT_NONFATAL_FAILURE(EXPECT_PERF_LT(about_5us, between(1000, 2000, 3000)), "Expected: (about_5us) <");
}

TEST(PerfTestAssertions, NoNumberIsNoPass) {
    const auto flat_out = with_samples(100);
    EXPECT_NONFATAL_FAILURE(EXPECT_PERF_LT(flat_out.p99(), 5us), "PERF_LATENCY");
    perf::perf_result broken = with_samples(100);
    broken.failure = "the body threw";
    EXPECT_NONFATAL_FAILURE(EXPECT_PERF_LT(broken.median(), 5us), "the body threw");
    EXPECT_NONFATAL_FAILURE(EXPECT_PERF_RATIO(broken, flat_out, < 5, 95 %), "the body threw");
    EXPECT_NONFATAL_FAILURE(EXPECT_PERF_RATIO(flat_out, perf::perf_result(), < 5, 95 %), "no samples");
}

// The compiler removed the body: zero nanoseconds are below every limit, and less than anything by any factor.
TEST(PerfTestAssertions, WhatIsNotThereIsNotFast) {
    perf::perf_result deleted = with_samples(0.1);
    deleted.warnings.push_back({"deleted", "nothing is left"});
    const auto some = with_samples(100);
    EXPECT_NONFATAL_FAILURE(EXPECT_PERF_LT(deleted.median(), 5us), "made: nothing of the body is left to measure");
    EXPECT_NONFATAL_FAILURE(EXPECT_PERF_RATIO(deleted, some, < 0.5, 95 %), "made: nothing of the body is left");
    EXPECT_NONFATAL_FAILURE(EXPECT_PERF_RATIO(with_samples(0), some, < 0.5, 95 %), "made: nothing of the body is left");

    perf::perf_result calls = with_samples(100);
    calls.latency = perf::latency_result{.count = 1000,
                                         .percentiles = {{0.5, 0.4, 0, 1, true}, {0.99, 9, 8, 10, true}},
                                         .minimum = 0,
                                         .mean = 1,
                                         .maximum = 40};
    EXPECT_NONFATAL_FAILURE(EXPECT_PERF_LT(calls.p99(), 5us), "half of the calls took no time");
    calls.latency->percentiles[0] = {0.5, 2, 1, 3, true};
    EXPECT_PERF_LT(calls.p99(), 5us);
}

TEST(PerfTestAssertions, WhatTheCompilerRemovedIsNotFast) {
    if (!perf::this_build().optimised) GTEST_SKIP() << "a compiler that optimises removes the body";
    const auto empty = PERF_RUN_OPT(-1, 100){};
    EXPECT_NONFATAL_FAILURE(EXPECT_PERF_LT(empty.median(), 5us), "nothing of the body is left to measure");
}

TEST(PerfTestAssertions, WhatIsNotThereIsNotFastInTurnEither) {
    if (!perf::this_build().optimised) GTEST_SKIP() << "a compiler that optimises removes the body";
    const auto nothing = [] {};
    const auto some = [] {
        std::uint64_t sum = 0;
        for (int i = 0; i < 100; ++i) perf::do_not_optimize(sum += 1);
    };
    std::vector<std::string> arguments{"program", "-time=50"};
    perf::session::get().configure(perf::parse_flags(arguments, perf::unknown_arguments::refuse));
    EXPECT_NONFATAL_FAILURE(EXPECT_PERF_RATIO(nothing, some, < 0.5, 95 %), "the first: nothing of the body is left");
    EXPECT_NONFATAL_FAILURE(EXPECT_PERF_RATIO(some, nothing, > 2, 95 %), "the second: nothing of the body is left");
    perf::session::get().configure({});
}

TEST(PerfTestAssertions, ARatioHasToBeShown) {
    const auto ours = with_samples(80), theirs = with_samples(100);
    EXPECT_PERF_RATIO(ours, theirs, < 0.9, 95 %);
    EXPECT_PERF_RATIO(theirs, ours, > 1.2, 99.9 %);
    EXPECT_PERF_RATIO(ours, theirs, <= 0.82, 0.95);
    EXPECT_NONFATAL_FAILURE(EXPECT_PERF_RATIO(ours, theirs, < 0.8, 95 %), "neither shown nor refuted");
    EXPECT_NONFATAL_FAILURE(EXPECT_PERF_RATIO(ours, theirs, < 0.5, 95 %),
                            "time of ours over time of theirs < 0.5, actual: 0.8");
    EXPECT_NONFATAL_FAILURE(EXPECT_PERF_RATIO(ours, theirs, > 1, 95 %), "refuted");
}

TEST(PerfTestAssertions, CallablesAreComparedInTurn) {
    const auto adds = [](int times) {
        return [times] {
            std::uint64_t sum = 0;
            for (int i = 0; i < times; ++i) perf::do_not_optimize(sum += 1);
        };
    };
    const auto few = adds(10), many = adds(1000);
    std::vector<std::string> arguments{"program", "-time=30"};
    perf::session::get().configure(perf::parse_flags(arguments, perf::unknown_arguments::refuse));
    EXPECT_PERF_RATIO(few, many, < 0.5, 95 %);
    perf::session::get().configure({});
}

// Times as measure_ab would have found them in rounds: what is judged is known.
perf::comparison rounds_apart(double factor, double noise, const perf::compare_options& judged) {
    std::vector<double> base, now;
    for (int i = 0; i < 400; ++i) {
        base.push_back(100 * (1 + noise * ((i * 7919) % 100 - 50) / 50));
        now.push_back(100 * factor * (1 + noise * ((i * 104729) % 100 - 50) / 50));
    }
    return perf::compare_paired(base, now, judged);
}

TEST(PerfTestAssertions, OnlyWhatIsShownToBeSlowerIsARegression) {
    const auto judged = [](double factor, double noise, const char* percent = "") {
        perf::detail::verdicts_of_this_pass = 0;
        return perf::detail::not_slower("before", "now",
                                        rounds_apart(factor, noise, perf::detail::judged_here(percent)));
    };
    EXPECT_TRUE(judged(1, 0.01));
    EXPECT_TRUE(judged(0.5, 0.01)) << "faster is no alarm";
    EXPECT_TRUE(judged(1.025, 0.01)) << "below the limit of 3 %";
    EXPECT_TRUE(judged(1.1, 0.9)) << "too noisy is no alarm";
    EXPECT_TRUE(judged(1.1, 0.01, "20 %"));
    EXPECT_FALSE(judged(1.1, 0.01));
    EXPECT_FALSE(judged(1.1, 0.01, "5 %"));
    EXPECT_FALSE(judged(1.025, 0.001, "0.01"));
    const std::string text = judged(1.1, 0.01).message();
    EXPECT_NE(text.find("Expected: now is not slower than before, actual: slower: +10"), std::string::npos) << text;
    EXPECT_THROW((void)perf::detail::judged_here("5"), perf::usage_error);
}

TEST(PerfTestAssertions, ManyVerdictsOfAProgramAreOneFamily) {
    perf::detail::verdicts_of_this_pass = 0;
    double all = 0;
    for (int i = 0; i < 1000; ++i) all += perf::detail::judged_here("").alpha;
    EXPECT_LE(all, perf::compare_options{}.alpha);
    EXPECT_GT(all, 0.99 * perf::compare_options{}.alpha);
    perf::detail::verdicts_of_this_pass = 0;
    EXPECT_EQ(perf::detail::judged_here("").alpha, 0.5 * perf::compare_options{}.alpha);
    std::vector<std::string> arguments{"program", "-min_effect=7%"};
    perf::session::get().configure(perf::parse_flags(arguments, perf::unknown_arguments::refuse));
    EXPECT_DOUBLE_EQ(perf::detail::judged_here("").min_effect, 0.07);
    EXPECT_DOUBLE_EQ(perf::detail::judged_here("5 %").min_effect, 0.05) << "the assertion's own limit";
    perf::session::get().configure({});
}

TEST(PerfTestAssertions, ARegressionIsFoundInTurn) {
    const auto adds = [](int times) {
        return [times] {
            std::uint64_t sum = 0;
            for (int i = 0; i < times; ++i) perf::do_not_optimize(sum += 1);
        };
    };
    const auto few = adds(100), many = adds(500);
    const auto nothing = [] {};
    // A subject does its operations itself, and may use up what it made ready.
    std::vector<int> inputs;
    std::uint64_t made = 0;
    const perf::subject prepared{.name = "prepared",
                                 .run =
                                     [&](std::uint64_t operations) {
                                         for (; operations > 0; --operations, inputs.pop_back()) many();
                                     },
                                 .prepare =
                                     [&] {
                                         inputs.assign(500, 1);
                                         ++made;
                                     },
                                 .batch = 500};
    std::vector<std::string> arguments{"program", "-time=200"};
    perf::session::get().configure(perf::parse_flags(arguments, perf::unknown_arguments::refuse));
    EXPECT_PERF_NOT_SLOWER(many, few);
    EXPECT_PERF_NOT_SLOWER(many, few, 5 %);
    EXPECT_NONFATAL_FAILURE(EXPECT_PERF_NOT_SLOWER(few, many), "Expected: many is not slower than few, actual: slower");
    EXPECT_NONFATAL_FAILURE(EXPECT_PERF_NOT_SLOWER(few, prepared), "prepared is not slower than few");
    EXPECT_GT(made, 20U);
    if (perf::this_build().optimised) {  // else there is something of it
        EXPECT_NONFATAL_FAILURE(EXPECT_PERF_NOT_SLOWER(few, nothing), "nothing: nothing of the body is left");
    }
    const auto aborting = [] { perf::detail::abort_loop(); };
    EXPECT_NONFATAL_FAILURE(EXPECT_PERF_NOT_SLOWER(few, aborting), "the body asked to stop (PERF_ABORT)");
    perf::session::get().configure({});
}

TEST(PerfTestAssertions, AssertEndsTheTest) {
    bool reached = false;
    const auto inner = [&] {
        ASSERT_PERF_LT(between(1, 1, 1), 0.5);
        reached = true;
    };
    testing::TestPartResultArray failures;
    {
        testing::ScopedFakeTestPartResultReporter catcher(
            testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &failures);
        inner();
    }
    EXPECT_EQ(failures.size(), 1);
    EXPECT_FALSE(reached);
}

TEST(PerfTestAssertions, ConfidencesThatAreNoneAreRefused) {
    EXPECT_DOUBLE_EQ(perf::confidence_of("95 %"), 0.95);
    EXPECT_DOUBLE_EQ(perf::confidence_of("0.5"), 0.5);
    EXPECT_THROW(static_cast<void>(perf::confidence_of("100 %")), perf::usage_error);
    EXPECT_THROW(static_cast<void>(perf::confidence_of("95")), perf::usage_error);
    EXPECT_THROW(static_cast<void>(perf::confidence_of("sure")), perf::usage_error);
}

}  // namespace
