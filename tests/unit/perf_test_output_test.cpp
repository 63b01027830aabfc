// SPDX-License-Identifier: Apache-2.0
// Results of performance tests as files, and a file read back as a baseline: shapes, hostile names, hostile files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "holdfast/perf_test/options.hpp"
#include "holdfast/perf_test/output.hpp"
#include "holdfast/perf_test/session.hpp"
#include "holdfast/perf_test/statistics.hpp"
#include "perf_test/json_reader.hpp"
#include "support/markup.hpp"
#include "support/seed.hpp"

namespace holdfast::perf_test {
namespace {

using testing::HasSubstr;
using testing::Not;

const std::string hostile = "\"<&>,\r\n\x1b[31m\xff'";

result measured(std::string name, double median) {
    result r;
    r.suite = "Suite";
    r.name = std::move(name);
    r.count = 1000;
    r.seconds = 0.5;
    r.batch = 10;
    for (int i = 0; i < 41; ++i) r.samples.push_back(median * (0.9 + 0.005 * i));
    r.time = describe(r.samples);
    r.latency = latency_result{.count = 9,
                               .percentiles = {{0.5, 10, 9, 11, true}, {0.99, 90, 80, 99, false}},
                               .minimum = 1,
                               .mean = 12,
                               .maximum = 99};
    r.counters = {{"instructions", 42.5, "perf_event"}};
    r.warnings = {{"drift", "it became slower"}};
    return r;
}

result failed(std::string why) {
    result r = measured("Fails", 7);
    r.failure = std::move(why);
    return r;
}

run_record example() {
    run_record run;
    run.where.cpu = "Some CPU";
    run.where.cpus_usable = 4;
    run.where.memory_bytes = 8ULL << 30U;
    run.where.machine = "x86_64";
    run.where.build.optimised = true;
    run.started = "2026-01-02T03:04:05Z";
    run.results = {measured("Fast", 10), measured("Slow", 2e6), failed("it threw")};
    return run;
}

/// A folder that goes away with everything in it.
class scratch {
 public:
    scratch() {
        char name[] = "/tmp/holdfast-output-XXXXXX";
        folder_ = ::mkdtemp(name);
    }
    scratch(const scratch&) = delete;
    scratch& operator=(const scratch&) = delete;
    ~scratch() {
        for (const std::string& file : files_) ::unlink(file.c_str());
        ::rmdir(folder_.c_str());
    }
    std::string file(const std::string& name, const std::string& text) {
        const std::string path = path_of(name);
        std::ofstream(path, std::ios::binary) << text;
        return path;
    }
    std::string path_of(const std::string& name) {
        files_.push_back(std::string(folder_).append("/").append(name));
        return files_.back();
    }
    const std::string& folder() const { return folder_; }

 private:
    std::string folder_;
    std::vector<std::string> files_;
};

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

TEST(PerfOutput, FailureHasNoNumbersInAnyForm) {
    run_record run = example();
    run.results = {failed("it threw, \"hard\"")};
    const json_value root = parse_json(to_json(run), "output");
    const json_value& only = root.elements("results")->front();
    EXPECT_EQ(only.text("failure"), "it threw, \"hard\"");
    for (const char* const name : {"time", "samples", "hz", "count"}) EXPECT_EQ(only.find(name), nullptr) << name;
    EXPECT_THAT(to_csv(run.results), HasSubstr("Suite,Fails,,,,,,,,,,,,,,,,,drift,\"it threw, \"\"hard\"\"\"\r\n"));
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
    const auto all = properties_of(measured("Fast", 10));
    EXPECT_THAT(all, testing::Contains(testing::Pair("count", "1000")));
    EXPECT_THAT(all, testing::Contains(testing::Pair("hz", "2000")));
    EXPECT_THAT(all, testing::Contains(testing::Pair("instructions", "42.5")));
    EXPECT_THAT(all, testing::Contains(testing::Pair("call_p50_ns", "10")));
}

TEST(PerfOutput, HostileNamesAndNumbersThatAreNoneBreakNoForm) {
    run_record run = example();
    for (result& r : run.results) {
        r.suite = r.name = r.parameter = hostile;
        r.warnings = {{hostile, hostile}};
        r.counters = {{hostile, std::nan(""), hostile}};
        r.samples.push_back(HUGE_VAL);
        r.floor_ns = std::nan("");
    }
    run.where.cpu = hostile;
    const std::string json = to_json(run), page = to_html(run);
    const json_value root = parse_json(json, "output");
    EXPECT_EQ(root.elements("results")->size(), 3U);
    EXPECT_EQ(test::markup_fault(page), "");
    for (const char* const foreign : {"http:", "https:", "src=", "<script"}) EXPECT_THAT(page, Not(HasSubstr(foreign)));
    EXPECT_EQ(test::markup_fault(to_html(run_record{})), "");
}

TEST(PerfBaseline, ComesBackFromItsFile) {
    scratch files;
    const run_record run = example();
    const baseline base(files.file("a.json", to_json(run)), run.where);
    ASSERT_EQ(base.runs_of("Suite.Fast").size(), 1U);
    EXPECT_DOUBLE_EQ(base.runs_of("Suite.Fast").front().median, run.results[0].time.median);
    EXPECT_TRUE(base.runs_of("Suite.Fails").empty()) << "a failure is no baseline";
    EXPECT_TRUE(base.runs_of("Suite.Other").empty());
}

TEST(PerfBaseline, PassesOfOneProcessAreOneRun) {
    scratch files;
    run_record run = example();
    for (std::uint64_t pass = 2; pass <= 5; ++pass) {
        run.results.push_back(run.results[0]);
        run.results.back().pass = pass;
    }
    const baseline base(files.file("repeated.json", to_json(run)), run.where);
    EXPECT_EQ(base.runs_of("Suite.Fast").size(), 1U);
}

TEST(PerfBaseline, FolderIsOneRunAFile) {
    scratch files;
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
    scratch files;
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
    scratch files;
    run_record run = example();
    for (result& r : run.results) r.samples.resize(3);
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
            for (const summary& s : base.runs_of("Suite.Fast")) {
                EXPECT_TRUE(std::isfinite(s.median) && s.median > 0 && s.count >= 1);
                EXPECT_TRUE(s.median_95.low > 0 && s.median_95.low <= s.median && s.median <= s.median_95.high);
            }
        } catch (const usage_error& refused) {
            EXPECT_STRNE(refused.what(), "");
        }
    }
}

TEST(PerfSinks, WriteTheFilesThatWereAskedFor) {
    scratch files;
    flag_values flags;
    flags.output.json = files.path_of("a.json");
    flags.output.csv = files.path_of("a.csv");
    flags.output.html = files.path_of("a.html");
    const auto sinks = make_sinks(flags, this_build());
    for (const auto& one : sinks) {
        one->add(measured("Fast", 10));
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

TEST(PerfSinks, BaselineFailsTheRunForASlowerTestOnlyIfAsked) {
    scratch files;
    for (const double factor : {0.99, 1.0, 1.01, 0.995, 1.005, 1.002}) {
        flag_values flags;
        flags.output.json = files.path_of(std::to_string(factor) + ".json");
        const auto sinks = make_sinks(flags, this_build());
        sinks.front()->add(measured("Fast", 10 * factor));
        sinks.front()->add(measured("Slow", 1000 * factor));
        EXPECT_TRUE(sinks.front()->finish().empty());
    }
    for (const bool asked : {true, false}) {
        flag_values flags;
        flags.output.baseline = files.folder();
        flags.output.fail_on_regression = asked;
        const auto sinks = make_sinks(flags, this_build());
        ASSERT_EQ(sinks.size(), 1U);
        sinks.front()->add(measured("Fast", 10.05));
        sinks.front()->add(measured("Slow", 3000));
        sinks.front()->add(measured("New", 5));
        const std::vector<std::string> failures = sinks.front()->finish();
        ASSERT_EQ(failures.size(), asked ? 1U : 0U);
        if (asked) {
            EXPECT_THAT(failures.front(), testing::StartsWith("Suite.Slow: "));
        }
    }
}

}  // namespace
}  // namespace holdfast::perf_test
