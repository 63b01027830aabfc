// SPDX-License-Identifier: Apache-2.0
// Results of performance tests as files: shapes, hostile names, when they are written.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <map>
#include <sstream>

#include "holdfast/perf_test/options.hpp"
#include "holdfast/perf_test/output.hpp"
#include "holdfast/perf_test/session.hpp"
#include "perf_test/json_reader.hpp"
#include "support/markup.hpp"
#include "support/perf_results.hpp"

namespace holdfast::perf_test {
namespace {

using testing::HasSubstr;
using testing::Not;

using test::example, test::failed_result, test::hostile_text, test::measured_result, test::scratch_folder;

TEST(PerfOutput, JsonHoldsEverythingThatIsKnown) {
    const json_value root = parse_json(to_json(example()), "output");
    EXPECT_EQ(root.text("schema"), "holdfast-perf_test");
    EXPECT_EQ(root.number("schema_version"), json_schema_version);
    EXPECT_EQ(root.find("environment")->text("identity"), "Some CPU, 4 CPUs, 8 GiB, x86_64, optimised");
    const json_value& first = root.elements("results")->front();
    EXPECT_EQ(first.text("full_name"), "Suite.Fast");
    EXPECT_EQ(first.number("hz"), 2000);
    EXPECT_DOUBLE_EQ(first.find("time")->number("median").value(), 10);
    EXPECT_EQ(first.find("time")->number("count"), 41);
    EXPECT_EQ(first.elements("samples")->size(), 41U);
    EXPECT_EQ(first.find("latency")->elements("percentiles")->front().number("estimate"), 10);
    EXPECT_EQ(first.elements("counters")->front().number("per_operation"), 42.5);
    EXPECT_EQ(first.elements("warnings")->front().text("code"), "drift");
}

latency_result calls(double scale) {
    latency_result out{.count = 1000,
                       .percentiles = {{0.5, 10 * scale, 9 * scale, 11 * scale, true}, {0.99, 90 * scale, 0, 0, false}},
                       .minimum = scale,
                       .mean = 12 * scale,
                       .maximum = 99 * scale};
    out.histogram = {{9 * scale, 10 * scale, 900}, {98 * scale, 99 * scale, 100}};
    return out;
}

workers_result group(std::size_t workers, bool processes, double hz) {
    workers_result out;
    out.workers = workers;
    out.processes = processes;
    out.count = 500 * workers;
    out.seconds = 0.5;
    out.wall_hz = hz;
    out.per_worker_ns = describe(std::vector<double>{100, 200, 300});
    out.batches = describe(std::vector<double>{10, 20, 30});
    return out;
}

/// Four groups of threads flat out, and one of processes that kept to a rate.
result grouped() {
    result r = measured_result("Groups", 10);
    r.latency.reset();
    for (const std::size_t workers : {1U, 2U, 4U, 8U})
        r.workers.push_back(group(workers, false, 1000 * static_cast<double>(workers)));
    r.workers.push_back(group(2, true, 77));
    rate_result& rate = r.workers.back().rate.emplace();
    rate.wanted_hz = rate.achieved_hz = 80;
    rate.service = calls(1);
    rate.response = calls(3);
    return r;
}

/// One test over sizes, whose time is 3 ns each.
std::vector<result> over_sizes() {
    std::vector<result> all;
    int number = 0;
    for (const int n : {10, 100, 1000, 10'000, 100'000}) {
        all.push_back(measured_result(std::string("Sort/").append(std::to_string(number++)), 3.0 * n));
        all.back().latency.reset();
        all.back().parameter = std::to_string(n);
    }
    return all;
}

TEST(PerfOutput, JsonTellsOfShapesThatNoSummaryHas) {
    run_record run = example();
    run.results = over_sizes();
    run.results.push_back(grouped());
    run.results.front().disturbed = disturbed_batches{7, 5, 9, 0.25};
    const json_value root = parse_json(to_json(run), "output");
    const json_value& first = root.elements("results")->front();
    const json_value& time = *first.find("time");
    EXPECT_NEAR(time.number("variation").value(), 0.06, 0.01);
    EXPECT_LT(time.number("harmonic_mean").value(), time.number("geometric_mean").value());
    EXPECT_GT(time.number("decayed_mean").value(), time.number("mean").value()) << "the samples rise";
    EXPECT_EQ(first.find("disturbed")->number("batches"), 7);
    EXPECT_EQ(first.find("disturbed")->number("rerun"), 5);
    EXPECT_EQ(first.find("disturbed")->number("involuntary_switches"), 9);
    EXPECT_EQ(first.find("disturbed")->number("steal_seconds"), 0.25);
    const json_value::array& growth = *root.elements("growth");
    ASSERT_EQ(growth.size(), 1U);
    EXPECT_EQ(growth.front().text("name"), "Sort");
    EXPECT_EQ(growth.front().text("shape"), "n");
    EXPECT_EQ(growth.front().elements("points")->size(), 5U);
    const json_value& groups = root.elements("results")->back();
    EXPECT_NEAR(groups.elements("scaling")->front().number("rate").value(), 1000, 1e-6);
    const json_value& rate = *groups.elements("workers")->back().find("rate");
    EXPECT_EQ(rate.text("pace"), "spin");
    EXPECT_EQ(rate.find("service")->elements("histogram")->size(), 2U);
}

TEST(PerfOutput, GroupsOfWorkersAreRowsAndPropertiesOfTheirOwn) {
    const std::string text = to_csv(std::vector<result>{grouped()});
    std::istringstream lines(text);
    std::vector<std::map<std::string, std::string>> rows;
    std::vector<std::string> names;
    for (std::string line; std::getline(lines, line);) {
        std::vector<std::string> fields{""};
        for (const char c : line) c == ',' ? fields.emplace_back() : fields.back() += c;
        if (names.empty())
            names = fields;
        else
            for (rows.emplace_back(); const std::string& name : names) rows.back()[name] = fields[rows.back().size()];
    }
    ASSERT_EQ(rows.size(), 5U);
    EXPECT_EQ(rows[2].at("threads"), "4");
    EXPECT_EQ(rows[2].at("processes"), "");
    EXPECT_EQ(rows[2].at("count"), "2000");
    EXPECT_EQ(rows[2].at("hz"), "4000");
    EXPECT_EQ(rows[2].at("median_ns"), "20");
    EXPECT_EQ(rows[2].at("worker_ns"), "200");
    EXPECT_EQ(rows[2].at("call_p50_ns"), "");
    EXPECT_EQ(rows[4].at("processes"), "2");
    EXPECT_EQ(rows[4].at("call_p50_ns"), "30");
    EXPECT_EQ(rows[4].at("service_p50_ns"), "10");
    const auto properties = properties_of(grouped());
    EXPECT_THAT(properties, testing::Contains(testing::Pair("threads_4_hz", "4000")));
    EXPECT_THAT(properties, testing::Contains(testing::Pair("processes_2_call_p50_ns", "30")));
}

TEST(PerfOutput, ThePageShowsCallsGroupsAndCurves) {
    run_record run = example();
    run.results = over_sizes();
    run.results.push_back(grouped());
    run.results.push_back(measured_result("Calls", 1));
    run.results.back().latency = calls(1);
    run.results.push_back(measured_result("Paced", 1));
    run.results.back().latency.reset();
    rate_result& rate = run.results.back().rate.emplace();
    rate.service = calls(1);
    rate.response = calls(2);
    const std::string page = to_html(run);
    EXPECT_EQ(test::markup_fault(page), "");
    const auto times = [&page](const std::string& what) {
        std::size_t found = 0;
        for (std::size_t at = page.find(what); at != std::string::npos; at = page.find(what, at + 1)) ++found;
        return found;
    };
    EXPECT_EQ(times("aria-label=\"share of calls that take longer\""), 3U) << "calls, rate, groups";
    EXPECT_EQ(times("aria-label=\"throughput by workers\""), 1U);
    EXPECT_EQ(times("aria-label=\"time by parameter\""), 1U);
    EXPECT_EQ(times("<td>8 threads</td>"), 1U);
    EXPECT_THAT(page, HasSubstr("<td>2 processes</td>"));
    EXPECT_THAT(page,
                HasSubstr("<td>service</td><td>10.0 ns<br/><span class=\"faint\">9.00 ns to 11.0 ns</span></td>"));
    EXPECT_THAT(page, HasSubstr("Scaling: one worker 1000 a second"));
    EXPECT_THAT(page, HasSubstr("Time grows with n: 3 ns times it"));
}

TEST(PerfOutput, FailureHasNoNumbersInAnyForm) {
    run_record run = example();
    run.results = {failed_result("it threw, \"hard\"")};
    const json_value root = parse_json(to_json(run), "output");
    const json_value& only = root.elements("results")->front();
    EXPECT_EQ(only.text("failure"), "it threw, \"hard\"");
    for (const char* const name : {"time", "samples", "hz", "count"}) EXPECT_EQ(only.find(name), nullptr) << name;
    EXPECT_THAT(to_csv(run.results),
                HasSubstr("Suite,Fails,,,,,,,,,,,,,,,,,,,,,,,drift,\"it threw, \"\"hard\"\"\"\r\n"));
    EXPECT_THAT(to_html(run), HasSubstr("No valid number: it threw"));
    EXPECT_THAT(
        properties_of(run.results.front()),
        testing::ElementsAre(testing::Pair("warnings", "drift"), testing::Pair("failure", "it threw, \"hard\"")));
}

TEST(PerfOutput, CsvHasAsManyFieldsInEveryLine) {
    const std::string text = to_csv(example().results);
    std::istringstream lines(text);
    std::string line;
    std::getline(lines, line);
    const auto commas = std::count(line.begin(), line.end(), ',');
    EXPECT_THAT(line, testing::StartsWith("suite,name,parameter,count,seconds,hz,samples,median_ns,"));
    int rows = 0;
    for (; std::getline(lines, line); ++rows) EXPECT_EQ(std::count(line.begin(), line.end(), ','), commas) << line;
    EXPECT_EQ(rows, 3);
}

TEST(PerfOutput, PropertiesAreNumbersOfThisTest) {
    const auto all = properties_of(measured_result("Fast", 10));
    EXPECT_THAT(all, testing::Contains(testing::Pair("count", "1000")));
    EXPECT_THAT(all, testing::Contains(testing::Pair("hz", "2000")));
    EXPECT_THAT(all, testing::Contains(testing::Pair("instructions", "42.5")));
    EXPECT_THAT(all, testing::Contains(testing::Pair("call_p50_ns", "10")));
}

TEST(PerfOutput, HostileNamesAndNumbersThatAreNoneBreakNoForm) {
    run_record run = example();
    for (result& r : run.results) {
        r.suite = r.name = r.parameter = hostile_text;
        r.warnings = {{hostile_text, hostile_text}};
        r.counters = {{hostile_text, std::nan(""), hostile_text}};
        r.samples.push_back(HUGE_VAL);
        r.floor_ns = std::nan("");
    }
    run.where.cpu = hostile_text;
    const std::string json = to_json(run), page = to_html(run);
    const json_value root = parse_json(json, "output");
    EXPECT_EQ(root.elements("results")->size(), 3U);
    EXPECT_EQ(test::markup_fault(page), "");
    for (const char* const foreign : {"http:", "https:", "src=", "<script"}) EXPECT_THAT(page, Not(HasSubstr(foreign)));
    EXPECT_EQ(test::markup_fault(to_html(run_record{})), "");
}

TEST(PerfSinks, WriteTheFilesThatWereAskedFor) {
    scratch_folder files;
    flag_values flags;
    flags.output.json = files.path_of("a.json");
    flags.output.csv = files.path_of("a.csv");
    flags.output.html = files.path_of("a.html");
    const auto sinks = make_sinks(flags, this_build());
    for (const auto& one : sinks) {
        one->add(measured_result("Fast", 10));
        EXPECT_TRUE(one->finish().empty());
    }
    EXPECT_EQ(read_json_file(flags.output.json).elements("results")->size(), 1U);
    std::stringstream csv, page;
    csv << std::ifstream(flags.output.csv).rdbuf();
    page << std::ifstream(flags.output.html).rdbuf();
    EXPECT_THAT(csv.str(), HasSubstr("\r\nSuite,Fast,,1000,0.5,2000,41,"));
    EXPECT_EQ(test::markup_fault(page.str()), "");
    EXPECT_NE(::access((flags.output.json + ".new").c_str(), F_OK), 0) << "nothing half made is left";
}

TEST(PerfSinks, AProgramThatDiesLeavesWhatItHadMeasured) {
    scratch_folder files;
    flag_values flags;
    flags.output.json = files.path_of("a.json");
    const auto sinks = make_sinks(flags, this_build());
    sinks.front()->add(measured_result("Fast", 10));
    ASSERT_EQ(read_json_file(flags.output.json).elements("results")->size(), 1U) << "written before anybody asks";
    // Results that come faster than they can be written may wait, yet not for ever.
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    std::size_t added = 1, written = 1;
    while (written < 3 && std::chrono::steady_clock::now() < give_up) {
        sinks.front()->add(measured_result("Fast", 10));
        ++added;
        written = read_json_file(flags.output.json).elements("results")->size();
    }
    EXPECT_GE(written, 3U) << "of " << added;
}

}  // namespace
}  // namespace holdfast::perf_test
