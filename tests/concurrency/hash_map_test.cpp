// SPDX-License-Identifier: Apache-2.0
// One writer at full speed against readers as threads on one mapping: a find that says ok gives a whole value of that
// very key, never an older one than was seen before; keys that are only ever updated are always there; a scan meets
// them once; verify() never sees damage. With eviction and expiry at work, too.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "support/map_bench.hpp"
#include "support/map_many_bench.hpp"
#include "support/scale.hpp"
#include "support/seed.hpp"

namespace {

using namespace holdfast;
using namespace holdfast::test;

constexpr std::size_t words_max = 60;
constexpr std::uint64_t keys = 24;

// The first half is only ever updated; the rest comes and goes.
constexpr bool stays(std::uint64_t key) { return key < keys / 2; }

// Words: how many there are, the key, then stamps. A mix shows in the words.
std::vector<std::uint64_t> value_of(std::uint64_t key, std::uint64_t stamp, std::uint64_t random) {
    std::vector<std::uint64_t> words(3 + random % (words_max - 3), stamp);
    words[0] = words.size();
    words[1] = key;
    return words;
}
// The stamp; 0 for what is no value of the key.
std::uint64_t stamp_in(const std::uint64_t* words, std::uint64_t bytes, std::uint64_t key) {
    if (bytes < 24 || bytes % 8 != 0 || bytes > 8 * words_max || bytes != 8 * words[0] || words[1] != key) return 0;
    for (std::size_t i = 3; i < words[0]; ++i)
        if (words[i] != words[2]) return 0;
    return words[2];
}

// Relaxed throughout: totals that are looked at after the threads were joined.
void count(std::atomic<std::uint64_t>& counter) { counter.fetch_add(1, std::memory_order_relaxed); }

// A clock that the writer moves while readers look at it.
std::atomic<std::uint64_t> moving_seconds{1};
hash_map_clock moving_clock() {
    return {[]() noexcept { return moving_seconds.load(std::memory_order_relaxed); },
            []() noexcept { return std::uint64_t{1}; }};
}
map_writer moving_writer(map_bench& bench) { return map_writer(bench.view(), moving_clock(), nullptr); }
map_reader moving_reader(map_bench& bench) {
    return map_reader(bench.view().as_const(), holdfast::detail::map_time(moving_clock()));
}

struct tally {
    std::atomic<bool> stop{false};
    std::atomic<std::uint64_t> ok{0}, missed{0}, contended{0}, wrong{0}, scans{0}, busy{0}, quiet{0};
};

// Goes on until the others have begun, however long that takes.
void churn(map_bench& bench, tally& totals, std::uint64_t operations, seeded_random& random, std::uint64_t ttl_s,
           const std::function<bool()>& begun) {
    map_writer writer = moving_writer(bench);
    for (std::uint64_t i = 1; i <= operations || !begun(); ++i) {
        const std::uint64_t key = random.below(keys);
        const auto words = value_of(key, i, random());
        const hash_map_entry_options how{.ttl = std::chrono::seconds(stays(key) ? 0 : ttl_s), .flags = 0};
        if (stays(key) || random.below(3) != 0) {
            const hash_map_result kept = writer.set(as_key(map_key(key)), std::as_bytes(std::span(words)), how);
            if (!kept && kept.status != outcome::full) count(totals.wrong);
        } else {
            (void)writer.erase(as_key(map_key(key)));
        }
        // Relaxed: a number that orders nothing.
        if (ttl_s != 0 && i % 16 == 0) moving_seconds.fetch_add(1, std::memory_order_relaxed);
        if (i % 4096 != 0) continue;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));  // long enough for a whole check of a map at rest
        writer = moving_writer(bench);                              // a successor
    }
}

void read_keys(const map_reader& reader, tally& totals, bool all_stay) {
    std::vector<std::uint64_t> words(words_max);
    std::array<std::uint64_t, keys> newest{};
    for (std::uint64_t look = 0; !totals.stop.load(std::memory_order_relaxed); ++look) {
        const std::uint64_t key = look % keys;
        // Also room for half of the values, so that one may grow out of it, or shrink into it, during the look.
        const std::size_t room = look / keys % 2 == 0 ? words_max : words_max / 2;
        words[0] = 0;  // no value of a look before is taken for one that this look copied
        const hash_map_found got =
            reader.find(as_key(map_key(key)), std::as_writable_bytes(std::span(words).first(room)));
        if (got.status == outcome::contended) {
            count(totals.contended);
        } else if (got.status == outcome::too_small) {
            count(got.count <= 8 * room ? totals.wrong : totals.ok);
        } else if (got.status == outcome::not_found) {
            count(stays(key) && all_stay && newest[key] != 0 ? totals.wrong : totals.missed);
        } else {
            const std::uint64_t stamp = got ? stamp_in(words.data(), got.count, key) : 0;
            count(stamp == 0 || stamp < newest[key] ? totals.wrong : totals.ok);
            newest[key] = stamp;
        }
    }
    if (reader.fault()) count(totals.wrong);
}

void scan_keys(const map_reader& reader, tally& totals, bool all_stay) {
    while (!totals.stop.load(std::memory_order_relaxed)) {
        std::map<std::string, unsigned> met;
        bool all_there = true;
        std::vector<std::byte> none;
        for (std::uint64_t key = 0; key < keys; ++key)
            if (stays(key) && reader.find(as_key(map_key(key)), std::span(none)).status == outcome::not_found)
                all_there = false;
        hash_map_entry entry;
        std::uint64_t cursor = 0;
        for (outcome got = outcome::ok; got != outcome::empty;) {
            got = reader.next_entry(cursor, entry);
            if (got == outcome::corrupt) count(totals.wrong);
            if (got != outcome::ok) continue;
            ++met[std::string(reinterpret_cast<const char*>(entry.key.data()), entry.key.size())];
            std::uint64_t words[words_max] = {};
            if (entry.value.size() > sizeof words) {
                count(totals.wrong);
                continue;
            }
            std::memcpy(words, entry.value.data(), entry.value.size());
            if (stamp_in(words, entry.value.size(), words[1]) == 0) count(totals.wrong);
        }
        for (std::uint64_t key = 0; key < keys; ++key)
            if (stays(key) && all_stay && all_there && met[map_key(key)] != 1) count(totals.wrong);
        const hash_map_usage usage = reader.usage();
        if (usage.status == outcome::corrupt || (usage && usage.units_used > usage.units)) count(totals.wrong);
        count(totals.scans);
    }
    if (reader.fault()) count(totals.wrong);
}

class HashMapConcurrency : public ::testing::TestWithParam<bool> {};

TEST_P(HashMapConcurrency, ReadersNeverSeeAMix) {
    const bool evicting = GetParam();
    seeded_random random;
    map_bench bench({.units = evicting ? 80U : 260U, .capacity = 30, .unit_bytes = 64, .evicting = evicting});
    tally totals;
    std::vector<std::thread> readers;
    for (unsigned i = 0; i < 2; ++i) readers.emplace_back([&] { read_keys(moving_reader(bench), totals, !evicting); });
    readers.emplace_back([&] { scan_keys(moving_reader(bench), totals, !evicting); });
    churn(bench, totals, scaled(200'000), random, evicting ? 5 : 0,
          [&] { return totals.ok != 0 && totals.scans != 0; });
    totals.stop.store(true, std::memory_order_relaxed);
    for (auto& reader : readers) reader.join();
    EXPECT_EQ(totals.wrong, 0U);
    EXPECT_GT(totals.ok, 0U);
    EXPECT_GT(totals.scans, 0U);
    EXPECT_EQ(damage_of(bench.view().as_const()), "");
    EXPECT_EQ(miscounted(bench.view().store.as_const()), "");
    if (evicting) {
        EXPECT_GT(bench.reader().usage().evicted, 0U);
        EXPECT_GT(bench.reader().usage().expired, 0U);
    }
    RecordProperty("reads", std::to_string(totals.ok));
    RecordProperty("contended", std::to_string(totals.contended));
}

TEST_P(HashMapConcurrency, VerifyBesideAWorkingWriterFindsNothing) {
    const bool evicting = GetParam();
    seeded_random random;
    map_bench bench({.units = evicting ? 80U : 260U, .capacity = 30, .unit_bytes = 64, .evicting = evicting});
    tally totals;
    std::string first;
    std::thread verifier([&] {
        while (!totals.stop.load(std::memory_order_relaxed)) {
            const hash_map_verification report =
                holdfast::detail::verify_map(bench.view().as_const(), [&](const hash_map_finding& f) {
                    if (first.empty())
                        first = std::string(describe(f.what)) + ": " + std::string(describe(f.table.what)) + "; " +
                                std::string(describe(f.store.what));
                    return true;
                });
            count(report.busy != 0 ? totals.busy : totals.quiet);
        }
    });
    churn(bench, totals, scaled(100'000), random, 0,
          [&] { return totals.quiet != 0 || (sanitized && totals.busy != 0); });
    totals.stop.store(true, std::memory_order_relaxed);
    verifier.join();
    EXPECT_EQ(first, "");
    EXPECT_EQ(totals.wrong, 0U);
    EXPECT_GT(totals.quiet + totals.busy, 0U) << "nothing was verified";
    if (!sanitized) {
        EXPECT_GT(totals.quiet, 0U) << "no check was whole, though the writer paused for it";
    }
    RecordProperty("busy", std::to_string(totals.busy));
    RecordProperty("quiet", std::to_string(totals.quiet));
}

// Writers of one map, each at its own slot, beside a reader and verify(). Each has keys of its own, and what it stored
// there is there; all fight for a few more, and add to one count, which is exact in the end.
TEST(HashMapOfManyConcurrency, WritersLoseNothingOfEachOthers) {
    constexpr unsigned writers_max = 3;
    constexpr std::uint64_t own = 8, shared = 4;
    const layout::hash_map_geometry geometry = small_map_of_many(160, 2000);  // of eight stripes
    shared_image image(static_cast<std::size_t>(geometry.body_bytes()));
    const writable_map view(image.bytes(), geometry);
    writer_roll roll;
    tally totals;
    std::string first;
    {
        many_map_writer writer = map_writer_of(view, roll, 3);
        const std::uint64_t zero = 0;
        ASSERT_TRUE(writer.set(as_key("count"), std::as_bytes(std::span(&zero, 1))));
    }
    seeded_random random;
    std::array<std::uint64_t, writers_max> seeds{};
    for (std::uint64_t& seed : seeds) seed = random();
    std::atomic<std::uint64_t> added{0}, stored{0};
    const std::uint64_t operations = scaled(30'000);
    std::vector<std::thread> threads;
    for (unsigned w = 0; w < writers_max; ++w)
        threads.emplace_back([&, w] {
            many_map_writer writer = map_writer_of(view, roll, w);
            std::array<std::uint64_t, own> stamps{};
            const auto key_of = [&](std::uint64_t i) { return std::to_string(w) + std::string(i * 9, 'k'); };
            for (std::uint64_t i = 1; i <= operations; ++i) {
                const std::uint64_t draw = random_at(seeds[w], 0, i), at = (draw >> 8) % own;
                const std::size_t bytes = (draw >> 16) % 200;
                if (draw % 4 == 0) {
                    if (writer.fetch_add<std::uint64_t>(as_key("count"), 0, 1)) ++added;
                } else if (draw % 4 == 1) {
                    const std::string key = std::string("s").append(std::to_string(at % shared));
                    const hash_map_result done =
                        draw % 8 == 1 ? put(writer, key, {i, bytes}) : writer.erase(as_key(key));
                    if (!done && done.status != outcome::full && done.status != outcome::not_found) ++totals.wrong;
                } else {
                    const std::size_t size = 8 + stamps[at] % 100;
                    if (stamps[at] != 0 && !holds(writer.reader(), key_of(at), {stamps[at], size})) ++totals.wrong;
                    if (put(writer, key_of(at), {i, 8 + i % 100})) stamps[at] = i, ++stored;
                }
            }
            if (writer.fault()) ++totals.wrong;
        });
    std::thread reader([&] {
        const map_reader looks = reader_of(view.as_const());
        std::vector<std::byte> out(400);
        while (!totals.stop.load(std::memory_order_relaxed)) {
            for (std::uint64_t i = 0; i < shared; ++i) {
                const hash_map_found got =
                    looks.find(as_key(std::string("s").append(std::to_string(i))), std::span(out));
                if (!got && got.status != outcome::not_found && got.status != outcome::contended) ++totals.wrong;
            }
            if (!is_there(looks, "count")) ++totals.wrong;
            const hash_map_verification report =
                holdfast::detail::verify_map(view.as_const(), [&](const hash_map_finding& f) {
                    if (first.empty())
                        first = std::string(describe(f.what)) + ": " + std::string(describe(f.table.what)) + "; " +
                                std::string(describe(f.store.what));
                    return true;
                });
            count(report.busy != 0 ? totals.busy : totals.quiet);
        }
    });
    for (std::thread& thread : threads) thread.join();
    totals.stop.store(true, std::memory_order_relaxed);
    reader.join();
    EXPECT_EQ(first, "");
    EXPECT_EQ(totals.wrong, 0U);
    EXPECT_GT(stored, 0U);
    std::uint64_t counted = 0;
    EXPECT_TRUE(reader_of(view.as_const()).find(as_key("count"), std::as_writable_bytes(std::span(&counted, 1))));
    EXPECT_EQ(counted, added);
    EXPECT_FALSE(something_open(view));
    EXPECT_EQ(damage_of(view.as_const()), "");
    many_map_writer last = map_writer_of(view, roll, 3);
    EXPECT_EQ(leaks(view, last), "");
}

INSTANTIATE_TEST_SUITE_P(HashMap, HashMapConcurrency, ::testing::Values(false, true),
                         [](const auto& with) { return with.param ? "Evicting" : "Refusing"; });

}  // namespace
