// SPDX-License-Identifier: Apache-2.0
// Rounds in balanced order, calibration, ratios of pairs; bodies that throw, vanish, or take no time.
#include "holdfast/perf_test/interleaved.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "holdfast/error.hpp"
#include "holdfast/perf_test/clock.hpp"
#include "holdfast/perf_test/disturbance.hpp"

namespace {

using namespace holdfast::perf_test;
using ::testing::ElementsAre;

// Work that no compiler shortens: a chain of dependent multiplications, `steps` an operation.
void chain(std::uint64_t operations, unsigned steps) {
    std::uint64_t x = operations;
    for (std::uint64_t i = operations * steps; i > 0; --i) {
        x = x * 6364136223846793005U + 1;
        asm volatile("" : "+r"(x));
    }
}

subject chain_of(std::string name, unsigned steps) {
    return {std::move(name), [steps](std::uint64_t n) { chain(n, steps); }, {}, 0};
}

interleaved_options brief() {
    interleaved_options o;
    o.seconds = 0.02;
    o.batch_seconds_min = 2e-4;
    o.seed = 1;
    return o;
}

TEST(BalancedOrders, EverySubjectOnceARowAndEveryNeighbourEquallyOften) {
    for (std::size_t n = 1; n <= 9; ++n) {
        const auto orders = balanced_orders(n, 42);
        ASSERT_EQ(orders.size(), n % 2 == 0 || n == 1 ? n : 2 * n);
        std::map<std::pair<std::size_t, std::size_t>, std::size_t> follows, at;
        for (const auto& order : orders) {
            ASSERT_EQ(order.size(), n);
            EXPECT_EQ(std::set<std::size_t>(order.begin(), order.end()).size(), n);
            EXPECT_LT(*std::max_element(order.begin(), order.end()), n);
            for (std::size_t i = 0; i < n; ++i) ++at[{order[i], i}];
            for (std::size_t i = 1; i < n; ++i) ++follows[{order[i - 1], order[i]}];
        }
        EXPECT_EQ(at.size(), n * n);
        EXPECT_EQ(follows.size(), n * (n - 1));
        for (const auto& [pair, times] : follows) EXPECT_EQ(times, n % 2 == 0 ? 1U : 2U) << pair.first << pair.second;
    }
    EXPECT_TRUE(balanced_orders(0, 1).empty());
    EXPECT_EQ(balanced_orders(5, 7), balanced_orders(5, 7));
    EXPECT_NE(balanced_orders(5, 7), balanced_orders(5, 8));
}

TEST(RatioOfPairs, KnownValues) {
    const std::vector<double> a{1, 2, 4, 8, 16, 32}, b{2, 6, 4, 32, 80, 192};  // 2 3 1 4 5 6
    const paired_ratio r = ratio_of_pairs(a, b);
    EXPECT_DOUBLE_EQ(r.ratio, 3.5);
    EXPECT_DOUBLE_EQ(r.ratio_95.low, 1);
    EXPECT_DOUBLE_EQ(r.ratio_95.high, 6);
    EXPECT_DOUBLE_EQ(r.p_value, 2.0 / 32);  // five differences, all above zero
}

TEST(RatioOfPairs, NothingUsable) {
    EXPECT_EQ(ratio_of_pairs({}, {}).ratio, 0);
    EXPECT_EQ(ratio_of_pairs({}, {}).p_value, 1);
    const std::vector<double> zeros{0, 0}, ones{1, 1}, wrong{1, -1};
    EXPECT_EQ(ratio_of_pairs(zeros, ones).ratio, 0);
    EXPECT_EQ(ratio_of_pairs(ones, zeros).ratio, 0);
    EXPECT_THROW((void)ratio_of_pairs(ones, std::vector<double>{1}), holdfast::error);
    EXPECT_THROW((void)ratio_of_pairs(ones, wrong), holdfast::error);
    EXPECT_THROW((void)ratio_of_pairs(ones, std::vector<double>{1, std::numeric_limits<double>::quiet_NaN()}),
                 holdfast::error);
    const std::vector<double> least(2, std::numeric_limits<double>::denorm_min()),
        most(2, std::numeric_limits<double>::max());
    EXPECT_EQ(ratio_of_pairs(least, most).ratio, 0) << "a quotient that overflows is no ratio";
}

TEST(Interleaved, FindsTheRatioOfWork) {
    const interleaved_result run = measure_interleaved({chain_of("one", 50), chain_of("two", 100)}, brief());
    ASSERT_EQ(run.subjects.size(), 2U);
    const paired_ratio r = run.ratio(0, 1);
    EXPECT_NEAR(r.ratio, 2, 0.15);
    EXPECT_LE(r.ratio_95.low, r.ratio);
    EXPECT_GE(r.ratio_95.high, r.ratio);
    EXPECT_LT(r.p_value, 1e-4);
    EXPECT_NEAR(run.ratio(1, 0).ratio, 0.5, 0.05);
    EXPECT_THROW((void)run.ratio(0, 2), holdfast::error);
    for (const result& s : run.subjects) {
        EXPECT_TRUE(s.good());
        EXPECT_EQ(s.samples.size(), run.rounds);
        EXPECT_EQ(s.count, s.batch * run.rounds);
        EXPECT_NEAR(s.time.median * static_cast<double>(s.batch), 2e5, 1.5e5)
            << "a batch lasts about as long as asked for";
        EXPECT_GT(s.seconds, 0);
    }
    EXPECT_EQ(run.subjects[1].name, "two");
    EXPECT_GE(run.rounds, 30U);
    EXPECT_EQ(run.seed, 1U);
}

// What ran, in order: fixed batches, no warm part, so that each call of a body is a batch.
TEST(Interleaved, EveryRoundRunsEverySubjectOnceAfterItsPreparation) {
    std::string trace;
    std::vector<subject> subjects;
    for (const char name : {'a', 'b', 'c'})
        subjects.push_back({std::string(1, name),
                            [&trace, name](std::uint64_t n) {
                                EXPECT_EQ(n, 500U);
                                trace += name;
                                chain(n, 20);
                            },
                            [&trace] { trace += '.'; }, 500});
    interleaved_options o = brief();
    o.rounds_min = o.rounds_max = 24;
    o.rerun_disturbed = false;
    const interleaved_result run = measure_interleaved(subjects, o);
    EXPECT_EQ(run.rounds, 24U);
    EXPECT_EQ(run.rerun_rounds, 0U);
    ASSERT_EQ(trace.size(), (24 + 1) * 6U) << "a warming round and those timed";
    std::set<std::string> orders;
    for (std::size_t at = 6; at < trace.size(); at += 6) {
        std::string round = trace.substr(at, 6);
        orders.insert(round);
        EXPECT_EQ(std::count(round.begin(), round.end(), '.'), 3);
        for (const char name : {'a', 'b', 'c'})
            EXPECT_NE(round.find(std::string(".") + name), std::string::npos) << round;
    }
    EXPECT_EQ(orders.size(), 6U) << "all six orders of three come up";
}

TEST(Interleaved, SlowSubjectsRunTheRoundsAskedFor) {
    std::uint64_t calls = 0;
    const subject slow{"slow",
                       [&](std::uint64_t n) {
                           calls += n;
                           chain(200'000, 10);
                       },
                       {},
                       0};
    interleaved_options o = brief();
    o.rounds_min = 7;
    o.rerun_disturbed = false;
    o.seconds = 1e-3;
    const interleaved_result run = measure_interleaved({slow}, o);
    EXPECT_EQ(run.rounds, 7U);
    EXPECT_EQ(run.subjects[0].batch, 1U);
    EXPECT_EQ(calls, 7U + 3U);
}

TEST(Interleaved, StopsAtTheMostRounds) {
    interleaved_options o = brief();
    o.seconds = 0.5;
    o.rounds_max = 31;
    const interleaved_result run = measure_interleaved({chain_of("a", 10)}, o);
    EXPECT_LE(run.rounds, 31U);
    EXPECT_GE(run.rounds, 30U);
}

TEST(Interleaved, ABodyThatWasDeletedHasNoNumber) {
    const interleaved_result run =
        measure_interleaved({{"nothing", [](std::uint64_t) {}, {}, 0}, chain_of("some", 10)}, brief());
    EXPECT_FALSE(run.subjects[0].good());
    EXPECT_NE(run.subjects[0].failure.find("do_not_optimize"), std::string::npos);
    EXPECT_TRUE(run.subjects[0].samples.empty());
    EXPECT_TRUE(run.subjects[1].good());
    EXPECT_EQ(run.ratio(0, 1).ratio, 0);
    EXPECT_EQ(run.ratio(0, 1).p_value, 1);
    EXPECT_EQ(measure_interleaved({{"nothing", [](std::uint64_t) {}, {}, 0}}, brief()).rounds, 0U);
}

TEST(Interleaved, WhatABodyThrowsComesThrough) {
    int left = 20;
    const subject bad{"bad",
                      [&](std::uint64_t) {
                          if (--left == 0) throw std::runtime_error("broken");
                      },
                      {},
                      3};
    EXPECT_THROW((void)measure_interleaved({chain_of("good", 5), bad}, brief()), std::runtime_error);
}

TEST(Interleaved, NonsenseIsRefused) {
    const std::vector<subject> one{chain_of("one", 5)};
    EXPECT_THROW((void)measure_interleaved({}, brief()), holdfast::error);
    EXPECT_THROW((void)measure_interleaved({chain_of("", 5)}, brief()), holdfast::error);
    EXPECT_THROW((void)measure_interleaved({{"no body", {}, {}, 0}}, brief()), holdfast::error);
    const double nan = std::numeric_limits<double>::quiet_NaN();
    for (const double wrong : {0.0, -1.0, nan, 1e300}) {
        interleaved_options o = brief();
        o.seconds = wrong;
        EXPECT_THROW((void)measure_interleaved(one, o), holdfast::error) << wrong;
        o = brief();
        o.batch_seconds_min = wrong;
        EXPECT_THROW((void)measure_interleaved(one, o), holdfast::error) << wrong;
    }
    interleaved_options o = brief();
    o.warm_part = nan;
    EXPECT_THROW((void)measure_interleaved(one, o), holdfast::error);
    o = brief();
    o.rounds_min = 0;
    EXPECT_THROW((void)measure_interleaved(one, o), holdfast::error);
    o = brief();
    o.rounds_max = o.rounds_min - 1;
    EXPECT_THROW((void)measure_interleaved(one, o), holdfast::error);
}

TEST(Interleaved, ASeedOfItsOwnIsWrittenDown) {
    interleaved_options o = brief();
    o.seed = 0;
    o.seconds = 1e-3;
    EXPECT_NE(measure_interleaved({chain_of("a", 10)}, o).seed, 0U);
}

TEST(Disturbance, StealIsTheEighthNumber) {
    EXPECT_EQ(parse_steal("cpu  1 2 3 4 5 6 7 89 10 11\ncpu0 ..."), 89U);
    for (const char* wrong :
         {"", "cpu", "cpu ", "cpu0 1 2 3 4 5 6 7 8", "cpu 1 2 3", "cpu 1 2 3 4 5 6 7 x", "cpu -1 2 3 4 5 6 7 8"})
        EXPECT_EQ(parse_steal(wrong), 0U) << wrong;
}

TEST(Disturbance, SeesThatAnotherThreadHadTheCpu) {
    cpu_set_t old, one;
    ASSERT_EQ(pthread_getaffinity_np(pthread_self(), sizeof old, &old), 0);
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++cpu)
        if (CPU_ISSET(cpu, &old)) CPU_SET(cpu, &one);
    if (pthread_setaffinity_np(pthread_self(), sizeof one, &one) != 0) GTEST_SKIP() << "needs sched_setaffinity";
    std::atomic<bool> stop{false};
    std::thread rival([&] {
        // relaxed: the flag alone is told
        while (!stop.load(std::memory_order_relaxed)) chain(1000, 1);
    });
    disturbance_meter meter;
    const std::uint64_t deadline = monotonic_ns() + 20'000'000'000U;
    std::uint64_t switches = 0;
    while (switches == 0 && monotonic_ns() < deadline) {
        chain(100'000, 10);
        switches += meter.since_last().involuntary_switches;
    }
    stop.store(true, std::memory_order_relaxed);  // relaxed: nothing else is published
    rival.join();
    pthread_setaffinity_np(pthread_self(), sizeof old, &old);
    EXPECT_GT(switches, 0U);
}

}  // namespace
