// SPDX-License-Identifier: Apache-2.0
// The CPU's counter against the kernel's clock, on whatever this machine has.
#include "holdfast/perf_test/clock.hpp"

#include <gtest/gtest.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <thread>

namespace {

using namespace holdfast::perf_test;

void wait_ns(std::uint64_t ns) {
    const std::uint64_t from = monotonic_ns();
    while (monotonic_ns() - from < ns) {
    }
}

TEST(TickClock, SaysWhatItReads) {
    const tick_clock& clock = tick_clock::get();
    EXPECT_EQ(clock.source() == tick_source::monotonic, !clock.reason().empty()) << clock.reason();
    EXPECT_GT(clock.ns_a_tick(), 0);
    EXPECT_GT(clock.granularity_ns(), 0);
    EXPECT_LT(clock.granularity_ns(), 1e6);
    EXPECT_GT(clock.read_cost_ns(), 0);
    EXPECT_LT(clock.read_cost_ns(), 1e5);
    EXPECT_EQ(&clock, &tick_clock::get());
    EXPECT_EQ(tick_clock::kernel().source(), tick_source::monotonic);
    EXPECT_EQ(tick_clock::kernel().ns_a_tick(), 1);
    EXPECT_STREQ(to_string(tick_clock::kernel().source()), "monotonic");
}

// An interruption between the readings of the two clocks widens single attempts; the best of several is not disturbed.
TEST(TickClock, AgreesWithTheKernel) {
    for (const tick_clock* clock : {&tick_clock::get(), &tick_clock::kernel()}) {
        double best = 1;
        for (int attempt = 0; attempt < 50 && best > 1e-3; ++attempt) {
            const std::uint64_t kernel_from = monotonic_ns(), from = clock->start();
            wait_ns(5'000'000);
            const std::uint64_t to = clock->stop(), kernel_to = monotonic_ns();
            best = std::min(best, std::fabs(clock->ns(from, to) / static_cast<double>(kernel_to - kernel_from) - 1));
        }
        EXPECT_LE(best, 1e-3) << to_string(clock->source());
    }
}

TEST(TickClock, NeverRunsBackwards) {
    const tick_clock& clock = tick_clock::get();
    std::uint64_t before = clock.start();
    for (int i = 0; i < 100'000; ++i) {
        const std::uint64_t now = i % 2 == 0 ? clock.stop() : clock.start();
        ASSERT_GE(now, before);
        before = now;
    }
    std::uint64_t elsewhere = 0;
    std::thread([&] { elsewhere = clock.start(); }).join();
    EXPECT_GE(elsewhere, before) << "ticks of threads agree";
    EXPECT_GE(clock.stop(), elsewhere);
}

TEST(TickClock, CostIsTakenOffDownToZero) {
    const tick_clock& clock = tick_clock::get();
    EXPECT_EQ(clock.without_cost(0), 0);
    EXPECT_EQ(clock.without_cost(clock.read_cost_ns() / 2), 0);
    EXPECT_NEAR(clock.without_cost(clock.read_cost_ns() + 100), 100, 1e-9);
    EXPECT_EQ(clock.ns(10, 5), 0) << "a difference below zero is no time";
}

}  // namespace
