// SPDX-License-Identifier: Apache-2.0
// Threads as workers, and what threads and processes share. Forked workers that die: tests/crash.
#include "holdfast/perf_test/workers.hpp"

#include <gtest/gtest.h>
#include <sched.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "holdfast/error.hpp"
#include "holdfast/perf_test/engine.hpp"
#include "holdfast/perf_test/statistics.hpp"

namespace holdfast::perf_test {
namespace {

group_options threads(std::size_t workers, double seconds = 0.05) {
    group_options group;
    group.test = "Suite.Name";
    group.workers = workers;
    group.seconds = seconds;
    return group;
}

// About a microsecond by itself, whoever else runs.
void work_a_little() {
    std::uint64_t x = 1;
    for (int i = 0; i < 500; ++i) do_not_optimize(x = x * 6364136223846793005U + 1);
}

TEST(Workers, ThreadsRunTogetherAndAreCounted) {
    std::atomic<std::uint64_t> calls = 0;
    auto operation = [&] {
        work_a_little();
        calls.fetch_add(1, std::memory_order_relaxed);  // relaxed: only counted
    };
    looped_body body(operation);
    const group_outcome outcome = run_group(threads(3), body);
    const workers_result& result = outcome.result;
    EXPECT_EQ(result.failure, "");
    EXPECT_EQ(result.workers, 3U);
    EXPECT_FALSE(result.processes);
    EXPECT_EQ(result.worker_ns.size(), 3U);
    EXPECT_EQ(result.per_worker_ns.count, 3U);
    EXPECT_GT(result.count, 3U);
    EXPECT_LT(result.count, calls.load());  // the warm-up is not counted
    EXPECT_GE(result.seconds, 0.05);
    EXPECT_NEAR(result.wall_hz, static_cast<double>(result.count) / result.seconds, 1);
    EXPECT_EQ(outcome.samples.size(), result.batches.count);
    EXPECT_GE(outcome.samples.size(), 3U);
    EXPECT_GT(result.batches.median, 10);
    EXPECT_FALSE(outcome.aborted);
}

// The last worker is slow to get ready (its floor takes long). With a batch given there is no warm-up, so any batch of
// the others that it sees meanwhile is one that did not wait for it.
TEST(Workers, NobodyBeginsBeforeAllAreReady) {
    constexpr std::size_t workers = 4;
    std::array<std::atomic<int>, workers> batches{};
    std::atomic<int> begun_too_early = 0;
    struct counting_body : body_runner {
        std::array<std::atomic<int>, workers>& batches;
        std::atomic<int>& early;
        counting_body(std::array<std::atomic<int>, workers>& b, std::atomic<int>& e) : batches(b), early(e) {}
        std::uint64_t run_batch(std::uint64_t operations) override {
            batches[current_worker().index].fetch_add(1);
            return operations;
        }
        std::uint64_t run_floor(std::uint64_t operations) override {
            if (current_worker().index == workers - 1) {
                std::this_thread::sleep_for(std::chrono::milliseconds(2));
                for (const auto& each : batches)
                    if (each.load() != 0) early.fetch_add(1);
            }
            return operations;
        }
    } body(batches, begun_too_early);
    group_options group = threads(workers, 0.01);
    group.batch = 1;
    const group_outcome outcome = run_group(group, body);
    EXPECT_EQ(outcome.result.failure, "");
    EXPECT_EQ(begun_too_early.load(), 0);
    for (const auto& each : batches) EXPECT_GT(each.load(), 0);
}

// A worker that is slower than another is no drift and no slow wave: neighbours in time are each worker's own.
TEST(Workers, WhatIsAboutNeighboursInTimeIsNotAcrossWorkers) {
    auto unequal = [] { std::this_thread::sleep_for(std::chrono::milliseconds(current_worker().index == 0 ? 1 : 20)); };
    looped_body body(unequal);
    group_options group = threads(2, 0.4);
    group.batch = 1;
    // A machine that stands still for longer than the slower worker sleeps hides the step: another time, then.
    bool shown = false;
    for (int turn = 0; turn < 5 && !shown; ++turn) {
        const group_outcome outcome = run_group(group, body);
        ASSERT_EQ(outcome.result.failure, "");
        const summary together = describe(outcome.samples);
        EXPECT_EQ(outcome.result.batches.median, together.median);
        shown = together.autocorrelation > 0.5 &&  // one worker behind the other: a step
                std::abs(outcome.result.batches.autocorrelation) < together.autocorrelation;
    }
    EXPECT_TRUE(shown);
}

TEST(Workers, EachKnowsWhoItIs) {
    std::mutex mutex;
    std::set<std::size_t> seen;
    auto operation = [&] {
        const std::lock_guard hold(mutex);
        seen.insert(current_worker().index);
        EXPECT_EQ(current_worker().workers, 3U);
        EXPECT_FALSE(current_worker().process);
    };
    looped_body body(operation);
    EXPECT_EQ(run_group(threads(3, 0.01), body).result.failure, "");
    EXPECT_EQ(seen, (std::set<std::size_t>{0, 1, 2}));
    EXPECT_EQ(current_worker().workers, 1U);
}

TEST(Workers, PreparationsAreNotTimed) {
    struct prepared_body : body_runner {
        std::atomic<std::uint64_t> prepared = 0, done = 0, finished = 0;
        std::uint64_t run_batch(std::uint64_t operations) override {
            done.fetch_add(operations);
            return operations;
        }
        std::uint64_t run_floor(std::uint64_t operations) override { return operations; }
        void prepare(std::uint64_t operations) override {
            prepared.fetch_add(operations);
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        void finish() override { finished.fetch_add(1); }
        std::uint64_t batch() const override { return 10; }
    } body;
    const group_outcome outcome = run_group(threads(2, 0.02), body);
    EXPECT_EQ(outcome.result.failure, "");
    EXPECT_EQ(body.prepared.load(), body.done.load());
    EXPECT_EQ(body.finished.load() * 10, body.done.load());
    EXPECT_LT(outcome.result.per_worker_ns.median, 50'000);  // 100'000 if the millisecond for ten operations counted
}

TEST(Workers, AnExceptionNamesTheWorkerAndVoidsTheGroup) {
    std::atomic<int> calls = 0;
    auto operation = [&] {
        work_a_little();
        if (current_worker().index == 1 && calls.fetch_add(1) == 100) throw std::runtime_error("lost the database");
    };
    looped_body body(operation);
    const group_outcome outcome = run_group(threads(3, 30), body);  // and it does not go on for 30 s
    EXPECT_EQ(outcome.result.failure, "Suite.Name: worker 2 of 3 (thread) threw: lost the database");
    EXPECT_EQ(outcome.result.count, 0U);
    EXPECT_EQ(outcome.result.wall_hz, 0);
    EXPECT_TRUE(outcome.samples.empty());
}

TEST(Workers, AnExceptionBeforeTheStartDoesNotLeaveOthersWaiting) {
    auto operation = [] {
        if (current_worker().index == 0) throw 42;
    };
    looped_body body(operation);
    const group_outcome outcome = run_group(threads(4, 30), body);
    EXPECT_EQ(outcome.result.failure, "Suite.Name: worker 1 of 4 (thread) threw something that is no std::exception");
}

TEST(Workers, ABodyThatAsksToStopEndsAll) {
    std::atomic<int> calls = 0;
    auto operation = [&] {
        work_a_little();
        if (calls.fetch_add(1) == 50'000) stop_sign::raise();
    };
    looped_body body(operation);
    const group_outcome outcome = run_group(threads(2, 60), body);
    stop_sign::lower();
    EXPECT_TRUE(outcome.aborted);
    EXPECT_EQ(outcome.result.failure, "");
    EXPECT_LT(outcome.result.seconds, 30);
}

TEST(Workers, LatenciesOfAllWorkersAreOneDistribution) {
    auto operation = [] { work_a_little(); };
    looped_body body(operation);
    group_options group = threads(2);
    group.latency = true;
    const group_outcome outcome = run_group(group, body);
    EXPECT_EQ(outcome.result.failure, "");
    ASSERT_TRUE(outcome.result.latency);
    EXPECT_EQ(outcome.result.latency->count, outcome.result.count);
    EXPECT_GT(outcome.result.latency->percentiles.at(0).estimate, 50);
    EXPECT_FALSE(outcome.result.rate);
}

TEST(Workers, ARateIsOfAllWorkersTogether) {
    auto operation = [] { work_a_little(); };
    looped_body body(operation);
    group_options group = threads(2, 0.5);
    group.rate = rate_options{.hz = 200, .seconds = 0.5};
    const group_outcome outcome = run_group(group, body);
    EXPECT_EQ(outcome.result.failure, "");
    ASSERT_TRUE(outcome.result.rate);
    const rate_result& rate = *outcome.result.rate;
    EXPECT_EQ(outcome.result.count + rate.abandoned, 100U);
    EXPECT_EQ(rate.response.count, 100U);
    EXPECT_NEAR(rate.achieved_hz, 200, 20);
}

TEST(Workers, AWorkerWithoutACallIsAFailureNotAZero) {
    auto operation = [] {};
    looped_body body(operation);
    group_options group = threads(3, 0.02);
    group.rate = rate_options{.hz = 100, .seconds = 0.02};
    const group_outcome outcome = run_group(group, body);
    EXPECT_NE(outcome.result.failure.find("worker 3 of 3 did no operation"), std::string::npos)
        << outcome.result.failure;
    EXPECT_EQ(outcome.result.count, 0U);
}

TEST(Workers, AnImpossiblePinIsAClearFailure) {
    auto operation = [] {};
    looped_body body(operation);
    group_options group = threads(2);
    group.pin = {100'000};
    const group_outcome outcome = run_group(group, body);
    EXPECT_NE(outcome.result.failure.find("CPU 100000"), std::string::npos) << outcome.result.failure;
}

TEST(Workers, PinnedWorkersRunWhereTheyAreTied) {
    cpu_set_t usable;
    CPU_ZERO(&usable);
    ASSERT_EQ(sched_getaffinity(0, sizeof usable, &usable), 0);
    std::vector<unsigned> cpus;
    for (unsigned cpu = 0; cpu < CPU_SETSIZE; ++cpu)
        if (CPU_ISSET(cpu, &usable)) cpus.push_back(cpu);
    std::atomic<int> elsewhere = 0;
    auto operation = [&] {
        if (static_cast<unsigned>(sched_getcpu()) != cpus[current_worker().index % cpus.size()]) elsewhere.fetch_add(1);
    };
    looped_body body(operation);
    group_options group = threads(2, 0.01);
    group.pin = cpus;
    EXPECT_EQ(run_group(group, body).result.failure, "");
    EXPECT_EQ(elsewhere.load(), 0);
}

TEST(Workers, NonsenseIsRefused) {
    auto operation = [] {};
    looped_body body(operation);
    for (const std::size_t workers : {std::size_t{0}, workers_max + 1})
        EXPECT_THROW((void)run_group(threads(workers), body), error);
    for (const double seconds : {0.0, -1.0, 1.0 / 0.0, 0.0 / 0.0})
        EXPECT_THROW((void)run_group(threads(1, seconds), body), error);
}

// A thread cannot be ended from outside. The program is, with a sentence, as soon as patience is over.
TEST(WorkersDeathTest, AHangingThreadEndsTheProgramWithAMessage) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_EXIT(
        {
            auto operation = [] {
                while (current_worker().index == 1) std::this_thread::sleep_for(std::chrono::seconds(1));
            };
            looped_body body(operation);
            group_options group = threads(2, 0.01);
            group.patience_seconds = 0.2;
            (void)run_group(group, body);
        },
        testing::ExitedWithCode(3), "Suite.Name: worker 2 of 2 .thread. was not ready 0.2 s after its start");
}

}  // namespace
}  // namespace holdfast::perf_test
