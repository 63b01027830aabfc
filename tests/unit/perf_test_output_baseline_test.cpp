// SPDX-License-Identifier: Apache-2.0
// A file of results read back as a baseline: what is compared with what, what is refused, and hostile files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include "holdfast/perf_test/compare.hpp"
#include "holdfast/perf_test/options.hpp"
#include "holdfast/perf_test/output.hpp"
#include "holdfast/perf_test/session.hpp"
#include "perf_test/baseline_sink.hpp"
#include "perf_test/figures.hpp"
#include "support/perf_results.hpp"
#include "support/seed.hpp"

namespace holdfast::perf_test {
namespace {

using test::example, test::measured_result, test::scratch_folder;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

latency_result calls(double scale) {
    return {.count = 100'000,
            .percentiles = {{0.5, 10 * scale, 9.9 * scale, 10.1 * scale, true},
                            {0.9, 20 * scale, 19 * scale, 21 * scale, true},
                            {0.99, 90 * scale, 80 * scale, 99 * scale, true},
                            {0.999, 900 * scale, 0, 0, false}},
            .minimum = 1,
            .mean = 12,
            .maximum = 999,
            .histogram = {{8, 9, 50'000}, {10, 11, 50'000}}};
}

result flat_out(std::string name, double median) {
    result r = measured_result(std::move(name), median);
    r.latency.reset();
    return r;
}

result call_by_call(std::string name, double scale) {
    result r = measured_result(std::move(name), 1);
    r.time = {};
    r.samples.clear();
    r.latency = calls(scale);
    return r;
}

rate_result at_a_rate(arrivals arrival, pacing pace) {
    rate_result rate;
    rate.wanted_hz = 2000;
    rate.arrival = arrival;
    rate.pace = pace;
    rate.service = calls(1);
    rate.response = calls(2);
    return rate;
}

/// Two threads flat out, four processes call by call.
result in_groups(std::string name) {
    result r = flat_out(std::move(name), 5);
    workers_result two;
    two.workers = 2;
    two.batches = r.time;
    two.wall_hz = 1e6;
    workers_result four;
    four.workers = 4;
    four.processes = true;
    four.latency = calls(3);
    r.workers = {two, four};
    r.counters.push_back({"instructions", 100, "callgrind"});
    return r;
}

std::vector<std::string> names_of(const result& found) {
    std::vector<std::string> names;
    for (const figure& one : figures_of(found)) names.push_back(one.name);
    return names;
}

TEST(PerfFigures, TheirNamesSayHowTheyWereMeasured) {
    EXPECT_THAT(names_of(flat_out("Fast", 5)), ElementsAre("median"));
    EXPECT_THAT(names_of(call_by_call("Fast", 1)), ElementsAre("latency p50", "latency p99"));
    result paced = call_by_call("Fast", 1);
    paced.latency.reset();
    paced.rate = at_a_rate(arrivals::fixed, pacing::spin);
    EXPECT_THAT(names_of(paced),
                ElementsAre("2000/s service p50", "2000/s service p99", "2000/s response p50", "2000/s response p99"));
    paced.rate = at_a_rate(arrivals::poisson, pacing::sleep);
    EXPECT_EQ(names_of(paced).back(), "2000/s poisson sleeping response p99");
    EXPECT_THAT(names_of(in_groups("Fast")),
                ElementsAre("2 threads median", "4 processes latency p50", "4 processes latency p99", "instructions"));
    EXPECT_THAT(names_of(test::failed_result("it threw")), IsEmpty());
}

TEST(PerfBaseline, EveryFigureComesBackFromItsFile) {
    scratch_folder files;
    run_record run = example();
    run.results = {flat_out("a", 5), call_by_call("b", 1), call_by_call("c", 1), in_groups("d")};
    run.results[2].latency.reset();
    run.results[2].rate = at_a_rate(arrivals::poisson, pacing::sleep);
    const baseline base(files.file("a.json", to_json(run)), run.where);
    for (const result& one : run.results) {
        const std::vector<result> back = base.runs_of(one.full_name());
        ASSERT_EQ(back.size(), 1U);
        const std::vector<figure> before = figures_of(one), after = figures_of(back.front());
        ASSERT_EQ(names_of(back.front()), names_of(one));
        for (std::size_t i = 0; i < before.size(); ++i) {
            EXPECT_EQ(after[i].numbers.count, before[i].numbers.count) << before[i].name;
            EXPECT_EQ(after[i].numbers.median, before[i].numbers.median) << before[i].name;
            if (before[i].kind == figure_kind::count) continue;
            EXPECT_EQ(after[i].numbers.median_95.low, before[i].numbers.median_95.low) << before[i].name;
            EXPECT_EQ(after[i].numbers.median_95.high, before[i].numbers.median_95.high) << before[i].name;
        }
    }
}

TEST(PerfBaseline, ComesBackFromItsFile) {
    scratch_folder files;
    const run_record run = example();
    const baseline base(files.file("a.json", to_json(run)), run.where);
    ASSERT_EQ(base.runs_of("Suite.Fast").size(), 1U);
    EXPECT_DOUBLE_EQ(base.runs_of("Suite.Fast").front().time.median, run.results[0].time.median);
    EXPECT_TRUE(base.runs_of("Suite.Fails").empty()) << "a failure is no baseline";
    EXPECT_TRUE(base.runs_of("Suite.Other").empty());
}

TEST(PerfBaseline, PassesOfOneProcessAreOneRun) {
    scratch_folder files;
    run_record run = example();
    for (std::uint64_t pass = 2; pass <= 5; ++pass) {
        run.results.push_back(run.results[0]);
        run.results.back().pass = pass;
    }
    const baseline base(files.file("repeated.json", to_json(run)), run.where);
    EXPECT_EQ(base.runs_of("Suite.Fast").size(), 1U);
}

TEST(PerfBaseline, FolderIsOneRunAFile) {
    scratch_folder files;
    const run_record run = example();
    files.file("a.json", to_json(run));
    files.file("b.json", to_json(run));
    files.file("notes.txt", "no run");
    EXPECT_EQ(baseline(files.folder(), run.where).runs_of("Suite.Fast").size(), 2U);
}

std::string refusal(const std::string& path, const environment& here) {
    try {
        const baseline base(path, here);
    } catch (const usage_error& wrong) {
        return wrong.what();
    }
    return "not refused";
}

TEST(PerfBaseline, OfAnotherMachineBuildOrSchemaIsRefusedByName) {
    scratch_folder files;
    const run_record run = example();
    const std::string text = to_json(run), file = files.file("a.json", text);
    environment other = run.where;
    other.cpu = "Another CPU";
    EXPECT_THAT(refusal(file, other), HasSubstr("is of another machine or build (Some CPU"));
    other = run.where;
    other.build.optimised = false;
    EXPECT_THAT(refusal(file, other), HasSubstr("this is Some CPU, 4 CPUs, 8 GiB, x86_64, not optimised"));
    std::string newer = text;
    newer.replace(newer.find("\"schema_version\":1"), 18, "\"schema_version\":2");
    EXPECT_THAT(refusal(files.file("b.json", newer), run.where), HasSubstr("another version of the format"));
    EXPECT_THAT(refusal(files.file("c.json", "{}"), run.where), HasSubstr("was not written by --perf_json"));
    EXPECT_THAT(refusal(files.file("d.json", "no JSON\x1b"), run.where), HasSubstr("is not JSON"));
    EXPECT_THAT(refusal(files.path_of("none.json"), run.where), HasSubstr("none.json"));
}

TEST(PerfBaseline, DamagedFilesAreRefusedOrReadButNeverFollowed) {
    scratch_folder files;
    run_record run = example();
    for (result& r : run.results) r.samples.resize(3);
    run.results[0] = in_groups("Fast");
    const std::string text = to_json(run);
    test::seeded_random random;
    const std::string file = files.path_of("a.json");
    for (int i = 0; i < 300; ++i) {
        std::string damaged = text;
        const std::size_t at = random() % damaged.size();
        if (i % 3 == 0)
            damaged.resize(at);
        else
            damaged[at] = i % 3 == 1 ? static_cast<char>(random()) : "-0e9[]{},\""[random() % 10];
        std::ofstream(file, std::ios::binary) << damaged;
        try {
            const baseline base(file, run.where);
            for (const result& one : base.runs_of("Suite.Fast"))
                for (const auto& [name, kind, s] : figures_of(one)) {
                    EXPECT_TRUE(std::isfinite(s.median) && s.median > 0) << name;
                    if (kind == figure_kind::count) continue;
                    EXPECT_TRUE(s.median_95.low > 0 && s.median_95.low <= s.median && s.median <= s.median_95.high);
                }
        } catch (const usage_error& refused) {
            EXPECT_STRNE(refused.what(), "");
        }
    }
}

/// What a run of one test says against a baseline of several.
class AgainstABaseline : public testing::Test {
 protected:
    void before(const result& found) {
        run_record run;
        run.where = where_;
        run.results = {found};
        files_.file(std::to_string(runs_++) + ".json", to_json(run));
    }

    std::vector<std::string> now(const result& found, bool asked = true) {
        output_options output;
        output.baseline = files_.folder();
        output.fail_on_regression = asked;
        const auto sink = make_baseline_sink(output, where_);
        sink->add(found);
        testing::internal::CaptureStdout();
        std::vector<std::string> failures = sink->finish();
        said_ = testing::internal::GetCapturedStdout();
        return failures;
    }

    scratch_folder files_;
    environment where_;
    int runs_ = 0;
    std::string said_;
};

constexpr double around[] = {0.99, 1.0, 1.01, 0.995, 1.005, 1.002};

TEST_F(AgainstABaseline, ASlowerTestFailsTheRunOnlyIfAsked) {
    for (const double factor : around) before(flat_out("Test", 1000 * factor));
    EXPECT_THAT(now(flat_out("Test", 1005)), IsEmpty());
    EXPECT_THAT(said_, testing::StartsWith("baseline: Suite.Test: same: "));
    EXPECT_THAT(now(flat_out("Test", 3000)), ElementsAre(testing::StartsWith("Suite.Test: slower: ")));
    EXPECT_THAT(now(flat_out("Test", 3000), false), IsEmpty());
    EXPECT_THAT(said_, HasSubstr("Suite.Test: slower: "));
    EXPECT_THAT(now(flat_out("New", 5)), IsEmpty());
    EXPECT_THAT(said_, HasSubstr("Suite.New: not in the baseline"));
}

TEST_F(AgainstABaseline, LatenciesAreComparedWithLatencies) {
    for (const double factor : around) before(call_by_call("Test", factor));
    EXPECT_THAT(now(call_by_call("Test", 1)), IsEmpty());
    result slower = call_by_call("Test", 1);
    slower.latency->percentiles[2] = {0.99, 900, 800, 990, true};
    EXPECT_THAT(now(slower), ElementsAre(testing::StartsWith("Suite.Test, latency p99: slower: ")));
}

TEST_F(AgainstABaseline, TailsWaitUntilTheirDeviationIsKnown) {
    for (int run = 0; run < 4; ++run) before(call_by_call("Test", around[run]));
    result slower = call_by_call("Test", 1);
    slower.latency->percentiles[2] = {0.99, 900, 800, 990, true};
    EXPECT_THAT(now(slower), IsEmpty());
    EXPECT_THAT(said_, HasSubstr("1 percentiles above the median were not compared: that takes 5 runs"));
    EXPECT_THAT(now(call_by_call("Test", 3)), ElementsAre(testing::StartsWith("Suite.Test, latency p50: slower: ")));
}

TEST_F(AgainstABaseline, GroupsAreComparedOneByOne) {
    for (const double factor : around) {
        result r = in_groups("Test");
        r.workers[0].batches.median *= factor;
        before(r);
    }
    result r = in_groups("Test");
    r.workers[0].batches.median *= 2;
    EXPECT_THAT(now(r), ElementsAre(testing::StartsWith("Suite.Test, 2 threads median: slower: ")));
    r.workers[0].workers = 8;
    EXPECT_THAT(now(r), IsEmpty());
    EXPECT_THAT(said_, HasSubstr("Suite.Test, 8 threads median: not in the baseline"));
}

TEST_F(AgainstABaseline, WhatWasMeasuredInAnotherWayIsRefused) {
    for (const double factor : around) before(flat_out("Test", factor));
    EXPECT_THAT(now(call_by_call("Test", 1)),
                ElementsAre("Suite.Test: cannot be compared: measured now: latency p50, latency p99; in the baseline: "
                            "median. Measure both in the same way, or take a new baseline"));
    EXPECT_THAT(now(call_by_call("Test", 1), false), IsEmpty());
    EXPECT_THAT(said_, HasSubstr("Suite.Test: cannot be compared"));
}

TEST_F(AgainstABaseline, ATestOfWhichNothingIsLeftIsNotFaster) {
    for (const double factor : around) before(flat_out("Test", factor));
    EXPECT_THAT(now(flat_out("Test", 0)), ElementsAre(HasSubstr("nothing is left to compare: it is 0 now")));
    EXPECT_THAT(now(flat_out("Test", 0.1)), ElementsAre(HasSubstr("nothing is left to compare")))
        << "less than a cycle is the loop's own noise";
    result deleted_before = flat_out("Empty", 0.1);
    before(deleted_before);
    EXPECT_THAT(now(flat_out("Empty", 10)), ElementsAre(HasSubstr("measured now: median; in the baseline: no number")));
}

TEST_F(AgainstABaseline, InstructionsAreComparedExactly) {
    const auto counted = [](double instructions, double median = 1) {
        result r = flat_out("Test", median);
        r.counters = {{"instructions", instructions, "callgrind"}};
        return r;
    };
    before(counted(1000));
    EXPECT_THAT(now(counted(1009)), IsEmpty());
    EXPECT_THAT(said_, HasSubstr("Suite.Test, instructions: same: 1009 an operation"));
    EXPECT_THAT(now(counted(1011)), ElementsAre(HasSubstr("instructions: slower: 1011 an operation, +1.1 % against")));
    EXPECT_THAT(now(counted(980)), IsEmpty());
    EXPECT_THAT(said_, HasSubstr("instructions: faster: "));
    result by_the_cpu = counted(5000);
    by_the_cpu.counters.front().source = "perf_event";
    EXPECT_THAT(now(by_the_cpu), IsEmpty()) << "interruptions change what the CPU counts";
    EXPECT_THAT(now(counted(0)), ElementsAre(HasSubstr("nothing is left to compare")));
}

TEST(PerfSinks, ABaselineIsReadFromTheMachineOfThisRun) {
    scratch_folder files;
    flag_values flags;
    flags.output.json = files.path_of("a.json");
    {
        const auto sinks = make_sinks(flags, this_build());
        sinks.front()->add(flat_out("Test", 10));
        EXPECT_THAT(sinks.front()->finish(), IsEmpty());
    }
    flags.output.baseline = flags.output.json;
    flags.output.fail_on_regression = true;
    const auto sinks = make_sinks(flags, this_build());
    ASSERT_EQ(sinks.size(), 2U);
    sinks.front()->add(flat_out("Test", 30));
    EXPECT_EQ(sinks.front()->finish().size(), 1U) << "the baseline is read before the same file is written";
}

}  // namespace
}  // namespace holdfast::perf_test
