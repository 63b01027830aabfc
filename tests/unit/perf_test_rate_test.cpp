// SPDX-License-Identifier: Apache-2.0
#include "holdfast/perf_test/rate.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <thread>

#include "holdfast/perf_test/engine.hpp"
#include "holdfast/perf_test/pacing.hpp"
#include "holdfast/perf_test/result.hpp"
#include "holdfast/perf_test/schedule.hpp"

namespace holdfast::perf_test {
namespace {

constexpr std::uint64_t us = 1000;
constexpr std::uint64_t ms = 1'000'000;

/// A clock that stands still but for those who move it: sleeping and spinning take exactly what they ask for.
struct fake_time {
    std::uint64_t now_ns = 5'000'000'000;
    std::uint64_t sleeps = 0;
    std::uint64_t spins = 0;
    std::uint64_t oversleep_ns = 0;
    std::function<void()> on_sleep = [] {};
};
struct fake_clock {
    fake_time* time;
    std::uint64_t now() const noexcept { return time->now_ns; }
    void sleep_until(std::uint64_t at) const noexcept {
        ++time->sleeps;
        time->now_ns = std::max(time->now_ns, at) + time->oversleep_ns;
        time->on_sleep();
    }
    void relax() const noexcept {
        ++time->spins;
        time->now_ns += 1;
    }
};

/// One run on the fake clock.
struct paced_run {
    fake_time time;
    rate_options options;
    rate_costs costs{.margin_ns = 60 * us, .call_ns = 0, .tolerance_ns = 1 * us};
    std::unique_ptr<rate_counts> counts = std::make_unique<rate_counts>();
    std::atomic<std::uint32_t> stop = 0;

    template <class Operation>
    rate_result operator()(Operation operation) {
        looped_body body(operation);
        schedule plan(options.hz, options.arrival, options.seed);
        follow_schedule(fake_clock{&time}, plan, time.now_ns, body, options, costs, &stop, *counts);
        rate_summary sum(options);
        sum.add(*counts);
        return sum.result();
    }
};

double at(const latency_result& latency, double level) {
    for (const percentile& each : latency.percentiles)
        if (each.level == level) return each.estimate;
    return -1;
}

// The reason for this mode. One stall of 100 ms at 1 kHz: the service times show a single slow call; the 100 calls that
// fell due meanwhile were kept waiting for 99, 98, ... ms, and their responses say so.
TEST(RateMode, OneStallShowsInEveryResponseThatItDelayed) {
    paced_run run;
    run.options = {.hz = 1000, .seconds = 1};
    std::uint64_t calls = 0;
    const rate_result result = run([&] { run.time.now_ns += calls++ == 500 ? 100 * ms : 10 * us; });

    EXPECT_EQ(calls, 1000U);
    EXPECT_EQ(result.abandoned, 0U);
    histogram_counts service;
    histogram_counts response;
    run.counts->service.add_to(service);
    run.counts->response.add_to(response);
    const auto slower_than_1ms = [](const histogram_counts& counts) {
        const std::uint64_t bound[] = {std::uint64_t{1} << 20};
        return counts.total() - counts.cumulative(bound)[0];
    };
    EXPECT_EQ(slower_than_1ms(service), 1U);
    EXPECT_NEAR(static_cast<double>(slower_than_1ms(response)), 100, 2);
    // 10 % of the responses are spread evenly over 0 to 100 ms: level 0.95 lies at half of it, 0.99 at nine tenths.
    EXPECT_NEAR(at(result.response, 0.99), 90e6, 2e6);
    EXPECT_NEAR(at(result.response, 0.9), 0, 2e6);
    EXPECT_LT(at(result.service, 0.99), 11e3);
    EXPECT_NEAR(result.service.maximum, 100e6, 1);
    EXPECT_NEAR(result.response.maximum, 100e6, 1e6);
    EXPECT_NEAR(static_cast<double>(result.late_starts), 100, 2);
    EXPECT_EQ(result.backlog_max, 100U);
    EXPECT_NEAR(result.achieved_hz, 1000, 1);
}

// (I2) A client that is behind and sleeps a fixed time between calls never catches up.
TEST(RateMode, CatchingUpNeverSleeps) {
    paced_run run;
    run.options = {.hz = 1000, .seconds = 1};
    std::uint64_t calls = 0;
    std::uint64_t sleeps_when_caught_up = 0;
    run([&] {
        if (calls == 500) run.time.sleeps = 0;
        run.time.now_ns += calls++ == 500 ? 100 * ms : 10 * us;
        // 100 calls behind, 10 us each against 1 ms: caught up after 101 of them.
        if (calls <= 601) sleeps_when_caught_up = run.time.sleeps;
    });
    EXPECT_EQ(sleeps_when_caught_up, 0U);
    EXPECT_GT(run.time.sleeps, 300U);
}

TEST(RateMode, StartsAreExactWhenNothingDisturbs) {
    paced_run run;
    run.options = {.hz = 1000, .seconds = 0.1};
    const rate_result result = run([&] { run.time.now_ns += 10 * us; });
    EXPECT_EQ(result.response.count, 100U);
    EXPECT_EQ(result.late_starts, 0U);
    EXPECT_EQ(result.backlog_max, 0U);
    EXPECT_EQ(result.start_error_ns, 0);
    EXPECT_EQ(result.response.maximum, static_cast<double>(10 * us));
    EXPECT_NEAR(static_cast<double>(run.time.spins), 99 * 60'000, 100);  // the margin, spun through
}

TEST(RateMode, PaceSleepNeverSpinsAndItsErrorIsTold) {
    paced_run run;
    run.options = {.hz = 1000, .seconds = 0.1, .pace = pacing::sleep};
    run.costs.tolerance_ns = 300 * us;
    run.time.oversleep_ns = 70 * us;
    const rate_result result = run([&] { run.time.now_ns += 10 * us; });
    EXPECT_EQ(run.time.spins, 0U);
    EXPECT_NEAR(result.start_error_ns, 70e3, 1e3);
    EXPECT_EQ(result.late_starts, 0U);
    EXPECT_NEAR(result.response.maximum, 80e3, 1);
    EXPECT_NEAR(result.service.maximum, 10e3, 1);
}

TEST(RateMode, OnceASecondIsOnceASecond) {
    paced_run run;
    run.options = {.hz = 1, .seconds = 3};
    std::vector<std::uint64_t> begun;
    const std::uint64_t origin = run.time.now_ns;
    const rate_result result = run([&] { begun.push_back(run.time.now_ns - origin); });
    EXPECT_EQ(begun, (std::vector<std::uint64_t>{0, 1000 * ms, 2000 * ms}));
    EXPECT_EQ(result.achieved_hz, 1.0);
    EXPECT_EQ(run.counts->end_ns, 3000 * ms);  // the last second counts too
}

// Twice as much as the body can do: half of the calls are never begun. They are told, and counted with their wait.
TEST(RateMode, OverloadIsReportedAndEndsInTime) {
    paced_run run;
    run.options = {.hz = 2000, .seconds = 1};
    const rate_result result = run([&] { run.time.now_ns += 1 * ms; });
    EXPECT_NEAR(result.achieved_hz, 1000, 1);
    EXPECT_NEAR(static_cast<double>(run.counts->end_ns), 1050e6, 2e6);  // with the grace in which it may catch up
    EXPECT_NEAR(static_cast<double>(run.counts->calls), 1050, 2);
    EXPECT_EQ(run.counts->calls + result.abandoned, 2000U);
    EXPECT_EQ(result.response.count, 2000U);
    EXPECT_EQ(result.service.count, run.counts->calls);
    EXPECT_NEAR(static_cast<double>(result.backlog_max), 1000, 5);
    // At the end the oldest call in line has waited since 0.525 s, the youngest since 1 s. Of all 2000 responses, begun
    // ones reach 525 ms and abandoned ones lie between 50 and 525 ms: the median is near 290 ms.
    EXPECT_NEAR(result.response.maximum, 525e6, 5e6);
    EXPECT_NEAR(at(result.response, 0.5), 275e6, 20e6);
}

// The same in groups, for more abandoned calls than are counted singly, for both kinds of arrivals.
TEST(RateMode, BillionsOfAbandonedCallsAreCountedQuickly) {
    for (const arrivals kind : {arrivals::fixed, arrivals::poisson}) {
        paced_run run;
        run.options = {.hz = 1e9, .seconds = 2, .arrival = kind};
        const rate_result result = run([&] { run.time.now_ns += 10 * ms; });
        EXPECT_LE(run.counts->end_ns, 2115 * ms);
        EXPECT_NEAR(static_cast<double>(result.abandoned), 2e9, 2e7);
        EXPECT_EQ(result.response.count, run.counts->calls + result.abandoned);
        EXPECT_NEAR(at(result.response, 0.5), 1.1e9, 3e7);  // waited since 0 to 2 s, at 2.1 s
        EXPECT_NEAR(at(result.response, 0.99), 2.08e9, 3e7);
        EXPECT_EQ(result.response.minimum, 1e7);  // the first call, begun in time
    }
}

TEST(RateMode, ABodyThatAsksToStopEndsTheRun) {
    paced_run run;
    run.options = {.hz = 1000, .seconds = 1};
    int calls = 0;
    const rate_result result = run([&] {
        if (++calls == 10) stop_sign::raise();
    });
    stop_sign::lower();
    EXPECT_TRUE(run.counts->aborted);
    EXPECT_EQ(run.counts->calls, 10U);
    EXPECT_EQ(result.abandoned, 0U);
}

// A group that stops must not have to wait until the next call of a slow schedule is due.
TEST(RateMode, AStopEndsALongWait) {
    paced_run run;
    run.options = {.hz = 0.001, .seconds = 3000};
    run.time.on_sleep = [&] { run.stop = 1; };
    run([] {});
    EXPECT_EQ(run.counts->calls, 1U);
    EXPECT_LE(run.counts->end_ns, 101 * ms);
}

TEST(RateMode, WhatABodyThrowsComesOut) {
    paced_run run;
    run.options = {.hz = 1000, .seconds = 1};
    EXPECT_THROW(run([] { throw std::runtime_error("lost"); }), std::runtime_error);
}

TEST(RateMode, TheCostOfAnEmptyCallIsTakenOffTheService) {
    paced_run run;
    run.options = {.hz = 1000, .seconds = 0.01};
    run.costs.call_ns = 40;
    const rate_result result = run([&] { run.time.now_ns += 100; });
    EXPECT_EQ(result.service.maximum, 60);
    run.counts = std::make_unique<rate_counts>();
    const rate_result less = run([&] { run.time.now_ns += 30; });
    EXPECT_EQ(less.service.minimum, 0);  // never below zero
}

// On the machine itself. What others do to it can only make starts later, so the bounds are wide on that side alone.
TEST(RateMode, RealTimeKeepsTheRate) {
    const rate_options options{.hz = 1000, .seconds = 0.5};
    auto nothing = [] {};
    looped_body body(nothing);
    const rate_costs costs = measure_rate_costs(options.pace, body);
    EXPECT_GE(costs.margin_ns, 60'000U);
    EXPECT_LE(costs.margin_ns, 300'000U);
    EXPECT_LT(costs.call_ns, 10'000U);
    auto counts = std::make_unique<rate_counts>();
    schedule plan(options.hz, options.arrival);
    const timer_slack fine;
    const monotonic_clock clock;
    const std::uint64_t origin = clock.now();
    follow_schedule(clock, plan, origin, body, options, costs, nullptr, *counts);
    EXPECT_EQ(counts->calls + counts->abandoned, 500U);
    EXPECT_GE(counts->calls, 450U);
    EXPECT_GE(counts->end_ns, 500 * ms);
    EXPECT_GE(counts->last_start_ns, 499 * ms);  // no call begins before its time
}

// And the stall in real time: the body sleeps, because that is what the test is about.
TEST(RateMode, RealStallShowsInTheResponses) {
    const rate_options options{.hz = 1000, .seconds = 0.5};
    auto counts = std::make_unique<rate_counts>();
    int calls = 0;
    auto stalls_once = [&] {
        if (calls++ == 200) std::this_thread::sleep_for(std::chrono::milliseconds(100));
    };
    looped_body body(stalls_once);
    schedule plan(options.hz, options.arrival);
    const monotonic_clock clock;
    const rate_costs costs = measure_rate_costs(options.pace, body);
    follow_schedule(clock, plan, clock.now(), body, options, costs, nullptr, *counts);
    histogram_counts response;
    counts->response.add_to(response);
    const std::uint64_t bound[] = {std::uint64_t{1} << 23};  // 8.4 ms: 91 of the 100 delayed calls waited longer
    EXPECT_GE(response.total() - response.cumulative(bound)[0], 90U);
    EXPECT_GE(counts->backlog_max, 99U);
}

}  // namespace
}  // namespace holdfast::perf_test
