// SPDX-License-Identifier: Apache-2.0
#include "holdfast/perf_test/modes.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <limits>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>

#include "holdfast/perf_test/engine.hpp"
#include "holdfast/perf_test/environment.hpp"
#include "holdfast/perf_test/options.hpp"
#include "holdfast/perf_test/result.hpp"
#include "holdfast/perf_test/session.hpp"
#include "support/perf_results.hpp"

namespace holdfast::perf_test {
namespace {

using test::warns;

test_options quick() {
    test_options options;
    options.suite = "Suite";
    options.name = "Name";
    options.seconds = 0.05;
    return options;
}

void work_a_little() {
    std::uint64_t x = 1;
    for (int i = 0; i < 500; ++i) do_not_optimize(x = x * 6364136223846793005U + 1);
}

template <class Operation>
result measured(const test_options& options, Operation operation) {
    looped_body body(operation);
    return measure_mode(options, body);
}

TEST(Modes, PlainOptionsWantNone) {
    EXPECT_FALSE(wants_mode(quick()));
    for (auto change : {+[](test_options& o) { o.latency = true; }, +[](test_options& o) { o.hz = 1; },
                        +[](test_options& o) { o.threads = {1}; }, +[](test_options& o) { o.processes = {1}; }}) {
        test_options options = quick();
        change(options);
        EXPECT_TRUE(wants_mode(options));
        EXPECT_EQ(mode_conflict(options), "");
    }
    test_options useless = quick();
    useless.pace = pacing::sleep;
    EXPECT_TRUE(wants_mode(useless));  // to be refused, not to be ignored
}

// What cannot be obeyed is refused with a sentence that names the flag or the number.
TEST(Modes, ContradictionsAreRefusedWithASentence) {
    constexpr double infinite = std::numeric_limits<double>::infinity();
    struct wrong {
        void (*change)(test_options&);
        const char* says;
    };
    const wrong all[] = {
        {[](test_options& o) { o.arrival = arrivals::poisson; }, "-hz"},
        {[](test_options& o) { o.pace = pacing::sleep; }, "-hz"},
        {[](test_options& o) { o.hz = -5; }, "-5 calls a second"},
        {[](test_options& o) { o.hz = 2e9; }, "2e+09 calls a second"},
        {[](test_options& o) { o.hz = std::numeric_limits<double>::quiet_NaN(); }, "nan calls a second"},
        {[](test_options& o) { o.latency = true, o.seconds = 0; }, "not 0 s"},
        {[](test_options& o) { o.latency = true, o.seconds = infinite; }, "not inf s"},
        {[](test_options& o) { o.latency = true, o.precision = 0.01; }, "-precision"},
        {[](test_options& o) { o.threads = {0}; }, "0 threads"},
        {[](test_options& o) { o.processes = {1, 5000}; }, "5000 processes"},
        {[](test_options& o) { o.threads = {4}, o.hz = 10; }, "not one for each of 4 threads"},
        {[](test_options& o) { o.threads = {2}, o.count = counting::perf; }, "count without them"},
        {[](test_options& o) { o.processes = {2}, o.count = counting::callgrind; }, "count without them"},
    };
    for (const wrong& each : all) {
        test_options options = quick();
        each.change(options);
        const std::string sentence = mode_conflict(options);
        EXPECT_NE(sentence.find(each.says), std::string::npos) << "wanted " << each.says << " in: " << sentence;
        bool called = false;
        const result found = measured(options, [&] { called = true; });
        EXPECT_EQ(found.failure, sentence);
        EXPECT_FALSE(called);
    }
}

TEST(Modes, LatencyFillsLatency) {
    test_options options = quick();
    options.latency = true;
    const result found = measured(options, work_a_little);
    ASSERT_TRUE(found.good()) << found.failure;
    ASSERT_TRUE(found.latency);
    EXPECT_EQ(found.latency->count, found.count);
    EXPECT_GT(found.count, 100U);
    EXPECT_GE(found.seconds, 0.05);
    EXPECT_GT(found.floor_ns, 0);
    EXPECT_FALSE(found.rate);
    EXPECT_EQ(found.full_name(), "Suite.Name");
}

// Counted in a pass of its own: what the kernel always tells is there, the CPU's counters or the reason why not.
TEST(Modes, CountersAreCountedBesideCallsAndSchedules) {
    for (const double hz : {0.0, 1000.0}) {
        test_options options = quick();
        options.hz = hz;
        options.latency = hz <= 0;
        std::uint64_t calls = 0;
        auto operation = [&] { work_a_little(), ++calls; };
        looped_body body(operation);
        const result plain = measure_body(options, body);
        EXPECT_TRUE(plain.counters.empty());
        options.count = counting::perf;
        const result found = measure_body(options, body);
        ASSERT_TRUE(found.good()) << found.failure;
        std::map<std::string, double> counted;
        for (const counter& one : found.counters) counted[one.name] = one.per_operation;
        EXPECT_EQ(counted.count("major-faults"), 1U) << "zero is a count";
        if (!warns(found, "counters")) {
            EXPECT_GT(counted["instructions"], 500) << "500 multiplications";
        }
    }
}

TEST(Modes, ABodyBelowTheClockIsWarnedOf) {
    test_options options = quick();
    options.latency = true;
    EXPECT_TRUE(warns(measured(options, [] {}), "below_clock"));
    EXPECT_FALSE(warns(measured(options, work_a_little), "below_clock"));
}

TEST(Modes, RateFillsServiceAndResponse) {
    test_options options = quick();
    options.hz = 1000;
    options.latency = true;  // adds nothing: the service times are it
    options.arrival = arrivals::poisson;
    options.seed = 11;
    const result found = measured(options, work_a_little);
    ASSERT_TRUE(found.good()) << found.failure;
    ASSERT_TRUE(found.rate);
    EXPECT_EQ(found.rate->wanted_hz, 1000);
    EXPECT_EQ(found.rate->arrival, arrivals::poisson);
    EXPECT_EQ(found.rate->seed, 11U);
    EXPECT_EQ(found.rate->service.count, found.count);
    EXPECT_EQ(found.rate->response.count, found.count + found.rate->abandoned);
    EXPECT_FALSE(found.latency);
}

TEST(Modes, AnOverloadIsWarnedOfAndEndsInTime) {
    test_options options = quick();
    options.hz = 1e8;
    const result found = measured(options, work_a_little);
    ASSERT_TRUE(found.good()) << found.failure;
    EXPECT_TRUE(warns(found, "overload"));
    EXPECT_GT(found.rate->abandoned, 1'000'000U);
    EXPECT_GT(found.rate->backlog_max, 1'000'000U);
    EXPECT_LT(found.rate->achieved_hz, 5e7);
    EXPECT_LT(found.seconds, 1);
}

TEST(Modes, EachGroupHasItsEntryAndTheLastIsTheResult) {
    test_options options = quick();
    options.threads = {1, 2};
    const result found = measured(options, work_a_little);
    ASSERT_TRUE(found.good()) << found.failure;
    ASSERT_EQ(found.workers.size(), 2U);
    EXPECT_EQ(found.workers[0].workers, 1U);
    EXPECT_EQ(found.workers[1].workers, 2U);
    EXPECT_EQ(found.count, found.workers[1].count);
    EXPECT_EQ(found.samples.size(), found.time.count);
    EXPECT_GT(found.time.median, 0);
}

TEST(Modes, ADeletedBodyIsWarnedOfInGroups) {
    for (std::vector<std::size_t> test_options::* kind : {&test_options::threads, &test_options::processes}) {
        test_options options = quick();
        options.*kind = {1};
        // The empty loop of an instrumented program takes so long that its own noise is more than a deleted body.
        const bool judged = this_build().optimised && this_build().sanitizer.empty();
        EXPECT_TRUE(warns(measured(options, [] {}), "deleted") || !judged);
        EXPECT_FALSE(warns(measured(options, work_a_little), "deleted"));
        options.latency = true;  // calls are no batches: below_clock tells it
        EXPECT_FALSE(warns(measured(options, [] {}), "deleted"));
    }
}

TEST(Modes, TheBatchesOfAGroupAreJudgedAsThoseOfOneThread) {
    test_options options = quick();
    options.threads = {1};
    options.batch = 1;
    std::atomic<int> calls = 0;
    // Every second operation takes eleven times as long: two peaks.
    const result found = measured(options, [&] {
        const int times = calls.fetch_add(1) % 2 == 0 ? 20 : 220;
        for (int i = 0; i < times; ++i) work_a_little();
    });
    ASSERT_TRUE(found.good()) << found.failure;
    EXPECT_TRUE(warns(found, "modes"));
}

TEST(Modes, MoreWorkersThanCpusAreWarnedOf) {
    test_options options = quick();
    options.seconds = 0.02;
    options.threads = {64};
    const result found = measured(options, work_a_little);
    ASSERT_TRUE(found.good()) << found.failure;
    EXPECT_EQ(warns(found, "crowded"), std::thread::hardware_concurrency() < 64);
}

TEST(Modes, AFailedGroupEndsTheSeriesAndVoidsTheResult) {
    test_options options = quick();
    options.threads = {1, 2, 4};
    std::atomic<int> calls = 0;
    const result found = measured(options, [&] {
        work_a_little();
        if (calls.fetch_add(1) == 1000) throw std::runtime_error("lost");
    });
    EXPECT_EQ(found.failure, "Suite.Name: worker 1 of 1 (thread) threw: lost");
    EXPECT_EQ(found.workers.size(), 1U);
    EXPECT_EQ(found.count, 0U);
}

// 1,000 N / (1 + 0.1 (N - 1)): Amdahl's law with a tenth of the work in sequence. Four numbers of workers tell it.
TEST(Modes, FourNumbersOfWorkersAreFitted) {
    result found;
    found.name = "Name";
    found.count = 1;
    found.seconds = 1;
    for (const std::size_t workers : {1U, 2U, 4U, 8U}) {
        EXPECT_EQ(to_text(found).find("scaling:"), std::string::npos);
        workers_result group;
        group.workers = workers;
        const auto n = static_cast<double>(workers);
        group.wall_hz = 1000 * n / (1 + 0.1 * (n - 1));
        found.workers.push_back(group);
    }
    EXPECT_NE(to_text(found).find("scaling:"), std::string::npos) << to_text(found);
    for (workers_result& group : found.workers) group.rate = rate_result{};  // the schedule set the throughput
    EXPECT_EQ(to_text(found).find("scaling:"), std::string::npos);
}

}  // namespace
}  // namespace holdfast::perf_test
