// SPDX-License-Identifier: Apache-2.0
// Counters and histogram shards written by several threads on one mapping while others read.
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "holdfast/metrics/counter_slots.hpp"
#include "holdfast/metrics/latency_shards.hpp"
#include "holdfast/metrics/max_of_n.hpp"
#include "support/scale.hpp"

namespace {

using holdfast::counter;
using holdfast::detail::counter_slots;
using holdfast::detail::latency_shards;
namespace layout = holdfast::layout;

std::shared_ptr<std::byte> zeroed(std::size_t bytes) {
    bytes = (bytes + 4095) / 4096 * 4096;
    std::shared_ptr<std::byte> memory(static_cast<std::byte*>(std::aligned_alloc(4096, bytes)), &std::free);
    std::memset(memory.get(), 0, bytes);
    return memory;
}

// Every round all threads register the same names at the same moment, each in another order, and count. Two slots for
// one name or a lost addition would show in the sums.
TEST(CounterSlotsThreads, RacingRegistrationsMeetInOneSlotAndNothingIsLost) {
    constexpr std::size_t threads = 4;
    constexpr std::size_t names = 12;
    for (std::uint64_t round = 0; round < holdfast::test::scaled(200); ++round) {
        const auto memory = zeroed(names * sizeof(layout::counter_slot));
        const counter_slots slots({memory.get(), names * sizeof(layout::counter_slot)}, names, "heap:");
        std::atomic<std::size_t> full{0};
        std::barrier start(threads);
        std::vector<std::jthread> crew;
        for (std::size_t t = 0; t < threads; ++t) {
            crew.emplace_back([&, t] {
                start.arrive_and_wait();
                for (std::size_t i = 0; i < names; ++i) {
                    const std::size_t n = (i * 5 + t * 3) % names;  // 5 and 12 share no factor: every name once
                    const auto words =
                        layout::encode_counter_name("requests_total", "name=\"" + std::to_string(n) + "\"");
                    layout::counter_slot* const slot = slots.install(*words);
                    if (slot == nullptr) {
                        ++full;
                        continue;
                    }
                    for (int k = 0; k < 50; ++k) counter(slot->value).add(n + 1);
                }
            });
        }
        std::size_t largest = 0;
        for (int look = 0; look < 5; ++look) {
            std::size_t seen = 0;
            slots.for_each([&](std::string_view, std::string_view, std::uint64_t) { ++seen; });
            EXPECT_GE(seen, largest) << "a name vanished";
            largest = seen;
        }
        crew.clear();
        EXPECT_EQ(full.load(), 0U) << "a name took more than one slot";
        std::map<std::string, std::uint64_t> sums;
        const auto walk = slots.for_each([&](std::string_view, std::string_view labels, std::uint64_t value) {
            sums[std::string(labels)] += value;
        });
        ASSERT_EQ(walk.counters, names);
        ASSERT_EQ(sums.size(), names);
        for (std::size_t n = 0; n < names; ++n)
            ASSERT_EQ(sums["name=\"" + std::to_string(n) + "\""], threads * 50 * (n + 1));
    }
}

// More threads than shards: some own one, the rest share the last. A reader merges all the time; its totals never fall.
TEST(LatencyShardsThreads, EveryRecordIsCountedOnceWhereverItGoes) {
    constexpr std::size_t threads = 4;
    constexpr std::size_t count = 3;
    const std::uint64_t records = holdfast::test::scaled(200000);
    const auto memory = zeroed(layout::latency_shard_bytes(count));
    const latency_shards shards({memory.get(), layout::latency_shard_bytes(count)}, count, "heap:");
    // One word is nearly full from the start, so that what the owners have no room for goes to the shared shard (I4).
    constexpr std::uint32_t nearly_full = 0xFFFFFFFFU - 1000;
    shards[0].counts[holdfast::log_linear::bucket_of(1000)].store(nearly_full);
    std::atomic<bool> done{false};
    std::jthread reader([&] {
        std::uint64_t last = 0;
        while (!done.load()) {
            const std::uint64_t total = shards.merged().total();
            EXPECT_GE(total, last);
            last = total;
        }
    });
    {
        std::vector<std::jthread> crew;
        for (std::size_t t = 0; t < threads; ++t) {
            crew.emplace_back([&, t] {
                for (std::uint64_t turn = 0; turn < 20; ++turn) {  // claim and give back: owners follow each other
                    std::size_t mine = 0;
                    while (mine < shards.owned() && !shards.claim(mine)) ++mine;
                    auto line = shards.line(mine);
                    for (std::uint64_t i = 0; i < records / 20; ++i)
                        holdfast::detail::record_value(line, 1000 * (t + 1) + i % 7);
                    if (mine < shards.owned()) shards.give_back(mine);
                }
            });
        }
    }
    done = true;
    reader.join();
    const auto merged = shards.merged();
    EXPECT_EQ(merged.total(), nearly_full + threads * (records / 20) * 20);
    std::uint64_t sum = 0;
    for (std::uint64_t t = 0; t < threads; ++t)
        for (std::uint64_t i = 0; i < records / 20; ++i) sum += 1000 * (t + 1) + i % 7;
    EXPECT_EQ(merged.sum(), sum * 20);
    EXPECT_EQ(merged.quantile(0)->estimate, 1000);
    EXPECT_EQ(merged.quantile(1)->estimate, 4006);
}

// All maxima are 3, so each sum tells how many blocks it is of.
std::uint64_t blocks_of(double sum) { return static_cast<std::uint64_t>(sum / 3); }

// However fast the writer is and whoever is held up where: a sum is of no less than the blocks it comes with, and of at
// most one more than were finished when it had been read.
TEST(MaxOfNThreads, ReadersAreOffByNoMoreThanWasWrittenMeanwhile) {
    holdfast::max_of_n_state state;
    std::atomic<bool> done{false};
    std::jthread reader([&] {
        std::uint64_t last = 0;
        while (!done.load()) {
            const auto total = holdfast::read(state);
            const std::uint64_t finished = std::atomic_ref(state.blocks).load();
            EXPECT_GE(total.blocks, last);
            last = total.blocks;
            EXPECT_GE(blocks_of(total.sum), total.blocks);
            EXPECT_LE(blocks_of(total.sum), finished + 1);
        }
    });
    holdfast::max_of_n writer(state, 4);
    const std::uint64_t blocks = holdfast::test::scaled(200000);
    for (std::uint64_t i = 0; i < 4 * blocks; ++i) writer.record(static_cast<std::int64_t>(i % 4));
    done = true;
    reader.join();
    EXPECT_EQ(writer.total().blocks, blocks);
    EXPECT_EQ(writer.total().sum, 3.0 * static_cast<double>(blocks));
}

// A block that takes longer than a look: each reader has the sum of exactly its blocks.
TEST(MaxOfNThreads, ReadersSeeWholeBlocks) {
    constexpr std::uint64_t n = 10000;
    holdfast::max_of_n_state state;
    std::atomic<bool> done{false};
    std::jthread reader([&] {
        while (!done.load()) {
            const auto total = holdfast::read(state);
            EXPECT_EQ(blocks_of(total.sum), total.blocks);
        }
    });
    holdfast::max_of_n writer(state, n);
    const std::uint64_t blocks = holdfast::test::scaled(300);
    for (std::uint64_t i = 0; i < n * blocks; ++i) writer.record(static_cast<std::int64_t>(i % 4));
    done = true;
    reader.join();
    EXPECT_EQ(writer.total().blocks, blocks);
}

}  // namespace
