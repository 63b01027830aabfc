// SPDX-License-Identifier: Apache-2.0
// Running suites and the command line that asks for it: what is timed, what is refused, what fails and how.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "holdfast/perf_test/do_not_optimize.hpp"
#include "support/unique_name.hpp"
#include "workload/command.hpp"
#include "workload/runner.hpp"

namespace holdfast::workload {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

/// Work whose time grows with `steps`; the compiler cannot shorten it.
perf_test::subject spinning(std::string name, int steps) {
    return {.name = std::move(name),
            .run =
                [steps](std::uint64_t operations) {
                    for (std::uint64_t i = 0; i < operations * static_cast<std::uint64_t>(steps); ++i)
                        perf_test::do_not_optimize(i);
                },
            .prepare = {},
            .batch = 0};
}

suite two_experiments() {
    return {"loops", "loops of two lengths", [](recorder& to) {
                for (const char* const name : {"short", "long"})
                    if (to.wants(name))
                        to.run({.name = name,
                                .subjects = {spinning("ours", 20), spinning("slow", 200), spinning("slower", 400)},
                                .published = {}});
                to.version("slow", "1");
                to.version("slow", "2");
                to.note("done");
            }};
}

suite adding(std::vector<std::vector<double>> samples, bool higher_is_better) {
    return {"added", "numbers from elsewhere", [=](recorder& to) {
                if (to.wants("x")) to.add("x", "requests/s", {"ours", "peer"}, samples, higher_is_better);
            }};
}

report run(const suite& one, run_options options = {}) {
    options.seconds = 0.02;
    options.quick = true;
    return run_suites({&one}, options, {});
}

TEST(BenchRunner, TimesWhatTheFilterWants) {
    run_options options;
    options.filter = "loops: long";
    const report all = run(two_experiments(), options);
    ASSERT_EQ(all.experiments.size(), 1U);
    const experiment_report& e = all.experiments.front();
    EXPECT_EQ(e.name, "long");
    EXPECT_GE(e.rounds, 11U);
    ASSERT_EQ(e.subjects.size(), 3U);
    for (const subject_report& s : e.subjects) EXPECT_GT(s.described.median, 0);
    ASSERT_EQ(e.ratios.size(), 2U);
    EXPECT_EQ(e.ratios.front().peer, "slow");
    EXPECT_GT(e.ratios.front().ratio, 2) << "ten times the work";
    EXPECT_TRUE(e.ratios.front().paired);
    EXPECT_EQ(all.versions, (std::vector<std::pair<std::string, std::string>>{{"slow", "2"}}));
    EXPECT_EQ(all.notes.front().suite, "loops");
}

TEST(BenchRunner, OnlyKeepsOursAndThePeersNamed) {
    run_options options;
    options.filter = "short";
    options.only = {"slower"};
    const report all = run(two_experiments(), options);
    ASSERT_EQ(all.experiments.front().subjects.size(), 2U);
    EXPECT_EQ(all.experiments.front().subjects.back().name, "slower");
}

TEST(BenchRunner, OnlyKeepsOtherFormsOfOursAndOfThePeersNamed) {
    suite one;
    one.name = "forms";
    one.run = [](recorder& to) {
        to.add("size", "bytes", {"ours", "ours, one at a time", "peer", "peer + lock", "peers", "other"},
               {{1}, {2}, {3}, {4}, {5}, {6}}, false);
    };
    run_options options;
    options.only = {"peer"};
    std::vector<std::string> names;
    const report all = run(one, options);
    for (const subject_report& subject : all.experiments.front().subjects) names.push_back(subject.name);
    EXPECT_THAT(names, ElementsAre("ours", "ours, one at a time", "peer", "peer + lock"));
}

// No form of ours need be the plain one.
TEST(BenchRunner, OnlyKeepsFormsOfOursBesideAForm) {
    suite one;
    one.name = "forms";
    one.run = [](recorder& to) {
        to.add("size", "bytes", {"ours, epoll", "ours, io_uring", "peer", "oursy"}, {{1}, {2}, {3}, {4}}, false);
    };
    run_options options;
    options.only = {"none"};
    std::vector<std::string> names;
    const report all = run(one, options);
    for (const subject_report& subject : all.experiments.front().subjects) names.push_back(subject.name);
    EXPECT_THAT(names, ElementsAre("ours, epoll", "ours, io_uring"));
}

// Ratios to it are targets, which say nothing without it.
TEST(BenchRunner, OnlyKeepsTheFloor) {
    std::vector<std::vector<double>> samples;
    const suite one{"floors", "a floor beside peers", [&](recorder& to) {
                        samples = to.run({.name = "dependent",
                                          .subjects = {spinning("ours", 20), spinning("peer", 30),
                                                       spinning("other", 30), spinning("one memory access", 10)},
                                          .published = {}});
                    }};
    run_options options;
    options.only = {"peer"};
    const report all = run(one, options);
    std::vector<std::string> names;
    for (const subject_report& subject : all.experiments.front().subjects) names.push_back(subject.name);
    EXPECT_THAT(names, ElementsAre("ours", "peer", "one memory access"));
    EXPECT_TRUE(samples.at(2).empty());
    EXPECT_FALSE(samples.at(3).empty());
}

TEST(BenchRunner, NamesAreAskedWithoutRunningAnything) {
    EXPECT_THAT(experiment_names(two_experiments(), {}), ElementsAre("short", "long"));
    run_options options;
    options.filter = "sho";
    EXPECT_THAT(experiment_names(two_experiments(), options), ElementsAre("short"));
}

TEST(BenchRunner, RatesAreBetterWhenHigher) {
    const std::vector<double> fast{200, 220, 210, 205, 215, 212, 208}, slow{100, 110, 105, 103, 107, 106, 104};
    const report higher = run(adding({fast, slow}, true)), lower = run(adding({fast, slow}, false));
    EXPECT_NEAR(higher.experiments.front().ratios.front().ratio, 2, 0.01);
    EXPECT_NEAR(lower.experiments.front().ratios.front().ratio, 0.5, 0.01);
    EXPECT_LT(higher.experiments.front().ratios.front().range.low, 2.01);
}

TEST(BenchRunner, UnequalCountsAreNotPaired) {
    const report all =
        run(adding({{200, 210, 220, 205, 215, 212, 208}, {100, 110, 105, 103, 107, 104, 106, 102}}, true));
    const ratio_report& r = all.experiments.front().ratios.front();
    EXPECT_FALSE(r.paired);
    EXPECT_NEAR(r.ratio, 210.0 / 104.5, 1e-9);
    EXPECT_LT(r.range.low, r.ratio);
    EXPECT_GT(r.range.high, r.ratio);
}

std::vector<std::string> marks_of(const subject_report& of) {
    std::vector<std::string> codes;
    for (const perf_test::warning& mark : of.warnings) codes.push_back(mark.code);
    return codes;
}

TEST(BenchRunner, NumbersFromElsewhereAreMarkedByWhatTheySay) {
    const report few = run(adding({{100, 200, 300}, {50, 51, 52}}, false));
    const experiment_report& of_three = few.experiments.front();
    for (const subject_report& one : of_three.subjects) {
        EXPECT_THAT(marks_of(one), ElementsAre("unstable"));
        EXPECT_FALSE(one.bounded);
    }
    EXPECT_FALSE(of_three.ratios.front().bounded);
    const report wide =
        run(adding({{100, 300, 150, 250, 120, 280, 200, 160}, {50, 51, 52, 50, 51, 50, 52, 51}}, false));
    const experiment_report& of_eight = wide.experiments.front();
    EXPECT_THAT(marks_of(of_eight.subjects.front()), testing::Contains("unstable"));
    EXPECT_THAT(marks_of(of_eight.subjects.back()), testing::IsEmpty());
    EXPECT_TRUE(of_eight.ratios.front().bounded);
}

TEST(BenchRunner, OneExactCountIsEnough) {
    suite one;
    one.name = "added";
    one.run = [](recorder& to) { to.add("size", "bytes", {"ours", "peer"}, {{20}, {30}}, false, {.exact = true}); };
    const report all = run(one);
    const experiment_report& e = all.experiments.front();
    EXPECT_TRUE(e.subjects.front().warnings.empty());
    EXPECT_TRUE(e.subjects.front().bounded);
    EXPECT_TRUE(e.ratios.front().bounded);
    EXPECT_THAT(table_text(e, false), HasSubstr("ours is better"));
}

TEST(BenchRunner, NumbersFromElsewhereKeepTheirPublishedFiguresAndMarks) {
    suite one;
    one.name = "added";
    one.run = [](recorder& to) {
        to.add("x", "us", {"ours", "peer"}, {{1, 2}, {3, 4}}, false,
               {.published = {{"paper", 5, "us", "somewhere, 2020"}}, .warnings = {{}, {{"disturbed", "others ran"}}}});
    };
    const report all = run(one);
    const experiment_report& e = all.experiments.front();
    ASSERT_EQ(e.published.size(), 1U);
    EXPECT_EQ(e.published.front().subject, "paper");
    EXPECT_THAT(marks_of(e.subjects.front()), ElementsAre("unstable"));
    EXPECT_THAT(marks_of(e.subjects.back()), ElementsAre("disturbed", "unstable"));
    EXPECT_THAT(table_text(e, false),
                AllOf(HasSubstr("[disturbed, unstable]"), HasSubstr("published, another machine [1]")));
    one.run = [](recorder& to) { to.add("x", "us", {"ours", "peer"}, {{1}, {2}}, false, {.warnings = {{}}}); };
    EXPECT_EQ(run(one).failures.size(), 1U) << "marks of one subject of two";
}

TEST(BenchRunner, NumbersThatAreNoneAreSkippedWithTheReason) {
    const std::vector<double> good(10, 5.0);
    for (const std::vector<double>& bad :
         {std::vector<double>{}, std::vector<double>{1, std::nan("")}, std::vector<double>(10, 0.0)}) {
        const report all = run(adding({good, bad}, true));
        EXPECT_EQ(all.experiments.front().subjects.size(), 1U);
        EXPECT_TRUE(all.experiments.front().ratios.empty());
        ASSERT_EQ(all.skipped.size(), 1U);
        EXPECT_EQ(all.skipped.front().subject, "peer");
        EXPECT_FALSE(all.skipped.front().text.empty());
        const report ours = run(adding({bad, good}, true));
        EXPECT_TRUE(ours.experiments.front().ratios.empty()) << "a peer's ratio to another peer is nobody's question";
    }
}

// What an optimiser leaves of a loop whose results nobody uses.
TEST(BenchRunner, ABodyWhoseWorkWasRemovedHasNoTimeAndNoRatio) {
    std::vector<std::vector<double>> samples;
    const suite one{"removed", "a body that does nothing", [&](recorder& to) {
                        perf_test::subject removed = spinning("removed", 1);
                        removed.run = [](std::uint64_t operations) { perf_test::do_not_optimize(operations); };
                        removed.batch = 1'000'000;
                        samples = to.run(
                            {.name = "loops", .subjects = {spinning("ours", 20), std::move(removed)}, .published = {}});
                    }};
    const report all = run(one);
    EXPECT_EQ(all.experiments.front().subjects.size(), 1U);
    EXPECT_TRUE(all.experiments.front().ratios.empty());
    ASSERT_EQ(all.skipped.size(), 1U);
    EXPECT_EQ(all.skipped.front().subject, "removed");
    EXPECT_THAT(all.skipped.front().text, HasSubstr("the compiler removed it"));
    EXPECT_FALSE(samples.at(0).empty());
    EXPECT_TRUE(samples.at(1).empty());
}

TEST(BenchRunner, SuiteThatThrowsFailsAndTheNextOneRuns) {
    const suite broken{"broken", "", [](recorder& to) {
                           (void)to.wants("x");
                           throw std::runtime_error("no such disk");
                       }};
    const suite strange{"strange", "", [](recorder&) { throw 3; }};
    const suite good = two_experiments();
    run_options options;
    options.quick = true;
    options.seconds = 0.01;
    options.filter = "short";
    const report all = run_suites({&broken, &strange, &good}, options, {});
    ASSERT_EQ(all.failures.size(), 2U);
    EXPECT_EQ(all.failures.front().text, "no such disk");
    EXPECT_EQ(all.experiments.size(), 1U);
}

TEST(BenchRunner, ProgressIsTakenAwayBeforeATableIsShown) {
    std::string last = "never called";
    run_listener listener;
    listener.progress = [&last](std::string_view line) { last = line; };
    int tables = 0;
    listener.done = [&](const report& so_far) {
        ++tables;
        EXPECT_EQ(so_far.experiments.size(), static_cast<std::size_t>(tables));
        EXPECT_EQ(last, "");
    };
    run_options options;
    options.quick = true;
    options.seconds = 0.01;
    const suite one = two_experiments();
    (void)run_suites({&one}, options, listener);
    EXPECT_EQ(tables, 2);
}

TEST(BenchCommand, ReadsEveryOptionWithOneDashOrTwo) {
    const bench_request r = parse_bench_request(
        {"a", "--quick", "-json", "x.json", "--html=y.html", "--filter", "find hit", "b", "-time=250", "--only=p"});
    EXPECT_THAT(r.suites, ElementsAre("a", "b"));
    EXPECT_TRUE(r.options.quick);
    EXPECT_EQ(r.json_file, "x.json");
    EXPECT_EQ(r.html_file, "y.html");
    EXPECT_EQ(r.options.filter, "find hit");
    EXPECT_EQ(r.options.seconds, 0.25);
    EXPECT_THAT(r.options.only, ElementsAre("p"));
    EXPECT_FALSE(r.list);
    EXPECT_EQ(parse_bench_request({}).options.seconds, 1.5);
}

TEST(BenchCommand, RefusesNonsense) {
    using words = std::vector<std::string_view>;
    for (const words& wrong : {words{"--nonsense"}, words{"--json"}, words{"--json="}, words{"-time", "x"},
                               words{"-time", "0"}, words{"-time", "nan"}, words{"-time", "1e99"}, words{"-time", "5x"},
                               words{"--quick=1"}, words{"--json", "f", "--html", "f"}, words{"-"}})
        EXPECT_THROW((void)parse_bench_request(wrong), usage_error) << wrong.front();
}

// For a run of an hour that is ended in its last minute.
TEST(BenchCommand, WhatIsThereSoFarLiesBesideTheFileUntilTheEnd) {
    const test::unique_directory folder;
    const std::filesystem::path file = folder.file("run.json"), partial = folder.file("run.json.partial");
    std::ofstream(file) << "older";
    const auto text_of = [](const std::filesystem::path& path) {
        std::ostringstream text;
        text << std::ifstream(path).rdbuf();
        return text.str();
    };
    std::string meanwhile, before;
    const std::vector<suite> suites{{"one", "", [&](recorder& to) {
                                         to.add("first", "requests/s", {"ours"}, {{1, 2, 3}}, true);
                                         meanwhile = text_of(partial), before = text_of(file);
                                         to.add("second", "requests/s", {"ours"}, {{1, 2, 3}}, true);
                                     }}};
    bench_request request;
    request.suites = {"one"};
    request.json_file = file;
    run_bench(request, suites);
    EXPECT_EQ(before, "older");
    EXPECT_THAT(meanwhile, AllOf(HasSubstr("one: first"), testing::Not(HasSubstr("one: second"))));
    EXPECT_THAT(text_of(file), AllOf(HasSubstr("one: first"), HasSubstr("one: second")));
    EXPECT_FALSE(std::filesystem::exists(partial));
}

TEST(BenchCommand, RefusesBeforeAnythingIsTimed) {
    bool ran = false;
    const std::vector<suite> suites{{"one", "", [&ran](recorder& to) { ran = ran || to.wants("x"); }}};
    const auto refused = [&](bench_request request) {
        try {
            run_bench(request, suites);
        } catch (const usage_error& wrong) {
            return std::string(wrong.what());
        }
        return std::string("not refused");
    };
    bench_request request;
    request.suites = {"none"};
    EXPECT_EQ(refused(request), "no suite none; there are: one");
    request.suites = {"one"};
    request.options.filter = "no such";
    EXPECT_THAT(refused(request), HasSubstr("no experiment holds \"no such\""));
    request.options.filter.clear();
    request.html_file = "/proc/none/x.html";
    EXPECT_THAT(refused(request), HasSubstr("/proc/none/x.html cannot be written"));
    EXPECT_FALSE(ran);
}

}  // namespace
}  // namespace holdfast::workload
