// SPDX-License-Identifier: Apache-2.0
// Processes that count and are killed with SIGKILL at random instants. Each tells by a pipe what it is about to count
// and that it has; the sums must hold every finished unit of work, and at most the one that was in flight at each kill.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <chrono>
#include <cstring>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "holdfast/metrics/counter_slots.hpp"
#include "holdfast/metrics/latency_shards.hpp"
#include "holdfast/metrics/max_of_n.hpp"
#include "holdfast/metrics/tail_tracker.hpp"
#include "support/process.hpp"
#include "support/scale.hpp"
#include "support/seed.hpp"

namespace {

using holdfast::counter;
using holdfast::detail::counter_slots;
using holdfast::detail::latency_shards;
using holdfast::test::channel;
using holdfast::test::child_process;
namespace layout = holdfast::layout;

/// Zeroed pages that children share.
struct shared_pages {
    explicit shared_pages(std::size_t bytes)
        : size(bytes), data(::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {}
    shared_pages(const shared_pages&) = delete;
    shared_pages& operator=(const shared_pages&) = delete;
    ~shared_pages() { ::munmap(data, size); }
    [[nodiscard]] std::span<std::byte> bytes() const { return {static_cast<std::byte*>(data), size}; }

    std::size_t size;
    void* data;
};

/// What a child said before it was killed: units of work begun and finished.
struct tally {
    std::uint64_t begun = 0;
    std::uint64_t finished = 0;
};

tally drain(const channel& from) {
    tally sum;
    channel reader = from;
    while (const auto mark = reader.receive<char>()) (*mark == 'b' ? sum.begun : sum.finished) += 1;
    return sum;
}

// Kills at random instants, the registration of names among them: every child starts by registering names of its own
// and the common ones. Nothing may be lost, doubled or leaked.
TEST(CounterSlotsKill, SumsHoldEveryFinishedAdditionAcrossKills) {
    holdfast::test::seeded_random random;
    constexpr std::size_t common = 6;
    const std::uint64_t rounds = holdfast::test::scaled(150);
    const std::size_t capacity = common + 4;  // four labels that children come back to
    const shared_pages pages(capacity * sizeof(layout::counter_slot));
    const counter_slots slots(pages.bytes(), capacity, "anon:");
    std::vector<tally> by_label(4);
    std::uint64_t kills = 0;
    for (std::uint64_t round = 0; round < rounds; ++round) {
        std::vector<child_process> crew;
        for (std::size_t c = 0; c < 2; ++c) {
            const std::size_t label = (round * 2 + c) % 4;
            crew.emplace_back([&slots, label](channel& talk) {
                for (std::uint64_t i = 0;; ++i) {
                    const auto own =
                        layout::encode_counter_name("worker_total", "worker=\"" + std::to_string(label) + "\"");
                    const auto shared =
                        layout::encode_counter_name("common_total", "n=\"" + std::to_string(i % common) + "\"");
                    layout::counter_slot* const mine = slots.install(*own);
                    layout::counter_slot* const everybodys = slots.install(*shared);
                    if (mine == nullptr || everybodys == nullptr) return 1;
                    if (!talk.send('b')) return 2;
                    counter(mine->value).add(1);
                    counter(everybodys->value).add(1);
                    if (!talk.send('f')) return 2;
                }
            });
        }
        // A pause of random length places the kill; nothing waits for anything by it.
        std::this_thread::sleep_for(std::chrono::microseconds(random.below(2000)));
        for (std::size_t c = 0; c < crew.size(); ++c) {
            const auto& end = crew[c].kill();
            ASSERT_TRUE(end.signalled) << end.text();
            const tally said = drain(crew[c].talk());
            by_label[(round * 2 + c) % 4].begun += said.begun;
            by_label[(round * 2 + c) % 4].finished += said.finished;
            ++kills;
        }
    }
    std::uint64_t begun = 0;
    std::uint64_t finished = 0;
    std::uint64_t everybodys = 0;
    std::size_t seen = 0;
    const auto walk = slots.for_each([&](std::string_view family, std::string_view labels, std::uint64_t value) {
        if (family == "common_total") {
            everybodys += value;
            return;
        }
        ++seen;
        const std::size_t label = std::stoul(*holdfast::metric_label_value(labels, "worker"));
        EXPECT_GE(value, by_label[label].finished);
        EXPECT_LE(value, by_label[label].begun);
        EXPECT_LE(by_label[label].begun - by_label[label].finished, rounds);
        begun += by_label[label].begun;
        finished += by_label[label].finished;
    });
    EXPECT_EQ(walk.damaged + walk.unfinished, 0U);
    EXPECT_LE(walk.counters, capacity);
    EXPECT_GE(everybodys, finished);
    EXPECT_LE(everybodys, begun);
    EXPECT_LE(begun - finished, kills);
    EXPECT_GT(finished, 0U);
    RecordProperty("kills", std::to_string(kills));
    RecordProperty("finished", std::to_string(finished));
}

// A killed owner's shard is counted on by the next one without losing a record.
TEST(LatencyShardsKill, NextOwnerOfADeadWritersShardCountsOn) {
    holdfast::test::seeded_random random;
    const shared_pages pages(layout::latency_shard_bytes(2));
    const latency_shards shards(pages.bytes(), 2, "anon:");
    tally all;
    const std::uint64_t rounds = holdfast::test::scaled(150);
    for (std::uint64_t round = 0; round < rounds; ++round) {
        child_process writer([&](channel& talk) {
            auto line = shards.line(0);
            for (std::uint64_t i = 0;; ++i) {
                if (!talk.send('b')) return 2;
                holdfast::detail::record_value(line, 100 + i % 1000);
                if (!talk.send('f')) return 2;
            }
        });
        std::this_thread::sleep_for(std::chrono::microseconds(random.below(2000)));  // places the kill
        ASSERT_TRUE(writer.kill().signalled);
        const tally said = drain(writer.talk());
        all.begun += said.begun;
        all.finished += said.finished;
        const std::uint64_t total = shards.merged().total();
        ASSERT_GE(total, all.finished);
        ASSERT_LE(total, all.begun);
    }
    EXPECT_LE(all.begun - all.finished, rounds);
}

// I4 under kills: two writers, each with a shard of its own, pass the end of the same bucket's 32 bits together, again
// and again. A record is in the full word's stead in the shared shard, or nowhere; never twice, never wrapped.
TEST(LatencyShardsKill, FullWordsLoseAndDoubleNothing) {
    holdfast::test::seeded_random random;
    const shared_pages pages(layout::latency_shard_bytes(3));
    const latency_shards shards(pages.bytes(), 3, "anon:");
    const std::size_t bucket = holdfast::log_linear::bucket_of(5000);
    constexpr std::uint32_t nearly_full = 0xFFFFFFFFU - 20;
    const std::uint64_t rounds = holdfast::test::scaled(100);
    for (std::uint64_t round = 0; round < rounds; ++round) {
        // Nobody writes now: the words are set back to just below their end.
        for (std::size_t shard = 0; shard < 2; ++shard) shards[shard].counts[bucket].store(nearly_full);
        const std::uint64_t before = shards.merged().counts()[bucket];
        std::vector<child_process> crew;
        for (std::size_t c = 0; c < 2; ++c) {
            crew.emplace_back([&shards, c](channel& talk) {
                auto line = shards.line(c);
                for (;;) {
                    if (!talk.send('b')) return 2;
                    holdfast::detail::record_value(line, 5000);
                    if (!talk.send('f')) return 2;
                }
            });
        }
        std::this_thread::sleep_for(std::chrono::microseconds(random.below(3000)));  // places the kills
        tally all;
        for (child_process& one : crew) {
            ASSERT_TRUE(one.kill().signalled);
            const tally said = drain(one.talk());
            all.begun += said.begun;
            all.finished += said.finished;
        }
        const std::uint64_t counted = shards.merged().counts()[bucket] - before;
        ASSERT_GE(counted, all.finished);
        ASSERT_LE(counted, all.begun);
    }
}

// A writer of an estimator and of a tracker in shared memory is killed again and again; the next goes on. Every block
// is of the value 3, so the sum of the finished ones is exact to the last; a kill costs at most the block it hits.
TEST(EstimatorKill, FinishedBlocksStayWhole) {
    struct both {
        holdfast::max_of_n_state estimator;
        holdfast::tail_state tracker;
    };
    holdfast::test::seeded_random random;
    const shared_pages pages(128 + layout::latency_shard_bytes(2));
    static_assert(sizeof(both) <= 128);
    auto* const states = reinterpret_cast<both*>(pages.bytes().data());
    const latency_shards shards(pages.bytes().subspan(128), 2, "anon:");
    std::uint64_t begun = 0;
    std::uint64_t finished = 0;
    const std::uint64_t rounds = holdfast::test::scaled(150);
    for (std::uint64_t round = 0; round < rounds; ++round) {
        child_process writer([&](channel& talk) {
            struct sink {
                holdfast::detail::recorder_line line;
                void record(std::uint64_t value) { holdfast::detail::record_value(line, value); }
            };
            sink histogram{shards.line(0)};
            holdfast::max_of_n estimator(states->estimator, 16);
            holdfast::tail_tracker tracker(states->tracker, histogram);
            for (;;) {
                if (!talk.send('b')) return 2;
                for (std::uint64_t i = 0; i < 16; ++i) {  // one block's worth, wherever the last kill left it
                    estimator.record(3);
                    tracker.record(3);
                }
                if (!talk.send('f')) return 2;
            }
        });
        std::this_thread::sleep_for(std::chrono::microseconds(random.below(2000)));  // places the kill
        ASSERT_TRUE(writer.kill().signalled);
        const tally said = drain(writer.talk());
        begun += said.begun;
        finished += said.finished;
        const auto total = holdfast::read(states->estimator);
        ASSERT_EQ(total.sum, 3.0 * static_cast<double>(total.blocks));
        const std::uint64_t lost = round + 1;
        ASSERT_LE(total.blocks, begun);
        ASSERT_GE(total.blocks + lost, finished);
        ASSERT_LE(shards.merged().total(), begun);
        ASSERT_GE(shards.merged().total() + lost, finished);
    }
}

}  // namespace
