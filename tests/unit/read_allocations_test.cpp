// SPDX-License-Identifier: Apache-2.0
// What allocates nothing: every read that is promised to take what the caller gave it, hit or miss, and what rings and
// tables do to each message and entry. Whoever may be woken a million times a second counts on it. And how much a
// repair of a ring allocates that has nothing but words.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "holdfast/array.hpp"
#include "holdfast/block_store.hpp"
#include "holdfast/broadcast.hpp"
#include "holdfast/executor/keyed_executor.hpp"
#include "holdfast/executor/strand.hpp"
#include "holdfast/executor/thread_pool.hpp"
#include "holdfast/hash_map.hpp"
#include "holdfast/hash_table.hpp"
#include "holdfast/perf_test/count_allocations.hpp"
#include "holdfast/queue.hpp"
#include "holdfast/small_table.hpp"
#include "holdfast/snapshot.hpp"
#include "holdfast/sorted_index.hpp"
#include "inspect/repair.hpp"
#include "support/http_client.hpp"
#include "support/http_server.hpp"
#include "support/unique_name.hpp"

namespace {

using namespace holdfast;
using u64 = std::uint64_t;

struct point {
    u64 x, y;
};

/// How often `work` asked for memory.
template <class Work>
[[nodiscard]] u64 allocations_of(Work&& work) {
    const u64 before = perf_test::allocations_of_this_thread().calls;
    std::forward<Work>(work)();
    return perf_test::allocations_of_this_thread().calls - before;
}
[[nodiscard]] std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }
constexpr auto at_once = std::chrono::nanoseconds(0);

TEST(ReadAllocations, AreCounted) {
    EXPECT_EQ(allocations_of([] { ::operator delete(::operator new(10)); }), 1U);
    EXPECT_EQ(allocations_of([] {}), 0U);
}

template <class Reader>
void look_everywhere(const Reader& reader) {
    std::array<std::byte, 300> room{};
    EXPECT_TRUE(reader.find("short", room));
    EXPECT_TRUE(reader.find("long", room));
    EXPECT_EQ(reader.find("nobody", room).status, outcome::not_found);
    EXPECT_EQ(reader.find("long", std::span(room).first(10)).status, outcome::too_small);
    u64 seen = 0;
    const auto count = [&](std::span<const std::byte> piece, u64, u64) { seen += piece.size(); };
    EXPECT_TRUE(reader.visit("long", count));
    EXPECT_GE(seen, 200U);
    EXPECT_FALSE(reader.visit("nobody", count));
    EXPECT_TRUE(reader.contains("short"));
    EXPECT_TRUE(reader.about("mortal"));
    EXPECT_TRUE(reader.usage());
}

TEST(ReadAllocations, AHashMapIsReadWithoutAny) {
    auto map = hash_map<std::string_view>::create("heap:", {.capacity = 100, .bytes = 10'000});
    ASSERT_TRUE(map.set("short", "x"));
    ASSERT_TRUE(map.set("long", std::vector<std::byte>(200)));
    ASSERT_TRUE(map.set("mortal", "y", {.ttl = std::chrono::hours(1)}));
    const auto reader = map.make_reader();
    EXPECT_EQ(allocations_of([&] { look_everywhere(reader); }), 0U);
    EXPECT_EQ(allocations_of([&] { look_everywhere(map); }), 0U) << "the writer notes what it reads";
    EXPECT_EQ(allocations_of([&] {
                  (void)map.set("short", "z");
                  (void)map.touch("long", std::chrono::seconds(0));
                  (void)map.erase("mortal");
              }),
              0U);
}

TEST(ReadAllocations, AHashTableIsReadAndWrittenWithoutAny) {
    auto table = hash_table<u64, point>::create("heap:", {.capacity = 1000});
    const auto reader = table.make_reader();
    const std::array<u64, 40> keys{1, 2, 3, 4000};
    std::array<std::optional<point>, 40> found;
    EXPECT_EQ(allocations_of([&] {
                  for (u64 key = 0; key < 500; ++key) EXPECT_TRUE(table.try_insert(key, {key, key}));
                  EXPECT_TRUE(table.insert_or_assign(7, {7, 8}));
                  EXPECT_TRUE(table.modify(8, [](point& p) { ++p.x; }));
                  EXPECT_TRUE(table.erase(9));
                  EXPECT_TRUE(reader.find(7));
                  EXPECT_FALSE(reader.find(9));
                  EXPECT_TRUE(reader.contains(1));
                  EXPECT_EQ(reader.find_many(keys, found), 39U);
                  u64 sum = 0;
                  for (const auto& entry : reader) sum += entry.value.x;
                  EXPECT_NE(sum, 0U);
              }),
              0U);
}

TEST(ReadAllocations, ASmallTableIsReadAndWrittenWithoutAny) {
    auto table = small_table<u64, point>::create("heap:", {.capacity = 100});
    auto reader = table.make_reader();
    EXPECT_EQ(allocations_of([&] {
                  for (u64 key = 0; key < 100; ++key) {
                      EXPECT_EQ(table.try_insert(key, {key, 2}), outcome::ok);
                      EXPECT_EQ(reader.find(key)->x, key) << "the keys are arranged anew";
                      EXPECT_FALSE(reader.contains(key + 1));
                  }
                  EXPECT_EQ(table.modify(7, [](point& p) { ++p.y; }), outcome::ok);
                  EXPECT_EQ(table.erase(8), outcome::ok);
                  EXPECT_EQ(reader.find(7)->y, 3U);
                  EXPECT_FALSE(reader.contains(8));
              }),
              0U);
}

TEST(ReadAllocations, AnArrayIsReadAndWrittenWithoutAny) {
    auto points = array<point>::create("heap:", {.size = 100});
    const auto reader = points.make_reader();
    std::array<point, 10> some{};
    EXPECT_EQ(allocations_of([&] {
                  points.store(1, {1, 2});
                  EXPECT_EQ(reader[1].y, 2U);
                  reader.load_range(0, some);
                  u64 sum = 0;
                  for (const point p : reader) sum += p.x;
                  EXPECT_EQ(sum, 1U);
              }),
              0U);
}

TEST(ReadAllocations, ABlockStoreIsReadWithoutAny) {
    auto store = block_store::create("heap:", {.bytes = 10'000, .value_bytes = 100});
    const auto reader = store.make_reader();
    std::array<std::byte, 100> room{};
    const u64 handle = store.allocate(bytes_of("some text")).handle, gone = store.allocate(bytes_of("old")).handle;
    ASSERT_EQ(store.free(gone), outcome::ok);
    EXPECT_EQ(allocations_of([&] {
                  EXPECT_EQ(reader.read(handle, room).count, 9U);
                  EXPECT_EQ(reader.read(gone, room).status, outcome::stale);
                  EXPECT_EQ(reader.read(handle, std::span(room).first(3)).status, outcome::too_small);
                  EXPECT_TRUE(reader.visit(handle, [](std::span<const std::byte>, u64, u64) {}));
                  EXPECT_TRUE(reader.size_of(handle));
                  EXPECT_TRUE(reader.contains(handle));
                  u64 cursor = 0;
                  EXPECT_EQ(reader.next_value(cursor), handle);
              }),
              0U);
}

TEST(ReadAllocations, QueuesPassMessagesWithoutAny) {
    auto producer = queue_producer::create("heap:", {.capacity_bytes = 4096});
    auto consumer = producer.make_consumer();
    auto points = queue<point>::producer::create("heap:", {.capacity = 64});
    auto taker = points.make_consumer();
    std::array<std::byte, 100> room{};
    std::array<point, 4> some{};
    EXPECT_EQ(allocations_of([&] {
                  for (int i = 0; i < 4; ++i) EXPECT_TRUE(producer.try_push(bytes_of("some text")));
                  EXPECT_TRUE(consumer.wait(at_once));
                  EXPECT_TRUE(consumer.front());
                  EXPECT_TRUE(consumer.pop());
                  EXPECT_TRUE(consumer.try_pop(room));
                  for (const queue_message& message : consumer.messages()) EXPECT_EQ(message.bytes.size(), 9U);
                  EXPECT_EQ(consumer.wait(at_once).status, outcome::timed_out);
                  for (u64 i = 0; i < 10; ++i) EXPECT_TRUE(points.try_push({i, i}));
                  EXPECT_TRUE(taker.try_pop());
                  EXPECT_EQ(taker.try_pop(some).count, 4U);
                  for (const point& p : taker.values()) EXPECT_GE(p.x, 5U);
                  EXPECT_EQ(taker.front().status, outcome::empty);
              }),
              0U);
}

TEST(ReadAllocations, ABroadcastPassesMessagesWithoutAny) {
    auto writer = broadcast_writer::create("heap:", {.capacity_bytes = 4096});
    auto reader = writer.make_reader();
    std::array<std::byte, 100> room{};
    EXPECT_EQ(allocations_of([&] {
                  for (int i = 0; i < 3; ++i) EXPECT_TRUE(writer.publish(bytes_of("some text")));
                  EXPECT_TRUE(reader.wait(at_once));
                  EXPECT_TRUE(reader.read(room));
                  EXPECT_TRUE(reader.visit([](std::span<const std::byte>, std::uint16_t) {}));
                  EXPECT_TRUE(reader.read(room));
                  EXPECT_EQ(reader.read(room).status, outcome::empty);
              }),
              0U);
}

TEST(ReadAllocations, ASnapshotIsPublishedAndReadWithoutAny) {
    auto writer = snapshot<point>::create("heap:");
    auto reader = writer.make_reader();
    EXPECT_EQ(allocations_of([&] {
                  EXPECT_TRUE(writer.publish({1, 2}));
                  EXPECT_EQ(reader.read().value.y, 2U);
                  EXPECT_EQ(reader.version(), 1U);
              }),
              0U);
}

TEST(ReadAllocations, ASortedIndexIsReadWithoutAny) {
    using points = sorted_index<u64, point>;
    auto publisher = points::publisher::create("heap:", {.records_max = 100});
    points::builder records;
    for (u64 key = 0; key < 100; ++key) records.add(2 * key, {key, key});
    ASSERT_TRUE(publisher.publish(records));
    auto reader = publisher.make_reader();
    (void)reader.find(0);  // takes notes of the version it met
    const std::array<u64, 4> keys{0, 2, 3, 198};
    std::array<std::optional<point>, 4> found;
    EXPECT_EQ(allocations_of([&] {
                  EXPECT_TRUE(reader.find(10));
                  EXPECT_EQ(reader.find(11).status, outcome::not_found);
                  EXPECT_EQ(reader.find_many(keys, found).found, 3U);
              }),
              0U);
}

// Nodes, strands and the table are there after the first round; a task of 48 bytes brings nothing of its own.
TEST(ReadAllocations, NoneOfATaskOnceItsNodesAreThere) {
    executor::thread_pool pool({.workers = 0});
    executor::strand order(pool, {.waiting_max = 1000});
    executor::keyed_executor<u64> keys(pool);
    u64 sum = 0;
    const auto round = [&] {
        for (u64 i = 0; i < 500; ++i) {
            const auto task = [&sum, a = i, b = i, c = i, d = i, e = i] { sum += a + b + c + d + e; };
            static_assert(sizeof task == 48 && executor::task_fits<decltype(task)>);
            EXPECT_EQ(order.try_post(task), executor::post_status::posted);
            keys.post(i % 100, task);
            pool.post(task);
        }
        pool.run();
    };
    round();
    EXPECT_EQ(allocations_of(round), 0U);
    EXPECT_EQ(sum, 2 * 3 * 5 * u64{499 * 500 / 2});
    const auto large = [&sum, room = std::array<u64, 6>{}] { sum += room[0]; };
    EXPECT_EQ(allocations_of([&] { pool.post(large); }), 1U);
    pool.run();
}

// A request that is answered at once, on a connection that has been served before: late answers must not cost it any.
TEST(ReadAllocations, NoneOfARequestThatIsAnsweredAtOnce) {
    std::vector<u64> asked;
    asked.reserve(64);
    test::running_server server([&](const net::request& r, net::response& to) {
        to.header("Content-Type", "text/plain").body_buffer().append(r.target());
        asked.push_back(perf_test::allocations_of_this_thread().calls);
    });
    server.start();
    test::http_client client(server.port());
    for (int i = 0; i < 30; ++i) ASSERT_EQ(client.ask(test::get("/target")).body, "/target");
    server.stop();
    ASSERT_EQ(asked.size(), 30U);
    EXPECT_EQ(asked.back(), asked[9]) << "of the loop, in twenty requests";
}

// As many messages as fit: empty ones, a word each.
TEST(ReadAllocations, OfARepairAreSmallerThanItsRing) {
    const test::unique_directory folder("repair", "/dev/shm");
    const std::string uri = folder.file_uri("ring");
    u64 ring_bytes = 0, messages = 0;
    {
        auto producer = queue_producer::create(uri, {.capacity_bytes = 1 << 20});
        ring_bytes = producer.capacity_bytes();
        while (producer.try_push({})) ++messages;
    }
    {
        auto damaged = segment::attach(uri, access::read_write);
        auto& side = *reinterpret_cast<layout::queue_side*>(damaged.body().data() + layout::queue_producer_offset);
        side.ledgers[messages % 2].messages.fetch_add(1);
    }
    const u64 before = perf_test::allocations_of_this_thread().bytes;
    const inspect::repair_report report = inspect::repair(uri, {});
    EXPECT_LT(perf_test::allocations_of_this_thread().bytes - before, ring_bytes);
    EXPECT_EQ(report.kept, messages);
    EXPECT_EQ(report.lost, 0U);
}

}  // namespace
