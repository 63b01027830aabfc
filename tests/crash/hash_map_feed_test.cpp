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
#include "support/share.hpp"

namespace {

using namespace holdfast;
using namespace holdfast::test;

using map_condition = holdfast::detail::map_condition;

// A ring as a map's sink that may refuse, as one does whose blocking reader is behind.
class choosy_sink final : public holdfast::detail::map_sink {
 public:
    explicit choosy_sink(plain_sink& ring) : ring_(ring) {}
    bool refuses = false;
    std::uint64_t last_told() noexcept override { return ring_.last_told(); }
    bool tell(const holdfast::detail::map_told_change& change, const map_reader& reader) noexcept override {
        return !refuses && ring_.tell(change, reader);
    }

 private:
    plain_sink& ring_;
};

// Map and ring in one image, their writer, and a reader that has the map from the ring.
class feed_step_bench {
 public:
    static constexpr std::uint64_t units = 20;
    explicit feed_step_bench(bool evicting = false, std::uint64_t ring_bytes = 16384)
        : map_(map_bench({.units = units, .capacity = 30, .unit_bytes = 64, .evicting = evicting}).geometry()),
          ring_(layout::broadcast_geometry::make(ring_bytes, 0, "bench")),
          map_bytes_((static_cast<std::size_t>(map_.body_bytes()) + 4095) / 4096 * 4096),
          image_(map_bytes_ + static_cast<std::size_t>(ring_.body_bytes())),
          sink_(formatted()),
          feed_(sink_),
          writer_(map_in(image_.bytes()), fake_clock(), &feed_) {}

    [[nodiscard]] map_writer& writer() noexcept { return writer_; }
    [[nodiscard]] std::uint64_t handle_of(const std::string& key) const {
        return writer_.reader().handle_under(holdfast::detail::digest_of(as_key(key), 42));
    }
    [[nodiscard]] const step_report& all() const noexcept { return all_; }
    [[nodiscard]] std::uint64_t told_late() const noexcept { return told_late_; }
    [[nodiscard]] std::uint64_t untold() const noexcept { return untold_; }

    /// Not stepped; the reader follows.
    void put(const std::string& key, std::size_t bytes, const hash_map_entry_options& how = {}) {
        EXPECT_TRUE(holdfast::test::put(writer_, key, {bytes, bytes}, how)) << key;
        follow();
    }
    /// Steps operate(writer), and goes on behind it.
    template <class Operate>
    void step(const char* what, Operate&& operate) {
        const std::vector<std::byte> base(image_.bytes().begin(), image_.bytes().end());
        const step_report r =
            single_step(image_, [&] { operate(writer_); }, [&](std::span<std::byte> all) { return check(all); });
        EXPECT_EQ(r.failure, "") << what;
        EXPECT_GT(r.images, 15U) << what << ": its stores were not seen";
        all_ += r;
        image_.assign(base);
        operate(writer_);
        follow();
    }
    /// The same where the ring refuses what the operation tells. Requires: that is one change, and nothing is over.
    template <class Operate>
    void step_untold(const char* what, Operate&& operate) {
        feed_.refuses = true;
        step(what, std::forward<Operate>(operate));
        feed_.refuses = false;
        number_ = writer_.changes();
        seen_ = contents_of(writer_.reader());
    }

 private:
    [[nodiscard]] writable_map map_in(std::span<std::byte> all) const {
        return {all.first(static_cast<std::size_t>(map_.body_bytes())), map_};
    }
    [[nodiscard]] std::span<std::byte> ring_in(std::span<std::byte> all) const { return all.subspan(map_bytes_); }
    plain_sink formatted() {
        layout::broadcast_write_core::format(ring_in(image_.bytes()), ring_, 1);
        return plain_sink(ring_in(image_.bytes()), ring_);
    }
    /// What the reader has not read yet. Returns: what is wrong with it.
    std::string replay_new(std::span<const std::byte> all, feed_contents& seen, std::uint64_t& number,
                           std::uint64_t& next) const {
        layout::broadcast_read_core reader(all.subspan(map_bytes_), ring_);
        (void)reader.join(broadcast_start::sequence(next));
        if (reader.sequence() != next) return "the reader's place is gone";
        std::string text = replay_rest(reader, seen, number);
        next = reader.sequence();
        return text;
    }
    void follow() {
        if (feed_.refuses) return;
        EXPECT_EQ(replay_new(image_.bytes(), seen_, number_, next_), "");
    }

    std::string check(std::span<std::byte> all) {
        // At once: the feed is the map, or one change behind it.
        feed_contents seen = seen_;
        std::uint64_t number = number_, next_message = next_;
        if (std::string text = replay_new(all, seen, number, next_message); !text.empty()) return text;
        const std::uint64_t at_once = number;
        layout::findings found;
        layout::verify_broadcast(ring_in(all), ring_, found);
        if (!found.empty()) return "the ring: " + found.list()[0].what;

        plain_sink sink(ring_in(all), ring_);
        const map_writer next(map_in(all), fake_clock(), &sink);
        told_late_ += next.recovery().change_told ? 1U : 0U;
        seen = seen_, number = number_, next_message = next_;
        if (std::string text = replay_new(all, seen, number, next_message); !text.empty()) return "recovered: " + text;
        if (number > at_once + 1) return "recovered: more than one change was untold";
        // Refused and over: nobody tells it any more, and the next one's number says so.
        const bool lost = feed_.refuses && number == number_ && next.changes() == number_ + 1;
        untold_ += lost ? 1U : 0U;
        if (number != next.changes() && !lost) return "recovered: the feed and the map count other changes";
        if (std::string text = difference(seen, next.reader()); text.empty() == lost)
            return lost ? "recovered: what nobody told is not there" : "recovered: " + text;
        const map_writer again(map_in(all), fake_clock(), &sink);
        if (again.recovery().operation_finished || again.recovery().change_told) return "a recovery leaves work over";
        return damage_of(map_in(all).as_const());
    }
    // The keys of all entries, those included whose time is over and which nobody took out yet; the values of the
    // others.
    static std::string difference(const feed_contents& seen, const map_reader& reader) {
        const std::vector<std::string> keys = stored_keys(reader);
        for (const std::string& key : keys)
            if (!seen.contains(key)) return "the feed lacks key " + key;
        if (keys.size() != seen.size()) return "the feed has a key that the map has not";
        for (const auto& [key, value] : contents_of(reader))
            if (seen.at(key) != value) return "the feed has another value of key " + key;
        return {};
    }

    layout::hash_map_geometry map_;
    layout::broadcast_geometry ring_;
    std::size_t map_bytes_;
    shared_image image_;
    plain_sink sink_;
    choosy_sink feed_;
    map_writer writer_;
    feed_contents seen_;
    std::uint64_t number_ = 0, next_ = 1;  // the last change and the next message
    step_report all_;
    std::uint64_t told_late_ = 0, untold_ = 0;
};

class HashMapFeedStep : public ::testing::Test {
 protected:
    void SetUp() override {
        if (!can_trace() || sanitized) GTEST_SKIP() << "needs: ptrace and a build without sanitizers";
        fake_boot_seconds = 1;
    }
    static void set(map_writer& by, const std::string& key, std::size_t bytes, const map_condition& when = {}) {
        (void)by.set(as_key(key), whole_object(bytes, bytes), {}, when);
    }
    static void record(const feed_step_bench& bench) {
        EXPECT_GT(bench.told_late(), 5U) << "no image needed its change told by the successor";
        tell_more("steps", bench.all().steps);
        tell_more("images", bench.all().images);
    }
    // Each operation that tells a change, on a key that is there.
    static void step_each(feed_step_bench& bench) {
        const std::string key = "counted";
        const auto step = [&](const char* what, auto&& operate) {
            if (bench.handle_of(key) == 0) bench.put(key, 16);
            bench.step(what, [&, handle = bench.handle_of(key)](map_writer& by) {
                operate(by, map_condition{map_condition::same, handle});
            });
        };
        step("insert", [](map_writer& by, const map_condition&) { set(by, "new", 30, {map_condition::absent}); });
        step("update", [&](map_writer& by, const map_condition&) { set(by, key, 100); });
        step("update what is there",
             [&](map_writer& by, const map_condition&) { set(by, key, 17, {map_condition::present}); });
        step("compare_and_set", [&](map_writer& by, const map_condition& same) { set(by, key, 40, same); });
        step("fetch_add",
             [&](map_writer& by, const map_condition&) { (void)by.fetch_add<std::uint64_t>(as_key(key), 8, 3); });
        step("touch",
             [&](map_writer& by, const map_condition&) { (void)by.touch(as_key(key), std::chrono::seconds(50)); });
        step("compare_and_erase",
             [&](map_writer& by, const map_condition& same) { (void)by.erase(as_key(key), same); });
        step("erase", [&](map_writer& by, const map_condition&) { (void)by.erase(as_key(key)); });
    }
};

TEST_F(HashMapFeedStep, TheFeedIsTheMapAfterEveryInstruction) {
    feed_step_bench bench;
    const std::string longer = "a key of several words";
    bench.step("the first", [](map_writer& by) { set(by, "a", 10); });
    bench.step("of several units", [&](map_writer& by) { set(by, longer, 100); });
    bench.step("no bytes", [](map_writer& by) { set(by, "a", 0); });
    bench.step("erased", [&](map_writer& by) { (void)by.erase(as_key(longer)); });
    for (std::uint64_t i = 0; i < 4; ++i) bench.put(map_key(i), 20);
    step_each(bench);
    record(bench);
}

// Whatever comes has others evicted, which is told, too.
TEST_F(HashMapFeedStep, TheFeedIsTheMapWhereOthersAreEvicted) {
    feed_step_bench bench(true);
    for (int i = 0; i < 12; ++i) bench.put("fill " + std::to_string(i), 20);
    bench.step("makes room", [](map_writer& by) { set(by, "makes room", 200); });
    step_each(bench);
    record(bench);
}

TEST_F(HashMapFeedStep, TheFeedIsTheMapWhereTheRingGoesRoundItsEnd) {
    feed_step_bench bench(false, 4096);
    for (std::uint64_t i = 0; i < 150; ++i) bench.put(map_key(i % 4), 20 + i % 3);
    step_each(bench);
    record(bench);
}

TEST_F(HashMapFeedStep, WhatHasExpiredIsToldOnTheWay) {
    feed_step_bench bench;
    for (std::uint64_t i = 0; i < 6; ++i)
        bench.put("brief " + std::to_string(i), 20, {.ttl = std::chrono::seconds(10)});
    bench.put("counted", 16);
    fake_boot_seconds += 20;
    bench.step("set", [](map_writer& by) { set(by, "new", 30); });
    bench.step("fetch_add", [](map_writer& by) { (void)by.fetch_add<std::uint64_t>(as_key("counted"), 8, 3); });
    bench.step("erase", [](map_writer& by) { (void)by.erase(as_key("counted")); });
    record(bench);
}

// What the ring refuses is told by a successor, if its writer died before the operation was over, else by nobody.
TEST_F(HashMapFeedStep, ARingThatRefusesLeavesAGapAndNothingElse) {
    feed_step_bench bench;
    for (std::uint64_t i = 0; i < 4; ++i) bench.put(map_key(i), 20);
    bench.step_untold("insert", [](map_writer& by) { set(by, "new", 30); });
    bench.step_untold("update", [](map_writer& by) { set(by, "new", 100); });
    bench.step_untold("erase", [](map_writer& by) { (void)by.erase(as_key("new")); });
    bench.step("and goes on", [](map_writer& by) { set(by, "new", 30); });
    EXPECT_GE(bench.untold(), 3U);
    record(bench);
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
        {.rounds = scaled(share_of(10'000)), .delay_ns_max = 60'000, .seed = random.seed()},
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
    EXPECT_TRUE(report.passed()) << report.text();
    EXPECT_GT(number, 0U);
    EXPECT_GT(told_late, 0U) << "no kill came between a commit and its message";
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
