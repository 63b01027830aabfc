// SPDX-License-Identifier: Apache-2.0
// The change feed of a hash map: what it tells, replayed, is the map, at every instruction where its writer dies and
// after real kills; each change once, in order.
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "holdfast/hash_map.hpp"
#include "support/capability.hpp"
#include "support/kill_rig.hpp"
#include "support/map_bench.hpp"
#include "support/map_feed_bench.hpp"
#include "support/memory_kinds.hpp"
#include "support/scale.hpp"
#include "support/segment_tools.hpp"

namespace {

using namespace holdfast;
using namespace holdfast::test;

// Map and ring in one image, stepped through an insert, an update, an erase and a set that evicts.
TEST(HashMapFeedStep, TheFeedIsTheMapAfterEveryInstruction) {
    if (!can_trace() || sanitized) GTEST_SKIP() << "needs: ptrace and a build without sanitizers";
    fake_boot_seconds = 1;
    map_bench shape({.units = 20, .capacity = 30, .unit_bytes = 64, .evicting = true});
    const auto& map_geometry = shape.geometry();
    const auto ring_geometry = layout::broadcast_geometry::make(16384, 0, "bench");
    const std::size_t map_bytes = (static_cast<std::size_t>(map_geometry.body_bytes()) + 4095) / 4096 * 4096;
    shared_image image(map_bytes + static_cast<std::size_t>(ring_geometry.body_bytes()));
    const auto map_in = [&](std::span<std::byte> all) {
        return writable_map(all.first(static_cast<std::size_t>(map_geometry.body_bytes())), map_geometry);
    };
    const auto ring_in = [&](std::span<std::byte> all) { return all.subspan(map_bytes); };
    layout::broadcast_write_core::format(ring_in(image.bytes()), ring_geometry, 1);
    step_report total;
    std::uint64_t told_late = 0;
    const auto check = [&](std::span<std::byte> all) -> std::string {
        // At once: the feed is the map, or one change behind it.
        feed_contents seen, before;
        std::uint64_t number = 0;
        if (std::string text = replay_all(ring_in(all), ring_geometry, seen, number); !text.empty()) return text;
        const std::uint64_t at_once = number;
        plain_sink sink(ring_in(all), ring_geometry);
        const map_writer next(map_in(all), fake_clock(), &sink);
        told_late += next.recovery().change_told ? 1U : 0U;
        seen.clear(), number = 0;
        if (std::string text = replay_all(ring_in(all), ring_geometry, seen, number); !text.empty())
            return "recovered: " + text;
        if (number != next.changes()) return "recovered: the feed and the map count other changes";
        if (number > at_once + 1) return "recovered: more than one change was untold";
        if (seen != contents_of(next.reader())) return "recovered: the feed is not the map";
        const map_writer again(map_in(all), fake_clock(), &sink);
        if (again.recovery().operation_finished || again.recovery().change_told) return "a recovery leaves work over";
        return damage_of(map_in(all).as_const());
    };
    plain_sink sink(ring_in(image.bytes()), ring_geometry);
    map_writer writer(map_in(image.bytes()), fake_clock(), &sink);
    const auto step = [&](const std::string& key, std::size_t bytes, bool erase) {
        const auto object = whole_object(bytes, bytes);
        const auto operate = [&](map_writer& with) {
            if (erase)
                (void)with.erase(as_key(key));
            else
                (void)with.set(as_key(key), object);
        };
        const std::vector<std::byte> base(image.bytes().begin(), image.bytes().end());
        const step_report r = single_step(image, [&] { operate(writer); }, check);
        ASSERT_EQ(r.failure, "") << key << (erase ? " erased" : " set");
        total += r;
        image.assign(base);
        operate(writer);  // and go on
    };
    step("a", 10, false);
    step("a key of several words", 100, false);
    step("a", 0, false);
    step("b", 60, false);
    step("a key of several words", 0, true);
    for (int i = 0; i < 12; ++i) (void)put(writer, "fill " + std::to_string(i), {1, 20});
    step("makes room", 200, false);
    EXPECT_GT(told_late, 5U) << "no image needed its change told by the successor";
    tell_more("steps", total.steps);
    tell_more("images", total.images);
}

class HashMapFeed : public segment_test {};

TEST_F(HashMapFeed, TellsWhatChangedAndReadersFollow) {
    hash_map_feed feed(broadcast_writer::create("heap:", {.capacity_bytes = 1 << 20}));
    auto map = hash_map<std::string_view>::create("heap:", {.capacity = 100}, {.clock = {}, .feed = &feed});
    broadcast_reader reader = feed.ring().make_reader();
    const hash_map_result first = map.set("k", "one", {.ttl = std::chrono::seconds(0), .flags = 77});
    ASSERT_TRUE(map.set("k", ""));
    ASSERT_TRUE(map.erase("k"));
    EXPECT_FALSE(map.erase("k"));
    EXPECT_FALSE(map.update("k", "x"));
    std::vector<std::byte> buffer;
    std::vector<entry_change> kinds;
    for (const auto& [answer, bytes] : reader.drain(buffer)) {
        const auto event = hash_map_event::parse(bytes, answer.type);
        ASSERT_TRUE(event);
        kinds.push_back(event->what);
        EXPECT_EQ(event->number, kinds.size());
        EXPECT_EQ(key_text(event->key), "k");
        if (kinds.size() == 1) {
            EXPECT_EQ(event->handle, first.handle);
            EXPECT_EQ(event->flags, 77U);
            EXPECT_EQ(key_text(*event->value), "one");
        } else if (kinds.size() == 2) {
            EXPECT_TRUE(event->value->empty());
        } else {
            EXPECT_FALSE(event->value);
        }
    }
    EXPECT_EQ(kinds, (std::vector{entry_change::inserted, entry_change::updated, entry_change::erased}));
    EXPECT_EQ(feed.untold(), 0U);
    EXPECT_EQ(feed.last_told(), 3U);
}

// A value that the ring cannot take is left out, a key that it cannot take leaves a gap, and the map goes on.
TEST_F(HashMapFeed, WhatDoesNotFitIsLeftOutAndTheNumberTells) {
    hash_map_feed feed(broadcast_writer::create("heap:", {.capacity_bytes = 4096}));
    auto map =
        hash_map<std::string_view>::create("heap:", {.capacity = 100, .bytes = 100'000}, {.clock = {}, .feed = &feed});
    broadcast_reader reader = feed.ring().make_reader();
    ASSERT_TRUE(map.set("large", whole_object(1, 5000)));
    ASSERT_TRUE(map.set(std::string(5000, 'k'), "x"));
    ASSERT_TRUE(map.set("small", "x"));
    EXPECT_EQ(feed.untold(), 1U);
    std::vector<std::byte> buffer;
    std::vector<std::uint64_t> numbers;
    for (const auto& [answer, bytes] : reader.drain(buffer)) {
        const auto event = hash_map_event::parse(bytes, answer.type);
        ASSERT_TRUE(event);
        numbers.push_back(event->number);
        EXPECT_EQ(event->value.has_value(), event->number == 3);
    }
    EXPECT_EQ(numbers, (std::vector<std::uint64_t>{1, 3}));
}

TEST_F(HashMapFeed, RubbishIsNoChange) {
    std::vector<std::byte> message(24 + 16);
    EXPECT_TRUE(hash_map_event::parse(message, 1));
    EXPECT_FALSE(hash_map_event::parse(message, 0));
    EXPECT_FALSE(hash_map_event::parse(message, 6));
    EXPECT_FALSE(hash_map_event::parse(std::span(message).first(23), 1));
    const std::uint32_t key_bytes[] = {17, 0x80000000U, 0xffffffffU};
    for (const std::uint32_t bytes : key_bytes) {
        std::memcpy(message.data() + 16, &bytes, 4);
        EXPECT_FALSE(hash_map_event::parse(message, 1)) << bytes;
    }
}

// Real kills of a writer that has map and ring; a reader that never lost a message has the map.
TEST_F(HashMapFeed, KillsLeaveNoChangeUntoldOrToldTwice) {
    const unique_posix_name map_name("map"), ring_name("changes");
    {
        (void)hash_map<std::string_view>::create(map_name.uri(), {.capacity = 40, .bytes = 8000, .evict = true});
        (void)broadcast_writer::create(ring_name.uri(), {.capacity_bytes = 8 << 20});
    }
    attach_options patient;
    patient.lease_timeout = std::chrono::seconds(10);
    seeded_random random;
    feed_contents seen;
    std::uint64_t number = 0, told_late = 0;
    broadcast_reader follower = broadcast_reader::attach(ring_name.uri());
    const kill_report report = run_kill_rounds(
        {.rounds = scaled(400), .delay_ns_max = 60'000, .seed = random.seed()},
        [&](kill_progress& progress, std::uint64_t round) {
            hash_map_feed feed(broadcast_writer::attach(ring_name.uri(), patient));
            auto map = hash_map<std::string_view>::attach(map_name.uri(), patient, {.clock = {}, .feed = &feed});
            progress.ready();
            for (std::uint64_t i = 0;; ++i) {
                const std::uint64_t what = random_at(random.seed(), round, i);
                const std::string key = map_key(what % 30);
                progress.begin();
                if (what / 32 % 4 == 0)
                    (void)map.erase(key);
                else if (!map.set(key, whole_object(what, what / 128 % 300)))
                    ::_exit(2);
                progress.end();
            }
        },
        [&](const kill_progress&, std::uint64_t) -> std::string {
            hash_map_feed feed(broadcast_writer::attach(ring_name.uri(), patient));
            const auto map = hash_map<std::string_view>::attach(map_name.uri(), patient, {.clock = {}, .feed = &feed});
            told_late += map.recovery().change_told ? 1U : 0U;
            std::vector<std::byte> buffer;
            for (const auto& [answer, bytes] : follower.drain(buffer)) {
                if (!answer) return "the reader lost messages";
                if (std::string text = replay(seen, number, bytes, answer.type); !text.empty()) return text;
            }
            if (number != map.changes())
                return "told " + std::to_string(number) + " of " + std::to_string(map.changes()) + " changes";
            feed_contents now;
            for (const hash_map_entry& entry : map) now[key_text(entry.key)] = entry.value;
            return now == seen ? "" : "the feed is not the map";
        });
    EXPECT_EQ(report.failure, "");
    RecordProperty("kills", report.text());
    RecordProperty("told late", std::to_string(told_late));
    RecordProperty("changes", std::to_string(number));
}

// A ring that is ahead of its map, as after a restore of an older one: a change that was committed and not told before
// a kill is told all the same, once.
TEST(HashMapFeedCore, AChangeIsToldWhateverTheRingToldLast) {
    struct counting_sink final : holdfast::detail::map_sink {
        std::uint64_t last = 13, told = 0;
        bool takes = true;
        std::vector<std::byte>* image = nullptr;
        map_bench* bench = nullptr;
        std::uint64_t last_told() noexcept override { return last; }
        bool tell(const holdfast::detail::map_told_change& change, const map_reader&) noexcept override {
            if (image != nullptr) image->assign(bench->body().begin(), bench->body().end());  // killed here
            ++told;
            if (takes) last = change.number;
            return takes;
        }
    };
    map_bench bench({});
    std::vector<std::byte> untold;
    {
        counting_sink killed;
        killed.image = &untold;
        killed.bench = &bench;
        map_writer writer = bench.writer(&killed);
        ASSERT_TRUE(put(writer, "a", {1, 1}));
    }
    for (const bool takes : {true, false}) {
        bench.image().assign(untold);
        counting_sink sink;
        sink.takes = takes;
        EXPECT_EQ(bench.writer(&sink).recovery().change_told, takes) << "said only of what the feed took";
        EXPECT_EQ(sink.told, 1U);
        EXPECT_FALSE(bench.writer(&sink).recovery().operation_finished);
        EXPECT_EQ(sink.told, 1U);
    }
    // A damaged record: the numbers go on behind what was told.
    bench.view().record_at(bench.view().look().operation())[8] ^= std::byte{1};
    counting_sink sink;
    map_writer writer = bench.writer(&sink);
    EXPECT_TRUE(writer.recovery().record_rebuilt);
    EXPECT_EQ(writer.changes(), 13U);
}

}  // namespace
