// SPDX-License-Identifier: Apache-2.0
// What a turn of the http suite makes of its requests.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "http/rounds.hpp"

namespace {

using namespace holdfast::bench::http;

TEST(HttpPercentile, IsTheNearestRank) {
    std::vector<std::uint32_t> values;
    for (std::uint32_t i = 10'000; i > 0; --i) values.push_back(i);
    EXPECT_EQ(percentile_of(values, 0.5), 5000);
    EXPECT_EQ(percentile_of(values, 0.99), 9900);
    EXPECT_EQ(percentile_of(values, 0.999), 9990);
    std::vector<std::uint32_t> one{7}, none;
    EXPECT_EQ(percentile_of(one, 0.999), 7);
    EXPECT_THROW((void)percentile_of(none, 0.5), server_failed);
}

TEST(HttpPercentile, IsMarkedOnceTheTimeHeldUpCouldBeAllThatIsAboveIt) {
    EXPECT_DOUBLE_EQ(held_up_limit(0.5), 0.02);
    EXPECT_DOUBLE_EQ(held_up_limit(0.99), 1 - 0.99);
    EXPECT_DOUBLE_EQ(held_up_limit(0.999), 1 - 0.999);
}

}  // namespace
