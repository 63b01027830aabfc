// SPDX-License-Identifier: Apache-2.0
// GoogleTest around forked workers: this program runs disabled tests of its own in a second process and reads what
// people would read.
#include "holdfast/perf_test.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <utility>

namespace {

namespace perf = holdfast::perf_test;

std::uint64_t calls = 0;

PERF_TEST(DISABLED_Forked, Works) { perf::do_not_optimize(++calls); }
PERF_TEST(DISABLED_Forked, FailsInTheSecond) {
    if (perf::current_worker().index == 1) {
        EXPECT_LT(++calls, 1000U) << "out of numbers";
    }
}
PERF_TEST(DISABLED_Forked, ThrowsInTheFirst) {
    if (perf::current_worker().index == 0 && ++calls == 1000) throw std::runtime_error("lost the database");
}
PERF_TEST(DISABLED_Forked, DiesInTheSecond) {
    if (perf::current_worker().index == 1 && ++calls == 1000) ::raise(SIGKILL);
}
PERF_TEST(DISABLED_Forked, HangsInTheFirst) {
    while (perf::current_worker().index == 0 && perf::current_worker().workers > 1) ::pause();
}
PERF_TEST(DISABLED_Forked, Aborts) {
    if (perf::current_worker().index == 1) {
        ASSERT_LT(++calls, 1000U) << PERF_ABORT << "enough";
    }
}
PERF_TEST(DISABLED_Forked, AbortsAlone) {
    if (perf::current_worker().index == 1 && ++calls == 400'000) PERF_ABORT;
}
PERF_TEST(DISABLED_Forked, AbortsAtOnce) { PERF_ABORT; }

struct outcome {
    int code = -1;
    std::string text;

    std::size_t times(const std::string& part) const {
        std::size_t found = 0;
        for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
        return found;
    }
};

outcome run(const std::string& test, const std::string& flags) {
    outcome result;
    const std::string command = "exec /proc/" + std::to_string(::getpid()) +
                                "/exe --gtest_also_run_disabled_tests --gtest_filter=DISABLED_Forked." + test +
                                " -time=50 " + flags + " 2>&1";
    std::FILE* const pipe = ::popen(command.c_str(), "r");
    if (pipe == nullptr) return result;
    char text[4096];
    while (const std::size_t got = std::fread(text, 1, sizeof text, pipe)) result.text.append(text, got);
    const int status = ::pclose(pipe);
    if (WIFEXITED(status)) result.code = WEXITSTATUS(status);
    return result;
}

TEST(ForkedPerfTest, GoodWorkersPass) {
    const outcome it = run("Works", "-procs=1,2");
    EXPECT_EQ(it.code, 0) << it.text;
    EXPECT_EQ(it.times("[       OK ]"), 1U) << it.text;
    EXPECT_EQ(it.times("[==========] Running"), 1U) << it.text;
}

TEST(ForkedPerfTest, AFailedAssertionOfAChildFailsTheTestOnce) {
    const outcome it = run("FailsInTheSecond", "-procs=2");
    EXPECT_EQ(it.code, 1) << it.text;
    EXPECT_GE(it.times("worker 2 of 2 (process "), 1U) << it.text;
    EXPECT_EQ(it.times("out of numbers"), 2U) << it.text;  // in the result and in the failure, and no further operation
    EXPECT_GE(it.times("perf_test_forked_test.cpp:"), 1U) << it.text;
    EXPECT_EQ(it.times("[  FAILED  ] DISABLED_Forked.FailsInTheSecond ("), 1U) << it.text;
    EXPECT_EQ(it.times(": Failure\n"), 1U) << it.text;  // GoogleTest's own heading of a failed assertion
}

TEST(ForkedPerfTest, WhatAWorkerDoesIsNamed) {
    struct named {
        const char* test;
        const char* flags;
        const char* message;
    };
    for (const named& each :
         {named{"ThrowsInTheFirst", "-procs=2", "threw: lost the database"},
          named{"ThrowsInTheFirst", "-threads=2", "threw: lost the database"},
          named{"DiesInTheSecond", "-procs=2", "was killed by signal 9 (SIGKILL)"},
          named{"HangsInTheFirst", "-procs=2 -timeout=4000", ": killed"}, named{"Aborts", "-procs=2", "enough"}}) {
        const outcome it = run(each.test, each.flags);
        EXPECT_EQ(it.code, 1) << it.text;
        EXPECT_GE(it.times(each.message), 1U) << each.test << "\n" << it.text;
        EXPECT_GE(it.times(std::string("DISABLED_Forked.") + each.test + ": worker "), 1U) << it.text;
    }
}

// No assertion of the caller's failed, and the child's signals are the child's: the test must fail all the same.
TEST(ForkedPerfTest, AnAbortWithoutAWordFailsTheTest) {
    for (const auto& [test, flags] : {std::pair<std::string, const char*>{"AbortsAlone", "-procs=2 -time=500"},
                                      {"AbortsAtOnce", "-procs=2"},
                                      {"AbortsAtOnce", "-procs=2 -latency"},
                                      {"AbortsAtOnce", "-procs=2 -hz=1000"}}) {
        const outcome it = run(test, flags);
        EXPECT_EQ(it.code, 1) << it.text;
        EXPECT_EQ(it.times("no result: the body asked to stop (PERF_ABORT) in a forked worker"), 1U) << it.text;
        EXPECT_EQ(it.times("[  FAILED  ] DISABLED_Forked." + test + " ("), 1U) << it.text;
    }
}

TEST(ForkedPerfTest, FlagsThatContradictFailWithASentence) {
    const outcome it = run("Works", "-pace=sleep");
    EXPECT_NE(it.code, 0) << it.text;
    EXPECT_GE(it.times("give the schedule's rate too (-hz)"), 1U) << it.text;
}

}  // namespace
