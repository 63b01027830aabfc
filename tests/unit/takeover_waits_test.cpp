// SPDX-License-Identifier: Apache-2.0
#include "support/takeover_waits.hpp"

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>

namespace {

using holdfast::test::slowness;
using holdfast::test::takeover_waits;
using u64 = std::uint64_t;

constexpr u64 short_ns = 300'000, long_ns = takeover_waits::ns_max * slowness + 2;

struct verdict {
    unsigned failures = 0, skips = 0;
};
// What a test would have been told that ended in so many waits of each kind.
struct run {
    u64 shorts = 0, longs = 0, shorts_disturbed = 0, longs_disturbed = 0;

    [[nodiscard]] verdict judged() const {
        const auto waits = std::make_unique<takeover_waits>();
        for (u64 i = 0; i < shorts; ++i) waits->note(1, short_ns, false);
        for (u64 i = 0; i < longs; ++i) waits->note(1, long_ns, false);
        for (u64 i = 0; i < shorts_disturbed; ++i) waits->note(1, short_ns, true);
        for (u64 i = 0; i < longs_disturbed; ++i) waits->note(1, long_ns, true);
        ::testing::TestPartResultArray told;
        {
            const ::testing::ScopedFakeTestPartResultReporter instead(
                ::testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &told);
            waits->judge();
        }
        verdict found;
        for (int i = 0; i < told.size(); ++i) {
            found.failures += told.GetTestPartResult(i).failed() ? 1 : 0;
            found.skips += told.GetTestPartResult(i).skipped() ? 1 : 0;
        }
        return found;
    }
};

TEST(TakeoverWaits, EnoughThatAreShortPass) {
    const verdict found = run{.shorts = takeover_waits::enough, .shorts_disturbed = 20, .longs_disturbed = 5}.judged();
    EXPECT_EQ(found.failures, 0U);
    EXPECT_EQ(found.skips, 0U);
}
TEST(TakeoverWaits, OneThatIsLongAndUndisturbedFails) {
    EXPECT_EQ((run{.shorts = 100, .longs = 1}.judged().failures), 1U);
    EXPECT_EQ((run{.shorts = 2, .longs = 1}.judged().failures), 1U) << "too few to pass are enough to fail";
}
TEST(TakeoverWaits, TooFewUndisturbedAreNoPass) {
    for (const run& few : {run{}, run{.shorts_disturbed = 300}, run{.shorts = takeover_waits::enough - 1},
                           run{.shorts = takeover_waits::enough - 1, .shorts_disturbed = 300}}) {
        const verdict found = few.judged();
        EXPECT_EQ(found.failures, 0U);
        EXPECT_EQ(found.skips, 1U);
    }
}
// A wait that is long is likely to be disturbed, so that not all can be excused by it.
TEST(TakeoverWaits, DisturbedOnesFailWhereHalfOfAllAreLong) {
    EXPECT_EQ((run{.shorts_disturbed = 99, .longs_disturbed = 100}.judged().failures), 1U);
    EXPECT_EQ((run{.shorts = 30, .longs_disturbed = 30}.judged().failures), 1U);
    EXPECT_EQ((run{.shorts = 30, .longs_disturbed = 29}.judged().failures), 0U);
}
TEST(TakeoverWaits, MoreRoundsAreWantedUntilEnoughAreUndisturbed) {
    const auto waits = std::make_unique<takeover_waits>();
    for (u64 i = 1; i < takeover_waits::enough; ++i) waits->note(1, short_ns, false);
    for (u64 i = 0; i < 100; ++i) waits->note(1, short_ns, true);
    EXPECT_TRUE(waits->another(99, 100));
    EXPECT_TRUE(waits->another(100, 100));
    EXPECT_TRUE(waits->another(399, 100));
    EXPECT_FALSE(waits->another(400, 100));
    waits->note(1, short_ns, false);
    EXPECT_TRUE(waits->another(99, 100));
    EXPECT_FALSE(waits->another(100, 100));
}

}  // namespace
