// SPDX-License-Identifier: Apache-2.0
// Flags: what is taken, what is left, what is refused and with which words; who beats whom.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "holdfast/perf_test/options.hpp"

namespace {

namespace perf = holdfast::perf_test;
using perf::arrivals, perf::check_outputs, perf::counting, perf::flag, perf::flag_help, perf::flag_table,
    perf::flag_values;
using perf::output_options;
using perf::pacing, perf::parse_flags, perf::unknown_arguments, perf::usage_error;

flag_values parsed(std::vector<std::string> arguments, std::vector<std::string>* left = nullptr,
                   unknown_arguments unknown = unknown_arguments::refuse) {
    arguments.insert(arguments.begin(), "program");
    flag_values values = parse_flags(arguments, unknown);
    if (left != nullptr) left->assign(arguments.begin() + 1, arguments.end());
    return values;
}

// The words of the refusal; empty if there is none.
std::string refusal(std::vector<std::string> arguments, unknown_arguments unknown = unknown_arguments::refuse) {
    try {
        static_cast<void>(parsed(std::move(arguments), nullptr, unknown));
    } catch (const usage_error& wrong) {
        return wrong.what();
    }
    return {};
}

template <class Member, class Value>
output_options with(Member output_options::* member, Value value) {
    output_options output;
    output.*member = value;
    return output;
}

TEST(PerfTestFlags, OneDashAndTwoAreTheSame) {
    EXPECT_EQ(parsed({"-hz=100", "--time=500"}).test.hz, 100);
    EXPECT_EQ(parsed({"--hz=100", "-time=500"}).test.seconds, 0.5);
}

TEST(PerfTestFlags, AValueMayBeTheNextArgument) {
    std::vector<std::string> left;
    const auto values = parsed({"-hz", "100", "file", "--time", "2s"}, &left);
    EXPECT_EQ(values.test.hz, 100);
    EXPECT_EQ(values.test.seconds, 2);
    EXPECT_EQ(left, std::vector<std::string>{"file"});
}

TEST(PerfTestFlags, AValueThatMayBeLeftOutIsTheNextArgumentIfThatIsANumber) {
    std::vector<std::string> left;
    EXPECT_EQ(parsed({"-pin", "2", "file"}, &left).test.pin, std::vector<unsigned>{2});
    EXPECT_EQ(left, std::vector<std::string>{"file"});
    EXPECT_EQ(parsed({"--pin", "3,1-2"}, &left).test.pin, (std::vector<unsigned>{3, 1, 2}));
    EXPECT_TRUE(left.empty());
    const auto none = parsed({"-pin", "-latency"});
    EXPECT_EQ(none.test.pin, std::vector<unsigned>{0});
    EXPECT_TRUE(none.test.latency);
    EXPECT_EQ(parsed({"-pin", "file"}, &left).test.pin, std::vector<unsigned>{0});
    EXPECT_EQ(left, std::vector<std::string>{"file"});
    EXPECT_NE(refusal({"-pin", "2x"}).find("-pin: '2x'"), std::string::npos);
}

TEST(PerfTestFlags, UnitsAreRead) {
    EXPECT_EQ(parsed({"-hz=2.5M"}).test.hz, 2.5e6);
    EXPECT_EQ(parsed({"-time=250us"}).test.seconds, 250e-6);
    EXPECT_EQ(parsed({"-timeout=1min"}).test.timeout_seconds, 60);
    EXPECT_DOUBLE_EQ(parsed({"-precision=1%"}).test.precision, 0.01);
    EXPECT_DOUBLE_EQ(parsed({"-min_effect=0.05"}).output.min_effect, 0.05);
    EXPECT_EQ(parsed({"-threads=1,2,4"}).test.threads, (std::vector<std::size_t>{1, 2, 4}));
    EXPECT_EQ(parsed({"-procs=1-3"}).test.processes, (std::vector<std::size_t>{1, 2, 3}));
    EXPECT_EQ(parsed({"-pin=3,1"}).test.pin, (std::vector<unsigned>{3, 1}));
    EXPECT_EQ(parsed({"-pin"}).test.pin, std::vector<unsigned>{0});
    EXPECT_EQ(parsed({"-arrival=poisson"}).test.arrival, arrivals::poisson);
    EXPECT_EQ(parsed({"-pace=sleep"}).test.pace, pacing::sleep);
    EXPECT_EQ(parsed({"-count=callgrind"}).test.count, counting::callgrind);
    EXPECT_TRUE(parsed({"-latency"}).test.latency);
}

TEST(PerfTestFlags, CommandLineBeatsTheTestBeatsTheDefault) {
    const auto none = parsed({});
    EXPECT_EQ(none.for_test(-1, -1).hz, 0);
    EXPECT_EQ(none.for_test(-1, -1).seconds, 1.5);
    EXPECT_EQ(none.for_test(10, 200).hz, 10);
    EXPECT_EQ(none.for_test(10, 200).seconds, 0.2);
    const auto both = parsed({"-hz=7", "-time=90"});
    EXPECT_EQ(both.for_test(10, 200).hz, 7);
    EXPECT_EQ(both.for_test(10, 200).seconds, 0.09);
    EXPECT_EQ(parsed({"-hz=0"}).for_test(10, 200).hz, 0);
}

TEST(PerfTestFlags, TheCommandLineBeatsEveryOptionOfATest) {
    perf::test_options own;
    own.hz = 10;
    own.seconds = 0.2;
    own.warmup_seconds = 1;
    own.timeout_seconds = 2;
    own.precision = 0.1;
    own.batch = 3;
    own.arrival = arrivals::poisson;
    own.threads = {2};
    own.pin = {1};
    own.seed = 4;
    const perf::test_options kept = parsed({}).over(own);
    EXPECT_EQ(kept.hz, 10);
    EXPECT_EQ(kept.warmup_seconds, 1);
    EXPECT_EQ(kept.precision, 0.1);
    EXPECT_EQ(kept.arrival, arrivals::poisson);
    EXPECT_EQ(kept.threads, std::vector<std::size_t>{2});
    const perf::test_options beaten =
        parsed({"-hz=7", "-time=90", "-warmup=5", "-timeout=6s", "-batch=9", "-arrival=fixed", "-pace=sleep",
                "-latency", "-threads=1,4", "-procs=2", "-pin=0", "-count=perf", "-seed=8"})
            .over(own);
    EXPECT_EQ(beaten.hz, 7);
    EXPECT_EQ(beaten.seconds, 0.09);
    EXPECT_EQ(beaten.warmup_seconds, 0.005);
    EXPECT_EQ(beaten.timeout_seconds, 6);
    EXPECT_EQ(beaten.batch, 9U);
    EXPECT_EQ(beaten.arrival, arrivals::fixed);
    EXPECT_EQ(beaten.pace, pacing::sleep);
    EXPECT_TRUE(beaten.latency);
    EXPECT_EQ(beaten.threads, (std::vector<std::size_t>{1, 4}));
    EXPECT_EQ(beaten.processes, std::vector<std::size_t>{2});
    EXPECT_EQ(beaten.pin, std::vector<unsigned>{0});
    EXPECT_EQ(beaten.count, counting::perf);
    EXPECT_EQ(beaten.seed, 8U);
    // What the test asks for beside what is not measured any more would only be refused.
    EXPECT_EQ(beaten.precision, 0);
    EXPECT_EQ(parsed({"-hz=0"}).over(own).arrival, arrivals::fixed);
    EXPECT_EQ(parsed({"-hz=0", "-arrival=poisson"}).over({}).arrival, arrivals::poisson) << "to be refused";
}

TEST(PerfTestFlags, MinusOneOnTheCommandLineIsAsIfNotSaid) {
    const auto values = parsed({"-hz=-1", "-time=-1"});
    EXPECT_EQ(values.for_test(10, 200).hz, 10);
    EXPECT_EQ(values.for_test(10, 200).seconds, 0.2);
    EXPECT_EQ(values.for_test(-1, -1).seconds, 1.5);
}

TEST(PerfTestFlags, NonsenseIsRefusedWithWhatIsWanted) {
    for (const char* argument : {"-hz=abc",
                                 "-hz=",
                                 "-hz=-5",
                                 "-hz=1e400",
                                 "-hz=2e9",
                                 "-hz=nan",
                                 "-hz=inf",
                                 "-hz=10x",
                                 "-time=-5",
                                 "-time=0",
                                 "-time=soon",
                                 "-time=99999999999999999999",
                                 "-time=25h",
                                 "-precision=0",
                                 "-precision=1",
                                 "-precision=150%",
                                 "-batch=0",
                                 "-batch=1.5",
                                 "-batch=99999999999999999999999",
                                 "-threads=0",
                                 "-threads=",
                                 "-threads=1,,2",
                                 "-threads=4-2",
                                 "-threads=1-100000",
                                 "-procs=x",
                                 "-pin=-1",
                                 "-arrival=uniform",
                                 "-pace=fast",
                                 "-count=all",
                                 "-seed=-1",
                                 "-latency=yes",
                                 "-perf_json="}) {
        const std::string words = refusal({argument});
        EXPECT_FALSE(words.empty()) << argument;
        const std::string_view name = std::string_view(argument).substr(0, std::string_view(argument).find('='));
        EXPECT_NE(words.find(name), std::string::npos) << words;
    }
    EXPECT_NE(refusal({"-hz"}).find("wants a value"), std::string::npos);
}

TEST(PerfTestFlags, SlipsAreRefusedWithTheFlagThatWasMeant) {
    EXPECT_NE(refusal({"-hx=100"}).find("did you mean -hz"), std::string::npos);
    EXPECT_NE(refusal({"--tiem=100"}).find("did you mean -time"), std::string::npos);
    EXPECT_NE(refusal({"--perf_jsn=f"}).find("did you mean -perf_json"), std::string::npos);
    EXPECT_NE(refusal({"--whatever"}).find("--perf_help"), std::string::npos);
    EXPECT_EQ(refusal({"--gtest_filter=A.*", "--help", "-", "--", "-zz"}), "");
}

TEST(PerfTestFlags, AnothersFlagsAreKeptWhereAnotherMayHaveSome) {
    std::vector<std::string> left;
    const std::vector<std::string> foreign{"--gtest_filter=A.*", "-pid=7", "-v", "name", "-5"};
    parsed(foreign, &left, unknown_arguments::keep);
    EXPECT_EQ(left, foreign);
    EXPECT_NE(refusal({"--perf_jsn=f"}, unknown_arguments::keep), "");
    EXPECT_NE(refusal({"-precisoin=1%"}, unknown_arguments::keep), "");
}

TEST(PerfTestFlags, ArgvKeepsTheRestInOrder) {
    std::string texts[] = {"program", "-hz=5", "a", "-time", "5", "5", "b"};
    char* argv[] = {texts[0].data(), texts[1].data(), texts[2].data(), texts[3].data(),
                    texts[4].data(), texts[5].data(), texts[6].data(), nullptr};
    int argc = 7;
    static_cast<void>(parse_flags(argc, argv, unknown_arguments::refuse));
    ASSERT_EQ(argc, 4);
    EXPECT_STREQ(argv[0], "program");
    EXPECT_STREQ(argv[1], "a");
    EXPECT_STREQ(argv[2], "5");
    EXPECT_STREQ(argv[3], "b");
    EXPECT_EQ(argv[4], nullptr);
}

TEST(PerfTestFlags, OutputsThatCannotBeWrittenAreFoundBefore) {
    EXPECT_THROW(check_outputs(with(&output_options::json, "/nonexistent-folder/result.json")), usage_error);
    EXPECT_THROW(check_outputs(with(&output_options::html, "/")), usage_error);
    EXPECT_THROW(check_outputs(with(&output_options::baseline, "/nonexistent-folder/base.json")), usage_error);
    EXPECT_THROW(check_outputs(with(&output_options::fail_on_regression, true)), usage_error);
    EXPECT_NO_THROW(check_outputs({}));
}

TEST(PerfTestFlags, EveryFlagIsInTheHelp) {
    const std::string help = flag_help();
    for (const flag& one : flag_table())
        EXPECT_NE(help.find(std::string("-") + std::string(one.name)), std::string::npos);
}

}  // namespace
