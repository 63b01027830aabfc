// SPDX-License-Identifier: Apache-2.0
#include "net/timer_wheel.hpp"

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "support/scale.hpp"
#include "support/seed.hpp"

namespace {

using holdfast::net::timer_wheel;

std::vector<std::uint32_t> advance(timer_wheel& wheel, std::uint64_t now_ms) {
    std::vector<std::uint32_t> expired;
    wheel.advance(now_ms, [&](std::uint32_t i) { expired.push_back(i); });
    return expired;
}

TEST(TimerWheel, NothingArmedWaitsForEver) {
    timer_wheel wheel(1000);
    EXPECT_EQ(wheel.next_ms(1000), -1);
    EXPECT_TRUE(advance(wheel, 1'000'000).empty());
}

TEST(TimerWheel, ExpiresAtItsDeadlineAndNotBefore) {
    timer_wheel wheel(1000);
    wheel.grow(2);
    wheel.arm(0, 1100);
    EXPECT_TRUE(advance(wheel, 1099).empty());
    EXPECT_EQ(advance(wheel, 1100 + timer_wheel::resolution_ms), std::vector<std::uint32_t>{0});
    EXPECT_TRUE(advance(wheel, 5000).empty());
    EXPECT_EQ(wheel.next_ms(5000), -1);
}

TEST(TimerWheel, MovedAndDisarmedDeadlinesCount) {
    timer_wheel wheel(0);
    wheel.grow(3);
    wheel.arm(0, 100);
    wheel.arm(0, 500);  // later: stays where it hangs
    wheel.arm(1, 500);
    wheel.arm(1, 100);  // earlier: hung up anew
    wheel.arm(2, 100);
    wheel.disarm(2);
    EXPECT_EQ(advance(wheel, 200), std::vector<std::uint32_t>{1});
    EXPECT_EQ(advance(wheel, 600), std::vector<std::uint32_t>{0});
}

TEST(TimerWheel, DeadlinesBeyondATurnAreKept) {
    timer_wheel wheel(0);
    wheel.grow(1);
    constexpr std::uint64_t turn = timer_wheel::slots * timer_wheel::resolution_ms;
    wheel.arm(0, 3 * turn + 5);
    EXPECT_TRUE(advance(wheel, turn).empty());
    EXPECT_TRUE(advance(wheel, 3 * turn).empty());
    EXPECT_EQ(advance(wheel, 3 * turn + 100).size(), 1U);
}

TEST(TimerWheel, ACallbackMayArmAndDisarm) {
    timer_wheel wheel(0);
    wheel.grow(3);
    for (std::uint32_t i = 0; i < 3; ++i) wheel.arm(i, 50);
    std::vector<std::uint32_t> expired;
    wheel.advance(60, [&](std::uint32_t i) {
        expired.push_back(i);
        if (expired.size() == 1) {
            wheel.arm(i, 100);
            wheel.disarm(i == 1 ? 2 : 1);
        }
    });
    EXPECT_EQ(expired.size(), 2U) << "one of the other two had been disarmed in time";
    EXPECT_EQ(advance(wheel, 120).size(), 1U);
}

// A loop that sleeps as long as it is told, and looks.
TEST(TimerWheel, WhatWasDisarmedWakesALoopOnceAtMost) {
    timer_wheel wheel(0);
    wheel.grow(3);
    wheel.arm(0, 100);
    wheel.arm(1, 500);
    wheel.arm(2, 20'000);
    wheel.disarm(0);
    std::uint64_t now = 0;
    std::vector<std::uint32_t> expired;
    int wakes = 0;
    for (; expired.size() < 2 && wakes < 20; ++wakes) {
        ASSERT_GE(wheel.next_ms(now), 0);
        now += static_cast<std::uint64_t>(wheel.next_ms(now));
        wheel.advance(now, [&](std::uint32_t i) { expired.push_back(i); });
    }
    EXPECT_EQ(expired, (std::vector<std::uint32_t>{1, 2}));
    EXPECT_LE(wakes, 3);
    EXPECT_EQ(wheel.next_ms(now), -1);
}

// Against a map: no timer early, none later than one resolution, none lost, and next_ms never oversleeps.
TEST(TimerWheel, AgreesWithAMapOfDeadlines) {
    holdfast::test::seeded_random random;
    constexpr std::uint32_t count = 50;
    std::uint64_t now = random.below(1'000'000);
    timer_wheel wheel(now);
    wheel.grow(count);
    std::map<std::uint32_t, std::uint64_t> model;
    for (std::uint64_t round = 0; round < holdfast::test::scaled(50'000); ++round) {
        const auto index = static_cast<std::uint32_t>(random.below(count));
        switch (random.below(4)) {
            case 0:
            case 1: {
                const std::uint64_t deadline = now + random.below(random.below(10) == 0 ? 200'000 : 300);
                wheel.arm(index, deadline);
                model[index] = deadline;
                break;
            }
            case 2:
                wheel.disarm(index);
                model.erase(index);
                break;
            default: {
                const int next = wheel.next_ms(now);
                ASSERT_EQ(next < 0, model.empty());
                for (const auto& [i, deadline] : model)
                    ASSERT_LE(now + static_cast<std::uint64_t>(next),
                              std::max(now, deadline) + 2 * timer_wheel::resolution_ms);
                now += random.below(random.below(20) == 0 ? 100'000 : 60);
                for (const std::uint32_t i : advance(wheel, now)) {
                    ASSERT_TRUE(model.count(i));
                    ASSERT_LE(model[i], now) << "early";
                    model.erase(i);
                }
                for (const auto& [i, deadline] : model) ASSERT_GT(deadline + timer_wheel::resolution_ms, now) << "late";
            }
        }
    }
}

}  // namespace
