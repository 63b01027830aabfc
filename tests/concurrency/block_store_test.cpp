// SPDX-License-Identifier: Apache-2.0
// One writer at full speed against readers as threads on one mapping: a read that says ok is whole and of the value
// that the handle names, the counts and verify() never see damage, whatever is allocated, freed and replaced meanwhile.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "support/block_many_bench.hpp"
#include "support/scale.hpp"
#include "support/seed.hpp"

namespace {

using namespace holdfast;
using namespace holdfast::test;

constexpr std::size_t words_max = 90;

// Every word of a value is its stamp, but the first: how many words there are. A mix shows in the words.
std::vector<std::uint64_t> value_of(std::uint64_t stamp, std::uint64_t random) {
    std::vector<std::uint64_t> words(2 + random % (words_max - 2), stamp);
    words[0] = words.size();
    return words;
}

bool is_value(const std::uint64_t* words, std::uint64_t bytes) {
    if (bytes < 16 || bytes % 8 != 0 || bytes > 8 * words_max || bytes != 8 * words[0]) return false;
    for (std::size_t i = 2; i < words[0]; ++i)
        if (words[i] != words[1]) return false;
    return true;
}

// Handles as the writer gives them out, for readers of other threads.
class board {
 public:
    static constexpr std::size_t places = 16;
    // Release, pairs with acquire in get(): whoever takes the handle from here finds its value.
    void set(std::size_t place, std::uint64_t handle) { handles_[place].store(handle, std::memory_order_release); }
    /// As set(). Returns: what stood there.
    std::uint64_t exchange(std::size_t place, std::uint64_t handle) {
        return handles_[place].exchange(handle, std::memory_order_acq_rel);
    }
    [[nodiscard]] std::uint64_t get(std::size_t place) const { return handles_[place].load(std::memory_order_acquire); }

 private:
    std::array<std::atomic<std::uint64_t>, places> handles_{};
};

// Relaxed throughout: totals that are looked at after the threads were joined.
void count(std::atomic<std::uint64_t>& counter) { counter.fetch_add(1, std::memory_order_relaxed); }

struct tally {
    std::atomic<bool> stop{false};
    std::atomic<std::uint64_t> ok{0}, stale{0}, wrong{0}, scans{0}, busy{0}, quiet{0};
};

// The writer's work: every place of the board is filled, replaced or emptied at random. It goes on until the others
// have begun, however long that takes.
void churn(block_bench& bench, board& shown, tally& totals, std::uint64_t operations, seeded_random& random,
           const std::function<bool()>& begun) {
    block_writer writer = bench.writer();
    std::array<std::uint64_t, board::places> held{};
    for (std::uint64_t i = 1; i <= operations || !begun(); ++i) {
        const std::size_t place = random.below(board::places);
        const std::uint64_t choice = random.below(8);
        if (choice < 2 && held[place] != 0) {
            if (writer.free(held[place]) != outcome::ok) count(totals.wrong);
            held[place] = 0;
        } else {
            const auto words = value_of(i, random());
            const auto bytes = std::as_bytes(std::span(words));
            if (writer.prepare(bytes.size()) != outcome::ok) continue;  // full: the next free makes room
            if (choice == 7) continue;                                  // a claim to be dropped
            (void)writer.write(0, bytes);
            const block_result kept = writer.commit(held[place]);
            if (!kept) count(totals.wrong);
            held[place] = kept.handle;
        }
        shown.set(place, held[place]);
        if (i % 4096 != 0) continue;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));  // long enough for a whole pass over a store at rest
        writer = bench.writer();                                    // a successor
    }
}

TEST(BlockStoreConcurrency, ReadersNeverSeeAMix) {
    seeded_random random;
    block_bench bench(80);  // tight: units come back soon, and values are scattered
    board shown;
    tally totals;
    std::vector<std::thread> readers;
    for (unsigned i = 0; i < 2; ++i)
        readers.emplace_back([&, i] {
            const block_reader reader = bench.reader();
            std::vector<std::uint64_t> words(words_max);
            std::uint64_t look = i;
            while (!totals.stop.load(std::memory_order_relaxed)) {
                const std::uint64_t handle = shown.get(++look % board::places);
                const result got = reader.read(handle, std::as_writable_bytes(std::span(words)));
                if (got.status == outcome::stale)
                    count(totals.stale);
                else if (got.status != outcome::ok || !is_value(words.data(), got.count))
                    count(totals.wrong);
                else
                    count(totals.ok);
            }
            if (reader.fault().get()) count(totals.wrong);
        });
    readers.emplace_back([&] {
        const block_reader reader = bench.reader();
        while (!totals.stop.load(std::memory_order_relaxed)) {
            for (const std::uint64_t handle : handles_of(reader)) {
                std::vector<std::uint64_t> words;
                const result got =
                    reader.visit(handle, [&](std::span<const std::byte> piece, std::uint64_t from, std::uint64_t) {
                        if (from == 0) words.assign(words_max, 0);
                        if (from + piece.size() > 8 * words_max) return;
                        holdfast::detail::copy_from_shared(reinterpret_cast<std::byte*>(words.data()) + from,
                                                           piece.data(), piece.size());
                        std::this_thread::yield();  // invites the writer in between
                    });
                if (got && !is_value(words.data(), got.count)) count(totals.wrong);
                if (!got && got.status != outcome::stale) count(totals.wrong);
            }
            const block_store_usage usage = reader.usage();
            if (usage.status == outcome::corrupt) count(totals.wrong);
            if (usage && (usage.units_used > 80 || usage.values > board::places + 1)) count(totals.wrong);
            count(totals.scans);
        }
        if (reader.fault().get()) count(totals.wrong);
    });
    churn(bench, shown, totals, scaled(400'000), random, [&] { return totals.ok != 0 && totals.scans != 0; });
    totals.stop.store(true, std::memory_order_relaxed);
    for (auto& reader : readers) reader.join();
    EXPECT_EQ(totals.wrong, 0U);
    EXPECT_GT(totals.ok, 0U);
    EXPECT_GT(totals.scans, 0U);
    EXPECT_EQ(miscounted(bench.view().as_const()), "");
    EXPECT_EQ(damage_of(bench.view().as_const()), "");
    RecordProperty("reads", std::to_string(totals.ok));
    RecordProperty("stale", std::to_string(totals.stale));
}

TEST(BlockStoreConcurrency, VerifyBesideAWorkingWriterFindsNothing) {
    seeded_random random;
    block_bench bench(80);
    board shown;
    tally totals;
    std::string first;
    std::thread verifier([&] {
        while (!totals.stop.load(std::memory_order_relaxed)) {
            const block_store_verification report =
                holdfast::detail::verify_blocks(bench.view().as_const(), [&](const block_finding& f) {
                    if (first.empty()) first = std::string(describe(f.what)) + ", unit " + std::to_string(f.unit);
                    return true;
                });
            count(report.busy ? totals.busy : totals.quiet);
        }
    });
    churn(bench, shown, totals, scaled(200'000), random, [&] { return totals.quiet != 0; });
    totals.stop.store(true, std::memory_order_relaxed);
    verifier.join();
    EXPECT_EQ(first, "");
    EXPECT_EQ(totals.wrong, 0U);
    EXPECT_GT(totals.quiet, 0U) << "no pass compared the counts";
    RecordProperty("busy", std::to_string(totals.busy));
    RecordProperty("quiet", std::to_string(totals.quiet));
}

// Writers of one store, each at its own slot, put handles on a board, and take, replace and free those that they find
// there, some at the same time. However they meet: each value is taken once, none is mixed, and nothing is lost.
TEST(BlockStoreConcurrency, ManyWritersTakeEachValueOnce) {
    constexpr unsigned writers_max = 3;
    seeded_random random;
    block_bench bench(160, 64, 4);
    writer_roll roll;
    board shown;
    tally totals;
    std::atomic<std::uint64_t> came{0}, went{0}, full{0};
    std::vector<std::uint64_t> seeds;
    for (unsigned w = 0; w < writers_max; ++w) seeds.push_back(random());
    std::vector<std::thread> threads;
    const std::uint64_t operations = scaled(60'000);
    for (unsigned w = 0; w < writers_max; ++w)
        threads.emplace_back([&, w] {
            many_block_writer writer = block_writer_of(bench.view(), roll, w);
            // On until the reader has begun, however long that takes.
            for (std::uint64_t i = 1; i <= operations || totals.ok == 0; ++i) {
                const std::uint64_t draw = random_at(seeds[w], 0, i);
                const std::size_t place = draw % board::places;
                // Not taken from the board: others may hold the same handle now.
                const std::uint64_t found = shown.get(place);
                if (draw >> 60 < 4 && found != 0) {
                    const outcome status = writer.free(found);
                    if (status == outcome::ok)
                        count(went);
                    else if (status != outcome::stale)
                        count(totals.wrong);
                    continue;
                }
                const auto words = value_of(i, draw >> 8);
                const auto bytes = std::as_bytes(std::span(words));
                const outcome ready = writer.prepare(bytes.size());
                if (ready != outcome::ok) {
                    count(ready == outcome::full ? full : totals.wrong);
                    if (found != 0 && writer.free(found) == outcome::ok) count(went);
                    continue;
                }
                (void)writer.write(0, bytes);
                block_result kept = writer.commit(found);
                if (kept && found != 0) count(went);
                if (kept.status == outcome::stale && writer.pending() != 0) kept = writer.commit();
                if (!kept && kept.status != outcome::stale) count(totals.wrong);
                if (!kept) continue;
                count(came);
                // Who came to the same place meanwhile loses it: else nobody would know of that value any more.
                const std::uint64_t displaced = shown.exchange(place, kept.handle);
                if (displaced != found && displaced != 0 && writer.free(displaced) == outcome::ok) count(went);
            }
            writer.discard();
            if (writer.reader().fault().get()) count(totals.wrong);
        });
    std::thread reader([&] {
        const block_reader in = bench.reader();
        std::vector<std::uint64_t> words(words_max);
        for (std::uint64_t look = 0; !totals.stop.load(std::memory_order_relaxed); ++look) {
            const result got = in.read(shown.get(look % board::places), std::as_writable_bytes(std::span(words)));
            if (got && !is_value(words.data(), got.count)) count(totals.wrong);
            if (!got && got.status != outcome::stale) count(totals.wrong);
            if (got) count(totals.ok);
            if (look % 64 == 0 && in.usage().status == outcome::corrupt) count(totals.wrong);
        }
        if (in.fault().get()) count(totals.wrong);
    });
    std::string first;
    std::thread verifier([&] {
        while (!totals.stop.load(std::memory_order_relaxed)) {
            (void)holdfast::detail::verify_blocks(bench.view().as_const(), [&](const block_finding& f) {
                if (first.empty()) first = std::string(describe(f.what)) + ", unit " + std::to_string(f.unit);
                return true;
            });
        }
    });
    for (auto& thread : threads) thread.join();
    totals.stop.store(true, std::memory_order_relaxed);
    reader.join();
    verifier.join();
    EXPECT_EQ(first, "");
    EXPECT_EQ(totals.wrong, 0U);
    EXPECT_GT(totals.ok, 0U);
    EXPECT_EQ(came - went, bench.reader().usage().values);
    EXPECT_EQ(miscounted(bench.view().as_const()), "");
    EXPECT_EQ(damage_of(bench.view().as_const()), "");
    many_block_writer last = block_writer_of(bench.view(), roll, 3);
    EXPECT_EQ(leaks(bench.view(), last), "");
    RecordProperty("full", std::to_string(full));
}

}  // namespace
