// SPDX-License-Identifier: Apache-2.0
// Which way long copies go: the one that takes less time by a made-up clock, found out at little cost, left again when
// it no longer does.
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "holdfast/detail/long_copy.hpp"

namespace {

using holdfast::detail::copy_way;
using holdfast::detail::long_copier;
using holdfast::detail::way_chooser;

constexpr std::size_t run_bytes = 1024;

/// Copies that take so many ticks a byte, by way.
struct machine {
    double through = 1;
    double past = 1;
    std::uint64_t ticks_of(copy_way way, std::size_t bytes) const {
        return static_cast<std::uint64_t>((way == copy_way::through_caches ? through : past) *
                                          static_cast<double>(bytes));
    }
};

/// Bytes that went either way.
struct usage {
    std::array<std::uint64_t, 2> bytes{};
    std::uint64_t timed = 0;
    [[nodiscard]] double share(copy_way way) const {
        return static_cast<double>(bytes[static_cast<std::size_t>(way)]) / static_cast<double>(bytes[0] + bytes[1]);
    }
};

/// `transactions` of four copies each. `disturb(transaction)` is what an interrupt adds to its publication.
template <class Disturb>
usage run(way_chooser& chooser, const machine& on, std::uint64_t transactions, Disturb disturb) {
    usage used;
    for (std::uint64_t i = 0; i < transactions; ++i) {
        bool timed = false;
        for (int k = 0; k < 4; ++k) {
            const bool times = chooser.take(run_bytes);
            used.bytes[static_cast<std::size_t>(chooser.way())] += run_bytes;
            if (times) chooser.add(run_bytes, on.ticks_of(chooser.way(), run_bytes));
            used.timed += times ? run_bytes : 0;
            timed |= times;
        }
        if (!timed || !chooser.has_enough()) continue;
        chooser.add(0, disturb(i));
        chooser.end_half();
    }
    return used;
}
usage run(way_chooser& chooser, const machine& on, std::uint64_t transactions) {
    return run(chooser, on, transactions, [](std::uint64_t) { return 0U; });
}

constexpr std::uint64_t many = 100'000;  // transactions: 400 MiB, some 45 trials

TEST(WayChooser, StaysWithTheCachesWhereTheyAreFaster) {
    way_chooser chooser;
    const usage used = run(chooser, {.through = 0.1, .past = 0.3}, many);
    EXPECT_EQ(chooser.way(), copy_way::through_caches);
    EXPECT_LT(used.share(copy_way::past_caches), 1.1 / way_chooser::rest);
    EXPECT_GT(used.share(copy_way::past_caches), 0.5 / way_chooser::rest) << "it never looked";
    EXPECT_LT(used.timed, 2.2 / way_chooser::rest * many * 4 * run_bytes);
}

TEST(WayChooser, GoesPastThemWhereThatIsFasterAndBackWhenItNoLongerIs) {
    way_chooser chooser;
    (void)run(chooser, {.through = 1, .past = 0.2}, many / 8);
    EXPECT_EQ(chooser.way(), copy_way::past_caches);
    EXPECT_GT(run(chooser, {.through = 1, .past = 0.2}, many).share(copy_way::past_caches), 0.99);
    (void)run(chooser, {.through = 0.1, .past = 0.3}, many / 8);
    EXPECT_EQ(chooser.way(), copy_way::through_caches);
}

// The reader pays, too, for what comes from memory.
TEST(WayChooser, KeepsToTheCachesUnlessTheOtherWayIsMuchFaster) {
    way_chooser chooser;
    EXPECT_LT(run(chooser, {.through = 1, .past = 0.7}, many).share(copy_way::past_caches), 0.01);
    (void)run(chooser, {.through = 1, .past = 0.5}, many / 4);
    EXPECT_EQ(chooser.way(), copy_way::past_caches);
    (void)run(chooser, {.through = 1, .past = 0.7}, many / 4);
    EXPECT_EQ(chooser.way(), copy_way::through_caches);
}

// What an interrupt adds to one trial of ten says nothing of the way.
TEST(WayChooser, OneBadTrialDoesNotTurnIt) {
    way_chooser chooser;
    (void)run(chooser, {.through = 1, .past = 0.2}, many / 8);
    ASSERT_EQ(chooser.way(), copy_way::past_caches);
    const usage used = run(chooser, {.through = 1, .past = 0.5}, many,
                           [trial = 0](std::uint64_t) mutable { return ++trial % 160 == 0 ? 1'000'000U : 0U; });
    EXPECT_GT(used.share(copy_way::past_caches), 0.99);
}

// A processor whose clock was behind the last one's: less than no time, and no way out of it.
TEST(WayChooser, AClockThatGoesBackDoesNotKeepItFromSeeing) {
    way_chooser chooser;
    chooser.add(run_bytes, static_cast<std::uint64_t>(-5'000'000));
    (void)run(chooser, {.through = 1, .past = 0.2}, many / 4);
    EXPECT_EQ(chooser.way(), copy_way::past_caches);
}

// A long message and nineteen short ones by turns: each size is compared with itself, or the way in use, which begins
// each trial with the long one, would always look better.
TEST(WayChooser, SizesAreNotMixed) {
    for (const copy_way better : {copy_way::past_caches, copy_way::through_caches}) {
        way_chooser chooser;
        std::array<std::uint64_t, 2> taken{};
        const bool past = better == copy_way::past_caches;
        for (int i = 0; i < 40'000; ++i) {
            const std::size_t bytes = i % 20 == 19 ? std::size_t{1} << 20 : 600;
            const bool timed = chooser.take(bytes);
            taken[static_cast<std::size_t>(chooser.way())] += bytes;
            // Half as much by that way at either size; a byte of a short one costs a hundred times as much.
            const double ticks = (bytes == 600 ? 100.0 : 1.0) * static_cast<double>(bytes);
            if (timed) chooser.add(bytes, static_cast<std::uint64_t>(chooser.way() == better ? ticks : 2 * ticks));
            if (timed && chooser.has_enough()) chooser.end_half();
            if (i == 20'000) {
                ASSERT_EQ(chooser.way(), better) << past;
                taken = {};
            }
        }
        EXPECT_LT(taken[past ? 0 : 1], taken[past ? 1 : 0] / 30) << past;
    }
}

// The trial began with a size that never comes again: it must not keep the other way for good.
TEST(WayChooser, ATrialThatFindsNoSecondOfItsSizeIsGivenUp) {
    way_chooser chooser;
    std::uint64_t other = 0;
    for (int i = 0; i < 200'000; ++i) {
        const std::size_t bytes = i == 1000 ? std::size_t{1} << 20 : 600;
        if (chooser.take(bytes)) chooser.add(bytes, bytes);
        other += chooser.way() == copy_way::past_caches ? bytes : 0;
        if (chooser.has_enough()) chooser.end_half();
    }
    EXPECT_LT(other, 2 * way_chooser::passed_bytes_max);
    EXPECT_EQ(chooser.way(), copy_way::through_caches);
}

TEST(WayChooser, KeepsToAWayThatItWasTold) {
    way_chooser chooser;
    for (const copy_way way : {copy_way::past_caches, copy_way::through_caches}) {
        chooser.keep_to(way);
        const usage used = run(chooser, {.through = 1, .past = 1}, many);
        EXPECT_EQ(used.share(way), 1.0);
        EXPECT_EQ(used.timed, 0U);
    }
}

TEST(LongCopier, CopiesTheSameBytesWhicheverWayAndWhileItTries) {
    std::vector<std::byte> from(70'000), to(from.size() + 64);
    for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i * 13 + i / 256);
    long_copier copier;
    for (unsigned i = 0; i < 3000; ++i) {
        if (i == 1000) copier.keep_to(copy_way::past_caches);
        if (i == 2000) copier.keep_to(copy_way::through_caches);
        const std::size_t bytes = long_copier::least_bytes + i * 97 % (from.size() - long_copier::least_bytes);
        std::byte* const at = to.data() + i % 64;
        std::memset(to.data(), 0, to.size());
        copier.copy(at, from.data(), bytes);
        copier.fence();
        ASSERT_EQ(std::memcmp(at, from.data(), bytes), 0) << i;
        ASSERT_EQ(at[bytes], std::byte{0}) << i;
    }
}

}  // namespace
