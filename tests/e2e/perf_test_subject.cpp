// SPDX-License-Identifier: Apache-2.0
// A program of performance tests that go wrong in every way; perf_test_test.py runs them one by one.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>

#include "holdfast/perf_test.hpp"

namespace {

std::uint64_t calls = 0;

PERF_TEST(Good, Adds) { PERF_USE(++calls); }
PERF_TEST_OPT(Good, AsksForARate, 200, 300) { PERF_USE(++calls); }

void take_steps(long long steps) {
    for (; steps > 0; --steps) holdfast::perf_test::do_not_optimize(steps);
}

// As slow as the environment says, so that one program can be its own slower version.
PERF_TEST(Good, TakesAsLongAsTold) {
    static const char* const told = std::getenv("HOLDFAST_SUBJECT_STEPS");
    static const long long steps = told == nullptr ? 100 : std::atoll(told);
    take_steps(steps);
}

class Sizes : public testing::TestWithParam<int> {};
INSTANTIATE_PERF_TEST_SUITE_P(Of, Sizes, testing::Values(200, 800, 3200, 12'800, 51'200));
PERF_TEST_P(Sizes, TakesAStepEach) { take_steps(GetParam()); }

TEST(Good, MeasuresFourTimes) {
    [[maybe_unused]] const auto first = PERF_RUN { PERF_USE(++calls); };
    [[maybe_unused]] const auto second = PERF_RUN { PERF_USE(calls += 2); };
    for (int i = 0; i < 2; ++i) (void)holdfast::perf_test::run("named", [] { PERF_USE(calls += 3); });
}

void adds(int times) {
    for (; times > 0; --times) holdfast::perf_test::do_not_optimize(calls);
}
PERF_TEST(Good, Works) { adds(100); }
const auto hundred = [] { adds(100); };
const auto thousand = [] { adds(1000); };

TEST(Regression, None) { EXPECT_PERF_NOT_SLOWER(hundred, hundred); }
TEST(Regression, TenTimes) { EXPECT_PERF_NOT_SLOWER(hundred, thousand, 50 %); }

PERF_TEST(Bad, NeverReturns) {
    for (;;) holdfast::perf_test::do_not_optimize(calls);
}
PERF_TEST(Bad, HangsAfterAWhile) {
    while (++calls > 100'000) holdfast::perf_test::do_not_optimize(calls);
}
PERF_TEST(Bad, Throws) {
    if (++calls == 1000) throw std::runtime_error("the thousandth call is too much");
}
PERF_TEST(Bad, ThrowsSomethingElse) {
    if (++calls == 10) throw 42;
}
PERF_TEST(Bad, AssertsAndAborts) { ASSERT_LT(++calls, 1000U) << PERF_ABORT; }
PERF_TEST(Bad, AssertsInAnotherThread) {
    std::thread([] { ASSERT_LT(++calls, 10U) << PERF_ABORT; }).join();
}
PERF_TEST(Bad, ExpectsInVain) { EXPECT_LT(++calls, 1000U); }
PERF_TEST(Bad, AbortsAlone) {
    if (++calls == 1000) PERF_ABORT;
}
PERF_TEST(Bad, Crashes) {
    static int own_calls = 0;  // also behind tests that have called often
    if (++own_calls == 1000) std::abort();
}
// Whether this program was started with that argument.
bool given(const std::string& wanted) {
    std::ifstream file("/proc/self/cmdline", std::ios::binary);
    for (std::string argument; std::getline(file, argument, '\0');)
        if (argument == wanted) return true;
    return false;
}
PERF_TEST(Odd, NeedsAnArgument) {
    static const bool is_given = given("an-argument");
    ASSERT_TRUE(is_given);
    adds(100);
}
PERF_TEST(Odd, IsEmpty) {}
PERF_TEST(Odd, Skips) {
    if (++calls == 1000) GTEST_SKIP() << "enough";
}
PERF_TEST_OPT(Odd, AsksForNoTime, -1, 0) { PERF_USE(++calls); }

}  // namespace

PERF_TEST_MAIN
