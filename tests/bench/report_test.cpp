// SPDX-License-Identifier: Apache-2.0
// A run of suites as JSON, as tables and as a page: shapes, hostile names, and numbers that are none.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "holdfast/error.hpp"
#include "perf_test/json_reader.hpp"
#include "perf_test/number_text.hpp"
#include "perf_test/plot.hpp"
#include "support/markup.hpp"
#include "workload/report.hpp"

namespace holdfast::workload {
namespace {

using perf_test::json_value;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const std::string hostile = "\"}<script>&amp;'\n\x1b[31m\xff\xc3 \xef\xbf\xbf ]]> \\x41 \xc3\xa9";

subject_report subject(std::string name, double median) {
    subject_report one{.name = std::move(name)};
    for (int i = 0; i < 40; ++i) one.samples.push_back(median * (0.9 + 0.005 * i));
    one.described.count = one.samples.size();
    one.described.median = median;
    one.described.p05 = 0.91 * median;
    one.described.p95 = 1.08 * median;
    one.described.median_95 = {0.97 * median, 1.03 * median};
    one.batch = 1000;
    return one;
}

report example() {
    report all{.started = "2026-01-02T03:04:05Z"};
    all.machine.cpu = "Some CPU";
    all.machine.cpus = 4;
    all.machine.memory_bytes = 8ULL << 30U;
    experiment_report e{.suite = "table", .name = "find hit", .unit = "ns"};
    e.subjects = {subject("holdfast", 20), subject("peer", 32)};
    e.ratios = {{.subject = "holdfast", .peer = "peer", .ratio = 1.6, .range = {1.55, 1.66}, .paired = true}};
    e.published = {{.subject = "paper", .value = 12.5, .unit = "ns", .source = "somewhere, 2020"}};
    e.seed = std::numeric_limits<std::uint64_t>::max();
    all.experiments = {e};
    all.notes = {{"table", {}, "target met"}};
    all.skipped = {{"table", "lmdb", "not installed"}};
    all.versions = {{"peer", "1.81"}};
    return all;
}

report hostile_example() {
    report all = example();
    experiment_report& e = all.experiments.front();
    all.machine.cpu = all.machine.kernel = hostile;
    all.machine.conditions = {{hostile, hostile}};
    all.machine.warnings = {hostile};
    e.suite = e.name = e.unit = hostile;
    for (subject_report& s : e.subjects) {
        s.name = hostile;
        s.warnings = {{hostile, hostile}};
    }
    e.ratios.front().peer = e.ratios.front().subject = hostile;
    e.published = {{hostile, 1, hostile, hostile}};
    all.notes = all.skipped = all.failures = {{hostile, hostile, hostile}};
    all.versions = {{hostile, hostile}};
    return all;
}

json_value parsed(const report& all) { return perf_test::parse_json(json_text(all), "the report"); }

TEST(BenchReport, JsonHasTheFixedShape) {
    const json_value root = parsed(example());
    ASSERT_NE(root.find("machine"), nullptr);
    EXPECT_EQ(root.find("machine")->text("cpu"), "Some CPU");
    const json_value::array* const results = root.elements("results");
    ASSERT_NE(results, nullptr);
    ASSERT_EQ(results->size(), 2U);
    const json_value& first = results->front();
    EXPECT_EQ(first.text("name"), "table: find hit");
    EXPECT_EQ(first.text("subject"), "holdfast");
    EXPECT_EQ(first.text("unit"), "ns");
    EXPECT_EQ(first.number("median"), 20);
    EXPECT_EQ(first.number("p05"), 0.91 * 20);
    EXPECT_EQ(first.number("p95"), 1.08 * 20);
    EXPECT_EQ(first.number("runs"), 40);
    const json_value::array* const ratios = root.elements("ratios");
    ASSERT_NE(ratios, nullptr);
    ASSERT_EQ(ratios->size(), 1U);
    EXPECT_EQ(ratios->front().text("name"), "table: find hit");
    EXPECT_EQ(ratios->front().text("subject"), "holdfast");
    EXPECT_EQ(ratios->front().text("peer"), "peer");
    EXPECT_EQ(ratios->front().number("ratio"), 1.6);
    EXPECT_EQ(ratios->front().number("low"), 1.55);
    EXPECT_EQ(ratios->front().number("high"), 1.66);
}

TEST(BenchReport, JsonKeepsWhatStandsBesideTheNumbers) {
    const json_value root = parsed(example());
    EXPECT_EQ(root.number("schema_version"), 1);
    EXPECT_EQ(root.find("versions")->text("peer"), "1.81");
    EXPECT_EQ(root.elements("published")->front().number("value"), 12.5);
    EXPECT_EQ(root.elements("skipped")->front().text("text"), "not installed");
    EXPECT_EQ(root.elements("notes")->front().text("text"), "target met");
    EXPECT_EQ(root.elements("experiments")->front().text("seed"), "18446744073709551615");
}

TEST(BenchReport, JsonOfAnEmptyRunHasTheShapeToo) {
    const json_value root = parsed(report{});
    EXPECT_NE(root.find("machine"), nullptr);
    EXPECT_TRUE(root.elements("results") != nullptr && root.elements("results")->empty());
    EXPECT_TRUE(root.elements("ratios") != nullptr && root.elements("ratios")->empty());
}

TEST(BenchReport, JsonHoldsNoNumberThatIsNone) {
    for (const double bad : {std::nan(""), HUGE_VAL, -HUGE_VAL}) {
        report all = example();
        experiment_report& e = all.experiments.front();
        e.subjects.front().described.median = bad;
        e.subjects.back().described.median_95 = {bad, bad};
        e.ratios.front().range.high = bad;
        e.published.front().value = bad;
        all.options.seconds = bad;
        const std::string text = json_text(all);
        EXPECT_THAT(text, Not(HasSubstr("null")));
        EXPECT_THAT(text, Not(HasSubstr("nan")));
        EXPECT_THAT(text, Not(HasSubstr("inf")));
        const json_value root = perf_test::parse_json(text, "the report");
        ASSERT_EQ(root.elements("results")->size(), 1U) << "the broken one is left out, the other one stays";
        EXPECT_EQ(root.elements("results")->front().text("subject"), "peer");
        EXPECT_TRUE(root.elements("ratios")->empty());
    }
}

TEST(BenchReport, HostileNamesSurviveInJson) {
    const json_value root = parsed(hostile_example());
    const std::string_view name = root.elements("results")->front().text("subject").value();
    EXPECT_THAT(std::string(name), HasSubstr("\"}<script>&amp;'\n\x1b[31m\\xff\\xc3 "));
    EXPECT_EQ(root.elements("results")->size(), 2U);
}

TEST(BenchReport, TableShowsMediansRatiosAndPublishedFigures) {
    const std::string text = table_text(example().experiments.front(), false);
    EXPECT_THAT(text, HasSubstr("table: find hit\n"));
    EXPECT_THAT(text, testing::ContainsRegex("holdfast +20.0 +18.2 to 21.6\n"));
    EXPECT_THAT(text, testing::ContainsRegex("peer +32.0 +29.1 to 34.6 +1.60  \\(1.55 to 1.66\\)  ours is better\n"));
    EXPECT_THAT(text, HasSubstr("12.5 ns   published, another machine [1]\n  [1] somewhere, 2020\n"));
    EXPECT_THAT(text, Not(HasSubstr("\033")));
}

TEST(BenchReport, TableCallsAnIntervalAroundOneNoDifference) {
    experiment_report e = example().experiments.front();
    e.ratios.front().ratio = 1.01;
    e.ratios.front().range = {0.98, 1.04};
    EXPECT_THAT(table_text(e, false), HasSubstr("no difference seen"));
    e.ratios.front().ratio = 0.9;
    e.ratios.front().range = {0.85, 0.95};
    EXPECT_THAT(table_text(e, false), HasSubstr("ours is worse"));
}

// The least and the greatest of few samples look like an interval and are none.
TEST(BenchReport, AnIntervalOfTooFewSamplesIsNone) {
    report all = example();
    experiment_report& e = all.experiments.front();
    e.subjects.back().bounded = e.ratios.front().bounded = false;
    const json_value root = parsed(all);
    const json_value::array& results = *root.elements("results");
    EXPECT_TRUE(results.front().number("median_low"));
    EXPECT_FALSE(results.back().number("median_low") || results.back().number("median_high"));
    const json_value& ratio = root.elements("ratios")->front();
    EXPECT_EQ(ratio.number("low"), 1.55);
    EXPECT_EQ(ratio.number("high"), 1.66);
    EXPECT_THAT(json_text(all), HasSubstr("\"bounded\":false"));
    EXPECT_THAT(json_text(example()), HasSubstr("\"bounded\":true"));
    EXPECT_THAT(table_text(e, false), AllOf(HasSubstr("(1.55 to 1.66)  too few samples\n"), Not(HasSubstr("better"))));
    EXPECT_THAT(html_text(all), HasSubstr("vs peer, too few samples"));
}

TEST(BenchReport, TableSendsNoControlBytesToTheTerminal) {
    const report all = hostile_example();
    for (const std::string& text : {table_text(all.experiments.front(), false), closing_text(all, false)})
        for (const char c : text)
            EXPECT_TRUE(c == '\n' || static_cast<unsigned char>(c) >= 0x20) << static_cast<int>(c);
}

TEST(BenchReport, ClosingTextTellsWhatWasNotRunAndWhatFailed) {
    report all = example();
    all.failures = {{"http", {}, "port taken"}};
    all.experiments.front().subjects.back().warnings = {{"drift", "slower and slower"}};
    EXPECT_THAT(table_text(all.experiments.front(), false), HasSubstr("ours is better  [drift]\n"));
    const std::string text = closing_text(all, false);
    EXPECT_THAT(text, HasSubstr("[drift] for example peer in find hit: slower and slower\n"));
    EXPECT_THAT(text, HasSubstr("lmdb was not run: not installed"));
    EXPECT_THAT(text, HasSubstr("http failed: port taken"));
    EXPECT_THAT(text, HasSubstr("peer 1.81"));
}

TEST(BenchReport, PageIsWellFormedAndLoadsNothing) {
    for (const report& all : {example(), hostile_example(), report{}}) {
        const std::string page = html_text(all);
        EXPECT_EQ(test::markup_fault(page), "");
        for (const char* const foreign : {"http:", "https:", "src=", "@import", "<script", "url("})
            EXPECT_THAT(page, Not(HasSubstr(foreign)));
    }
    EXPECT_THAT(html_text(example()), HasSubstr("measured on other machines"));
}

TEST(BenchReport, PageOfNumbersThatAreNoneHasNone) {
    report all = example();
    experiment_report& e = all.experiments.front();
    e.subjects.front().samples = {std::nan(""), HUGE_VAL};
    e.subjects.front().described.p95 = HUGE_VAL;
    e.subjects.back().samples = {5, 5, 5};
    e.ratios.front().range.low = 0;
    const std::string page = html_text(all);
    EXPECT_EQ(test::markup_fault(page), "");
    for (const char* const bad : {"\"nan", " nan", "Lnan", "Mnan", " inf", "\"inf"})
        EXPECT_THAT(page, Not(HasSubstr(bad)));
}

TEST(Plot, ChartsOfNothingAreEmpty) {
    using namespace perf_test::plot;
    EXPECT_EQ(bars({}, "t", "ns"), "");
    EXPECT_EQ(ecdf({{"a", {}, 0}}, "t", "ns"), "");
    EXPECT_EQ(ratios({{"a", 0, 0, 0}}, "t"), "");
}

TEST(Plot, ExtremeValuesGiveWellFormedCharts) {
    using namespace perf_test::plot;
    const std::vector<std::vector<double>> sets{{0}, {-1, 1}, {1e-300, 1e300}, {7, 7, 7}, {1, 2, 1e9}, {1e-12, 2e-12}};
    for (const std::vector<double>& values : sets) {
        const std::string drawn = ecdf({{"a", values, 0}}, "t", "ns") +
                                  bars({{"a", values[0], values[0], values.back(), "x", 0}}, "t", "ns") +
                                  ratios({{"a", values[0], values[0], values.back()}}, "t");
        EXPECT_EQ(test::markup_fault("<!DOCTYPE html><html>" + drawn + "</html>"), "");
        EXPECT_THAT(drawn, Not(HasSubstr("nan")));
        EXPECT_THAT(drawn, Not(HasSubstr("inf")));
        EXPECT_LT(drawn.size(), 20'000U);
    }
}

TEST(NumberText, HasThreeDigitsThatMeanSomething) {
    using perf_test::number_text;
    EXPECT_EQ(number_text(0), "0");
    EXPECT_EQ(number_text(1.2345), "1.23");
    EXPECT_EQ(number_text(12.345), "12.3");
    EXPECT_EQ(number_text(123.45), "123");
    EXPECT_EQ(number_text(1234.5), "1235");
    EXPECT_EQ(number_text(12345), "12 300");
    EXPECT_EQ(number_text(1234567), "1 230 000");
    EXPECT_EQ(number_text(-0.012345), "-0.0123");
    EXPECT_EQ(number_text(1e-7), "1.00e-07");
    EXPECT_EQ(number_text(std::nan("")), "?");
    EXPECT_EQ(perf_test::ratio_text(0.873), "0.87");
    EXPECT_EQ(perf_test::ratio_text(24.13), "24.1");
}

TEST(NumberText, UnitsSuitTheSize) {
    EXPECT_EQ(perf_test::scale_for("ns", 12).unit, "ns");
    EXPECT_EQ(perf_test::scale_for("ns", 2.5e6).unit, "ms");
    EXPECT_EQ(perf_test::scale_for("requests/s", 3.1e6).unit, "M requests/s");
    EXPECT_EQ(perf_test::scale_for("bytes", 1e9).divisor, 1);
}

TEST(JsonReader, RefusesWhatIsNotJson) {
    for (const std::string& text :
         {std::string(""), std::string("{"), std::string("[1,]"), std::string("{\"a\":NaN}"), std::string("\"\xff\""),
          std::string("1 2"), std::string(1000, '['), std::string("\0{}", 3)}) {
        try {
            (void)perf_test::parse_json(text, "file.json");
            ADD_FAILURE() << text.substr(0, 20) << " was read";
        } catch (const error& failure) {
            EXPECT_EQ(failure.reason(), errc::corrupt);
            EXPECT_THAT(failure.what(), HasSubstr("file.json"));
        }
    }
}

TEST(JsonReader, ReadsEveryKindOfValue) {
    const json_value root =
        perf_test::parse_json(R"({"n":-1.5e3,"t":"\u00e9","a":[true,null,18446744073709551615],"o":{"x":1}})", "x");
    EXPECT_EQ(root.number("n"), -1500);
    EXPECT_EQ(root.text("t"), "\u00e9");
    ASSERT_EQ(root.elements("a")->size(), 3U);
    EXPECT_EQ(std::get<double>(root.elements("a")->back().value), 18446744073709551615.0);
    EXPECT_EQ(root.find("o")->number("x"), 1);
    EXPECT_EQ(root.number("t"), std::nullopt);
    EXPECT_EQ(root.find("none"), nullptr);
    EXPECT_EQ(root.elements("a")->front().find("n"), nullptr);
}

}  // namespace
}  // namespace holdfast::workload
