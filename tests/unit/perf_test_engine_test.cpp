// SPDX-License-Identifier: Apache-2.0
// The measuring loop, seen from outside: how often it calls what, when it ends, what it says of it.
#include "holdfast/perf_test/engine.hpp"
#include "holdfast/perf_test/environment.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "holdfast/perf_test/clock.hpp"
#include "support/perf_results.hpp"

namespace {

namespace perf = holdfast::perf_test;
using holdfast::test::warns;

perf::test_options short_run(double seconds = 0.02) {
    perf::test_options options;
    options.name = "Body";
    options.seconds = seconds;
    return options;
}

// Operations of a given length by the clock, so that a busy machine can only make them longer.
void spend(std::uint64_t ns) {
    const std::uint64_t until = perf::monotonic_ns() + ns;
    while (perf::monotonic_ns() < until) perf::clobber_memory();
}

TEST(PerfTestEngine, EveryTimedOperationIsCounted) {
    std::uint64_t calls = 0;
    auto body = [&] { perf::do_not_optimize(++calls); };
    perf::looped_body runner(body);
    const perf::result found = perf::measure_batches(short_run(), runner);
    EXPECT_TRUE(found.good());
    EXPECT_FALSE(found.aborted);
    EXPECT_EQ(found.count, found.batch * found.samples.size());
    EXPECT_GT(calls, found.count) << "calibration and warm-up run the body, too, and are not counted";
    EXPECT_TRUE(found.samples.size() >= 30U || warns(found, "few")) << "a busy machine makes batches long";
    EXPECT_GE(found.seconds, 0.02);
}

TEST(PerfTestEngine, TheTimeOfAnOperationIsNeverLessThanWhatItSpends) {
    auto body = [] { spend(20'000); };
    perf::looped_body runner(body);
    const perf::result found = perf::measure_batches(short_run(), runner);
    EXPECT_GE(found.time.minimum, 19'000) << "the floor taken off is " << found.floor_ns;
    EXPECT_FALSE(warns(found, "deleted"));
}

TEST(PerfTestEngine, ABodyThatDoesNothingIsSaidToBeDeleted) {
    if (!perf::this_build().optimised) GTEST_SKIP() << "a compiler that optimises removes the body";
    auto body = [] {};
    perf::looped_body runner(body);
    EXPECT_TRUE(warns(perf::measure_batches(short_run(), runner), "deleted"));
}

TEST(PerfTestEngine, LongOperationsEndAfterThreeTimesTheTimeWithAWord) {
    auto body = [] { spend(10'000'000); };
    perf::looped_body runner(body);
    perf::test_options options = short_run(0.01);
    const perf::result found = perf::measure_batches(options, runner);
    EXPECT_EQ(found.batch, 1U);
    EXPECT_LE(found.samples.size(), 3U);
    EXPECT_GE(found.samples.size(), 1U);
    EXPECT_TRUE(warns(found, "few"));
}

TEST(PerfTestEngine, APrescribedBatchIsKept) {
    std::uint64_t calls = 0;
    auto body = [&] { perf::do_not_optimize(++calls); };
    perf::looped_body runner(body);
    perf::test_options options = short_run();
    options.batch = 777;
    const perf::result found = perf::measure_batches(options, runner);
    EXPECT_EQ(found.batch, 777U);
    EXPECT_EQ(calls % 777, 0U);
}

TEST(PerfTestEngine, PrecisionEndsItEarly) {
    auto body = [] { spend(5'000); };
    perf::looped_body runner(body);
    perf::test_options options = short_run(30);
    options.precision = 0.5;
    const perf::result found = perf::measure_batches(options, runner);
    EXPECT_LT(found.seconds, 20);
    EXPECT_GE(found.samples.size(), 30U);
}

TEST(PerfTestEngine, TheStopSignEndsTheLoopAfterThatOperation) {
    std::uint64_t calls = 0;
    auto body = [&] {
        if (++calls == 1000) perf::stop_sign::raise();
    };
    perf::looped_body runner(body);
    const perf::result found = perf::measure_batches(short_run(), runner);
    perf::stop_sign::lower();
    EXPECT_EQ(calls, 1000U);
    EXPECT_TRUE(found.aborted);
}

TEST(PerfTestEngine, WhatTheBodyThrowsArrives) {
    auto body = [] { throw std::runtime_error("tired"); };
    perf::looped_body runner(body);
    EXPECT_THROW(static_cast<void>(perf::measure_batches(short_run(), runner)), std::runtime_error);
}

// Answers as if every third batch had been interrupted; it is asked before each batch and after it.
class every_third {
 public:
    perf::disturbance operator()() {
        if (++asked_ % 2 == 1 || ++batch_ % 3 != 0) return {};
        return {.involuntary_switches = 2, .steal_seconds = 0.01};
    }

 private:
    int asked_ = 0, batch_ = 0;
};

TEST(PerfTestEngine, DisturbedBatchesAreTakenAgainAndCounted) {
    std::uint64_t batches = 0;
    auto body = [&] {
        spend(500'000);
        ++batches;
    };
    perf::looped_body runner(body);
    perf::test_options options = short_run(0.02);
    options.batch = 1;
    options.warmup_seconds = 0;
    const perf::result found = perf::measure_batches(options, runner, every_third());
    ASSERT_TRUE(found.disturbed.has_value());
    const perf::disturbed_batches& d = *found.disturbed;
    EXPECT_GT(d.rerun, 0U);
    EXPECT_LE(d.rerun, d.batches);
    EXPECT_EQ(d.involuntary_switches, 2 * d.batches);
    EXPECT_DOUBLE_EQ(d.steal_seconds, 0.01 * static_cast<double>(d.batches));
    EXPECT_EQ(found.samples.size() + d.rerun + 1, batches) << "the first calibrates; each other is kept or taken again";
    EXPECT_EQ(d.batches, (batches - 1) / 3);
    EXPECT_TRUE(warns(found, "disturbed"));
}

TEST(PerfTestEngine, AMachineThatIsAlwaysDisturbedEndsAllTheSame) {
    auto body = [] { spend(500'000); };
    perf::looped_body runner(body);
    perf::test_options options = short_run(0.02);
    options.batch = 1;
    const perf::result found = perf::measure_batches(
        options, runner, [] { return perf::disturbance{.involuntary_switches = 1, .steal_seconds = 0}; });
    EXPECT_GE(found.samples.size(), 1U);
    ASSERT_TRUE(found.disturbed.has_value());
    EXPECT_EQ(found.disturbed->batches, found.samples.size() + found.disturbed->rerun);
}

TEST(PerfTestEngine, ShortBatchesAreNotAskedAbout) {
    std::uint64_t calls = 0;
    auto body = [&] { perf::do_not_optimize(++calls); };
    perf::looped_body runner(body);
    perf::test_options options = short_run();
    options.batch = 10;
    int asked = 0;
    constexpr int runs = 5;  // an interruption can make a short batch look long, but hardly each time
    for (int run = 0; run < runs; ++run) {
        bool asks = false;
        const perf::result found = perf::measure_batches(options, runner, [&asks] {
            asks = true;
            return perf::disturbance{};
        });
        EXPECT_EQ(asks, found.disturbed.has_value());
        asked += asks ? 1 : 0;
    }
    EXPECT_LT(asked, runs);
}

// Notes in which order it is called, and spends time in what must not be timed.
class recording_runner : public perf::body_runner {
 public:
    std::uint64_t run_batch(std::uint64_t operations) override {
        calls_ += 'b';
        spend(1000 * operations);
        return operations;
    }
    std::uint64_t run_floor(std::uint64_t operations) override { return operations; }
    void prepare(std::uint64_t operations) override {
        calls_ += 'p';
        prepared_ = operations;
        spend(2'000'000);
    }
    void finish() override { calls_ += 'f'; }
    [[nodiscard]] std::uint64_t batch() const override { return 10; }

    std::string calls_;
    std::uint64_t prepared_ = 0;
};

TEST(PerfTestEngine, SetUpAndTearDownSurroundEachBatchAndAreNotTimed) {
    recording_runner runner;
    perf::test_options options = short_run(0.0005);
    options.batch = 5;  // the body's own wish goes before
    const perf::result found = perf::measure_batches(options, runner);
    EXPECT_EQ(runner.prepared_, 10U);
    ASSERT_EQ(runner.calls_.size() % 3, 0U);
    for (std::size_t at = 0; at < runner.calls_.size(); at += 3) ASSERT_EQ(runner.calls_.substr(at, 3), "pbf");
    EXPECT_LT(found.time.minimum, 100'000) << "2 ms of set-up a batch of 10 would show as 200 us an operation";
}

}  // namespace
