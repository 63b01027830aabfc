// SPDX-License-Identifier: Apache-2.0
// Results, places and curves as people read them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "holdfast/perf_test/complexity.hpp"
#include "holdfast/perf_test/environment.hpp"
#include "holdfast/perf_test/session.hpp"
#include "support/perf_results.hpp"

namespace holdfast::perf_test {
namespace {

using test::measured_result;
using testing::HasSubstr;
using testing::Not;

TEST(PerfText, APercentileIsShownWithItsBounds) {
    result r = measured_result("Calls", 1);
    r.latency = latency_result{.count = 12'345,
                               .percentiles = {{0.5, 1234, 1200, 1260, true}, {0.999, 5'000'000, 0, 0, false}},
                               .minimum = 1000,
                               .mean = 1300,
                               .maximum = 7'000'000};
    const std::string text = to_text(r);
    EXPECT_THAT(text, HasSubstr("    latency: p50   1.234 us   95 %: 1.200 us to 1.260 us\n"));
    EXPECT_THAT(text, HasSubstr("\n             p99.9 5.000 ms ? too few calls to tell\n"));
    EXPECT_THAT(text, HasSubstr("\n             max   7.000 ms   of 12,345 calls\n"));
}

TEST(PerfText, TheSpreadHoldsTheDeviation) {
    EXPECT_THAT(to_text(measured_result("Fast", 10)), HasSubstr(", deviation 6 %, from 9.000 ns to 11.00 ns\n"));
}

TEST(PerfText, APlaceIsToldWithWhatMakesItDoubtful) {
    environment where;
    where.cpu = "Some\033[31m CPU";
    where.build.optimised = true;
    where.governor = "powersave";
    const std::string text = to_text(where);
    EXPECT_THAT(text, testing::StartsWith("    machine: Some\\x1b[31m CPU, "));
    EXPECT_THAT(text, HasSubstr("\n    warning: the CPU's frequency follows the load (governor powersave)"));
    EXPECT_THAT(text, Not(HasSubstr("\033")));
    EXPECT_THAT(to_text(where, {.colour = true}), HasSubstr("\033[33m    warning: "));
    where.governor = "performance";
    EXPECT_THAT(to_text(where), Not(HasSubstr("warning")));
}

TEST(PerfText, ACurveNamesItsTest) {
    std::vector<result> sizes;
    for (int i = 0; i < 5; ++i) {
        sizes.push_back(measured_result("Sort/" + std::to_string(i), 3.0 * (1 << i)));
        sizes.back().latency.reset();
        sizes.back().parameter = std::to_string(1 << i);
    }
    ASSERT_EQ(growth_of(sizes).size(), 1U);
    EXPECT_THAT(to_text(growth_of(sizes).front()),
                testing::StartsWith("     growth: Suite.Sort over n: n: 3 ns times it"));
}

}  // namespace
}  // namespace holdfast::perf_test
