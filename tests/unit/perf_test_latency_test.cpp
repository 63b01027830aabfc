// SPDX-License-Identifier: Apache-2.0
#include "holdfast/perf_test/latency.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <stdexcept>

#include "holdfast/perf_test/call_times.hpp"
#include "holdfast/perf_test/clock.hpp"
#include "holdfast/perf_test/engine.hpp"
#include "holdfast/perf_test/result.hpp"

namespace holdfast::perf_test {
namespace {

/// A clock that bodies move, and that costs 20 ns from start to stop.
struct fake_ticks {
    std::uint64_t* now;
    std::uint64_t start() const noexcept { return *now; }
    std::uint64_t stop() const noexcept { return *now += 20; }
    double ns(std::uint64_t from, std::uint64_t to) const noexcept { return static_cast<double>(to - from); }
};

double at(const latency_result& latency, double level) {
    for (const percentile& each : latency.percentiles)
        if (each.level == level) return each.estimate;
    return -1;
}

struct timed_run {
    std::uint64_t now = 1000;
    std::unique_ptr<call_times> times = std::make_unique<call_times>();

    template <class Operation>
    timed_calls operator()(Operation operation, const call_limits& limits, double cost_ns = 20) {
        looped_body body(operation);
        return time_calls(fake_ticks{&now}, body, limits, cost_ns, *times);
    }
};

TEST(LatencyMode, EachCallIsCountedWithoutTheClocksCost) {
    timed_run run;
    std::uint64_t call = 0;
    const timed_calls did = run([&] { run.now += ++call % 10 == 0 ? 5000 : 50; }, {.calls_max = 10'000});
    EXPECT_EQ(did.count, 10'000U);
    EXPECT_FALSE(did.aborted);
    const latency_result latency = latency_of(*run.times);
    EXPECT_EQ(latency.count, 10'000U);
    EXPECT_EQ(latency.minimum, 50);
    EXPECT_EQ(latency.maximum, 5000);
    EXPECT_NEAR(latency.mean, 545, 0.5);
    EXPECT_NEAR(at(latency, 0.5), 50, 1);
    EXPECT_NEAR(at(latency, 0.99), 5000, 5000 / 64);
    for (const percentile& each : latency.percentiles) {
        EXPECT_LE(each.lower, each.estimate);
        EXPECT_LE(each.estimate, each.upper);
    }
}

TEST(LatencyMode, PercentilesWithTooFewCallsAreNotBounded) {
    timed_run run;
    run([&] { run.now += 100; }, {.calls_max = 100});
    const latency_result latency = latency_of(*run.times);
    ASSERT_EQ(latency.percentiles.size(), 4U);
    EXPECT_EQ(latency.percentiles[0].level, 0.5);
    EXPECT_TRUE(latency.percentiles[0].bounded);
    EXPECT_EQ(latency.percentiles[3].level, 0.999);
    EXPECT_FALSE(latency.percentiles[3].bounded);
}

TEST(LatencyMode, ACallCheaperThanTheClockCountsAsZeroNotLess) {
    timed_run run;
    run([] {}, {.calls_max = 5}, 35);
    EXPECT_EQ(latency_of(*run.times).maximum, 0);
}

TEST(LatencyMode, EndsWithTheTime) {
    timed_run run;
    const timed_calls did = run([&] { run.now += 999'980; }, {.seconds = 0.1});
    EXPECT_EQ(did.count, 100U);
    EXPECT_NEAR(did.seconds, 0.1, 1e-6);
}

TEST(LatencyMode, EndsWhenTheBodyAsksOrTheGroupDoes) {
    timed_run run;
    int calls = 0;
    const timed_calls did = run(
        [&] {
            if (++calls == 7) stop_sign::raise();
        },
        {});
    stop_sign::lower();
    EXPECT_TRUE(did.aborted);
    EXPECT_EQ(did.count, 7U);
    const std::atomic<std::uint32_t> stop = 1;
    EXPECT_EQ(run([] {}, {.stop = &stop}).count, 1U);
}

TEST(LatencyMode, WhatABodyThrowsComesOut) {
    timed_run run;
    EXPECT_THROW(run([] { throw std::runtime_error("lost"); }, {}), std::runtime_error);
}

TEST(LatencyMode, NoCallsHaveNoPercentiles) {
    const latency_result none = latency_of(call_times{});
    EXPECT_EQ(none.count, 0U);
    EXPECT_TRUE(none.percentiles.empty());
    EXPECT_EQ(none.mean, 0);
}

// With the machine's clock: a body that waits for 20 us is seen to take 20 us, and an empty one next to nothing.
TEST(LatencyMode, RealClockTellsARealWait) {
    const tick_clock& clock = tick_clock::get();
    auto waits = [] {
        const std::uint64_t until = monotonic_ns() + 20'000;
        while (monotonic_ns() < until) {
        }
    };
    looped_body waiting(waits);
    const double cost = empty_call_ns(clock, waiting);
    EXPECT_GT(cost, 0);
    EXPECT_LT(cost, 20'000);
    auto times = std::make_unique<call_times>();
    time_calls(clock, waiting, {.seconds = 0.1}, cost, *times);
    const latency_result latency = latency_of(*times);
    // The wait can be shorter than it says by the clock's cost and its calibration, and longer by what interrupts it.
    EXPECT_GE(latency.minimum, 19'000 - cost);
    EXPECT_LE(at(latency, 0.5), 40'000);

    auto nothing = [] {};
    looped_body empty(nothing);
    times = std::make_unique<call_times>();
    time_calls(clock, empty, {.calls_max = 100'000}, cost, *times);
    EXPECT_LE(at(latency_of(*times), 0.5), cost);
}

}  // namespace
}  // namespace holdfast::perf_test
