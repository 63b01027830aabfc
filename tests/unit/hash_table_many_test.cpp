// SPDX-License-Identifier: Apache-2.0
#include "holdfast/hash_table/many.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "holdfast/hash_table/dynamic.hpp"
#include "holdfast/hash_table/growing.hpp"
#include "support/capability.hpp"
#include "support/hash_table_many_image.hpp"
#include "support/process.hpp"
#include "support/segment_tools.hpp"
#include "support/table_answer.hpp"
#include "support/unique_name.hpp"

namespace {

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;
using u64 = std::uint64_t;
using status = holdfast::test::table_answer;

struct hits {
    u64 seen;
    std::int32_t balance;
    std::uint32_t pad;
    u64 name;
    friend bool operator==(const hits&, const hits&) = default;
};
using table = hash_table<u64, hits, writers::many>;
using counts = hash_table<u64, u64, writers::many>;

class HashTableMany : public segment_test {
 protected:
    [[nodiscard]] std::string uri() const { return name_.uri(); }
    unique_posix_name name_{"many"};
};

std::string damage_of(const auto& of) {
    std::string text;
    const hash_table_verification seen = of.verify([&](const hash_table_finding& f) {
        text += std::string(describe(f.what)) + "; ";
        return true;
    });
    return seen.busy == 0 ? text : text + "busy";
}

TEST_F(HashTableMany, OperationsReportStatusAndSlot) {
    table t = table::create("heap:", {.capacity = 100});
    EXPECT_TRUE(t.empty());
    const hash_table_result inserted = t.try_insert(1, {1, 2, 0, 3});
    EXPECT_EQ(inserted, status::inserted);
    EXPECT_EQ(t.try_insert(1, {}), status::exists);
    EXPECT_EQ(t.try_insert(1, {}).slot, inserted.slot);
    EXPECT_EQ(t.find(1), (hits{1, 2, 0, 3}));
    EXPECT_EQ(t.insert_or_assign(1, {5, 6, 0, 7}), status::updated);
    EXPECT_EQ(t.insert_or_assign(2, {8, 9, 0, 10}), status::inserted);
    EXPECT_EQ(t.update(3, {}), status::not_found);
    EXPECT_EQ(t.modify(2, [](hits& h) { h.seen *= 2; }), status::updated);
    EXPECT_EQ(t.find(2), (hits{16, 9, 0, 10}));
    EXPECT_EQ(t.size(), 2U);
    EXPECT_EQ(t.erase(1), status::erased);
    EXPECT_EQ(t.erase(1), status::not_found);
    EXPECT_EQ(t.modify(1, [](hits&) {}), status::not_found);
    EXPECT_EQ(t.size(), 1U);
    EXPECT_EQ(damage_of(t), "");
    EXPECT_EQ(t.fault(), std::nullopt);
}

TEST_F(HashTableMany, FetchAddAnswersTheNumberBefore) {
    table t = table::create("heap:", {.capacity = 10});
    EXPECT_EQ(t.fetch_add(1, &hits::seen, 1), std::nullopt);
    hash_table_result done;
    (void)t.fetch_add(1, &hits::seen, 1, &done);
    EXPECT_EQ(done, status::not_found);
    (void)t.try_insert(1, {~u64{0}, 5, 0, 9});
    EXPECT_EQ(t.fetch_add(1, &hits::seen, 3, &done), ~u64{0});
    EXPECT_EQ(done, status::updated);
    EXPECT_EQ(t.fetch_add(1, &hits::balance, -7), 5);
    EXPECT_EQ(t.find(1), (hits{2, -2, 0, 9}));
    counts c = counts::create("heap:", {.capacity = 10});
    (void)c.try_insert(1, 40);
    EXPECT_EQ(c.fetch_add(1, u64{2}), 40U);
    EXPECT_EQ(c.fetch_add(1, 1), 42U) << "a number of any type that becomes the value's";
    EXPECT_EQ(c.find(1), 43U);
}

TEST_F(HashTableMany, CompareAndSetChangesOnlyWhatWasExpected) {
    counts c = counts::create("heap:", {.capacity = 10});
    EXPECT_EQ(c.compare_and_set(1, 0, 1), status::not_found);
    (void)c.try_insert(1, 5);
    EXPECT_EQ(c.compare_and_set(1, 4, 6), status::stale);
    EXPECT_EQ(c.find(1), 5U);
    EXPECT_EQ(c.compare_and_set(1, 5, 6), status::updated);
    EXPECT_EQ(c.find(1), 6U);
}

TEST_F(HashTableMany, CompareAndEraseTakesOutOnlyWhatWasExpected) {
    counts c = counts::create(uri(), {.capacity = 10});
    counts other = counts::attach(uri());
    EXPECT_EQ(c.compare_and_erase(1, 0), status::not_found);
    (void)c.try_insert(1, 5);
    EXPECT_EQ(c.compare_and_erase(1, 4), status::stale);
    (void)other.update(1, 6);
    EXPECT_EQ(c.compare_and_erase(1, 5), status::stale);
    EXPECT_EQ(c.find(1), 6U);
    EXPECT_EQ(c.compare_and_erase(1, 6), status::erased);
    EXPECT_EQ(other.compare_and_erase(1, 6), status::not_found);
    (void)c.try_insert(2, 7);
    EXPECT_EQ(c.erase_if(2, [](const u64& value) { return value > 7; }), status::stale);
    status inner;
    EXPECT_EQ(c.erase_if(2, [&](const u64&) { return (inner = c.erase(2)) == status::contended; }), status::erased);
    EXPECT_EQ(inner, status::contended);
    (void)c.try_insert(3, 8);
    EXPECT_THROW((void)c.erase_if(3, [](const u64&) -> bool { throw 1; }), int);
    EXPECT_EQ(other.compare_and_erase(3, 8), status::erased) << "nothing is held";
    EXPECT_TRUE(c.empty());
    EXPECT_EQ(damage_of(c), "");
}

// Of several that take out the same entry one does; each counts what it has taken.
TEST_F(HashTableMany, WhatManyTakeOutIsTakenOnce) {
    constexpr u64 keys = 200, rounds = 10;
    counts c = counts::create(uri(), {.capacity = keys});
    for (u64 n = 0; n < keys; ++n) (void)c.try_insert(n, 0);
    std::atomic<u64> taken = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t < 2; ++t)
        threads.emplace_back([&, mine = std::make_shared<counts>(counts::attach(uri()))] {
            for (u64 i = 0; i < rounds * keys; ++i) {
                // Who takes one puts in its place one that is one higher.
                const auto seen = mine->find(i % keys);
                if (!seen || !mine->compare_and_erase(i % keys, *seen)) continue;
                taken.fetch_add(1, std::memory_order_relaxed);  // a count
                (void)mine->insert_or_assign(i % keys, *seen + 1);
            }
        });
    for (std::thread& t : threads) t.join();
    u64 sum = 0;
    for (u64 n = 0; n < keys; ++n) sum += c.find(n).value_or(0);
    EXPECT_EQ(sum, taken.load());
    EXPECT_EQ(c.size(), keys);
    EXPECT_EQ(damage_of(c), "");
}

TEST_F(HashTableMany, HandlesShareOneTableAndCountTogether) {
    counts first = counts::create(uri(), {.capacity = 1000, .writer_slots = 3});
    counts second = counts::attach(uri()), third = counts::attach(uri());
    EXPECT_EQ((std::set{first.writer_slot(), second.writer_slot(), third.writer_slot()}),
              (std::set<std::uint32_t>{0, 1, 2}));
    for (u64 n = 0; n < 900; ++n) ASSERT_EQ((n % 2 == 0 ? first : second).try_insert(n, n), status::inserted);
    for (u64 n = 0; n < 900; ++n) ASSERT_EQ(third.try_insert(n, 1), status::exists);
    // What one inserted another erases: single counts go below zero, the sum does not.
    for (u64 n = 0; n < 800; ++n) ASSERT_EQ(third.erase(n), status::erased);
    EXPECT_EQ(first.size(), 100U);
    const auto reader = hash_table_reader<u64, u64>::attach(uri());
    EXPECT_EQ(reader.size(), 100U);
    EXPECT_EQ(reader.find(850), 850U);
    EXPECT_EQ(damage_of(reader), "");
}

TEST_F(HashTableMany, IsFilledToTheLastSlotsByWritersInTurn) {
    counts first = counts::create(uri(), {.capacity = 2000});
    counts second = counts::attach(uri());
    u64 n = 0;
    while ((n % 2 == 0 ? first : second).try_insert(n, n) == status::inserted) ++n;
    EXPECT_GE(n, first.slots() * 97 / 100);
    EXPECT_EQ(second.try_insert(n, n), status::full);
    for (u64 i = 0; i < n; ++i) ASSERT_EQ((i % 3 == 0 ? first : second).fetch_add(i, u64{1}), i);
    EXPECT_EQ(damage_of(first), "");
    for (u64 i = 0; i < n; ++i) ASSERT_EQ((i % 3 == 0 ? second : first).erase(i), status::erased);
    EXPECT_EQ(first.size(), 0U);
    EXPECT_EQ(damage_of(second), "");
}

TEST_F(HashTableMany, MoreWritersThanSlotsAreRefusedUntilOneEnds) {
    std::optional<counts> first = counts::create(uri(), {.capacity = 10, .writer_slots = 2});
    counts second = counts::attach(uri());
    try {
        (void)counts::attach(uri());
        ADD_FAILURE() << "a third writer for two slots";
    } catch (const error& refused) {
        EXPECT_EQ(refused.reason(), errc::writer_alive);
        EXPECT_THAT(refused.what(), testing::HasSubstr("2 writer slots"));
    }
    first.reset();
    EXPECT_EQ(counts::attach(uri()).writer_slot(), 0U);
    child_process dies([&] {
        const counts third = counts::attach(uri());
        ::raise(SIGKILL);
    });
    (void)dies.wait();
    EXPECT_EQ(counts::attach(uri()).writer_slot(), 0U);
    EXPECT_THROW((void)counts::create("heap:", {.capacity = 10, .writer_slots = 0}), error);
    EXPECT_THROW((void)counts::create("heap:", {.capacity = 10, .writer_slots = 1025}), error);
}

TEST_F(HashTableMany, ThePolicyIsTheTablesNotTheHandles) {
    const unique_posix_name other("one");
    (void)counts::create(uri(), {.capacity = 10});
    (void)hash_table<u64, u64>::create(other.uri(), {.capacity = 10});
    const auto refused = [](auto&& attach) -> std::string {
        try {
            attach();
        } catch (const error& why) {
            EXPECT_EQ(why.reason(), errc::geometry_mismatch);
            return why.what();
        }
        return "attached";
    };
    EXPECT_THAT(refused([&] { (void)hash_table<u64, u64>::attach(uri()); }), testing::HasSubstr("many writers"));
    EXPECT_THAT(refused([&] { (void)counts::attach(other.uri()); }), testing::HasSubstr("one writer"));
    EXPECT_EQ(dynamic_hash_table_reader::attach(uri()).size(), 0U);
}

TEST_F(HashTableMany, AChangeThatThrowsChangesNothingAndOneThatReturnsToTheTableIsRefused) {
    counts c = counts::create(uri(), {.capacity = 10});
    counts other = counts::attach(uri());
    (void)c.try_insert(1, 5);
    EXPECT_THROW((void)c.modify(1,
                                [](u64& value) {
                                    value = 9;
                                    throw 1;
                                }),
                 int);
    EXPECT_EQ(c.find(1), 5U);
    EXPECT_EQ(other.update(1, 6), status::updated);
    status inner;
    EXPECT_EQ(c.modify(1, [&](u64& value) { inner = c.erase(value); }), status::updated);
    EXPECT_EQ(inner, status::contended);
    EXPECT_EQ(other.update(1, 7), status::updated);
}

TEST_F(HashTableMany, AForkedCopyRefusesAndItsEndFreesNothing) {
    counts c = counts::create(uri(), {.capacity = 10, .writer_slots = 1});
    child_process child(
        [&]() -> std::string { return c.try_insert(1, 1) == status::read_only ? "" : "the copy wrote"; });
    EXPECT_TRUE(child.wait().success()) << child.wait().text();
    EXPECT_THROW((void)counts::attach(uri()), error);
    EXPECT_EQ(c.try_insert(1, 1), status::inserted);
}

TEST_F(HashTableMany, AMemfdIsWrittenByItsDescriptors) {
    counts c = counts::create("memfd:", {.capacity = 10});
    (void)c.try_insert(1, 0);
    child_process child([&]() -> std::string {
        counts mine = counts::attach(c.segment().descriptors());
        if (mine.writer_slot() == c.writer_slot()) return "two writers in one slot";
        for (int i = 0; i < 1000; ++i) (void)mine.fetch_add(1, u64{1});
        return {};
    });
    for (int i = 0; i < 1000; ++i) (void)c.fetch_add(1, u64{1});
    EXPECT_TRUE(child.wait().success()) << child.wait().text();
    EXPECT_EQ(c.find(1), 2000U);
}

// Counters that a kill left too high: those of the buckets that key 1 would pass, by the writer's own means.
void raise_a_counter(const std::string& uri) {
    const auto raw = std::make_shared<segment>(segment::attach(uri, access::read_write));
    const layout::hash_table_geometry g = holdfast::detail::geometry_of(*raw);
    const holdfast::detail::table_view<std::byte, holdfast::detail::runtime_node> view(raw->body(), g,
                                                                                       holdfast::detail::node_of(g));
    ASSERT_TRUE(holdfast::detail::change_shared_counter(view.line(0), 3, true));
}

TEST_F(HashTableMany, RecountNeedsTheTableForItselfAndFinishesWhatTheDeadLeft) {
    counts c = counts::create(uri(), {.capacity = 1000});
    for (u64 n = 0; n < 900; ++n) (void)c.try_insert(n, n);
    raise_a_counter(uri());
    const auto too_high = [&] { return c.verify([](const auto&) { return true; }).counters_too_high; };
    ASSERT_EQ(too_high(), 1U);
    {
        const counts other = counts::attach(uri());
        const auto refused = refusal_of([&] { (void)c.recount(); });
        ASSERT_TRUE(refused);
        EXPECT_EQ(*refused, errc::writer_alive);
    }
    child_process dies([&] {
        counts mine = counts::attach(uri());
        (void)mine.modify(1, [](u64&) { ::raise(SIGKILL); });
    });
    (void)dies.wait();
    EXPECT_EQ(c.recount(), 1U);
    EXPECT_EQ(too_high(), 0U);
    c.set_patience(0ns);
    EXPECT_EQ(c.update(1, 7), status::updated);
    EXPECT_EQ(c.takeovers(), 0U) << "the recount had finished it";
    EXPECT_EQ(c.recount(), 0U);
    EXPECT_EQ(counts::attach(uri()).size(), 900U) << "others may come again";
    (void)c.modify(1, [&](u64&) {
        const auto inside = refusal_of([&] { (void)c.recount(); });
        EXPECT_TRUE(inside && *inside == errc::contended);
    });
    EXPECT_EQ(damage_of(c), "");
    EXPECT_EQ(counts::create("heap:", {.capacity = 10}).recount(), 0U);
}

TEST_F(HashTableMany, WritersAreKeptOutOfARecountUntilItEndsOrIsKilled) {
    (void)counts::create(uri(), {.capacity = 100});
    child_process alone([&](channel& talk) -> std::string {
        const counts mine = counts::attach(uri());
        const holdfast::detail::only_writer guard(mine.segment());
        talk.signal();
        for (;;) ::pause();
    });
    ASSERT_TRUE(alone.talk().wait());
    const auto refused = refusal_of([&] { (void)counts::attach(uri()); });
    ASSERT_TRUE(refused);
    EXPECT_EQ(*refused, errc::writer_alive);
    alone.send_signal(SIGKILL);
    (void)alone.wait();
    counts c = counts::attach(uri());
    {
        const holdfast::detail::only_writer guard(c.segment());
    }
    EXPECT_NO_THROW((void)counts::attach(uri()));
}

// A program that knows no C++ type is a writer as every other.
[[nodiscard]] std::span<const std::byte> raw(const u64& number) { return std::as_bytes(std::span(&number, 1)); }

TEST_F(HashTableMany, ADynamicHandleIsOneOfTheWriters) {
    counts c = counts::create(uri(), {.capacity = 1000});
    dynamic_hash_table d = dynamic_hash_table::attach(uri());
    for (u64 n = 0; n < 900; ++n) ASSERT_EQ(d.try_insert(raw(n), raw(n)), status::inserted);
    EXPECT_EQ(d.try_insert(raw(5), raw(6)), status::exists);
    EXPECT_EQ(d.insert_or_assign(raw(5), raw(6)), status::updated);
    EXPECT_EQ(d.update(raw(1000), raw(6)), status::not_found);
    EXPECT_EQ(c.find(5), 6U);
    EXPECT_EQ(c.erase(7), status::erased);
    EXPECT_EQ(d.erase(raw(7)), status::not_found);
    EXPECT_EQ(d.erase(raw(8)), status::erased);
    u64 value = 0;
    const auto room = std::as_writable_bytes(std::span(&value, 1));
    EXPECT_EQ(d.modify(raw(5), room, [&] { return ++value == 7; }), status::updated);
    EXPECT_EQ(d.modify(raw(5), room, [&] { return ++value == 7; }), status::stale);
    EXPECT_EQ(d.modify(raw(8), room, [] { return true; }), status::not_found);
    EXPECT_EQ(d.erase_if(raw(6), room, [&] { return value != 6; }), status::stale);
    EXPECT_EQ(d.erase_if(raw(6), room, [&] { return value == 6; }), status::erased);
    EXPECT_EQ(d.erase_if(raw(6), room, [] { return true; }), status::not_found);
    EXPECT_EQ(c.try_insert(6, 6), status::inserted);
    EXPECT_EQ(c.find(5), 7U);
    EXPECT_EQ(d.size(), 898U);
    EXPECT_EQ(damage_of(d), "");
    const auto refused = refusal_of([&] { (void)d.recount(); });
    EXPECT_TRUE(refused && *refused == errc::writer_alive);
    dynamic_hash_table moved = std::move(d);
    EXPECT_EQ(moved.insert_or_assign(raw(9), raw(1)), status::updated);
}

TEST_F(HashTableMany, DynamicAndTypedWritersCountTogetherExactly) {
    counts c = counts::create(uri(), {.capacity = 10});
    (void)c.try_insert(1, 0);
    child_process child([&]() -> std::string {
        dynamic_hash_table d = dynamic_hash_table::attach(uri());
        u64 value = 0;
        for (int i = 0; i < 2000; ++i)
            if (d.modify(raw(1), std::as_writable_bytes(std::span(&value, 1)), [&] { return ++value != 0; }) !=
                status::updated)
                return "a change failed";
        return {};
    });
    for (int i = 0; i < 2000; ++i) ASSERT_TRUE(c.fetch_add(1, u64{1}));
    EXPECT_TRUE(child.wait().success()) << child.wait().text();
    EXPECT_EQ(c.find(1), 4000U);
    EXPECT_EQ(damage_of(c), "");
}

TEST_F(HashTableMany, ATableOfManyIsMadeOfASchemaAndHasItsSlots) {
    const container_schema schema = holdfast::detail::schema_of_types<u64, u64>("key", "value");
    dynamic_hash_table first =
        dynamic_hash_table::create(uri(), schema, {.capacity = 100, .writer_slots = 2}, writers::many);
    std::optional<dynamic_hash_table> second = dynamic_hash_table::attach(uri());
    const auto refused = refusal_of([&] { (void)dynamic_hash_table::attach(uri()); });
    EXPECT_TRUE(refused && *refused == errc::writer_alive);
    second.reset();
    EXPECT_EQ(counts::attach(uri()).writer_slot(), 1U);
    // Of one writer the same class is the only one, and changes what it found.
    const unique_posix_name other("one");
    dynamic_hash_table one = dynamic_hash_table::create(other.uri(), schema, {.capacity = 100});
    u64 value = 0;
    const auto room = std::as_writable_bytes(std::span(&value, 1));
    EXPECT_EQ(one.modify(raw(1), room, [] { return true; }), status::not_found);
    (void)one.try_insert(raw(1), raw(5));
    EXPECT_EQ(one.modify(raw(1), room, [&] { return ++value == 6; }), status::updated);
    EXPECT_EQ(one.modify(raw(1), room, [] { return false; }), status::stale);
    EXPECT_EQ((hash_table_reader<u64, u64>::attach(other.uri()).find(1)), 6U);
    EXPECT_EQ(one.blocked_by().has_value(), false);
    EXPECT_EQ(one.recount(), 0U);
}

// Stays inside a change of key 1, with its stripe, until it is killed.
child_process one_that_holds(const std::string& uri) {
    child_process holder([&](channel& talk) -> std::string {
        counts mine = counts::attach(uri);
        (void)mine.modify(1, [&](u64&) {
            talk.signal();
            for (;;) ::pause();
        });
        return {};
    });
    EXPECT_TRUE(holder.talk().wait());
    return holder;
}

TEST_F(HashTableMany, WhoeverIsStoppedKeepsItsStripeAndIsNamed) {
    counts c = counts::create(uri(), {.capacity = 10'000});
    for (u64 n = 0; n < 1000; ++n) (void)c.try_insert(n, n);
    child_process holder = one_that_holds(uri());
    c.set_patience(20ms);
    const auto start = std::chrono::steady_clock::now();
    EXPECT_EQ(c.update(1, 100), status::contended);
    EXPECT_GE(std::chrono::steady_clock::now() - start, 20ms);
    ASSERT_TRUE(c.blocked_by());
    EXPECT_EQ(c.blocked_by()->pid, static_cast<u64>(holder.pid()));
    EXPECT_EQ(c.find(1), 1U) << "readers do not wait";
    {
        dynamic_hash_table d = dynamic_hash_table::attach(uri());
        d.set_patience(0ns);
        EXPECT_EQ(d.update(raw(1), raw(100)), status::contended);
        ASSERT_TRUE(d.blocked_by());
        EXPECT_EQ(d.blocked_by()->pid, static_cast<u64>(holder.pid()));
    }
    c.set_patience(0ns);
    u64 done = 0;
    for (u64 n = 0; n < 1000; ++n) done += c.update(n, n + 1) == status::updated ? 1 : 0;
    EXPECT_LT(done, 1000U);
    EXPECT_GT(done, 900U) << "the rest of the table goes on";
    EXPECT_EQ(damage_of(c), "");

    holder.send_signal(SIGKILL);
    (void)holder.wait();
    EXPECT_EQ(c.update(1, 100), status::updated) << "the dead are known at once";
    EXPECT_EQ(c.takeovers(), 1U);
    for (u64 n = 0; n < 1000; ++n) ASSERT_EQ(c.update(n, n), status::updated);
    EXPECT_EQ(damage_of(c), "");
}

TEST_F(HashTableMany, AttachingGivesBackWhatTheDeadHeld) {
    counts c = counts::create(uri(), {.capacity = 1000});
    (void)c.try_insert(1, 1);
    child_process holder = one_that_holds(uri());
    holder.send_signal(SIGKILL);
    (void)holder.wait();
    EXPECT_TRUE(counts::attach(uri()).recovery().stripes_given_back);
    c.set_patience(0ns);
    EXPECT_EQ(c.update(1, 2), status::updated);
    EXPECT_EQ(c.takeovers(), 0U);
}

// Who finishes for a dead one may be stopped in that, and others then wait for it.
TEST_F(HashTableMany, WhoFinishesForTheDeadIsNamedInItsPlace) {
    counts c = counts::create(uri(), {.capacity = 1000});
    (void)c.try_insert(1, 1);
    child_process holder = one_that_holds(uri());
    holder.send_signal(SIGKILL);
    (void)holder.wait();
    const layout::hash_table_geometry g = c.geometry();
    const holdfast::detail::table_view<const std::byte, holdfast::detail::runtime_node> view(
        c.segment().bytes(), g, holdfast::detail::node_of(g));
    ASSERT_EQ(holdfast::detail::pid_of_writer(view, 1), static_cast<u64>(holder.pid()));
    EXPECT_EQ(c.update(1, 2), status::updated);
    EXPECT_EQ(c.takeovers(), 1U);
    EXPECT_EQ(holdfast::detail::pid_of_writer(view, 1), static_cast<u64>(::getpid()));
}

// ---- growth ------------------------------------------------------------------------------------------------------

class HashTableManyGrow : public segment_test {
 protected:
    [[nodiscard]] std::string uri() const { return place_.file_uri("t"); }
    [[nodiscard]] std::vector<std::string> files() const { return place_.entries(); }
    static void finish(counts& t) {
        while (t.advance()) {
        }
        EXPECT_FALSE(t.growth_failure().has_value()) << t.growth_failure()->what();
    }
    static std::string difference(const auto& from, const std::map<u64, u64>& model, u64 keys) {
        for (u64 n = 0; n < keys; ++n) {
            const auto found = from.find(n);
            const auto wanted = model.find(n);
            if (found.has_value() != (wanted != model.end()))
                return "key " + std::to_string(n) + (found ? " came" : " went");
            if (found && *found != wanted->second) return "key " + std::to_string(n) + " has another value";
        }
        return from.size() == model.size() ? "" : "the size is " + std::to_string(from.size());
    }
    /// A process that begins to grow the table, does so many steps, and waits to be killed.
    child_process one_that_leads(u64 capacity, u64 steps) {
        child_process leader([&](channel& talk) -> std::string {
            counts mine = counts::attach(uri());
            mine.grow(capacity);
            (void)mine.advance(steps);
            talk.signal();
            for (;;) ::pause();
            return {};
        });
        EXPECT_TRUE(leader.talk().wait());
        return leader;
    }
    static u64 home_of(const counts& t, u64 key) {
        const holdfast::detail::table_view<const std::byte, holdfast::detail::fixed_node<u64, u64>> view(
            t.segment().bytes(), t.geometry(), {});
        return view.stripe_of(view.hash(reinterpret_cast<const std::byte*>(&key)).home(view.buckets));
    }
    static std::byte* stripe_of(const counts& t, u64 number) {
        return const_cast<std::byte*>(t.segment().bytes().data()) + t.geometry().stripes_offset +
               number * layout::stripe_bytes;
    }
    static void close_all(const counts& t, u64 tag) {
        for (u64 number = 0; number < t.geometry().stripes; ++number)
            holdfast::detail::set_growth_of(stripe_of(t, number), growth_word::of(tag, growth_word::closed));
    }
    /// As somebody does who gives the growth up that is under way.
    void mark_what_was_announced() const {
        const memory::descriptor next = memory::open_at(AT_FDCWD, place_.file("t.growing").c_str(), O_WRONLY);
        const u64 given_up = 1;
        ASSERT_EQ(::pwrite(next.get(), &given_up, sizeof given_up, offsetof(layout::segment_header, moved)),
                  static_cast<ssize_t>(sizeof given_up));
    }
    using growth_word = holdfast::detail::stripe_growth;
    unique_directory place_{"many-grow"};
};

TEST_F(HashTableManyGrow, AllWritersAndReadersGoOverByThemselves) {
    const unique_posix_name posix("many-grow");
    for (const std::string& name : {uri(), posix.uri()}) {
        counts a = counts::create(name, {.capacity = 1000}), b = counts::attach(name);
        dynamic_hash_table d = dynamic_hash_table::attach(name);
        growing_hash_table_reader<u64, u64> r = growing_hash_table_reader<u64, u64>::attach(name);
        const hash_table_reader<u64, u64> plain = b.make_reader();
        for (u64 n = 0; n < 1000; ++n) ASSERT_EQ(a.try_insert(n, n * n), status::inserted);
        a.grow(5000);
        EXPECT_TRUE(a.growing());
        EXPECT_EQ(a.capacity(), 1000U);
        finish(a);
        EXPECT_EQ(a.capacity(), 5000U);
        EXPECT_EQ(r.capacity(), 5000U);
        EXPECT_EQ(b.find(5), 25U);
        EXPECT_EQ(b.capacity(), 5000U) << "a find leads over";
        EXPECT_EQ(d.update(raw(5), raw(6)), status::updated);
        EXPECT_EQ(d.capacity(), 5000U) << "so does a change";
        EXPECT_EQ(r.find(5), 6U);
        EXPECT_EQ(plain.find(5), 25U) << "a plain reader stays";
        EXPECT_TRUE(plain.segment().moved());
        for (u64 n = 1000; n < 5000; ++n) ASSERT_EQ((n % 2 == 0 ? a : b).try_insert(n, n * n), status::inserted);
        for (u64 n = 0; n < 5000; ++n) ASSERT_EQ(r.find(n), n == 5 ? 6 : n * n);
        EXPECT_EQ(a.size(), 5000U);
        EXPECT_EQ(damage_of(a), "");
        const counts last = counts::attach(name);
        EXPECT_EQ((std::set{a.writer_slot(), b.writer_slot(), last.writer_slot()}.size()), 3U);
        EXPECT_EQ(last.size(), 5000U);
    }
    EXPECT_THAT(files(), testing::UnorderedElementsAre("t", "t.lease"));
    EXPECT_EQ(posix.entries().size(), 2U);
}

TEST_F(HashTableManyGrow, AnAnswersSlotIsOneOfTheTableThatIsThereThen) {
    counts a = counts::create(uri(), {.capacity = 100}), b = counts::attach(uri());
    dynamic_hash_table d = dynamic_hash_table::attach(uri());
    for (u64 n = 0; n < 100; ++n) ASSERT_EQ(a.try_insert(n, n), status::inserted);
    for (const u64 capacity : {1000U, 150U}) {
        a.grow(capacity);
        for (u64 n = 0; a.growing(); ++n) {
            counts& by = n % 4 == 3 ? b : a;
            const u64 key = n % 100;
            const hash_table_result done = n % 3 == 0   ? by.insert_or_assign(key, n)
                                           : n % 3 == 1 ? by.modify(key, [&](u64& v) { v = n; })
                                                        : by.try_insert(key, n);
            ASSERT_TRUE(done.slot.has_value());
            const auto entry = by.entry_at(*done.slot);
            ASSERT_TRUE(entry.has_value()) << "operation " << n;
            ASSERT_EQ(entry->key, key) << "operation " << n;
        }
        EXPECT_EQ(a.capacity(), capacity);
    }
    d.grow(2000);
    u64 found = 0, value = 0;
    for (u64 n = 0; d.capacity() != 2000; ++n) {
        ASSERT_LT(n, 10'000U);
        const u64 key = n % 100;
        const hash_table_result done = d.update(raw(key), raw(n));
        ASSERT_TRUE(done.slot.has_value());
        ASSERT_TRUE(d.entry_at(*done.slot, std::as_writable_bytes(std::span(&found, 1)),
                               std::as_writable_bytes(std::span(&value, 1))))
            << "operation " << n;
        ASSERT_EQ(found, key) << "operation " << n;
        ASSERT_EQ(value, n);
    }
}

// Another process moves the table, twice, and nobody tells these handles.
TEST_F(HashTableManyGrow, PlacesAreGoodWithinAGenerationAndSaySoAfter) {
    counts a = counts::create(uri(), {.capacity = 100}), b = counts::attach(uri());
    dynamic_hash_table d = dynamic_hash_table::attach(uri());
    for (u64 n = 0; n < 50; ++n) ASSERT_EQ(a.try_insert(n, n * n), status::inserted);
    const auto place = b.place_of(7), erased = b.place_of(8);
    ASSERT_TRUE(place && erased);
    EXPECT_EQ(a.place_of(7), place);
    EXPECT_EQ(d.place_of(raw(7)), place);
    EXPECT_EQ(dynamic_hash_table_reader::attach(uri()).place_of(raw(7)), place);
    EXPECT_EQ(b.place_of(1234), std::nullopt);
    EXPECT_EQ(d.place_of(raw(1234)), std::nullopt);
    EXPECT_EQ(a.erase(8), status::erased);
    counts::value_type entry{};
    u64 key = 0, value = 0;
    const auto ask_dynamic = [&](const hash_table_place& at) {
        return d.entry_at(at, std::as_writable_bytes(std::span(&key, 1)), std::as_writable_bytes(std::span(&value, 1)));
    };
    EXPECT_EQ(b.entry_at(*place, entry), outcome::ok);
    EXPECT_EQ(entry.key, 7U);
    EXPECT_EQ(entry.value, 49U);
    EXPECT_EQ(ask_dynamic(*place), outcome::ok);
    EXPECT_EQ(key, 7U);
    EXPECT_EQ(value, 49U);
    EXPECT_EQ(b.entry_at(*erased, entry), outcome::not_found);
    EXPECT_EQ(ask_dynamic(*erased), outcome::not_found);
    for (const u64 capacity : {1000U, 60U}) {
        child_process mover([&]() -> std::string {
            counts mine = counts::attach(uri());
            mine.grow(capacity);
            while (mine.advance()) {
            }
            return mine.growth_failure() ? mine.growth_failure()->what() : "";
        });
        ASSERT_TRUE(mover.wait().success()) << mover.wait().text();
        // A place of the new generation leads a handle there, too.
        const auto now = a.place_of(7);
        ASSERT_TRUE(now && now->generation != place->generation);
        EXPECT_EQ(b.entry_at(*now, entry), outcome::ok);
        EXPECT_EQ(entry.value, 49U);
        EXPECT_EQ(ask_dynamic(*now), outcome::ok);
        EXPECT_EQ(key, 7U);
        EXPECT_EQ(a.entry_at(*place, entry), outcome::stale);
        EXPECT_EQ(b.entry_at(*place, entry), outcome::stale);
        EXPECT_EQ(ask_dynamic(*place), outcome::stale);
        EXPECT_EQ(ask_dynamic(*erased), outcome::stale);
        EXPECT_EQ(b.capacity(), capacity);
    }
    // Who comes by the stale place first.
    const auto last = d.place_of(raw(7));
    ASSERT_TRUE(last);
    a.grow(500);
    finish(a);
    EXPECT_EQ(ask_dynamic(*last), outcome::stale);
    EXPECT_EQ(b.entry_at(*last, entry), outcome::stale);
}

// Whether the loop's own operations move the table or another's do: each entry comes once all the same.
TEST_F(HashTableManyGrow, AScanGoesOnOverTheGenerationThatItBeganIn) {
    for (const u64 capacity : {5000U, 300U})
        for (const bool leads : {true, false}) {
            SCOPED_TRACE(std::to_string(capacity) + (leads ? ", the leader's" : ", another's"));
            for (const std::string& file : files()) ::unlink(place_.file(file).c_str());
            counts a = counts::create(uri(), {.capacity = 1000}), b = counts::attach(uri());
            dynamic_hash_table d = dynamic_hash_table::attach(uri());
            for (u64 n = 0; n < 300; ++n) ASSERT_EQ(a.try_insert(n, n * n), status::inserted);
            a.grow(capacity);
            counts& by = leads ? a : b;
            auto beside = d.begin();
            std::set<u64> seen;
            u64 behind = 0;
            for (const auto& entry : by) {
                ASSERT_TRUE(seen.insert(entry.key).second) << "key " << entry.key << " comes again";
                ASSERT_EQ(entry.value, entry.key * entry.key);
                ASSERT_EQ(by.update(entry.key, ~u64{0}), status::updated);
                if (!leads) (void)a.advance();
                behind += by.capacity() == capacity ? 1 : 0;
            }
            EXPECT_EQ(seen.size(), 300U);
            EXPECT_GT(behind, 100U);
            EXPECT_EQ(by.fault(), std::nullopt);
            EXPECT_EQ(by.capacity(), capacity);
            // A handle without a type, whose scan began before the move and goes on behind it.
            u64 key = 0, entries = 0;
            ASSERT_EQ(d.update(raw(7), raw(8)), status::updated);
            ASSERT_EQ(d.capacity(), capacity);
            for (; beside != d.end(); ++beside) {
                std::memcpy(&key, (*beside).key.data(), sizeof key);
                EXPECT_LT(key, 300U);
                ++entries;
            }
            EXPECT_EQ(entries, 300U);
            EXPECT_EQ(d.fault(), std::nullopt);
        }
}

// Three writers, whoever leads, beside a model; growing and shrinking all the time.
template <class Shape>
void expect_that_all_go_on(const std::string& uri, u64 operations, u64 generations_min) {
    using value = typename Shape::value;
    using table_of_many = hash_table<u64, value, writers::many>;
    constexpr u64 keys = 3000;
    const u64 seed = choose_seed();
    SCOPED_TRACE("HOLDFAST_TEST_SEED=" + std::to_string(seed));
    std::vector<table_of_many> writers;
    writers.push_back(table_of_many::create(uri, {.capacity = keys}));
    for (int i = 0; i < 2; ++i) writers.push_back(table_of_many::attach(uri));
    hash_table_model model;
    const auto difference_of = [&](const table_of_many& from) {
        const std::string text = difference<Shape>([&](u64 key, value& v) { return from.find(key, v); }, model, keys);
        return text.empty() && from.size() != model.size() ? "the size is " + std::to_string(from.size()) : text;
    };
    u64 generations = 0;
    for (u64 i = 0; i < operations; ++i) {
        table_of_many& by = writers[random_at(seed, 1, i) % 3];
        if (std::none_of(writers.begin(), writers.end(), [](const table_of_many& w) { return w.growing(); })) {
            if (i != 0) {
                ++generations;
                for (const table_of_many& w : writers) ASSERT_EQ(difference_of(w), "") << "at " << i;
                ASSERT_EQ(damage_of(by), "") << "at " << i;
            }
            by.grow(keys + random_at(seed, 2, i) % (3 * keys));
        }
        const u64 random = random_at(seed, 0, i), key = (random >> 8) % keys;
        const bool there = model.contains(key);
        const value given = stamped_value<Shape>(key, i);
        switch (random % 5) {
            case 0: ASSERT_EQ(by.try_insert(key, given), there ? status::exists : status::inserted); break;
            case 1: ASSERT_EQ(by.insert_or_assign(key, given), there ? status::updated : status::inserted); break;
            case 2: ASSERT_EQ(by.update(key, given), there ? status::updated : status::not_found); break;
            case 3:
                ASSERT_EQ(by.modify(key, [&](value& v) { v = given; }), there ? status::updated : status::not_found);
                break;
            default: ASSERT_EQ(by.erase(key), there ? status::erased : status::not_found);
        }
        if (random % 5 == 4)
            model.erase(key);
        else if (there ? random % 5 != 0 : random % 5 < 2)
            model[key] = i;
        for (const table_of_many& w : writers) ASSERT_FALSE(w.growth_failure()) << w.growth_failure()->what();
    }
    EXPECT_GT(generations, generations_min);
}

TEST_F(HashTableManyGrow, OperationsOfAllGoOnDuringGrowthAndShrinking) {
    expect_that_all_go_on<narrow_shape>(uri(), 40'000, 20);
}
TEST_F(HashTableManyGrow, OperationsOnEntriesOf64BytesGoOnDuringGrowthAndShrinking) {
    expect_that_all_go_on<wide_shape>(uri(), 40'000, 20);
}

TEST_F(HashTableManyGrow, AnotherWriterGoesOnForALeaderThatIsKilled) {
    constexpr u64 keys = 1000;
    u64 resumed = 0;
    for (const u64 round : {0U, 1U, 2U, 4U, 10U, 40U, 100U, 104U, 110U, 140U}) {
        const u64 steps = round % 100, from = round < 100 ? keys : 4000, to = round < 100 ? 4000 : keys;
        SCOPED_TRACE((from < to ? "grows, " : "shrinks, ") + std::to_string(steps));
        for (const std::string& file : files()) ::unlink(place_.file(file).c_str());
        counts other = counts::create(uri(), {.capacity = from});
        std::map<u64, u64> model;
        for (u64 n = 0; n < keys; ++n) {
            (void)other.try_insert(n, n);
            model[n] = n;
        }
        child_process leader = one_that_leads(to, steps);
        EXPECT_EQ(refusal_of([&] { other.grow(9000); }), errc::contended) << "one growth at a time";
        for (u64 n = 0; n < keys; n += 3) {
            ASSERT_EQ(other.erase(n), status::erased);
            model.erase(n);
        }
        leader.send_signal(SIGKILL);
        (void)leader.wait();
        for (u64 n = 0; n < keys; n += 2) {
            ASSERT_TRUE(other.insert_or_assign(n, n + 1));
            model[n] = n + 1;
        }
        ASSERT_EQ(difference(other, model, keys), "");
        // One that comes now finds what there is to do as well.
        counts fresh = counts::attach(uri());
        finish(other);
        ASSERT_EQ(difference(other, model, keys), "");
        ASSERT_EQ(difference(fresh, model, keys), "");
        EXPECT_EQ(damage_of(fresh), "");
        EXPECT_EQ(other.capacity(), fresh.capacity());
        resumed += other.capacity() == to ? 1 : 0;
        EXPECT_THAT(files(), testing::UnorderedElementsAre("t", "t.lease"));
    }
    EXPECT_GE(resumed, 7U) << "what had a name was finished";
}

// What an operation of the leader pays beside itself.
TEST_F(HashTableManyGrow, AStepOfTheLeaderIsBounded) {
    using one_of_many = holdfast::detail::many_table<holdfast::detail::fixed_node<u64, u64>>;
    counts other = counts::create(uri(), {.capacity = 100'000});
    const u64 stripes = other.geometry().stripes;
    ASSERT_GT(stripes, 128U);
    for (u64 n = 0; n < 20'000; ++n) ASSERT_EQ(other.try_insert(n, n), status::inserted);
    one_of_many leader;
    (void)leader.join(std::make_shared<segment>(segment::attach(uri(), access::read_write)), {}, {}, 0);
    leader.grow(40'000);
    u64 mirroring = 0, carried = 0, steps_that_carry = 0;
    while (leader.geometry().capacity == 100'000) {
        ASSERT_TRUE(leader.advance(1));
        if (leader.geometry().capacity != 100'000) break;
        EXPECT_LE(leader.carried_slots() - carried, 26U);
        steps_that_carry += leader.carried_slots() != carried ? 1 : 0;
        carried = leader.carried_slots();
        if (mirroring == stripes) continue;
        u64 now = 0;
        for (u64 number = 0; number < stripes; ++number)
            now += holdfast::detail::growth_of(stripe_of(other, number)).what() == growth_word::mirrors ? 1 : 0;
        EXPECT_LE(now - mirroring, 64U);
        mirroring = now;
    }
    EXPECT_EQ(mirroring, stripes);
    EXPECT_GE(steps_that_carry, 100'000U / 26);
    EXPECT_EQ(other.find(19'999), 19'999U);
    EXPECT_EQ(other.capacity(), 40'000U);
}

TEST_F(HashTableManyGrow, WhatDoesNotFitIsGivenUpAndNothingIsLost) {
    counts a = counts::create(uri(), {.capacity = 4000}), b = counts::attach(uri());
    for (u64 n = 0; n < 500; ++n) (void)a.try_insert(n, n);
    EXPECT_EQ(refusal_of([&] { a.grow(400); }), errc::invalid_argument);
    a.grow(500);
    for (u64 n = 500; n < 2000; ++n) ASSERT_EQ((n % 2 == 0 ? a : b).try_insert(n, n), status::inserted);
    while (a.advance()) {
    }
    ASSERT_TRUE(a.growth_failure());
    EXPECT_EQ(a.growth_failure()->reason(), errc::no_space);
    EXPECT_EQ(a.capacity(), 4000U);
    for (u64 n = 0; n < 2000; ++n) ASSERT_EQ(b.find(n), n);
    EXPECT_EQ(damage_of(b), "");
    EXPECT_THAT(files(), testing::UnorderedElementsAre("t", "t.lease"));
    // And stopped on purpose, by the leader, at any time; then once more to the end, by the other.
    for (u64 steps = 0; steps < 130; steps += 13) {
        a.grow(8000);
        (void)a.advance(steps);
        (void)b.update(1, steps);
        a.stop_growing();
        EXPECT_FALSE(a.growing());
        ASSERT_EQ(b.update(2, steps), status::updated);
        ASSERT_EQ(a.find(1), steps);
    }
    EXPECT_THAT(files(), testing::UnorderedElementsAre("t", "t.lease"));
    b.grow(8000);
    finish(b);
    EXPECT_EQ(a.capacity(), 8000U);
    EXPECT_EQ(a.size(), 2000U);
    EXPECT_EQ(damage_of(a), "");
}

TEST_F(HashTableManyGrow, AWriterThatIsStoppedInAChangeHoldsUpTheCommitAndNobodyElse) {
    counts a = counts::create(uri(), {.capacity = 10'000});
    for (u64 n = 0; n < 1000; ++n) (void)a.try_insert(n, n);
    child_process holder = one_that_holds(uri());
    a.set_patience(5ms);
    a.grow(20'000);
    for (int i = 0; i < 60; ++i) EXPECT_TRUE(a.advance());
    EXPECT_FALSE(a.growth_failure());
    counts b = counts::attach(uri());
    b.set_patience(0ns);
    u64 done = 0;
    for (u64 n = 0; n < 1000; ++n) done += b.update(n, n) == status::updated ? 1 : 0;
    EXPECT_GT(done, 900U);
    holder.send_signal(SIGKILL);
    (void)holder.wait();
    finish(a);
    EXPECT_EQ(b.size(), 1000U);
    EXPECT_EQ(b.capacity(), 20'000U);
    EXPECT_EQ(damage_of(b), "");
}

TEST_F(HashTableManyGrow, TheLeadersOwnOperationsDoNotWaitForAWriterThatIsStopped) {
    counts a = counts::create(uri(), {.capacity = 10'000});
    for (u64 n = 0; n < 1000; ++n) (void)a.try_insert(n, n);
    const child_process holder = one_that_holds(uri());
    a.grow(20'000);
    const auto start = std::chrono::steady_clock::now();
    u64 done = 0;
    for (u64 n = 0; n < 40; ++n)
        if (home_of(a, n) != home_of(a, 1)) done += a.update(n, n) == status::updated ? 1 : 0;
    EXPECT_GT(done, 20U);
    EXPECT_LT(std::chrono::steady_clock::now() - start, 5s) << "an operation has 1 s of patience";
    EXPECT_TRUE(a.growing());
    EXPECT_FALSE(a.growth_failure());
}

// Whoever mirrors has a stripe in hand for which others wait. So it waits for one stopped there once, not with each.
TEST_F(HashTableManyGrow, AWriterThatIsStoppedInTheNextGenerationIsWaitedForOnce) {
    counts a = counts::create(uri(), {.capacity = 20'000});
    for (u64 n = 0; n < 1000; ++n) (void)a.try_insert(n, n);
    a.grow(40'000);
    for (int i = 0; i < 30; ++i) ASSERT_TRUE(a.advance());
    counts b = counts::attach(uri());
    ASSERT_EQ(b.update(1, 1), status::updated);
    // One that lives owns all of that generation's stripes.
    child_process holder([&](channel& talk) -> std::string {
        const counts mine = counts::attach(uri());
        talk.signal();
        for (;;) ::pause();
        return {};
    });
    ASSERT_TRUE(holder.talk().wait());
    const auto next = segment_successor::announced(a.segment(), {});
    ASSERT_TRUE(next);
    const layout::hash_table_geometry g = holdfast::detail::geometry_of(*next);
    constexpr std::uint32_t holders_slot = 2;  // behind those of a and b
    for (u64 stripe = 0; stripe < g.stripes; ++stripe)
        std::atomic_ref(*reinterpret_cast<std::uint32_t*>(const_cast<std::byte*>(next->body().data()) +
                                                          g.stripes_offset + stripe * layout::stripe_bytes))
            .store(holders_slot + 1);
    const auto start = std::chrono::steady_clock::now();
    std::set<u64> stripes;
    for (u64 n = 0; n < 1000 && stripes.size() < 20; ++n) {
        if (!stripes.insert(home_of(b, n)).second) continue;
        ASSERT_EQ(b.update(n, 2 * n), status::updated) << n;
    }
    const auto took = std::chrono::steady_clock::now() - start;
    EXPECT_EQ(stripes.size(), 20U);
    EXPECT_GE(took, 400ms) << "nobody was in the way";
    EXPECT_LT(took, 4s) << "half a second, and not twenty times that";
    while (a.advance()) {
    }
    ASSERT_TRUE(a.growth_failure());
    EXPECT_EQ(a.capacity(), 20'000U);
    for (u64 n = 0; n < 1000; ++n) ASSERT_TRUE(b.update(n, n) == status::updated) << n;
    EXPECT_EQ(damage_of(b), "");
}

TEST_F(HashTableManyGrow, MemoryWithoutANameStaysWhatItIsAndFalseWordsAreHealed) {
    for (const std::string& name : {uri(), std::string("anon:")}) {
        counts c = counts::create(name, {.capacity = 1000});
        for (u64 n = 0; n < 100; ++n) (void)c.try_insert(n, n);
        if (name != uri()) {
            EXPECT_EQ(refusal_of([&] { c.grow(2000); }), errc::unsupported);
            EXPECT_FALSE(c.growing());
        }
        std::byte* const body = const_cast<std::byte*>(c.segment().bytes().data());
        for (const u64 word : {u64{1}, u64{2}, u64{3}, u64{5}, u64{6}, u64{7}, u64{4}, ~u64{0}}) {
            for (u64 stripe = 0; stripe < c.geometry().stripes; ++stripe)
                holdfast::detail::set_growth_of(body + c.geometry().stripes_offset + stripe * layout::stripe_bytes,
                                                {word});
            for (u64 n = 0; n < 100; ++n) ASSERT_EQ(c.update(n, n + word), status::updated) << word;
            EXPECT_EQ(damage_of(c), "");
        }
        EXPECT_EQ(c.size(), 100U);
    }
    // A growth that began under another segment of the name is none of this one's.
    child_process leader = one_that_leads(4000, 10);
    leader.send_signal(SIGKILL);
    (void)leader.wait();
    ::unlink(place_.file("t").c_str());
    counts c = counts::create(uri(), {.capacity = 1000});
    (void)c.try_insert(1, 1);
    while (c.advance()) {
    }
    EXPECT_EQ(c.capacity(), 1000U);
    EXPECT_EQ(c.find(1), 1U);
}

// What kept a question of the user's from an answer is told still, and is no affair of a growth that it leads later.
TEST_F(HashTableManyGrow, WhatAQuestionMetEndsNoGrowth) {
    counts c = counts::create(uri(), {.capacity = 1000});
    for (u64 n = 0; n < 900; ++n) ASSERT_EQ(c.try_insert(n, n), status::inserted);
    std::byte* const version = const_cast<std::byte*>(c.segment().bytes().data()) + c.geometry().lines_offset +
                               static_cast<u64>(*c.slot_of(7)) / 26 * 64 + layout::line_version_offset;
    *version = std::byte{1};
    EXPECT_EQ(c.find(7), std::nullopt);
    const std::optional<errc> met = c.fault();
    ASSERT_TRUE(met.has_value());
    *version = std::byte{0};
    EXPECT_EQ(c.find(7), 7U);
    c.grow(2000);
    for (u64 n = 0; c.growing(); n = (n + 1) % 900) ASSERT_EQ(c.update(n, n), status::updated);
    EXPECT_FALSE(c.growth_failure()) << c.growth_failure()->what();
    EXPECT_EQ(c.capacity(), 2000U);
    EXPECT_EQ(c.fault(), met);
}

// Who comes by way of an older generation finds what a dead writer of its slot left in the newest one, which grows.
TEST_F(HashTableManyGrow, WhoComesLateBringsOverWhatTheDeadLeftInTheNewestGeneration) {
    using one_of_many = holdfast::detail::many_table<holdfast::detail::fixed_node<u64, u64>>;
    using holdfast::detail::growth_of;
    counts a = counts::create(uri(), {.capacity = 1000, .writer_slots = 2});
    for (u64 n = 0; n < 1000; ++n) ASSERT_EQ(a.try_insert(n, n), status::inserted);
    // It has mapped the table, and waits for a slot.
    auto waiting = std::make_shared<segment>(segment::attach(uri(), access::read_write));
    a.grow(2000);
    finish(a);
    // A key of the first bucket, which is brought over soon.
    u64 key = 0, slot = ~u64{0};
    for (u64 n = 0; n < 1000; ++n)
        if (const std::optional<hash_table_slot> at = a.update(n, n).slot; at && static_cast<u64>(*at) < slot)
            key = n, slot = static_cast<u64>(*at);
    ASSERT_LT(slot, 26U);
    a.grow(4000);
    ASSERT_TRUE(a.advance(12)) << "that bucket is behind the leader, and others are not";

    // The other slot's writer updates the key, and is killed before it has mirrored that.
    const layout::hash_table_geometry& g = a.geometry();
    const std::span<std::byte> body(const_cast<std::byte*>(a.segment().bytes().data()), a.segment().bytes().size());
    const one_of_many::view view(body, g, {});
    const auto* const key_bytes = reinterpret_cast<const std::byte*>(&key);
    const u64 home = view.stripe_of(view.hash(key_bytes).home(view.buckets));
    const holdfast::detail::stripe_growth word = growth_of(view.stripe(home));
    ASSERT_EQ(word.what(), holdfast::detail::stripe_growth::mirrors);
    one_of_many::mutator dead(view, 1, {});
    dead.abandon(word.tag());
    const u64 newest = 7777;
    ASSERT_EQ(dead.update(key_bytes, reinterpret_cast<const std::byte*>(&newest)).status, outcome::ok);
    holdfast::detail::set_growth_of(view.stripe(home), word);
    holdfast::detail::store_release<std::uint32_t>(view.stripe(home) + layout::stripe_owner_offset, 2);
    ASSERT_EQ(a.find(key), newest);

    one_of_many late;
    EXPECT_TRUE(late.join(std::move(waiting), {}, {}, 0).stripes_given_back);
    EXPECT_EQ(late.current().writer(), 1U);
    finish(a);
    EXPECT_EQ(a.capacity(), 4000U);
    EXPECT_EQ(a.find(key), newest) << "what a reader had seen was taken back";
    EXPECT_EQ(a.size(), 1000U);
    EXPECT_EQ(damage_of(a), "");
}

// The files are mounted elsewhere, one by one: the name there leads to the old generation for ever.
TEST_F(HashTableManyGrow, WhoSeesTheFileAndNotItsFolderDoesNotOpenTheOldGenerationAgain) {
    if (!can_mount_tmpfs()) GTEST_SKIP() << "needs: the right to mount";
    counts a = counts::create(uri(), {.capacity = 1000});
    for (u64 n = 0; n < 100; ++n) (void)a.try_insert(n, n);
    const unique_directory box("box");
    child_process inside([&](channel& talk) -> std::string {
        if (!enter_private_mounts()) return "no mounts of its own";
        for (const char* const name : {"t", "t.lease"}) {
            const std::string at = box.file(name);
            const int made = ::open(at.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
            ::close(made);
            if (::mount(place_.file(name).c_str(), at.c_str(), nullptr, MS_BIND, nullptr) != 0) return "no mount";
        }
        counts mine = counts::attach(box.file_uri("t"));
        mine.set_patience(20ms);
        if (mine.update(1, 5) != status::updated) return "it is refused";
        talk.signal();
        if (!talk.wait()) return "the test is gone";
        for (int tries = 0; tries < 2; ++tries) {
            if (mine.find(1)) return "it answers from a table that others have left";
            if (mine.update(1, 7) != status::contended) return "it changed what nobody reads";
        }
        return mine.segment().moved() ? "" : "the mark is gone";
    });
    if (!inside.talk().wait()) FAIL() << inside.wait().text();
    a.grow(4000);
    finish(a);
    ASSERT_EQ(a.update(1, 9), status::updated);
    inside.talk().signal();
    EXPECT_TRUE(inside.wait().success()) << inside.wait().text();
    EXPECT_EQ(a.find(1), 9U);
    EXPECT_EQ(a.capacity(), 4000U);
}

// What a writer's handle has is what others have left: until it can go over, it answers nothing and says why.
TEST_F(HashTableManyGrow, AWriterThatCannotFollowAnswersNothing) {
    counts a = counts::create(uri(), {.capacity = 1000}), b = counts::attach(uri());
    dynamic_hash_table d = dynamic_hash_table::attach(uri());
    for (u64 n = 0; n < 300; ++n) ASSERT_EQ(a.try_insert(n, n), status::inserted);
    const std::optional<hash_table_place> place = b.place_of(7);
    ASSERT_TRUE(place);
    a.grow(4000);
    finish(a);
    for (u64 n = 0; n < 300; ++n) ASSERT_EQ(a.update(n, n + 1), status::updated);
    ASSERT_EQ(::rename(place_.file("t").c_str(), place_.file("elsewhere").c_str()), 0);

    std::vector<u64> keys(300);
    std::iota(keys.begin(), keys.end(), 0U);
    for (const u64 key : keys) {
        ASSERT_EQ(b.find(key), std::nullopt) << key;
        ASSERT_FALSE(b.contains(key)) << key;
        ASSERT_FALSE(d.contains(raw(key))) << key;
    }
    EXPECT_EQ(b.fault(), errc::contended);
    EXPECT_EQ(d.fault(), errc::contended);
    EXPECT_TRUE(b.clear_contended());
    std::vector<std::optional<u64>> values(keys.size(), 1);
    EXPECT_EQ(b.find_many(keys, values), 0U);
    EXPECT_THAT(values, testing::Each(std::nullopt));
    hash_table_entry<u64, u64> entry{};
    EXPECT_EQ(b.entry_at(*place, entry), outcome::contended);
    EXPECT_EQ(b.entry_at(place->slot), std::nullopt);
    EXPECT_EQ(b.place_of(7), std::nullopt);
    EXPECT_EQ(b.size(), 0U);
    EXPECT_EQ(d.size(), 0U);
    EXPECT_TRUE(b.begin() == b.end());
    EXPECT_TRUE(d.begin() == d.end());
    EXPECT_EQ(damage_of(b), "");
    b.set_patience(20ms);
    EXPECT_EQ(b.update(7, 5), status::contended);
    EXPECT_EQ(b.fault(), errc::contended);

    ASSERT_EQ(::rename(place_.file("elsewhere").c_str(), place_.file("t").c_str()), 0);
    EXPECT_EQ(b.fault(), errc::contended) << "asked by a handle that goes over for it";
    EXPECT_TRUE(b.clear_contended());
    EXPECT_EQ(b.find(7), 8U);
    EXPECT_EQ(b.fault(), std::nullopt);
    EXPECT_EQ(b.entry_at(*place, entry), outcome::stale);
    EXPECT_TRUE(d.clear_contended());
    EXPECT_TRUE(d.contains(raw(7)));
    EXPECT_EQ(d.fault(), std::nullopt);
    EXPECT_EQ(b.update(7, 5), status::updated);
    EXPECT_EQ(a.find(7), 5U);
}

// It shares its parent's locks and cannot go anywhere.
TEST_F(HashTableManyGrow, AForkedCopyAnswersNothingOnceTheTableHasGrown) {
    counts a = counts::create(uri(), {.capacity = 1000}), b = counts::attach(uri());
    ASSERT_EQ(a.try_insert(1, 5), status::inserted);
    child_process copy([&](channel& talk) -> std::string {
        if (b.find(1) != 5U) return "it does not read the table";
        talk.signal();
        if (!talk.wait()) return "the test is gone";
        if (b.find(1)) return "it answers from a table that others have left";
        return b.fault() == errc::contended ? "" : "it does not say why";
    });
    ASSERT_TRUE(copy.talk().wait()) << copy.wait().text();
    a.grow(4000);
    finish(a);
    ASSERT_EQ(a.update(1, 9), status::updated);
    copy.talk().signal();
    EXPECT_TRUE(copy.wait().success()) << copy.wait().text();
    EXPECT_EQ(b.find(1), 9U);
}

// All of it was removed by hand and made anew: in that lease the slot is another's.
TEST_F(HashTableManyGrow, AWriterDoesNotFollowTheNameToAnotherLease) {
    const hash_table_options options{.capacity = 1000, .writer_slots = 2};
    std::optional<counts> a = counts::create(uri(), options);
    counts idle = counts::attach(uri());
    ASSERT_EQ(a->try_insert(1, 5), status::inserted);
    a->grow(4000);
    finish(*a);
    a.reset();
    for (const std::string& file : files()) ::unlink(place_.file(file).c_str());
    counts c = counts::create(uri(), options), d = counts::attach(uri());
    ASSERT_EQ(d.writer_slot(), idle.writer_slot());
    idle.set_patience(20ms);
    for (u64 n = 0; n < 10; ++n) {
        EXPECT_EQ(d.try_insert(n, n), status::inserted);
        EXPECT_EQ(idle.insert_or_assign(n + 100, n), status::contended);
        EXPECT_EQ(idle.find(n), std::nullopt);
    }
    EXPECT_EQ(idle.fault(), errc::contended);
    EXPECT_EQ(c.size(), 10U);
    EXPECT_EQ(damage_of(c), "");
}

// A reader on the leader's mapping keeps that and the lease, and not the lead.
TEST_F(HashTableManyGrow, AHandleThatGoesLeavesTheLeadWhoeverReadsItsMapping) {
    for (const bool replaced : {false, true}) {
        SCOPED_TRACE(replaced ? "another handle takes its place" : "it ends");
        for (const std::string& file : files()) ::unlink(place_.file(file).c_str());
        counts b = counts::create(uri(), {.capacity = 1000});
        std::map<u64, u64> model;
        for (u64 n = 0; n < 300; ++n) {
            ASSERT_EQ(b.try_insert(n, n), status::inserted);
            model[n] = n;
        }
        std::optional<counts> a = counts::attach(uri());
        a->grow(4000);
        ASSERT_TRUE(a->advance(3)) << "stripes mirror";
        child_process copy([&]() -> std::string {
            a.reset();
            return {};
        });
        EXPECT_TRUE(copy.wait().success()) << copy.wait().text();
        EXPECT_EQ(refusal_of([&] { b.grow(9000); }), errc::contended) << "the lead went with a forked copy";
        const hash_table_reader<u64, u64> reads = a->make_reader();
        if (replaced)
            *a = counts::create("heap:", {.capacity = 10});
        else
            a.reset();
        finish(b);
        EXPECT_EQ(b.capacity(), 4000U);
        EXPECT_EQ(difference(b, model, 300), "");
        EXPECT_EQ(damage_of(b), "");
        EXPECT_EQ(reads.find(7), 7U);
        if (replaced) {
            EXPECT_EQ(a->try_insert(1, 2), status::inserted);
            EXPECT_EQ(a->find(1), 2U);
        }
    }
}

// In another working folder a relative name is what it was. Where names lead nowhere an operation ends all the same.
TEST_F(HashTableManyGrow, AnOperationEndsWhereverTheNamesLead) {
    for (const bool removed : {false, true}) {
        SCOPED_TRACE(removed ? "removed" : "another working folder");
        for (const std::string& file : files()) ::unlink(place_.file(file).c_str());
        counts a = counts::create(uri(), {.capacity = 1000});
        for (u64 n = 0; n < 100; ++n) (void)a.try_insert(n, n);
        child_process other([&](channel& talk) -> std::string {
            if (::chdir(place_.path().c_str()) != 0) return "no such folder";
            counts mine = counts::attach("file:t");
            if (mine.update(1, 5) != status::updated) return "it is refused";
            if (!removed && ::chdir("/") != 0) return "no root";
            talk.signal();
            if (!talk.wait()) return "the test is gone";
            ::alarm(20);
            for (u64 n = 0; n < 100; ++n)
                if (mine.update(n, n + 1) != status::updated) return "it is refused while the table grows";
            talk.signal();
            if (!talk.wait()) return "the test is gone";
            ::alarm(20);
            mine.set_patience(20ms);
            const hash_table_result last = mine.update(2, 9);
            if (mine.segment().uri() != "file:t") return "it is shown by another name";
            return last == status::updated || (removed && last == status::contended) ? "" : "it does not go over";
        });
        ASSERT_TRUE(other.talk().wait()) << other.wait().text();
        a.grow(4000);
        ASSERT_TRUE(a.advance(3)) << "stripes mirror";
        if (removed)
            for (const std::string& file : files()) ::unlink(place_.file(file).c_str());
        other.talk().signal();
        ASSERT_TRUE(other.talk().wait()) << other.wait().text();
        EXPECT_EQ(a.find(99), 100U) << "the growth is not over, so the table is what it was";
        while (a.advance()) {
        }
        if (!removed) {
            EXPECT_EQ(a.capacity(), 4000U);
        }
        other.talk().signal();
        EXPECT_TRUE(other.wait().success()) << other.wait().text();
    }
}

// A leader that was killed has closed all stripes: whoever takes over and does nothing more holds up nobody.
TEST_F(HashTableManyGrow, WhoMeetsAClosedStripeOpensAllOfThem) {
    constexpr u64 keys = 2000;
    counts a = counts::create(uri(), {.capacity = 100'000}), b = counts::attach(uri());
    ASSERT_GT(a.geometry().stripes, 128U);
    for (u64 n = 0; n < keys; ++n) ASSERT_EQ(a.try_insert(n, n), status::inserted);
    u64 early = 0;
    while (early < keys && home_of(a, early) >= 64) ++early;
    close_all(a, 1);
    ASSERT_EQ(a.update(early, 5), status::updated);
    b.set_patience(50ms);
    for (u64 n = 0; n < keys; ++n) ASSERT_EQ(b.update(n, n), status::updated) << n;
    EXPECT_EQ(damage_of(a), "");
}

// Each closed stripe names a living writer that knows nothing of it: none is to be had, and one is waited for.
TEST_F(HashTableManyGrow, WhoFindsOnlyFalseOwnersAtClosedStripesWaitsForOneOfThem) {
    counts a = counts::create(uri(), {.capacity = 500'000}), b = counts::attach(uri());
    ASSERT_EQ(a.geometry().stripes, layout::stripes_max);
    ASSERT_EQ(a.try_insert(7, 7), status::inserted);
    close_all(a, 1);
    const std::uint32_t owner = b.writer_slot() + 1;
    for (u64 number = 0; number < a.geometry().stripes; ++number)
        std::memcpy(stripe_of(a, number), &owner, sizeof owner);
    a.set_patience(20ms);
    const auto began = std::chrono::steady_clock::now();
    (void)a.advance();
    EXPECT_EQ(a.update(7, 8), status::corrupt);
    EXPECT_LT(std::chrono::steady_clock::now() - began, 4s) << "a fifth of what waiting for each would take";
    EXPECT_EQ(a.find(7), 7U);
}

// The owner was killed while it gave a growth up: in a sticky folder nobody else can take that file away.
TEST_F(HashTableManyGrow, WhoMayNotReplaceTheTableGoesOnWhereTheOwnerLeftIt) {
    if (!is_root() || !can_change_user()) GTEST_SKIP() << "needs: root";
    constexpr uid_t owner = 65534, stranger = 12345;
    ASSERT_EQ(::chmod(place_.path().c_str(), 01777), 0);
    hash_table_options options{.capacity = 1000};
    options.segment.mode = 0666;
    counts c = counts::create(uri(), options);
    for (u64 n = 0; n < 100; ++n) (void)c.try_insert(n, n);
    child_process leader = one_that_leads(4000, 10);
    (void)leader.kill();
    for (const std::string& file : files()) ASSERT_EQ(::chown(place_.file(file).c_str(), owner, owner), 0) << file;
    mark_what_was_announced();
    close_all(c, holdfast::detail::growth_of(stripe_of(c, 0)).tag());
    child_process other([&]() -> std::string {
        if (::setresgid(stranger, stranger, stranger) != 0 || ::setresuid(stranger, stranger, stranger) != 0)
            return "cannot become another user";
        attach_options how;
        how.trust.owner = owner;
        counts mine = counts::attach(uri(), how);
        mine.set_patience(50ms);
        for (u64 n = 0; n < 100; ++n)
            if (mine.update(n, n + 1) != status::updated) return "it is refused";
        return {};
    });
    EXPECT_TRUE(other.wait().success()) << other.wait().text();
    EXPECT_THAT(files(), testing::Contains("t.growing"));
    EXPECT_EQ(c.find(99), 100U);
    while (c.advance()) {
    }
    EXPECT_EQ(c.capacity(), 1000U);
    EXPECT_THAT(files(), testing::UnorderedElementsAre("t", "t.lease"));
}

// A stripe lost its word, and an update was not mirrored. The closing that should find that meets a slow writer first.
TEST_F(HashTableManyGrow, AStripeThatStoppedMirroringIsFoundByALaterClosingToo) {
    using one_of_many = holdfast::detail::many_table<holdfast::detail::fixed_node<u64, u64>>;
    counts slow = counts::create(uri(), {.capacity = 10'000});
    for (u64 n = 0; n < 1000; ++n) ASSERT_EQ(slow.try_insert(n, n), status::inserted);
    one_of_many leader;
    (void)leader.join(std::make_shared<segment>(segment::attach(uri(), access::read_write)), {}, {}, 0);
    leader.grow(20'000);
    while (leader.carried_slots() < leader.geometry().slots()) ASSERT_TRUE(leader.advance(1));
    u64 key = 0;
    for (u64 n = 1; n < 1000; ++n)
        if (home_of(slow, n) > home_of(slow, key)) key = n;
    const u64 last = home_of(slow, key);
    ASSERT_GT(last, 0U);
    holdfast::detail::set_growth_of(stripe_of(slow, last), {});
    ASSERT_EQ(slow.update(key, 7777), status::updated);
    const std::span<std::byte> body(const_cast<std::byte*>(slow.segment().bytes().data()),
                                    slow.segment().bytes().size());
    const one_of_many::view view = one_of_many::view(body, slow.geometry(), {}).as_writer(slow.writer_slot());
    holdfast::detail::store_release<u64>(view.journal + layout::journal_held_offset, 1);
    ASSERT_TRUE(holdfast::detail::try_take_stripe(view.stripe(0), slow.writer_slot()));
    ASSERT_TRUE(leader.advance(1));
    holdfast::detail::give_back_stripe(view.stripe(0));
    while (leader.advance(64)) {
    }
    ASSERT_TRUE(leader.growth_failure().has_value());
    EXPECT_EQ(leader.growth_failure()->reason(), errc::no_space);
    EXPECT_EQ(slow.capacity(), 10'000U);
    EXPECT_EQ(slow.find(key), 7777U);
    EXPECT_EQ(damage_of(slow), "");
}

// What somebody has given up is not the table's next generation, whoever leads.
TEST_F(HashTableManyGrow, WhatAnotherHasGivenUpNeverTakesTheName) {
    counts a = counts::create(uri(), {.capacity = 1000});
    for (u64 n = 0; n < 100; ++n) (void)a.try_insert(n, n);
    a.grow(4000);
    ASSERT_TRUE(a.advance(3));
    mark_what_was_announced();
    while (a.advance()) {
    }
    ASSERT_TRUE(a.growth_failure());
    EXPECT_EQ(a.growth_failure()->reason(), errc::not_found);
    EXPECT_EQ(a.capacity(), 1000U);
    EXPECT_EQ(a.update(1, 5), status::updated);
    EXPECT_FALSE(a.segment().moved());
    EXPECT_THAT(files(), testing::UnorderedElementsAre("t", "t.lease"));
    EXPECT_EQ(damage_of(a), "");
}

// Killed on a closed stripe, which nobody needed any more; its slot is another's since.
TEST_F(HashTableManyGrow, AStripeOfTheOldGenerationIsNotWaitedFor) {
    counts a = counts::create(uri(), {.capacity = 1000}), b = counts::attach(uri());
    for (u64 n = 0; n < 100; ++n) (void)a.try_insert(n, n);
    a.set_patience(20ms);  // now: it would go over behind the commit
    const std::span<std::byte> body(const_cast<std::byte*>(a.segment().bytes().data()), a.segment().bytes().size());
    const holdfast::detail::table_view<std::byte, holdfast::detail::fixed_node<u64, u64>> old(body, a.geometry(), {});
    const u64 home = home_of(a, 1);
    b.grow(4000);
    finish(b);
    holdfast::detail::store_release<u64>(old.journal_at(2) + layout::journal_held_offset, home + 1);
    holdfast::detail::store_release<std::uint32_t>(old.stripe(home) + layout::stripe_owner_offset, 3);
    const counts n = counts::attach(uri());
    ASSERT_EQ(n.writer_slot(), 2U);
    EXPECT_EQ(a.update(1, 9), status::updated);
    EXPECT_EQ(a.capacity(), 4000U);
    EXPECT_EQ(b.find(1), 9U);
}

// Who cannot take the lead, as one that may not replace the table cannot, learns of a growth's end all the same.
TEST_F(HashTableManyGrow, WhoDoesNotLeadLetsGoOfWhatWasGivenUp) {
    counts a = counts::create(uri(), {.capacity = 1000}), b = counts::attach(uri());
    for (u64 n = 0; n < 100; ++n) (void)a.try_insert(n, n);
    const auto mapped = [&] {
        std::ifstream maps("/proc/self/maps");
        std::string line;
        int files_of_it = 0;
        while (std::getline(maps, line)) files_of_it += line.find(place_.path()) != std::string::npos ? 1 : 0;
        return files_of_it;
    };
    const int before = mapped();
    ASSERT_GT(before, 0);
    a.grow(4000);
    ASSERT_TRUE(a.advance(3));
    ASSERT_EQ(b.update(1, 5), status::updated);
    EXPECT_TRUE(b.growing());
    EXPECT_FALSE(b.advance(64)) << "another leads";
    EXPECT_TRUE(b.growing());
    a.stop_growing();
    const memory::descriptor lease = memory::open_at(AT_FDCWD, place_.file("t.lease").c_str(), O_RDWR);
    constexpr auto lead = static_cast<std::uint32_t>(layout::writer_slots_max);
    ASSERT_TRUE(memory::try_lock(lease.get(), memory::lock_mode::exclusive, holdfast::detail::writer_slot_byte(lead)));
    EXPECT_FALSE(b.advance(64));
    EXPECT_FALSE(b.growing());
    EXPECT_EQ(mapped(), before) << "the next generation's memory is not let go";
    EXPECT_EQ(b.update(1, 6), status::updated);
    EXPECT_EQ(a.find(1), 6U);
}

// What a killed leader left of a segment that is gone has another's capacity and another's rights.
TEST_F(HashTableManyGrow, AGrowthOfAnotherSegmentOfTheNameIsNotGoneOnWith) {
    hash_table_options options{.capacity = 1000};
    options.segment.mode = 0644;
    (void)counts::create(uri(), options);
    child_process leader = one_that_leads(4000, 3);
    (void)leader.kill();
    ASSERT_THAT(files(), testing::UnorderedElementsAre("t", "t.lease", "t.growing"));
    ::unlink(place_.file("t").c_str());
    options.segment.mode = 0600;
    counts c = counts::create(uri(), options);
    ASSERT_EQ(c.try_insert(1, 1), status::inserted);
    EXPECT_FALSE(c.growing());
    while (c.advance()) {
    }
    EXPECT_EQ(c.capacity(), 1000U);
    EXPECT_EQ(c.find(1), 1U);
    EXPECT_THAT(files(), testing::UnorderedElementsAre("t", "t.lease"));
    for (const std::string& file : files()) {
        struct stat seen{};
        ASSERT_EQ(::stat(place_.file(file).c_str(), &seen), 0);
        EXPECT_EQ(seen.st_mode & 0777U, 0600U) << file;
    }
}

// A closed stripe says nothing of who has the name: its dead owner is settled in the next generation by writers there.
TEST(HashTableManyGrowth, WhoDiedOnAClosedStripeIsLeftAloneInTheNextGeneration) {
    using pair = growing_many_writer<narrow_shape>;
    const pair::room where{many_geometry_for<u64, u64>(1000, 4), many_geometry_for<u64, u64>(2000, 4)};
    aligned_bytes bytes(where.bytes());
    writer_roll roll;
    pair living(bytes.bytes(), where, roll, 1, true);
    const u64 home = living.home_of(1);
    std::byte* const here = living.old().bytes().stripe(home);
    std::byte* const there = living.next().bytes().stripe(0);
    holdfast::detail::set_growth_of(here, pair::growth::of(pair::tag, pair::growth::closed));
    for (const auto& [view, stripe] : {std::pair{living.old().bytes(), home}, {living.next().bytes(), u64{0}}}) {
        holdfast::detail::store_release<u64>(view.journal_at(0) + layout::journal_held_offset, stripe + 1);
        holdfast::detail::store_release<std::uint32_t>(view.stripe(stripe) + layout::stripe_owner_offset, 1);
    }
    roll.die(0);
    EXPECT_EQ(living.turn(home, pair::growth::closed), outcome::ok);
    EXPECT_EQ(holdfast::detail::stripe_owner(here), 0U);
    EXPECT_EQ(holdfast::detail::stripe_owner(there), 1U);
    // While it mirrors that generation is nobody's truth yet.
    holdfast::detail::set_growth_of(here, pair::growth::of(pair::tag, pair::growth::mirrors));
    holdfast::detail::store_release<std::uint32_t>(here + layout::stripe_owner_offset, 1);
    EXPECT_EQ(living.turn(home, pair::growth::mirrors), outcome::ok);
    EXPECT_EQ(holdfast::detail::stripe_owner(there), 0U);
}

// Damage of what only many writers have, over plain bytes.
class HashTableManyDamage : public ::testing::Test {
 protected:
    using writer = many_writer<narrow_shape>;
    layout::hash_table_geometry geometry_ = many_geometry_for<u64, u64>(1000, 4);
    aligned_bytes bytes_{geometry_.body_bytes()};
    writer_roll roll_{2};
    writer first_{bytes_.bytes(), geometry_, roll_, 0}, second_{bytes_.bytes(), geometry_, roll_, 1};
    const u64 key_ = nth_key<narrow_shape>(1);
    std::byte* stripe_of_key() {
        const auto& v = first_.bytes();
        return v.stripe(v.stripe_of(v.hash(reinterpret_cast<const std::byte*>(&key_)).home(v.buckets)));
    }
    void own(std::uint32_t owner) {
        holdfast::detail::store_release<std::uint32_t>(stripe_of_key() + layout::stripe_owner_offset, owner);
    }
};

TEST_F(HashTableManyDamage, AnOwnerThatIsNoneIsFoundAndRefused) {
    own(5);
    EXPECT_THAT(first_.damage(), testing::HasSubstr("owner"));
    EXPECT_EQ(first_.try_insert(key_, 1), status::corrupt);
    EXPECT_EQ(first_.reader().fault(), errc::corrupt);
}

TEST_F(HashTableManyDamage, AnOwnerThatIsDeadAndKnowsNothingIsReplaced) {
    own(3 + 1);
    EXPECT_THAT(first_.damage(), testing::HasSubstr("owner"));
    EXPECT_EQ(first_.try_insert(key_, 1), status::inserted);
    own(0 + 1);  // itself
    EXPECT_EQ(first_.erase(key_), status::erased);
    EXPECT_EQ(first_.damage(), "");
}

TEST_F(HashTableManyDamage, AnOwnerThatLivesAndDoesNotKnowOfItIsNoContention) {
    const auto stripe_of = [&](u64 key) {
        const auto& v = first_.bytes();
        return v.stripe_of(v.hash(reinterpret_cast<const std::byte*>(&key)).home(v.buckets));
    };
    u64 n = 2;
    while (stripe_of(nth_key<narrow_shape>(n)) == stripe_of(key_)) ++n;
    ASSERT_EQ(second_.try_insert(nth_key<narrow_shape>(n), 1), status::inserted);  // its journal names that stripe
    own(1 + 1);
    EXPECT_THAT(first_.damage(), testing::HasSubstr("owner"));
    first_.core().locks() = rolled_locks(roll_, 0, 3);  // little patience
    EXPECT_EQ(first_.try_insert(key_, 1), status::corrupt);
    EXPECT_EQ(first_.reader().fault(), errc::corrupt);
    EXPECT_FALSE(first_.core().blocked_by()) << "an innocent is accused";
    EXPECT_EQ(second_.try_insert(key_, 1), status::inserted) << "who is named finds that it is not so";
    EXPECT_EQ(first_.damage(), "");
}

TEST_F(HashTableManyDamage, AJournalThatNamesWhatIsNotItsOwnChangesNothing) {
    ASSERT_EQ(first_.try_insert(key_, 1), status::inserted);
    const std::vector<std::byte> before(bytes_.bytes().begin(), bytes_.bytes().end());
    const auto slot = first_.reader().find(reinterpret_cast<const std::byte*>(&key_), nullptr);
    std::byte* journal = first_.bytes().journal_at(3);
    for (const u64 named : {slot, geometry_.slots() + 5}) {
        const holdfast::detail::hash_table_intent open =
            holdfast::detail::hash_table_intent{}.next(holdfast::detail::hash_table_intent::erase, named, 0);
        holdfast::detail::store_release<u64>(journal + layout::journal_intent_offset, open.word);
        EXPECT_NE(first_.damage(), "");
        const writer fourth(bytes_.bytes(), geometry_, roll_, 3);
        EXPECT_TRUE(fourth.recovery().journal_rejected);
        EXPECT_EQ(first_.damage(), "");
        EXPECT_EQ(
            std::memcmp(before.data() + geometry_.digests_offset, bytes_.bytes().data() + geometry_.digests_offset,
                        before.size() - geometry_.digests_offset),
            0);
    }
    holdfast::detail::store_release<u64>(journal + layout::journal_sequence_offset, 1);
    EXPECT_NE(first_.damage(), "");
    EXPECT_TRUE(writer(bytes_.bytes(), geometry_, roll_, 3).recovery().journal_rejected);
    EXPECT_EQ(first_.damage(), "");
}

TEST_F(HashTableManyDamage, EveryFlippedBitOfAStripeIsFoundOrHarmless) {
    ASSERT_EQ(first_.try_insert(key_, 1), status::inserted);
    for (unsigned bit = 0; bit < 8 * layout::stripe_bytes; ++bit) {
        std::byte& byte = stripe_of_key()[bit / 8];
        byte ^= std::byte{1} << (bit % 8);
        // Bit 0 names the writer that held it last, whose journal still says so: it could be in an operation.
        EXPECT_EQ(first_.damage().empty(), bit == 0 || bit >= 32) << bit;
        const auto growth = holdfast::detail::growth_of(stripe_of_key());
        if (growth.tag() != 0) {  // a growth that nobody knows of, until the writer has been told
            EXPECT_EQ(first_.update(key_, bit), status::contended);
            EXPECT_EQ(first_.core().met(), growth);
            first_.core().abandon(growth.tag());
        }
        if (growth.what() == holdfast::detail::stripe_growth::closed) {
            EXPECT_EQ(first_.update(key_, bit), status::contended);
            holdfast::detail::set_growth_of(stripe_of_key(), {});
        }
        if (bit == 0 || bit >= 32) {
            EXPECT_EQ(first_.update(key_, bit), status::updated);
            EXPECT_EQ(holdfast::detail::growth_of(stripe_of_key()).word, 0U);
        }
        byte = bit / 8 < 4 ? std::byte{0} : byte;
        EXPECT_EQ(first_.damage(), "");
    }
}

}  // namespace
