// SPDX-License-Identifier: Apache-2.0
// What assertions and comparisons came to, in every report: with their numbers, and without any where there are none.
#include <gmock/gmock.h>
#include <gtest/gtest-spi.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "holdfast/perf_test.hpp"
#include "perf_test/baseline_sink.hpp"
#include "perf_test/json_reader.hpp"
#include "support/markup.hpp"
#include "support/perf_results.hpp"

namespace holdfast::perf_test {
namespace {

using test::example, test::hostile_text, test::measured_result, test::scratch_folder;
using testing::Contains;
using testing::HasSubstr;
using testing::Key;
using testing::Not;
using testing::Pair;

comparison slower_by_half() {
    comparison found;
    found.name = "print";
    found.ratio = 1.5;
    found.ratio_95 = {1.4, 1.6};
    found.p_value = found.p_adjusted = 1e-6;
    found.outcome = verdict::slower;
    found.text = "slower: +50 %";
    return found;
}

judgement example_judgement() {
    judgement made = judgement_of(slower_by_half(), {.min_effect = 0.05, .alpha = 0.0005}, judged_by::not_slower);
    made.suite = "Suite";
    made.name = "Prints";
    made.rounds = 40;
    return made;
}

TEST(PerfVerdicts, AComparisonKeepsItsNumbers) {
    const judgement made = example_judgement();
    EXPECT_FALSE(made.passed);
    EXPECT_EQ(made.outcome, "slower");
    EXPECT_DOUBLE_EQ(made.limit, 1.05);
    EXPECT_EQ(made.alpha, 0.0005);
    comparison faster = slower_by_half();
    faster.outcome = verdict::too_noisy;
    EXPECT_TRUE(judgement_of(faster, {}, judged_by::comparison).passed);
}

TEST(PerfVerdicts, WithoutANumberThereIsNone) {
    comparison nothing;
    nothing.text = "print: nothing of the body is left";
    const judgement made = judgement_of(nothing, {}, judged_by::not_slower);
    EXPECT_EQ(made.outcome, "void");
    EXPECT_THAT(properties_of(made), testing::ElementsAre(Pair("verdict", "void")));
    run_record run = example();
    run.judgements = {made};
    const json_value root = parse_json(to_json(run), "output");
    const json_value& told = root.elements("verdicts")->front();
    for (const char* const number : {"ratio", "interval", "limit", "alpha", "p_value", "confidence", "rounds"})
        EXPECT_EQ(told.find(number), nullptr) << number;
    EXPECT_EQ(told.text("text"), nothing.text);
}

TEST(PerfVerdicts, JsonHoldsVerdictRatioIntervalAndAlpha) {
    run_record run = example();
    run.judgements = {example_judgement()};
    const json_value root = parse_json(to_json(run), "output");
    ASSERT_EQ(root.elements("verdicts")->size(), 1U);
    const json_value& told = root.elements("verdicts")->front();
    EXPECT_EQ(told.text("full_name"), "Suite.Prints");
    EXPECT_EQ(told.text("by"), "not_slower");
    EXPECT_EQ(told.text("verdict"), "slower");
    EXPECT_EQ(told.number("ratio"), 1.5);
    EXPECT_EQ(told.find("interval")->number("low"), 1.4);
    EXPECT_EQ(told.find("interval")->number("high"), 1.6);
    EXPECT_EQ(told.number("confidence"), 0.95);
    EXPECT_EQ(told.number("limit"), 1.05);
    EXPECT_EQ(told.number("alpha"), 0.0005);
    EXPECT_EQ(told.number("p_value"), 1e-6);
    EXPECT_EQ(told.number("rounds"), 40);
}

TEST(PerfVerdicts, ThePageShowsThemBesideTheirSuite) {
    run_record run = example();
    judgement limit;
    limit.suite = "Other";
    limit.name = "Answers";
    limit.by = judged_by::limit;
    limit.outcome = "kept";
    limit.subject = "calls.p99() < 5us";
    limit.value = 1234;
    limit.limit = 5000;
    run.judgements = {example_judgement(), limit};
    const std::string page = to_html(run);
    EXPECT_EQ(test::markup_fault(page), "");
    EXPECT_THAT(page, HasSubstr("<td class=\"bad\">slower</td><td>1.50</td><td>1.40 to 1.60 (95 %)</td><td>1.05</td>"));
    EXPECT_THAT(page, HasSubstr("above 1: slower now"));
    EXPECT_THAT(page, HasSubstr("<h2>Other</h2>")) << "a suite of which nothing but assertions is known";
    EXPECT_THAT(page, HasSubstr("calls.p99() &lt; 5us"));
    EXPECT_THAT(to_html(example()), Not(HasSubstr("Verdicts")));
}

TEST(PerfVerdicts, HostileTextsAndNumbersBreakNoForm) {
    run_record run = example();
    judgement made = example_judgement();
    made.suite = made.name = made.subject = made.text = made.outcome = hostile_text;
    made.range = {-HUGE_VAL, HUGE_VAL};
    made.value = made.limit = HUGE_VAL;
    run.judgements = {made};
    EXPECT_EQ(test::markup_fault(to_html(run)), "");
    EXPECT_EQ(parse_json(to_json(run), "output").elements("verdicts")->size(), 1U);
    EXPECT_EQ(property_name("Sort/3<x>"), "Sort_3_x_");
}

TEST(PerfVerdicts, PropertiesAreNumbers) {
    const auto all = properties_of(example_judgement());
    const std::map<std::string, std::string> by_name(all.begin(), all.end());
    EXPECT_THAT(by_name, Contains(Pair("verdict", "slower")));
    EXPECT_THAT(by_name, Contains(Pair("ratio", "1.5")));
    EXPECT_THAT(by_name, Contains(Pair("low", "1.4")));
    EXPECT_THAT(by_name, Contains(Pair("high", "1.6")));
    EXPECT_THAT(by_name, Contains(Pair("alpha", "0.0005")));
    EXPECT_THAT(by_name, Not(Contains(Key("value_ns"))));
}

/// The verdicts that a session with a JSON file leaves.
class InASession : public testing::Test {
 protected:
    void begin() {
        flag_values flags;
        flags.output.json = files_.path_of("a.json");
        flags.test.seconds = 0.03;
        flags.seconds_given = true;
        session::get().configure(flags);
    }
    std::vector<json_value> end() {
        testing::internal::CaptureStdout();
        EXPECT_TRUE(session::get().finish().empty());
        said_ = testing::internal::GetCapturedStdout();
        const json_value root = read_json_file(session::get().flags().output.json);
        session::get().configure({});
        return *root.elements("verdicts");
    }

    scratch_folder files_;
    std::string said_;
};

TEST_F(InASession, EachAssertionIsThereKeptOrBroken) {
    begin();
    const measured between{.value = 2, .range = {1, 3}, .void_reason = {}};
    EXPECT_PERF_LT(between, 2);
    EXPECT_NONFATAL_FAILURE(EXPECT_PERF_GT(between, 5), "more than noise explains");
    const measured nothing{.value = 0, .range = {}, .void_reason = "nothing was measured"};
    EXPECT_NONFATAL_FAILURE(EXPECT_PERF_LT(nothing, 5), "nothing was measured");
    const std::vector<json_value> all = end();
    ASSERT_EQ(all.size(), 3U);
    EXPECT_EQ(all[0].text("full_name"), "InASession.EachAssertionIsThereKeptOrBroken");
    EXPECT_EQ(all[0].text("subject"), "between < 2");
    EXPECT_EQ(all[0].text("verdict"), "kept");
    EXPECT_EQ(all[0].number("value"), 2);
    EXPECT_EQ(all[0].number("limit"), 2);
    EXPECT_EQ(all[0].find("interval")->number("high"), 3);
    EXPECT_EQ(all[1].text("verdict"), "broken");
    EXPECT_THAT(std::string(*all[1].text("text")), HasSubstr("2 (95 %: 1 to 3) > 5"));
    EXPECT_EQ(all[2].text("verdict"), "void");
    EXPECT_EQ(all[2].text("text"), "nothing: nothing was measured");
    EXPECT_EQ(all[2].find("value"), nullptr);
}

TEST_F(InASession, WhatWasTimedInTurnIsThere) {
    const auto adds = [](int times) {
        return [times] {
            std::uint64_t sum = 0;
            for (int i = 0; i < times; ++i) do_not_optimize(sum += 1);
        };
    };
    const auto few = adds(100), many = adds(2000);
    begin();
    detail::verdicts_of_this_pass = 0;
    EXPECT_PERF_NOT_SLOWER(many, few, 5 %);
    testing::TestPartResultArray failures;
    {
        const testing::ScopedFakeTestPartResultReporter catcher(
            testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &failures);
        EXPECT_PERF_NOT_SLOWER(few, many);
    }
    EXPECT_PERF_RATIO(few, many, < 0.5, 99 %);
    EXPECT_NONFATAL_FAILURE(EXPECT_PERF_RATIO(few, many, > 1, 95 %), "refuted");
    const auto aborting = [] { detail::abort_loop(); };
    EXPECT_NONFATAL_FAILURE(EXPECT_PERF_NOT_SLOWER(few, aborting), "the body asked to stop");
    const subject a{"few",
                    [&few](std::uint64_t n) {
                        for (; n > 0; --n) few();
                    },
                    {},
                    0};
    const subject b{"many",
                    [&many](std::uint64_t n) {
                        for (; n > 0; --n) many();
                    },
                    {},
                    0};
    report_comparison("many against few", measure_ab(a, b, {.seconds = 0.02}));
    const std::vector<json_value> all = end();
    ASSERT_EQ(all.size(), 6U);
    EXPECT_EQ(all[0].text("subject"), "few against many");
    // On a machine that stands still for a while, rounds resemble each other, and few of them are worth much.
    const auto certain = [](const json_value& one) { return *one.number("p_value") < *one.number("alpha"); };
    EXPECT_EQ(all[0].text("verdict"), certain(all[0]) ? "faster" : "too_noisy");
    EXPECT_LT(*all[0].number("ratio"), 0.5);
    EXPECT_DOUBLE_EQ(*all[0].number("limit"), 1.05);
    EXPECT_DOUBLE_EQ(*all[0].number("alpha"), 0.0005) << "the first of a family";
    EXPECT_EQ(all[1].text("verdict"), certain(all[1]) ? "slower" : "too_noisy");
    ASSERT_EQ(failures.size(), certain(all[1]) ? 1 : 0);
    if (certain(all[1])) {
        EXPECT_THAT(failures.GetTestPartResult(0).message(), testing::HasSubstr("slower"));
    }
    EXPECT_GT(*all[1].number("ratio"), 2);
    EXPECT_LE(*all[1].find("interval")->number("low"), *all[1].number("ratio"));
    EXPECT_GT(*all[1].number("rounds"), 20);
    EXPECT_EQ(all[2].text("verdict"), "shown");
    EXPECT_EQ(all[2].number("confidence"), 0.99);
    EXPECT_EQ(all[2].text("subject"), "time of few over time of many < 0.5");
    EXPECT_EQ(all[3].text("verdict"), "refuted");
    EXPECT_EQ(all[4].text("verdict"), "void");
    EXPECT_EQ(all[4].find("ratio"), nullptr);
    EXPECT_EQ(all[5].text("by"), "comparison");
    EXPECT_GT(*all[5].number("ratio"), 2);
}

TEST_F(InASession, AnAssertionInALoopFillsNoFile) {
    begin();
    const auto assert_often = [] {
        for (int i = 0; i < 400; ++i) EXPECT_PERF_LT(1, 2);
    };
    std::thread other(assert_often);
    assert_often();
    other.join();
    EXPECT_EQ(end().size(), session::judgements_max);
    EXPECT_THAT(said_, HasSubstr("700 assertions are in no report"));
}

TEST_F(InASession, AForkedChildWritesNoFileOfItsParent) {
    begin();
    EXPECT_PERF_LT(1, 2);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        judgement made;
        made.name = "child";
        const bool refused = session::get().add_judgement(made) == 0;
        ::_exit(refused ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(end().size(), 1U);
}

TEST_F(InASession, ABaselineIsJudgedIntoTheFile) {
    const auto flat_out = [](double median) {
        result found = measured_result("Test", median);
        found.latency.reset();
        return found;
    };
    run_record before;
    before.where = this_environment(this_build());
    before.results = {flat_out(10)};
    flag_values flags;
    flags.output.baseline = files_.file("base.json", to_json(before));
    flags.output.json = files_.path_of("now.json");
    flags.output.fail_on_regression = true;
    session::get().configure(flags);
    testing::internal::CaptureStdout();
    session::get().add(flat_out(100));
    const std::vector<std::string> failures = session::get().finish();
    (void)testing::internal::GetCapturedStdout();
    const json_value root = read_json_file(flags.output.json);
    session::get().configure({});
    EXPECT_EQ(failures.size(), 1U);
    ASSERT_EQ(root.elements("verdicts")->size(), 1U);
    const json_value& told = root.elements("verdicts")->front();
    EXPECT_EQ(told.text("by"), "baseline");
    EXPECT_EQ(told.text("full_name"), "Suite.Test");
    EXPECT_EQ(told.text("verdict"), "slower");
    const bool* const passed = std::get_if<bool>(&told.find("passed")->value);
    ASSERT_NE(passed, nullptr);
    EXPECT_FALSE(*passed);
    EXPECT_NEAR(*told.number("ratio"), 10, 0.01);
    EXPECT_EQ(told.number("alpha"), compare_options{}.alpha);
    EXPECT_EQ(told.number("pass"), root.elements("results")->front().number("pass"));
}

}  // namespace
}  // namespace holdfast::perf_test
