// SPDX-License-Identifier: Apache-2.0
// When a reader of lots waits before it looks again, and that readers of queues and broadcast rings do.
#include "holdfast/detail/reader_slip.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "holdfast/broadcast.hpp"
#include "holdfast/queue.hpp"

namespace {

using namespace holdfast;
using detail::processor_ticks;
using detail::reader_slip;

constexpr std::uint64_t lot = 8;
constexpr std::uint64_t large = reader_slip::ring_bytes_min;

/// So many whole lots one after the other, and then less than one.
void catch_up(reader_slip& slip, std::uint64_t lots) {
    slip.before_look(lot);
    for (std::uint64_t i = 0; i < lots; ++i) slip.found(lot, lot);
    slip.found(lot - 1, lot);
}

TEST(ReaderSlip, WhoFindsNoWholeLotNeverWaits) {
    reader_slip slip(large);
    for (std::uint64_t i = 0; i < 10'000; ++i) {
        slip.found(i % lot, lot);
        slip.found(1, 1);
        slip.found(0, 1);
        ASSERT_FALSE(slip.due());
    }
}

TEST(ReaderSlip, WhoHasTakenWholeLotsWaitsOnce) {
    reader_slip slip(large);
    slip.found(lot, lot);
    EXPECT_FALSE(slip.due());
    slip.found(0, lot);
    EXPECT_TRUE(slip.due());
    slip.before_look(lot);
    EXPECT_FALSE(slip.due());
    for (int i = 0; i < 100; ++i) slip.found(0, lot);
    EXPECT_FALSE(slip.due()) << "nothing comes any more";
}

TEST(ReaderSlip, OfManyThatAreWantedALotIsSixtyFour) {
    reader_slip slip(large);
    slip.found(reader_slip::lot_max, 1'000'000);
    slip.found(reader_slip::lot_max - 1, 1'000'000);
    EXPECT_TRUE(slip.due());
}

TEST(ReaderSlip, WhoWantsOneNeitherWaitsNorEndsAStreamOfLots) {
    reader_slip slip(large);
    slip.found(lot, lot);
    slip.found(0, 1);
    EXPECT_FALSE(slip.due());
    slip.found(0, lot);
    slip.before_look(1);
    EXPECT_TRUE(slip.due());
}

TEST(ReaderSlip, InASmallRingNobodyWaits) {
    reader_slip slip(large - 1);
    for (int i = 0; i < 100; ++i) {
        catch_up(slip, 1000);
        ASSERT_FALSE(slip.due());
    }
}

// Answers to questions, and lots that come now and then: each is caught up with, and waiting brings few.
TEST(ReaderSlip, RestsWhereAWaitIsOfNoUse) {
    for (const std::uint64_t lots_at_once : {std::uint64_t{1}, reader_slip::lots_few - 1}) {
        reader_slip slip(large);
        for (int i = 0; i < 1000; ++i) catch_up(slip, 1000);  // a stream before, which was waited for
        constexpr int times = 100'000;
        int waits = 0;
        for (int i = 0; i < times; ++i) {
            slip.found(lots_at_once * lot, lot);
            slip.found(0, lot);
            waits += slip.due() ? 1 : 0;
            slip.before_look(lot);
        }
        EXPECT_GE(waits, times / (static_cast<int>(reader_slip::rest_max) + 2)) << "it goes on trying";
        EXPECT_LE(waits, times / static_cast<int>(reader_slip::rest_max) + 10);
    }
}

TEST(ReaderSlip, WaitsAgainAtOnceWhenItHasBeenOfUse) {
    reader_slip slip(large);
    for (int i = 0; i < 1000; ++i) catch_up(slip, 1);
    unsigned until = 0;
    while (!slip.due()) {
        ASSERT_LE(++until, reader_slip::rest_max + 1);
        catch_up(slip, reader_slip::lots_few);
    }
    for (int i = 0; i < 10; ++i) {
        catch_up(slip, reader_slip::lots_few);
        EXPECT_TRUE(slip.due()) << i;
    }
}

TEST(ReaderSlip, WhoWasLappedRests) {
    reader_slip slip(large);
    for (int i = 0; i < 10; ++i) catch_up(slip, 1000);
    slip.lapped();
    for (unsigned i = 0; i < reader_slip::rest_max; ++i) {
        catch_up(slip, 1000);
        ASSERT_FALSE(slip.due());
    }
    catch_up(slip, 1000);
    EXPECT_TRUE(slip.due());
}

// A consumer of several queues that looks at them in turn is not held up by each.
TEST(ReaderSlip, TimeSpentElsewhereCounts) {
    if (processor_ticks() == 0) GTEST_SKIP() << "needs: a processor's clock, and no sanitizer";
    std::uint64_t least = ~std::uint64_t{0};
    for (int round = 0; round < 20; ++round) {
        reader_slip slip(large);
        catch_up(slip, 1);
        for (const std::uint64_t begun = processor_ticks(); processor_ticks() - begun < reader_slip::ticks;) {
        }
        const std::uint64_t begun = processor_ticks();
        slip.before_look(lot);
        least = std::min(least, processor_ticks() - begun);
    }
    EXPECT_LT(least, reader_slip::ticks / 4);
}

/// The processor's time of a look behind whole lots and a look that found none, the median of many.
std::uint64_t look_behind_lots(const std::function<void(int)>& send, const std::function<std::uint64_t()>& take) {
    std::array<std::uint64_t, 21> taken{};
    for (std::uint64_t& each : taken) {
        send(static_cast<int>(reader_slip::lots_few * lot));
        while (take() != 0) {
        }
        const std::uint64_t begun = processor_ticks();
        EXPECT_EQ(take(), 0U);
        each = processor_ticks() - begun;
    }
    std::nth_element(taken.begin(), taken.begin() + taken.size() / 2, taken.end());
    return taken[taken.size() / 2];
}

void expect_waits(bool waits, const std::function<void(int)>& send, const std::function<std::uint64_t()>& take) {
    const std::uint64_t taken = look_behind_lots(send, take);
    if (waits)
        EXPECT_GE(taken, reader_slip::ticks / 2);
    else
        EXPECT_LT(taken, reader_slip::ticks / 4);
}

TEST(ReaderSlip, IsThatOfAQueue) {
    if (processor_ticks() == 0) GTEST_SKIP() << "needs: a processor's clock, and no sanitizer";
    for (const std::uint64_t bytes : {large, large / 2}) {
        auto producer = queue_producer::create("heap:", {.capacity_bytes = bytes});
        auto consumer = producer.make_consumer();
        const std::array<std::byte, 8> message{};
        const auto send = [&](int count) {
            for (int i = 0; i < count; ++i) ASSERT_TRUE(producer.try_push(message));
        };
        for (const std::uint64_t most : {std::uint64_t{1}, lot})
            expect_waits(bytes == large && most == lot, send,
                         [&] { return consumer.drain(most, [](const queue_message&) {}).count; });
    }
}

TEST(ReaderSlip, IsThatOfAQueueOfElements) {
    if (processor_ticks() == 0) GTEST_SKIP() << "needs: a processor's clock, and no sanitizer";
    for (const std::uint64_t bytes : {large, large / 2}) {
        auto producer = queue<std::uint64_t>::producer::create("heap:", {.capacity = bytes / 8});
        auto consumer = producer.make_consumer();
        const auto send = [&](int count) {
            for (int i = 0; i < count; ++i) ASSERT_TRUE(producer.try_push(std::uint64_t{1}));
        };
        std::array<std::uint64_t, lot> room{};
        for (const std::uint64_t most : {std::uint64_t{1}, lot}) {
            const bool waits = bytes == large && most == lot;
            expect_waits(waits, send, [&] { return consumer.try_pop(std::span(room).first(most)).count; });
            expect_waits(waits, send, [&] { return consumer.drain(most, [](std::uint64_t) {}).count; });
            expect_waits(waits, send, [&] {
                const std::uint64_t there = consumer.front_block(most).values.size();
                consumer.pop(there);
                return there;
            });
        }
        // What is known to be there is given at once.
        send(static_cast<int>(lot + lot / 2));
        EXPECT_EQ(consumer.front_block(lot).values.size(), lot);
        consumer.pop(lot);
        EXPECT_EQ(consumer.front_block(lot).values.size(), lot / 2);
    }
}

TEST(ReaderSlip, IsThatOfABroadcast) {
    if (processor_ticks() == 0) GTEST_SKIP() << "needs: a processor's clock, and no sanitizer";
    for (const std::uint64_t bytes : {large, large / 2}) {
        auto writer = broadcast_writer::create("heap:", {.capacity_bytes = bytes});
        auto reader = writer.make_reader(broadcast_start::latest());
        const std::array<std::byte, 8> message{};
        const auto send = [&](int count) {
            for (int i = 0; i < count; ++i) ASSERT_TRUE(writer.publish(message));
        };
        std::array<std::byte, 8 * lot> room{};
        for (const std::uint64_t most : {std::uint64_t{1}, lot})
            expect_waits(bytes == large && most == lot, send, [&]() -> std::uint64_t {
                const auto got =
                    reader.read_batch(std::span(room), [](std::span<const std::byte>, std::uint16_t) {}, most);
                return got ? got.count : 0;
            });
    }
}

}  // namespace
