// SPDX-License-Identifier: Apache-2.0
// save and restore of queues, broadcasts, block stores, metrics and raw segments: what waited waits again, numbers and
// handles go on, copies taken beside a working writer are whole, and a file with right checksums over nonsense makes no
// segment that is not sound. Handles also go on behind a repair.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>
#include <deque>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "holdfast/block_store/many.hpp"
#include "holdfast/broadcast.hpp"
#include "holdfast/metrics/counter_set.hpp"
#include "holdfast/metrics/latency_histogram.hpp"
#include "holdfast/queue.hpp"
#include "inspect/repair.hpp"
#include "inspect/saver.hpp"
#include "inspect/verification.hpp"
#include "support/lying_consumer.hpp"
#include "support/process.hpp"
#include "support/scale.hpp"
#include "support/segment_tools.hpp"

namespace {

using namespace holdfast;
using namespace holdfast::test;
using u64 = std::uint64_t;
using testing::HasSubstr;

class SaveKinds : public segment_test {
 protected:
    [[nodiscard]] std::string uri(std::string_view name = "s") const { return folder.file_uri(name); }
    [[nodiscard]] std::string save(std::string_view name = "s") const {
        std::string text;
        last = inspect::save(uri(name), [&](std::string_view part) { text.append(part); });
        EXPECT_EQ(last.bytes, text.size());
        return text;
    }
    inspect::save_report restore(const std::string& text, const std::string& name = "copy", u64 capacity = 0) const {
        std::ofstream(folder.file("saved"), std::ios::binary | std::ios::trunc) << text;
        inspect::restore_options options;
        options.capacity = capacity;
        return inspect::restore(folder.file("saved"), uri(name), options);
    }
    void expect_intact(std::string_view name = "copy") const {
        const inspect::verification found = inspect::verify(uri(name));
        EXPECT_TRUE(found.intact()) << (found.findings.empty() ? "" : found.findings[0].what);
    }
    /// Damage of every sort in the file makes no segment; nonsense under right checksums makes none that is not sound.
    void attack(const std::string& text) const;
    /// Make a store "old" whose serials have gone round: two values of the round before stand in it, "near" and
    /// "stays", and those given out since are freed. Return: their handles.
    [[nodiscard]] std::vector<u64> make_store_that_went_round() const;
    [[nodiscard]] std::vector<u64> make_store_of_many_that_went_round() const;
    /// Changes a byte of the value "near" in "old", and repairs it.
    void damage_and_repair() const;

    unique_directory folder{"save-kinds"};
    mutable inspect::save_report last;
};

using many_blocks = basic_block_store<writers::many>;

/// The file with other contents, under checksums that fit.
[[nodiscard]] std::string resealed(const std::string& path,
                                   const std::function<void(std::vector<std::byte>&)>& change) {
    inspect::saved_reader from(path);
    std::vector<std::byte> contents;
    while (const auto section = from.next()) contents.insert(contents.end(), section->begin(), section->end());
    change(contents);
    std::string text;
    inspect::saved_writer to([&](std::string_view part) { text.append(part); }, from.header(), from.schema());
    if (!contents.empty()) to.add(contents, from.items());
    to.finish();
    return text;
}

void SaveKinds::attack(const std::string& text) const {
    std::mt19937_64 random(5);
    const auto must_fail = [&](const std::string& bytes, const char* why) {
        EXPECT_TRUE(refusal_of([&] { (void)restore(bytes, "attacked"); })) << why;
        EXPECT_TRUE(refusal_of([&] { (void)segment::attach(uri("attacked"), access::read_only); })) << why;
    };
    for (int i = 0; i < 25; ++i) {
        std::string bytes = text;
        bytes[random() % bytes.size()] ^= static_cast<char>(1U << random() % 8);
        must_fail(bytes, "a flipped bit");
        must_fail(text.substr(0, random() % text.size()), "cut short");
    }
    std::ofstream(folder.file("whole"), std::ios::binary | std::ios::trunc) << text;
    for (u64 i = 0; i < scaled(80); ++i) {
        const std::string bytes = resealed(folder.file("whole"), [&](std::vector<std::byte>& contents) {
            if (contents.empty()) return;
            for (u64 hits = 1 + random() % 3; hits > 0; --hits) {
                const std::size_t at = random() % contents.size();
                if (random() % 3 == 0)
                    contents.resize(at + 1);
                else
                    contents[at] = static_cast<std::byte>(random() % 4 == 0 ? 255 : random());
                if (random() % 8 == 0) contents.insert(contents.end(), contents.begin(), contents.begin() + 1);
            }
        });
        if (!refusal_of([&] { (void)restore(bytes, "attacked"); })) {
            expect_intact("attacked");
            segment::remove(uri("attacked"));
        }
    }
}

[[nodiscard]] std::vector<std::byte> bytes_of(std::string_view text) {
    const auto* const data = reinterpret_cast<const std::byte*>(text.data());
    return {data, data + text.size()};
}
[[nodiscard]] std::string text_of(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Messages that wait, wherever in the ring they begin; those taken before are not in the file.
TEST_F(SaveKinds, AQueueComesBackWithWhatWaited) {
    auto producer = queue_producer::create(uri(), {.capacity_bytes = 1024, .rings = false});
    auto consumer = queue_consumer::attach(uri());
    std::deque<std::pair<std::uint16_t, std::string>> waiting;
    std::mt19937_64 random(3);
    for (u64 i = 0; i < 300; ++i) {
        const std::string text(random() % 200, static_cast<char>('a' + i % 26));
        const auto type = static_cast<std::uint16_t>(random());
        if (producer.try_push(bytes_of(text), type)) waiting.push_back({type, text});
        while (!waiting.empty() && random() % 3 == 0) {
            ASSERT_TRUE(consumer.front());
            ASSERT_TRUE(consumer.pop());
            waiting.pop_front();
        }
        if (i % 10 != 0) continue;
        const std::string name = "copy" + std::to_string(i);
        ASSERT_EQ(restore(save(), name).items, waiting.size());
        EXPECT_EQ(last.items, waiting.size());
        expect_intact(name);
        auto again = queue_producer::attach(uri(name));
        EXPECT_EQ(again.capacity_bytes(), 1024U);
        auto taker = queue_consumer::attach(uri(name));
        for (const auto& [kind, bytes] : waiting) {
            const queue_message got = taker.front();
            ASSERT_TRUE(got);
            EXPECT_EQ(got.type, kind);
            EXPECT_EQ(text_of(got.bytes), bytes);
            ASSERT_TRUE(taker.pop());
        }
        EXPECT_EQ(taker.front().status, outcome::empty);
        EXPECT_TRUE(again.try_push(bytes_of("on it goes")));
        EXPECT_EQ(text_of(taker.front().bytes), "on it goes");
    }
    attack(save());
}

TEST_F(SaveKinds, ATypedQueueComesBackWithWhatWaited) {
    using numbers = queue<std::array<u64, 3>>;
    auto producer = numbers::producer::create(uri(), {.capacity = 64});
    auto consumer = numbers::consumer::attach(uri());
    for (u64 i = 0; i < 100; ++i) {
        ASSERT_TRUE(producer.try_push({i, i, i}));
        if (i < 60) {
            (void)consumer.try_pop();
            consumer.acknowledge();
        }
    }
    const std::string text = save();
    EXPECT_EQ(restore(text).items, 40U);
    expect_intact();
    auto taker = numbers::consumer::attach(uri("copy"));
    for (u64 i = 60; i < 100; ++i) EXPECT_EQ(taker.try_pop().value, (std::array<u64, 3>{i, i, i}));
    EXPECT_EQ(taker.try_pop().status, outcome::empty);
    attack(text);
}

// A full ring, skips and all, fits again: from the front of a new one.
TEST_F(SaveKinds, AFullQueueFits) {
    auto producer = queue_producer::create(uri(), {.capacity_bytes = 512});
    auto consumer = queue_consumer::attach(uri());
    for (int lap = 0; lap < 50; ++lap) {
        while (producer.try_push(std::vector<std::byte>(static_cast<std::size_t>(lap) * 4 % 200))) {
        }
        const std::string name = "copy" + std::to_string(lap);
        (void)restore(save(), name);
        expect_intact(name);
        ASSERT_TRUE(consumer.front());
        ASSERT_TRUE(consumer.pop());
    }
}

TEST_F(SaveKinds, TheLastTransactionOfADeadProducerIsSaved) {
    auto made = queue_producer::create(uri(), {.capacity_bytes = 4096});
    ASSERT_TRUE(made.try_push(bytes_of("first")));
    {
        queue_producer dying = std::move(made);
        ASSERT_TRUE(dying.try_push(bytes_of("second")));
    }
    {
        // As a kill between its commit and its entry leaves it: the position stands before the last message.
        auto victim = segment::attach(uri(), access::read_write);
        auto& side = *reinterpret_cast<layout::queue_side*>(victim.body().data() + layout::queue_producer_offset);
        const u64 end = side.position.load(std::memory_order_relaxed);                       // at rest
        side.position.store(end - layout::ring_record_bytes(6), std::memory_order_relaxed);  // likewise
    }
    EXPECT_EQ(restore(save()).items, 2U);
    expect_intact();
}

// One that lives, but stopped between its commit and its entry.
TEST_F(SaveKinds, TheLastTransactionOfAProducerThatIsStoppedIsSaved) {
    auto producer = queue_producer::create(uri(), {.capacity_bytes = 4096});
    auto& mapped = const_cast<segment&>(producer.segment());
    auto& side = *reinterpret_cast<layout::queue_side*>(mapped.body().data() + layout::queue_producer_offset);
    ASSERT_TRUE(producer.try_push(bytes_of("first")));
    const u64 before = side.position.load(std::memory_order_relaxed);  // at rest
    ASSERT_TRUE(producer.try_push_all(std::array{bytes_of("one"), bytes_of("of"), bytes_of("a batch")}));
    side.position.store(before, std::memory_order_relaxed);  // likewise
    const std::string text = save();
    EXPECT_EQ(last.items, 4U);
    (void)restore(text);
    expect_intact();
    auto taker = queue_consumer::attach(uri("copy"));
    for (const char* expected : {"first", "one", "of", "a batch"}) {
        const queue_message got = taker.front();
        ASSERT_TRUE(got) << expected;
        EXPECT_EQ(text_of(got.bytes), expected);
        ASSERT_TRUE(taker.pop());
    }
    EXPECT_EQ(taker.front().status, outcome::empty);
}

TEST_F(SaveKinds, AConsumerThatIsAlwaysAheadEndsTheSave) {
    auto producer = queue_producer::create(uri(), {.capacity_bytes = 32 << 20});
    ASSERT_TRUE(producer.try_push(std::vector<std::byte>(15 << 20)));  // a copy takes milliseconds
    const lying_consumer consumer(producer);
    const auto begun = std::chrono::steady_clock::now();
    const auto refused = refusal_of([&] { (void)inspect::save(uri(), [](std::string_view) {}); });
    EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(10));
    // Where the liar had no processor for the time of a copy, that is believed, and what comes then is damage.
    EXPECT_TRUE(!refused || refused == errc::contended || refused == errc::corrupt) << refused->text;
}

TEST_F(SaveKinds, ABroadcastComesBackWithItsNumbers) {
    auto ring = broadcast_writer::create(uri(), {.capacity_bytes = 4096, .registered_readers = 3});
    std::mt19937_64 random(9);
    std::map<u64, std::string> sent;
    for (u64 i = 1; i <= 400; ++i) {
        std::string text = std::to_string(i) + std::string(random() % 300, 'x');
        ASSERT_TRUE(ring.publish(bytes_of(text), static_cast<std::uint16_t>(i)));
        sent[i] = std::move(text);
        if (i % 25 != 0) continue;
        const std::string name = "copy" + std::to_string(i);
        const inspect::save_report done = restore(save(), name);
        expect_intact(name);
        broadcast_reader source(std::make_shared<const segment>(segment::attach(uri(), access::read_only)));
        auto copy = broadcast_reader::attach(uri(name));
        EXPECT_EQ(copy.sequence(), source.sequence());
        std::vector<std::byte> message;
        u64 seen = 0;
        for (u64 number = copy.sequence(); number <= i; ++number, ++seen) {
            const broadcast_read got = copy.read(message);
            ASSERT_EQ(got.status, outcome::ok) << number;
            EXPECT_EQ(got.sequence, number);
            EXPECT_EQ(got.type, number);
            EXPECT_EQ(text_of(message), sent[number]);
        }
        EXPECT_EQ(copy.read(message).status, outcome::empty);
        EXPECT_EQ(done.items, seen);
        // Readers that know their number find their place, or exactly what they missed; a writer goes on.
        if (source.sequence() > 2) {
            EXPECT_EQ(copy.join(broadcast_start::sequence(2)), (result{outcome::lapped, source.sequence() - 2}));
        }
        auto next = broadcast_writer::attach(uri(name));
        EXPECT_EQ(next.sequence(), i);
        EXPECT_TRUE(next.publish(bytes_of("next")));
        EXPECT_EQ(next.sequence(), i + 1);
        EXPECT_EQ(next.segment().info().peer_slots, 4U);
        expect_intact(name);
    }
    attack(save());
}

TEST_F(SaveKinds, EmptyOnesComeBackEmpty) {
    (void)queue_producer::create(uri("q"), {});
    (void)broadcast_writer::create(uri("r"), {});
    (void)block_store::create(uri("b"), {.bytes = 100'000});
    (void)counter_set::create(uri("c"), {.capacity = 5});
    (void)latency_histogram::create(uri("h"), {.shards = 2});
    for (const char* name : {"q", "r", "b", "c", "h"}) {
        EXPECT_EQ(restore(save(name), std::string(name) + "2").items, 0U) << name;
        expect_intact(std::string(name) + "2");
    }
    EXPECT_TRUE(block_store::attach(uri("b2")).allocate(bytes_of("x")));
    (void)many_blocks::create(uri("m"), {.bytes = 100'000, .writer_slots = 3});
    EXPECT_EQ(restore(save("m"), "m2").items, 0U);
    expect_intact("m2");
    EXPECT_TRUE(many_blocks::attach(uri("m2")).allocate(bytes_of("x")));
    EXPECT_TRUE(broadcast_writer::attach(uri("r2")).publish(bytes_of("x")));
    EXPECT_TRUE(queue_producer::attach(uri("q2")).try_push(bytes_of("x")));
}

TEST_F(SaveKinds, BlocksComeBackUnderTheirHandles) {
    auto store = block_store::create(uri(), {.bytes = 400'000, .value_bytes = 100});
    std::map<u64, std::string> values;
    std::vector<u64> freed;
    std::mt19937_64 random(4);
    for (int i = 0; i < 6000; ++i) {
        const std::string text(random() % 2000, static_cast<char>('a' + i % 26));
        const block_result made = store.allocate(bytes_of(text));
        if (made) values[made.handle] = text;
        while (!values.empty() && (!made || random() % 3 == 0)) {
            auto victim = std::next(values.begin(), static_cast<std::ptrdiff_t>(random() % values.size()));
            ASSERT_EQ(store.free(victim->first), outcome::ok);
            freed.push_back(victim->first);
            values.erase(victim);
            if (made) break;
            if (random() % 2 == 0) break;
        }
    }
    const std::string text = save();
    EXPECT_EQ(restore(text).items, values.size());
    expect_intact();
    auto copy = block_store::attach(uri("copy"));
    EXPECT_EQ(copy.usage().units_used, store.usage().units_used);
    EXPECT_EQ(copy.usage().values, values.size());
    std::vector<std::byte> value;
    for (const auto& [handle, expected] : values) {
        ASSERT_TRUE(copy.read(handle, value));
        ASSERT_EQ(text_of(value), expected);
    }
    for (const u64 handle : freed) ASSERT_EQ(copy.read(handle, value).status, outcome::stale);
    // What was freed once is never given out again, and no unit is lost.
    const block_result made = copy.allocate(bytes_of("new"));
    ASSERT_TRUE(made);
    EXPECT_EQ(std::ranges::find(freed, made.handle), freed.end());
    EXPECT_FALSE(values.contains(made.handle));
    for (const auto& [handle, expected] : values) ASSERT_EQ(copy.free(handle), outcome::ok);
    ASSERT_EQ(copy.free(made.handle), outcome::ok);
    EXPECT_EQ(copy.usage().units_used, 0U);
    attack(text);
}

TEST_F(SaveKinds, MetricsComeBack) {
    {
        const auto set = counter_set::create(uri("c"), {.capacity = 40});
        for (int i = 0; i < 30; ++i)
            set.get("family_" + std::to_string(i % 7), "n=\"" + std::to_string(i) + "\"")
                .add(1000 + static_cast<u64>(i));
        const auto histogram = latency_histogram::create(uri("h"), {.shards = 3});
        auto first = histogram.make_recorder(), second = histogram.make_recorder();
        std::mt19937_64 random(2);
        for (int i = 0; i < 10'000; ++i) (i % 2 == 0 ? first : second).record(random() % 10'000'000);
    }
    const std::string counters = save("c"), latencies = save("h");
    EXPECT_EQ(restore(counters, "c2").items, 30U);
    EXPECT_EQ(restore(counters, "c3", 100).items, 30U);
    EXPECT_EQ(refusal_of([&] { (void)restore(counters, "c4", 29); }).value(), errc::no_space);
    std::vector<std::string> before, after;
    const auto list = [](std::vector<std::string>& into) {
        return [&into](std::string_view family, std::string_view labels, u64 value) {
            into.push_back(std::string(family) + "{" + std::string(labels) + "} " + std::to_string(value));
        };
    };
    (void)counter_set_reader::attach(uri("c")).for_each(list(before));
    (void)counter_set_reader::attach(uri("c2")).for_each(list(after));
    EXPECT_EQ(before, after);
    EXPECT_EQ(before.size(), 30U);
    const auto set = counter_set::attach(uri("c2"));
    set.get("family_0", "n=\"0\"").add(5);
    EXPECT_EQ(set.get("family_0", "n=\"0\"").value(), 1005U);
    EXPECT_EQ(restore(latencies, "h2").items, 10'000U);
    const auto one = latency_histogram_reader::attach(uri("h")).merged(),
               two = latency_histogram_reader::attach(uri("h2")).merged();
    EXPECT_EQ(two.sum(), one.sum());
    EXPECT_EQ(two.least_noted(), one.least_noted());
    EXPECT_EQ(two.greatest_noted(), one.greatest_noted());
    EXPECT_TRUE(std::ranges::equal(one.counts(), two.counts()));
    const auto joined = latency_histogram::attach(uri("h2"));
    auto recorder = joined.make_recorder();
    recorder.record(77);
    EXPECT_EQ(joined.merged().total(), 10'001U);
    expect_intact("c2");
    expect_intact("h2");
    attack(counters);
    attack(latencies);
}

// Whatever the writer does meanwhile: the copy is sound, its values whole, its messages a stretch without a gap.
// Three writers, one of which dies with a claim; a copy knows of each which handles it has given out.
TEST_F(SaveKinds, BlocksOfManyWritersComeBackUnderTheirHandlesToMany) {
    const auto make = [&] {
        return many_blocks::create(uri(), {.bytes = 40'000, .unit_bytes = 64, .writer_slots = 5});
    };
    std::map<u64, std::string> values;
    std::vector<u64> gone;  // handles that name nothing
    {
        std::vector<many_blocks> writers;
        writers.push_back(make());
        for (int i = 0; i < 2; ++i) writers.push_back(many_blocks::attach(uri()));
        child_process dies([&] {
            auto mine = many_blocks::attach(uri());
            (void)mine.prepare(300);
            ::raise(SIGKILL);
        });
        (void)dies.wait();
        std::mt19937_64 random(4);
        for (int i = 0; i < 600; ++i) {
            const std::string text(random() % 500, static_cast<char>('a' + i % 26));
            const block_result made = writers[random() % 3].allocate(bytes_of(text));
            if (made) values[made.handle] = text;
            if (made && random() % 3 != 0) continue;
            const auto victim = std::next(values.begin(), static_cast<std::ptrdiff_t>(random() % values.size()));
            ASSERT_EQ(writers[random() % 3].free(victim->first), outcome::ok);
            gone.push_back(victim->first);
            values.erase(victim);
        }
        ASSERT_EQ(writers[1].prepare(200), outcome::ok);  // a claim is not in the file, but its handle may be known
        gone.push_back(writers[1].pending());
        EXPECT_EQ(restore(save()).items, values.size());
    }
    const std::string text = save();
    EXPECT_EQ(restore(text, "again").items, values.size());
    for (const char* name : {"copy", "again"}) {
        expect_intact(name);
        std::vector<many_blocks> writers;
        for (int i = 0; i < 5; ++i) writers.push_back(many_blocks::attach(uri(name)));
        EXPECT_EQ(refusal_of([&] { (void)many_blocks::attach(uri(name)); }), errc::writer_alive);
        std::vector<std::byte> value;
        for (const auto& [handle, expected] : values) {
            ASSERT_TRUE(writers[0].read(handle, value));
            ASSERT_EQ(text_of(value), expected);
        }
        EXPECT_EQ(writers[0].usage().values, values.size());
        EXPECT_EQ(writers[0].usage().units_used, many_blocks::attach(uri()).usage().units_used);
        for (bool more = true; more;) {  // every writer fills up what is free
            more = false;
            for (many_blocks& each : writers) {
                const block_result made = each.allocate(bytes_of("new"));
                more = more || made;
                EXPECT_FALSE(values.contains(made.handle));
            }
        }
        EXPECT_EQ(writers[0].usage().units_free(), 0U);
        for (const u64 handle : gone) EXPECT_EQ(writers[0].read(handle, value).status, outcome::stale);
        for (const auto& [handle, expected] : values) ASSERT_EQ(writers[4].free(handle), outcome::ok);
        expect_intact(name);
    }
    attack(text);
}

// Its number is given out when it is claimed: what is committed while the store is saved is left out all the same.
TEST_F(SaveKinds, AClaimThatIsCommittedWhileItsStoreIsSavedIsLeftOut) {
    for (const bool freed_between : {false, true}) {
        const std::string from = freed_between ? "s1" : "s0", to = from + "-copy";
        auto store = many_blocks::create(uri(from), {.bytes = 20'000, .writer_slots = 2});
        const u64 stays = store.allocate(bytes_of("stays")).handle, goes = store.allocate(bytes_of("goes")).handle;
        ASSERT_EQ(store.prepare(4), outcome::ok);
        ASSERT_EQ(store.write(0, bytes_of("late")), outcome::ok);
        const u64 late = store.pending();
        if (freed_between) {
            ASSERT_EQ(store.free(goes), outcome::ok);  // which takes a number behind that of the claim
        }
        std::string text;
        block_result committed{outcome::not_claimed, 0};
        (void)inspect::save(uri(from), [&](std::string_view part) {
            if (text.empty()) committed = store.commit();
            text.append(part);
        });
        ASSERT_TRUE(committed);
        ASSERT_EQ(committed.handle, late);
        EXPECT_EQ(restore(text, to).items, freed_between ? 1U : 2U);
        expect_intact(to);
        const auto copy = block_store_reader::attach(uri(to));
        EXPECT_TRUE(copy.contains(stays));
        EXPECT_EQ(copy.contains(goes), !freed_between);
        EXPECT_FALSE(copy.contains(late)) << "nobody knows of it whose notes were saved with the store";
        EXPECT_EQ(restore(save(from), to + "-later").items, freed_between ? 2U : 3U);
    }
}

void SaveKinds::damage_and_repair() const {
    std::ifstream file(folder.file("old"), std::ios::binary);
    std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    const std::size_t at = bytes.find("near");
    ASSERT_NE(at, std::string::npos);
    bytes[at] ^= 1;
    std::ofstream(folder.file("old"), std::ios::binary) << bytes;
    EXPECT_FALSE(inspect::repair(uri("old"), {}).intact);
    expect_intact("old");
}

// The numbers of each slot go round by themselves: then values that stand have greater ones than its last.
std::vector<u64> SaveKinds::make_store_of_many_that_went_round() const {
    (void)many_blocks::create(uri(), {.bytes = 10'000, .writer_slots = 3});
    std::ofstream(folder.file("empty"), std::ios::binary | std::ios::trunc) << save();
    const auto shape = block_store_reader::attach(uri());
    const detail::block_view<const std::byte> view(shape.segment().bytes(), shape.geometry());
    const detail::block_slots slots(view);
    (void)restore(resealed(folder.file("empty"),
                           [&](std::vector<std::byte>& contents) {
                               const u64 old = slots.serial(1, slots.number_max() - 3);
                               std::memcpy(contents.data() + 8, &old, 8);
                           }),
                  "old");
    std::vector<u64> freed;
    auto first = many_blocks::attach(uri("old")), second = many_blocks::attach(uri("old"));
    EXPECT_EQ(second.writer_slot(), 1U);
    EXPECT_TRUE(second.allocate(bytes_of("near")));
    const u64 stays = second.allocate(bytes_of("stays")).handle;
    EXPECT_EQ(slots.number_of(view.serial_of(stays)), slots.number_max() - 1);
    for (int i = 0; i < 10; ++i) freed.push_back(second.allocate(bytes_of("goes")).handle);
    EXPECT_EQ(slots.number_of(view.serial_of(freed.back())), 9U);
    for (const u64 handle : freed) EXPECT_EQ(first.free(handle), outcome::ok);
    return freed;
}

void expect_stale_where_many_write(const std::string& name, const std::vector<u64>& freed) {
    auto first = many_blocks::attach(name), second = many_blocks::attach(name);
    std::vector<std::byte> value;
    while (second.allocate(bytes_of("new"))) {
    }
    EXPECT_EQ(first.usage().units_free(), 0U);
    for (const u64 handle : freed) EXPECT_EQ(first.read(handle, value).status, outcome::stale) << handle;
}

TEST_F(SaveKinds, WhatManyWritersFreedStaysStaleAlsoWhenNumbersWentRound) {
    const std::vector<u64> freed = make_store_of_many_that_went_round();
    (void)restore(save("old"), "copy");
    expect_intact();
    expect_stale_where_many_write(uri("copy"), freed);
}

TEST_F(SaveKinds, WhatManyWritersFreedStaysStaleBehindARepairAlsoWhenNumbersWentRound) {
    const std::vector<u64> freed = make_store_of_many_that_went_round();
    damage_and_repair();
    expect_stale_where_many_write(uri("old"), freed);
}

// Whatever two writers do meanwhile: no handle that the file does not know of has a number that its copy gives out.
TEST_F(SaveKinds, ACopyBesideManyBusyWritersGivesNoOldHandleOut) {
    auto first = many_blocks::create(uri(), {.bytes = 20'000, .writer_slots = 2}), second = many_blocks::attach(uri());
    const u64 stays = first.allocate(bytes_of("stays")).handle;
    std::atomic<u64> freed[2] = {};
    std::atomic<bool> done{false};
    const auto work = [&](many_blocks& store, std::atomic<u64>& went) {
        u64 kept[16] = {};
        for (u64 i = 0; !done.load(std::memory_order_acquire); ++i) {
            const u64 old = kept[i % 16];
            const block_result made =
                old != 0 && i % 3 == 0 ? store.replace(old, bytes_of("x")) : store.allocate(bytes_of("x"));
            if (old != 0 && i % 3 != 0) (void)store.free(old);
            went.store(old, std::memory_order_release);
            kept[i % 16] = made.handle;
            if (i % 64 == 0) std::this_thread::yield();
        }
    };
    std::thread one([&] { work(first, freed[0]); }), two([&] { work(second, freed[1]); });
    u64 saved = 0;
    for (u64 round = 0; round < scaled(100); ++round) {
        const u64 before[2] = {freed[0].load(std::memory_order_acquire), freed[1].load(std::memory_order_acquire)};
        const std::string name = "copy" + std::to_string(round);
        const auto refused = refusal_of([&] { (void)restore(save(), name); });
        if (refused) {
            EXPECT_EQ(refused->code, errc::contended) << *refused;
            continue;
        }
        ++saved;
        expect_intact(name);
        auto copy = many_blocks::attach(uri(name));
        const detail::block_view<const std::byte> view(copy.segment().bytes(), copy.geometry());
        const detail::block_slots slots(view);
        EXPECT_TRUE(copy.contains(stays));
        const auto known = [&](u64 handle) {  // its writer's copy goes on behind it
            const u64 slot = slots.slot_of(handle);
            return slots.number_of(view.serial_of(handle)) <= slots.last_number(slot, slots.state(slot).record);
        };
        for (const u64 handle : before) EXPECT_TRUE(handle == 0 || known(handle));
        u64 cursor = 0;
        while (const auto handle = copy.make_reader().next_value(cursor)) EXPECT_TRUE(known(*handle));
    }
    EXPECT_GT(saved, 0U);
    done.store(true, std::memory_order_release);
    one.join();
    two.join();
}

// Serials go round: then values that stand have greater ones than the last that was given out.
std::vector<u64> SaveKinds::make_store_that_went_round() const {
    (void)block_store::create(uri(), {.bytes = 10'000});
    std::ofstream(folder.file("empty"), std::ios::binary | std::ios::trunc) << save();
    inspect::saved_header header = inspect::saved_reader(folder.file("empty")).header();
    const auto geometry =
        detail::block_store_geometry_of(*std::make_shared<const segment>(segment::attach(uri(), access::read_only)));
    const detail::block_view<const std::byte> view({}, geometry);
    header.parameters[2] = view.serial_max() - 3;
    std::string text;
    inspect::saved_writer({[&](std::string_view part) { text.append(part); }, header, ""}).finish();
    (void)restore(text, "old");
    std::vector<u64> freed;
    auto store = block_store::attach(uri("old"));
    EXPECT_TRUE(store.allocate(bytes_of("near")));
    const u64 stays = store.allocate(bytes_of("stays")).handle;
    EXPECT_EQ(view.serial_of(stays), view.serial_max() - 1);
    for (int i = 0; i < 10; ++i) freed.push_back(store.allocate(bytes_of("goes")).handle);
    EXPECT_EQ(view.serial_of(freed.back()), 9U);
    for (const u64 handle : freed) EXPECT_EQ(store.free(handle), outcome::ok);
    return freed;
}

void expect_stale(const std::string& name, const std::vector<u64>& freed) {
    auto store = block_store::attach(name);
    std::vector<std::byte> value;
    while (store.allocate(bytes_of("new"))) {
    }
    for (const u64 handle : freed) EXPECT_EQ(store.read(handle, value).status, outcome::stale) << handle;
}

TEST_F(SaveKinds, WhatWasFreedStaysStaleAlsoWhenSerialsWentRound) {
    const std::vector<u64> freed = make_store_that_went_round();
    (void)restore(save("old"), "copy");
    expect_intact();
    expect_stale(uri("copy"), freed);
}

TEST_F(SaveKinds, WhatWasFreedStaysStaleBehindARepairAlsoWhenSerialsWentRound) {
    const std::vector<u64> freed = make_store_that_went_round();
    damage_and_repair();
    expect_stale(uri("old"), freed);
}

// Whatever the writer does meanwhile: no handle that the file does not know of has a serial that its copy gives out.
TEST_F(SaveKinds, ACopyBesideABusyWriterGivesNoOldHandleOut) {
    auto store = block_store::create(uri(), {.bytes = 20'000});
    std::atomic<u64> freed{0};
    std::atomic<bool> done{false};
    std::thread writer([&] {
        u64 kept[16] = {};
        for (u64 i = 0; !done.load(std::memory_order_acquire); ++i) {
            const u64 handle = store.allocate(bytes_of("x")).handle;
            if (kept[i % 16] != 0) (void)store.free(kept[i % 16]);
            freed.store(kept[i % 16], std::memory_order_release);
            kept[i % 16] = handle;
        }
    });
    for (u64 round = 0; round < scaled(200); ++round) {
        const u64 before = freed.load(std::memory_order_acquire);
        const std::string name = "copy" + std::to_string(round);
        (void)restore(save(), name);
        const u64 named = inspect::saved_reader(folder.file("saved")).header().parameters[2];
        auto copy = block_store::attach(uri(name));
        const detail::block_view<const std::byte> view(copy.segment().bytes(), copy.geometry());
        EXPECT_TRUE(before == 0 || named >= view.serial_of(before));
        u64 cursor = 0;
        while (const auto handle = copy.make_reader().next_value(cursor)) EXPECT_LE(view.serial_of(*handle), named);
    }
    done.store(true, std::memory_order_release);
    writer.join();
}

// However fast its writer: a copy of a ring holds no more than the ring.
TEST_F(SaveKinds, ACopyOfARingThatIsOverrunHoldsNoMoreThanTheRing) {
    auto ring = broadcast_writer::create(uri(), {.capacity_bytes = 16 << 10});
    ASSERT_TRUE(ring.publish(bytes_of("first")));
    std::atomic<bool> done{false};
    std::thread writer([&] {
        for (u64 i = 0; !done.load(std::memory_order_acquire); ++i) {
            (void)ring.publish(std::vector<std::byte>(i % 64));
            if (i % 100'000 < 50'000 && i % 16 == 0) std::this_thread::yield();
        }
    });
    u64 saved = 0;
    for (u64 round = 0; round < scaled(300); ++round) {
        std::string text;
        const auto refused = refusal_of([&] { text = save(); });
        if (refused) {
            EXPECT_EQ(refused->code, errc::contended);
            continue;
        }
        ++saved;
        EXPECT_LE(text.size(), (16U << 10) + 300);  // head, checksums and end mark
        EXPECT_GT(last.items, 0U);
    }
    EXPECT_GT(saved, 0U);
    done.store(true, std::memory_order_release);
    writer.join();
}

// Another segment under the name is neither verified nor saved in the place of what is attached.
TEST_F(SaveKinds, WhatIsVerifiedIsWhatIsSaved) {
    ASSERT_TRUE(broadcast_writer::create(uri(), {.capacity_bytes = 4096}).publish(bytes_of("old")));
    const auto old = std::make_shared<const segment>(segment::attach(uri(), access::read_only));
    std::string text;
    const auto sink = [&](std::string_view part) { text.append(part); };
    EXPECT_EQ(inspect::save(old, sink).items, 1U);
    segment::remove(uri());
    EXPECT_EQ(refusal_of([&] { (void)inspect::save(old, sink); }), errc::not_found);
    ASSERT_TRUE(broadcast_writer::create(uri(), {.capacity_bytes = 8192}).publish(bytes_of("new")));
    EXPECT_EQ(refusal_of([&] { (void)inspect::save(old, sink); }), errc::not_found);
    EXPECT_EQ(refusal_of([&] { (void)inspect::verify(old); }), errc::not_found);
    EXPECT_EQ(inspect::save(uri(), sink).items, 1U);
}

// Names that come while they are looked at are no damage.
TEST_F(SaveKinds, CountersThatAreRegisteredMeanwhileAreNoDamage) {
    for (u64 round = 0; round < scaled(60); ++round) {
        const std::string name = "c" + std::to_string(round);
        const auto set = counter_set::create(uri(name), {.capacity = 256});
        const auto looked = std::make_shared<const segment>(segment::attach(uri(name), access::read_only));
        std::atomic<bool> done{false};
        std::thread registering([&] {
            for (int i = 0; i < 256; ++i) set.get("family_" + std::to_string(i)).add(1);
            done.store(true, std::memory_order_release);
        });
        while (!done.load(std::memory_order_acquire)) {
            const inspect::verification found = inspect::verify(looked);
            EXPECT_TRUE(found.intact()) << found.findings[0].what << " " << found.findings[0].place;
        }
        registering.join();
    }
}

// A length that lies is told where it stands, and nothing is taken for it.
TEST_F(SaveKinds, LengthsThatLieAreToldByTheirPlace) {
    {
        auto store = block_store::create(uri(), {.bytes = 100'000});
        for (int i = 0; i < 3; ++i) ASSERT_TRUE(store.allocate(std::vector<std::byte>(100)));
        ASSERT_TRUE(broadcast_writer::create(uri("r"), {.capacity_bytes = 4096}).publish(std::vector<std::byte>(16)));
    }
    constexpr u64 head = sizeof(inspect::saved_header) + 8 + 16;
    constexpr u64 value = 3 * 8 + 8 + 100;  // with one run
    const auto refused = [&](const std::string& text, u64 at, u64 lie) {
        std::ofstream(folder.file("whole"), std::ios::binary | std::ios::trunc) << text;
        const auto got = refusal_of([&] {
            (void)restore(
                resealed(folder.file("whole"), [&](auto& bytes) { std::memcpy(bytes.data() + at, &lie, 8); }));
        });
        EXPECT_EQ(got, errc::corrupt);
        return got ? got->text : std::string();
    };
    const std::string store = save(), ring = save("r");
    for (const u64 lie : {u64{1} << 20, u64{1} << 40, ~u64{0}}) {
        EXPECT_THAT(refused(store, value + 8, lie), HasSubstr("at byte " + std::to_string(head + value) + ": "));
        EXPECT_THAT(refused(store, value + 16, lie), HasSubstr("at byte " + std::to_string(head + value) + ": "));
    }
    EXPECT_THAT(refused(ring, 0, layout::ring_message_word(1 << 20, 0)),
                HasSubstr("at byte " + std::to_string(head) + ": "));
}

// A file that no save made: its third value has the handle of the first, which the second has driven out of a unit.
// What the first had beside that is free.
TEST_F(SaveKinds, AHandleThatComesAgainHasOnlyTheUnitsOfItsLastValue) {
    (void)block_store::create(uri(), {.bytes = 16 * 64, .unit_bytes = 64});
    std::ofstream(folder.file("empty"), std::ios::binary | std::ios::trunc) << save();
    inspect::saved_header header = inspect::saved_reader(folder.file("empty")).header();
    header.parameters[2] = 2;  // the last serial
    const detail::block_view<const std::byte> view({}, block_store_reader::attach(uri()).geometry());
    const u64 again = view.handle(5, 1), between = view.handle(6, 2);
    std::string text;
    inspect::saved_writer file([&](std::string_view part) { text.append(part); }, header, "");
    const auto add = [&](u64 handle, u64 units, const std::string& value) {
        const u64 head[] = {handle, value.size(), 1, view.index_of(handle) | units << 32};
        file.add(std::as_bytes(std::span(head)), 0);
        file.add(bytes_of(value), 1);
    };
    add(again, 3, std::string(168, 'a'));
    add(between, 1, std::string(40, 'b'));
    add(again, 1, std::string(40, 'c'));
    file.finish();
    (void)restore(text);
    expect_intact();
    const auto copy = block_store_reader::attach(uri("copy"));
    EXPECT_EQ(copy.usage().values, 2U);
    EXPECT_EQ(copy.usage().units_used, 2U);
    std::vector<std::byte> value;
    EXPECT_TRUE(copy.read(again, value));
    EXPECT_EQ(text_of(value), std::string(40, 'c'));
    EXPECT_TRUE(copy.read(between, value));
    EXPECT_EQ(text_of(value), std::string(40, 'b'));
}

// One that had messages and has none, and one that knows only the number of its first.
TEST_F(SaveKinds, EmptiedOnesComeBackEmptyAndGoOn) {
    {
        auto producer = queue_producer::create(uri("q"), {.capacity_bytes = 1024});
        auto consumer = queue_consumer::attach(uri("q"));
        for (int i = 0; i < 100; ++i) {
            ASSERT_TRUE(producer.try_push(bytes_of("x")));
            ASSERT_TRUE(consumer.front());
            ASSERT_TRUE(consumer.pop());
        }
        EXPECT_EQ(restore(save("q"), "q2").items, 0U);
    }
    EXPECT_EQ(restore(save("q"), "q3").items, 0U);  // nobody lives
    for (const char* name : {"q2", "q3"}) {
        expect_intact(name);
        EXPECT_EQ(queue_consumer::attach(uri(name)).front().status, outcome::empty);
    }
    (void)broadcast_writer::create(uri("r"), {.capacity_bytes = 4096});
    std::ofstream(folder.file("empty"), std::ios::binary | std::ios::trunc) << save("r");
    inspect::saved_header header = inspect::saved_reader(folder.file("empty")).header();
    header.parameters[2] = 1000;
    std::string text;
    inspect::saved_writer({[&](std::string_view part) { text.append(part); }, header, ""}).finish();
    (void)restore(text, "r2");
    EXPECT_EQ(restore(save("r2"), "r3").items, 0U);
    expect_intact("r3");
    auto writer = broadcast_writer::attach(uri("r3"));
    ASSERT_TRUE(writer.publish(bytes_of("x")));
    std::vector<std::byte> message;
    EXPECT_EQ(broadcast_reader::attach(uri("r3")).read(message).sequence, 1000U);
}

TEST_F(SaveKinds, CopiesBesideAWorkingWriterAreWhole) {
    auto ring = broadcast_writer::create(uri("r"), {.capacity_bytes = 64 << 10});
    auto store = block_store::create(uri("b"), {.bytes = 300'000});
    auto producer = queue_producer::create(uri("q"), {.capacity_bytes = 16 << 10});
    auto consumer = queue_consumer::attach(uri("q"));
    std::map<u64, u64> stay;
    for (u64 i = 0; i < 100; ++i) {
        const std::vector<std::byte> value(500, static_cast<std::byte>(i));
        stay[store.allocate(value).handle] = i;
    }
    std::atomic<bool> done{false};
    std::thread writer([&] {
        std::mt19937_64 random(1);
        std::vector<u64> handles;
        for (u64 i = 1; !done.load(std::memory_order_acquire); ++i) {
            const std::vector<std::byte> value(1 + random() % 700, static_cast<std::byte>(i));
            (void)ring.publish(value);
            const block_result made = store.allocate(value);
            if (made) handles.push_back(made.handle);
            if (handles.size() > 100 || !made) {
                (void)store.free(handles[i % handles.size()]);
                handles.erase(handles.begin() + static_cast<std::ptrdiff_t>(i % handles.size()));
            }
            (void)producer.try_push(value);
            if (i % 3 == 0 && consumer.front()) (void)consumer.pop();
            if (i % 16 == 0) std::this_thread::yield();
        }
    });
    const auto uniform = [](std::span<const std::byte> bytes) {
        return std::ranges::all_of(bytes, [&](std::byte b) { return b == bytes[0]; });
    };
    for (u64 round = 0; round < scaled(20); ++round) {
        for (const char* kind : {"r", "b", "q"}) {
            const std::string name = std::string(kind) + std::to_string(round);
            (void)restore(save(kind), name);
            expect_intact(name);
        }
        std::vector<std::byte> bytes;
        auto copied_ring = broadcast_reader::attach(uri("r" + std::to_string(round)));
        for (broadcast_read got = copied_ring.read(bytes); got.status != outcome::empty;
             got = copied_ring.read(bytes)) {
            EXPECT_EQ(got.status, outcome::ok);
            EXPECT_TRUE(uniform(bytes));
        }
        const auto copied_store = block_store_reader::attach(uri("b" + std::to_string(round)));
        for (const auto& [handle, i] : stay) {
            EXPECT_TRUE(copied_store.read(handle, bytes));
            EXPECT_EQ(bytes, std::vector<std::byte>(500, static_cast<std::byte>(i)));
        }
        u64 cursor = 0;
        while (const auto handle = copied_store.next_value(cursor)) {
            EXPECT_TRUE(copied_store.read(*handle, bytes));
            EXPECT_TRUE(uniform(bytes));
        }
        auto copied_queue = queue_consumer::attach(uri("q" + std::to_string(round)));
        for (const queue_message& message : copied_queue.messages()) EXPECT_TRUE(uniform(message.bytes));
    }
    done.store(true, std::memory_order_release);
    writer.join();
}

// A writer killed in a replacement leaves both values; the next writer takes the old one out, and so does a copy.
TEST_F(SaveKinds, OfAReplacementCutShortTheNewValueIsSaved) {
    auto store = block_store::create(uri(), {.bytes = 100'000});
    const u64 old = store.allocate(bytes_of("old")).handle;
    const std::span<const std::byte> before = store.segment().bytes();
    std::vector<std::byte> image(before.begin(), before.end());
    const u64 fresh = store.replace(old, bytes_of("new")).handle;
    // As a kill before the old value's word is stored leaves it: the operation open, the old word standing.
    const auto index = [&](u64 handle) {
        return detail::block_view<const std::byte>(before, store.geometry()).index_of(handle);
    };
    const u64 selector = 4;  // operation 2, begun
    auto* const body = const_cast<std::byte*>(before.data());
    std::memcpy(body + layout::block_selector_offset, &selector, 8);
    std::memcpy(body + layout::block_words_offset + index(old) * 8,
                image.data() + layout::block_words_offset + index(old) * 8, 8);
    EXPECT_EQ(restore(save()).items, 1U);
    expect_intact();
    std::vector<std::byte> value;
    const auto copy = block_store_reader::attach(uri("copy"));
    EXPECT_TRUE(copy.read(fresh, value));
    EXPECT_EQ(text_of(value), "new");
    EXPECT_EQ(copy.read(old, value).status, outcome::stale);
}

// The same of one of many writers.
TEST_F(SaveKinds, OfAReplacementByOneOfManyCutShortTheNewValueIsSaved) {
    auto first = many_blocks::create(uri(), {.bytes = 10'000, .writer_slots = 2}), second = many_blocks::attach(uri());
    const u64 old = first.allocate(bytes_of("old")).handle, other = first.allocate(bytes_of("other")).handle;
    const u64 fresh = second.replace(old, bytes_of("new")).handle;
    auto* const body = const_cast<std::byte*>(first.segment().bytes().data());
    const detail::block_view<std::byte> view({body, first.segment().bytes().size()}, first.geometry());
    const detail::block_slots slots(view);
    const u64 selector = slots.selector(1) - 1;  // begun
    std::memcpy(slots.selector_at(1), &selector, 8);
    std::memcpy(view.word_at(view.index_of(old)), &old, 8);
    EXPECT_EQ(restore(save()).items, 2U);
    expect_intact();
    std::vector<std::byte> value;
    const auto copy = block_store_reader::attach(uri("copy"));
    EXPECT_TRUE(copy.read(fresh, value));
    EXPECT_EQ(text_of(value), "new");
    EXPECT_TRUE(copy.contains(other));
    EXPECT_EQ(copy.read(old, value).status, outcome::stale);
}

// Without a container nobody knows what the bytes mean: they come back as they were, with all that the header says.
TEST_F(SaveKinds, ARawSegmentComesBackByteByByte) {
    segment_spec spec;
    spec.container_version = 42;
    spec.policy = writers::many;
    spec.schema = "value {value:u64@0}#8";
    spec.geometry[1] = 7;
    spec.geometry[15] = ~u64{0};
    spec.body_bytes = 70'001;  // more than a piece, and no whole words
    spec.peer_slots = 3;
    std::mt19937_64 random(9);
    const segment made = segment::create(uri(), spec, {}, [&](std::span<std::byte> body) {
        for (std::byte& b : body) b = static_cast<std::byte>(random());
    });
    const std::string text = save();
    EXPECT_EQ(last.items, spec.body_bytes);
    EXPECT_TRUE(last.still);
    EXPECT_EQ(restore(text).kind, container_kind::raw);
    expect_intact();
    const segment copy = segment::attach(uri("copy"), access::read_only);
    EXPECT_TRUE(std::ranges::equal(copy.bytes(), made.bytes()));
    EXPECT_EQ(copy.info().container_version, 42U);
    EXPECT_EQ(copy.info().policy, writers::many);
    EXPECT_EQ(copy.info().schema, spec.schema);
    EXPECT_EQ(copy.info().geometry, spec.geometry);
    EXPECT_EQ(copy.info().peer_slots, 3U);
    attack(text);
}

TEST_F(SaveKinds, ARawSegmentThatChangesWhileItIsSavedIsToldSo) {
    segment_spec spec;
    spec.body_bytes = 1000;
    segment writer = segment::create(uri(), spec, {}, [](std::span<std::byte>) {});
    std::string text;
    const inspect::save_report done = inspect::save(uri(), [&](std::string_view part) {
        if (text.empty()) writer.body()[999] = std::byte{5};  // between the two readings
        text.append(part);
    });
    EXPECT_FALSE(done.still);
    (void)restore(text);
    EXPECT_EQ(segment::attach(uri("copy"), access::read_only).bytes()[999], std::byte{5});
    (void)save();
    EXPECT_TRUE(last.still);
}

}  // namespace
