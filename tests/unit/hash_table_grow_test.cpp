// SPDX-License-Identifier: Apache-2.0
#include "holdfast/hash_table/growing.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "holdfast/hash_table/dynamic.hpp"
#include "support/capability.hpp"
#include "support/process.hpp"
#include "support/scale.hpp"
#include "support/segment_tools.hpp"
#include "support/system_call_faults.hpp"
#include "support/table_answer.hpp"
#include "support/unique_name.hpp"

namespace {

using namespace holdfast;
using namespace holdfast::test;
using ::testing::UnorderedElementsAre;
using u64 = std::uint64_t;
using status = holdfast::test::table_answer;
using table = growing_hash_table<u64, u64>;
using reader = growing_hash_table_reader<u64, u64>;
using wide_value = std::array<u64, 5>;
using wide = growing_hash_table<u64, wide_value>;

class HashTableGrow : public segment_test {
 protected:
    [[nodiscard]] std::string uri() const { return place_.file_uri("t"); }
    [[nodiscard]] std::vector<std::string> files() const { return place_.entries(); }
    static void fill(table& t, u64 count) {
        for (u64 n = 0; n < count; ++n) ASSERT_EQ(t.try_insert(n, n * n), status::inserted);
    }
    static void finish(table& t) {
        while (t.advance()) {
        }
        EXPECT_FALSE(t.growth_failure().has_value()) << t.growth_failure()->what();
    }
    unique_directory place_{"grow"};
};

template <class Table>
std::string damage_of(const Table& of) {
    std::string text;
    const hash_table_verification seen = of.verify([&](const hash_table_finding& f) {
        text += std::string(describe(f.what)) + "; ";
        return true;
    });
    return seen.busy == 0 ? text : text + "busy";
}

template <class Table>
std::string difference(Table& from, const std::map<u64, u64>& model, u64 keys) {
    for (u64 n = 0; n < keys; ++n) {
        const auto found = from.find(n);
        const auto wanted = model.find(n);
        if (found.has_value() != (wanted != model.end()))
            return "key " + std::to_string(n) + (found ? " came" : " went");
        if (found && *found != wanted->second) return "key " + std::to_string(n) + " has another value";
    }
    return from.size() == model.size() ? "" : "the size is " + std::to_string(from.size());
}

TEST_F(HashTableGrow, GrownTableHoldsEveryEntryUnderTheName) {
    const unique_posix_name posix("grow");
    for (const std::string& name : {uri(), posix.uri()}) {
        std::optional<table> t = table::create(name, {.capacity = 1000});
        fill(*t, 1000);
        const u64 slots = t->slots(), epoch = t->segment().epoch();
        t->grow(5000);
        EXPECT_TRUE(t->growing());
        EXPECT_EQ(t->capacity(), 1000U);
        finish(*t);
        EXPECT_EQ(t->capacity(), 5000U);
        EXPECT_GT(t->slots(), slots);
        EXPECT_EQ(t->size(), 1000U);
        EXPECT_EQ(t->segment().epoch(), epoch);
        for (u64 n = 0; n < 1000; ++n) ASSERT_EQ(t->find(n), n * n);
        EXPECT_EQ(damage_of(*t), "");
        EXPECT_EQ(t->fault(), std::nullopt);
        for (u64 n = 1000; n < 5000; ++n) ASSERT_EQ(t->try_insert(n, n), status::inserted);
        // Whoever comes by name comes to the new one; the lease is where it was, and held.
        EXPECT_EQ((hash_table_reader<u64, u64>::attach(name).size()), 5000U);
        EXPECT_EQ(refusal_of([&] { (void)table::attach(name); }), errc::writer_alive);
        t.reset();
        const table next = table::attach(name);
        EXPECT_EQ(next.size(), 5000U);
        EXPECT_EQ(next.segment().epoch(), epoch + 1);
    }
    EXPECT_THAT(files(), UnorderedElementsAre("t", "t.lease"));
    EXPECT_EQ(posix.entries().size(), 2U);
}

TEST_F(HashTableGrow, ShrunkTableHoldsEveryEntryInLessMemory) {
    table t = table::create(uri(), {.capacity = 20'000});
    fill(t, 300);
    const u64 before = t.segment().info().total_bytes;
    t.grow(300);
    finish(t);
    EXPECT_EQ(t.capacity(), 300U);
    EXPECT_LT(t.segment().info().total_bytes * 20, before);
    for (u64 n = 0; n < 300; ++n) ASSERT_EQ(t.find(n), n * n);
    EXPECT_EQ(damage_of(t), "");
    struct stat file{};
    ASSERT_EQ(::stat(place_.file("t").c_str(), &file), 0);
    EXPECT_EQ(static_cast<u64>(file.st_size), t.segment().info().total_bytes);
    EXPECT_GE(static_cast<u64>(file.st_blocks) * 512, t.segment().info().total_bytes) << "pages are not reserved";
}

// Each operation beside a model, while the table grows and shrinks all the time: G1 at every position of the cursor.
TEST_F(HashTableGrow, OperationsGoOnDuringGrowthAndShrinking) {
    constexpr u64 keys = 3000;
    const u64 seed = choose_seed();
    SCOPED_TRACE("HOLDFAST_TEST_SEED=" + std::to_string(seed));
    table t = table::create(uri(), {.capacity = keys});
    reader r = reader::attach(uri());
    std::map<u64, u64> model;
    u64 generations = 0;
    for (u64 i = 0; i < 60'000; ++i) {
        if (!t.growing()) {
            ASSERT_FALSE(t.growth_failure().has_value()) << t.growth_failure()->what();
            if (i != 0) {
                ++generations;
                ASSERT_EQ(difference(t, model, keys), "") << "at " << i;
                ASSERT_EQ(damage_of(t), "") << "at " << i;
            }
            t.grow(keys + random_at(seed, 1, i) % (3 * keys));
        }
        const u64 random = random_at(seed, 0, i), key = (random >> 8) % keys;
        const bool there = model.contains(key);
        switch (random % 5) {
            case 0: ASSERT_EQ(t.try_insert(key, i), there ? status::exists : status::inserted); break;
            case 1: ASSERT_EQ(t.insert_or_assign(key, i), there ? status::updated : status::inserted); break;
            case 2: ASSERT_EQ(t.update(key, i), there ? status::updated : status::not_found); break;
            case 3:
                ASSERT_EQ(t.modify(key, [&](u64& v) { v = i; }), there ? status::updated : status::not_found);
                break;
            default:
                if (i % 2 == 0) {
                    ASSERT_EQ(t.erase(key), there ? status::erased : status::not_found);
                } else {
                    ASSERT_EQ(t.compare_and_erase(key, ~u64{0}), there ? status::stale : status::not_found);
                    ASSERT_EQ(t.compare_and_erase(key, there ? model[key] : 0),
                              there ? status::erased : status::not_found);
                }
        }
        if (random % 5 == 4)
            model.erase(key);
        else if (random % 5 == 1 || there == (random % 5 != 0))
            model[key] = i;
        const auto found = r.find(key);
        ASSERT_EQ(found.has_value(), model.contains(key)) << "at " << i;
        if (found) {
            ASSERT_EQ(*found, model[key]) << "at " << i;
        }
    }
    EXPECT_GT(generations, 50U);
    finish(t);
    EXPECT_EQ(difference(t, model, keys), "");
    EXPECT_EQ(difference(r, model, keys), "");
    EXPECT_EQ(r.fault(), std::nullopt);
    EXPECT_THAT(files(), UnorderedElementsAre("t", "t.lease"));
}

// G1 where it is tight: on the slot that was copied last, and on the one that comes next.
TEST_F(HashTableGrow, AnAnswersSlotIsOneOfTheTableThatIsThereThen) {
    table t = table::create(uri(), {.capacity = 100});
    fill(t, 100);
    t.grow(1000);
    for (u64 n = 0; t.growing(); ++n) {
        const u64 key = n % 100;
        const hash_table_result done = n % 3 == 0   ? t.insert_or_assign(key, n)
                                       : n % 3 == 1 ? t.update(key, n)
                                                    : t.try_insert(key, n);
        ASSERT_TRUE(done.slot.has_value());
        const auto entry = t.entry_at(*done.slot);
        ASSERT_TRUE(entry.has_value()) << "operation " << n;
        ASSERT_EQ(entry->key, key) << "operation " << n;
    }
    EXPECT_EQ(t.capacity(), 1000U);
}

TEST_F(HashTableGrow, OperationsAtTheCursorAreDoneInBothTablesOrWillBeCopied) {
    auto t = hash_table<u64, u64>::create(uri(), {.capacity = 1000});
    std::map<u64, u64> model;
    for (u64 n = 0; n < 950; ++n) {
        ASSERT_EQ(t.try_insert(n, n), status::inserted);
        model[n] = n;
    }
    detail::table_growth<hash_table<u64, u64>> growth(t, 3000);
    u64 changes = 0, before = 0;
    while (!growth.advance(t)) {
        const u64 cursor = growth.copied_slots();
        EXPECT_LE(cursor - before, 26U) << "more than a bucket in one step";
        before = cursor;
        for (const u64 slot : {cursor - 1, cursor}) {
            const auto entry = t.entry_at(static_cast<hash_table_slot>(slot));  // any number may be asked for
            if (!entry) continue;
            ++changes;
            const u64 key = entry->key, value = entry->value + 1000;
            if (cursor / 26 % 2 == 0) {
                ASSERT_EQ(t.erase(key), status::erased);
                growth.erased(slot, detail::bytes_of(key));
                model.erase(key);
            } else {
                ASSERT_EQ(t.update(key, value), status::updated);
                growth.inserted_or_updated(slot, detail::bytes_of(key), detail::bytes_of(value));
                model[key] = value;
            }
        }
    }
    EXPECT_GT(changes, 40U);
    EXPECT_EQ(difference(t, model, 1000), "");
    EXPECT_EQ(damage_of(t), "");
}

TEST_F(HashTableGrow, WideAndLargeValuesAreMovedWhole) {
    wide t = wide::create(uri(), {.capacity = 500});
    for (u64 n = 0; n < 400; ++n) ASSERT_EQ(t.try_insert(n, {n, n + 1, n + 2, n + 3, n + 4}), status::inserted);
    t.grow(900);
    for (u64 n = 0; t.growing(); n = (n + 1) % 400) ASSERT_EQ(t.update(n, {n, 1, 2, 3, n}), status::updated);
    for (u64 n = 0; n < 400; ++n) {
        const auto found = t.find(n);
        ASSERT_TRUE(found.has_value());
        ASSERT_TRUE((*found == wide_value{n, 1, 2, 3, n} || *found == wide_value{n, n + 1, n + 2, n + 3, n + 4}));
    }
    EXPECT_EQ(damage_of(t), "");

    using page = std::array<u64, 1024>;  // two to a step
    auto large = growing_hash_table<u64, page>::create(place_.file_uri("large"), {.capacity = 60});
    page value{};
    for (u64 n = 0; n < 60; ++n) {
        value.fill(n);
        ASSERT_EQ(large.try_insert(n, value), status::inserted);
    }
    {
        auto same = hash_table<u64, page>::create(place_.file_uri("same"), {.capacity = 60});
        for (u64 n = 0; n < 60; ++n) ASSERT_EQ(same.try_insert(n, value), status::inserted);
        detail::table_growth<hash_table<u64, page>> growth(same, 100);
        std::set<hash_table_slot> left;
        for (const auto& entry : same) left.insert(entry.slot);
        while (!growth.advance(same)) {
            const auto at = left.lower_bound(hash_table_slot{growth.copied_slots()});
            EXPECT_LE(std::distance(left.begin(), at), 2) << "more than 16 KiB in one step";
            left.erase(left.begin(), at);
        }
        EXPECT_TRUE(left.empty());
    }
    large.grow(100);  // the checksum of its region is summed in pieces, and changed meanwhile
    for (u64 n = 0; large.growing(); n = (n + 7) % 60) {
        value.fill(n + 1000);
        ASSERT_EQ(large.update(n, value), status::updated);
    }
    EXPECT_EQ(large.capacity(), 100U);
    for (u64 n = 0; n < 60; ++n) {
        value.fill((*large.find(n))[0]);
        ASSERT_EQ(large.find(n), value);
        ASSERT_EQ(value[0] % 1000, n);
    }
    EXPECT_EQ(damage_of(large), "");
}

// What the writer asked of its pages holds for each generation, whether it made the table or attached to it.
TEST_F(HashTableGrow, WhatWasAskedOfThePagesIsAskedOfLaterGenerations) {
    if (sanitized) GTEST_SKIP() << "needs: a build without sanitizers, which turn mlock into nothing";
    const unique_posix_name name("grow");
    (void)table::create(name.uri(), {.capacity = 1000});
    attach_options options;
    options.pages = {.prefault = true, .lock = true};
    table t = table::attach(name.uri(), options);
    fill(t, 500);
    for (const u64 capacity : {u64{100'000}, u64{2000}, u64{50'000}}) {
        t.grow(capacity);
        finish(t);
        const memory::page_report pages = t.segment().pages();
        EXPECT_GE(pages.locked_bytes, t.segment().info().total_bytes) << capacity;
        EXPECT_GE(pages.resident_bytes, t.segment().info().total_bytes) << capacity;
    }
    table plain = table::create(uri(), {.capacity = 100});
    plain.grow(100'000);
    finish(plain);
    EXPECT_EQ(plain.segment().pages().locked_bytes, 0U);
}

TEST_F(HashTableGrow, PagesThatMayNotBeLockedEndTheGrowthAndTheTableStays) {
    if (sanitized) GTEST_SKIP() << "needs: a build without sanitizers, which turn mlock into nothing";
    if (!can_change_user()) GTEST_SKIP() << "needs: becoming another user, who has a limit";
    const unique_posix_name name("grow");
    child_process limited([&]() -> std::string {
        if (::setresuid(65534, 65534, 65534) != 0) return "cannot become another user";
        const rlimit little{256 << 10, 256 << 10};
        if (::setrlimit(RLIMIT_MEMLOCK, &little) != 0) return "the limit cannot be set";
        hash_table_options options{.capacity = 1000};
        options.segment.pages.lock = true;
        table t = table::create(name.uri(), options);
        fill(t, 1000);
        t.grow(100'000);
        while (t.advance()) {
        }
        if (!t.growth_failure() || t.growth_failure()->reason() != errc::no_permission) return "not given up";
        if (std::string(t.growth_failure()->what()).find("ulimit -l") == std::string::npos) return "names no cure";
        return t.capacity() == 1000 && t.find(999) == 999U * 999U && damage_of(t).empty() ? ""
                                                                                          : "the table has changed";
    });
    const auto end = limited.wait();
    EXPECT_TRUE(end.success()) << end.text();
}

TEST_F(HashTableGrow, HugePagesAreAskedForAgain) {
    const unique_posix_name name("grow");
    hash_table_options options{.capacity = 300'000};  // some 6 MiB
    options.segment.pages.huge = true;
    table t = table::create(name.uri(), options);
    if (t.segment().pages().huge_bytes == 0) GTEST_SKIP() << "needs: huge pages of files in /dev/shm (MADV_COLLAPSE)";
    fill(t, 1000);
    t.grow(500'000);
    finish(t);
    const u64 whole = t.segment().info().total_bytes / memory::huge_page_bytes * memory::huge_page_bytes;
    EXPECT_GE(t.segment().pages().huge_bytes + memory::huge_page_bytes,
              whole);  // the first is in use while it is asked
    for (u64 n = 0; n < 1000; ++n) ASSERT_EQ(t.find(n), n * n);
    EXPECT_EQ(damage_of(t), "");
}

// Behind the commit the old table leaves the writer's memory piece by piece, and nobody else's.
TEST_F(HashTableGrow, TheOldTableIsLetGoOfInPieces) {
    const unique_posix_name name("grow");
    attach_options locked;
    locked.pages.lock = true;
    for (const attach_options& options : {attach_options{}, locked}) {
        if (options.pages.lock && !is_root()) continue;  // more than others may lock
        {
            table made = table::create(name.uri(), {.capacity = 200'000});
        }
        table t = table::attach(name.uri(), options);
        for (u64 n = 0; n < 200'000; ++n) ASSERT_EQ(t.try_insert(n, n * n), status::inserted);
        const auto old = hash_table_reader<u64, u64>::attach(name.uri());
        const std::byte* const memory = t.segment().bytes().data() - header_bytes;
        const auto mapped = [&] { return memory::report_pages(memory).resident_bytes; };
        t.grow(1000'000);
        while (t.capacity() == 200'000) (void)t.advance();
        u64 before = mapped(), steps = 1;
        EXPECT_GT(before, u64{3} << 20);
        for (; t.growing(); ++steps) {
            (void)t.insert_or_assign(steps, steps * steps);
            const u64 now = t.growing() ? mapped() : 0;
            if (t.growing()) {
                EXPECT_LE(before - now, u64{512} << 10);
                EXPECT_LT(now, before);
            } else {
                EXPECT_LE(before, (u64{512} << 10) + header_bytes) << "too much was left for the last step";
            }
            before = now;
        }
        EXPECT_GT(steps, 6U);
        EXPECT_FALSE(t.growth_failure());
        for (u64 n = 0; n < 200'000; ++n) {
            ASSERT_EQ(old.find(n), n * n) << "a reader lost what the writer let go of";
            ASSERT_EQ(t.find(n), n * n);
        }
        EXPECT_EQ(damage_of(t), "");
        t = table::create("heap:", {.capacity = 1});
        segment::remove(name.uri());
    }
}

// While a reader of this process keeps the old mapping, nothing of it is let go of; and a growth that is stopped behind
// its commit has happened.
TEST_F(HashTableGrow, AnOldTableThatIsReadHereIsKept) {
    auto t = hash_table<u64, u64>::create(uri(), {.capacity = 100'000});
    for (u64 n = 0; n < 100'000; ++n) (void)t.try_insert(n, n);
    const auto beside = t.make_reader();
    const std::byte* const memory = t.segment().bytes().data() - header_bytes;
    {
        detail::table_growth<hash_table<u64, u64>> growth(t, 200'000);
        while (!growth.committed()) (void)growth.advance(t);
        EXPECT_TRUE(growth.advance(t));
        EXPECT_GT(memory::report_pages(memory).resident_bytes, u64{1} << 20);
    }
    for (u64 n = 0; n < 100'000; ++n) ASSERT_EQ(beside.find(n), n);
    table g = table::create(place_.file_uri("other"), {.capacity = 100'000});
    for (u64 n = 0; n < 100'000; ++n) (void)g.try_insert(n, n);
    g.grow(200'000);
    while (g.capacity() == 100'000) (void)g.advance();
    ASSERT_TRUE(g.growing());
    g.stop_growing();
    EXPECT_EQ(g.capacity(), 200'000U);
    EXPECT_EQ(g.size(), 100'000U);
    g.grow(300'000);
    finish(g);
    EXPECT_EQ(g.capacity(), 300'000U);
}

TEST_F(HashTableGrow, ReaderFollowsToTheNewGeneration) {
    table t = table::create(uri(), {.capacity = 100});
    fill(t, 50);
    reader r = reader::attach(uri());
    const auto plain = hash_table_reader<u64, u64>::attach(uri());
    EXPECT_EQ(r.find(7), 49U);
    t.grow(1000);
    EXPECT_FALSE(plain.segment().moved());
    finish(t);
    EXPECT_TRUE(plain.segment().moved());
    EXPECT_TRUE(plain.segment().replaced());
    EXPECT_EQ(t.update(7, 1), status::updated);
    EXPECT_EQ(t.erase(8), status::erased);
    EXPECT_EQ(t.try_insert(500, 5), status::inserted);
    // A hit, a miss and a batch: none is older than the question.
    reader other = r, third = r;
    EXPECT_EQ(r.find(7), 1U);
    EXPECT_FALSE(other.contains(8));
    const std::vector<u64> keys = {7, 8, 9, 500};
    std::vector<std::optional<u64>> values(4);
    EXPECT_EQ(third.find_many(keys, values), 3U);
    EXPECT_EQ(values, (std::vector<std::optional<u64>>{1, std::nullopt, 81, 5}));
    EXPECT_EQ(r.size(), 50U);
    EXPECT_EQ(r.capacity(), 1000U);
    EXPECT_EQ(r.fault(), std::nullopt);
    u64 entries = 0;
    for ([[maybe_unused]] const auto& entry : r.current()) ++entries;
    EXPECT_EQ(entries, 50U);
    // A plain reader goes on over the old generation as it was.
    EXPECT_EQ(plain.find(7), 49U);
    EXPECT_EQ(plain.find(500), std::nullopt);
    EXPECT_EQ(damage_of(plain), "");
}

// A name is a place, whatever the working folder becomes.
TEST_F(HashTableGrow, AReaderFollowsFromAnotherWorkingFolder) {
    table t = table::create(uri(), {.capacity = 100});
    fill(t, 50);
    child_process child([&](channel& parent) -> std::string {
        if (::chdir(place_.path().c_str()) != 0) return "no such folder";
        reader r = reader::attach("file:t");
        if (::chdir("/") != 0) return "no root";
        if (r.find(7) != 49U) return "an entry is not found";
        parent.send(true);
        if (!parent.receive<bool>()) return "the parent is gone";
        if (r.find(7) != 1U) return "the next generation is not found";
        return r.fault() ? "a fault" : "";
    });
    EXPECT_TRUE(child.talk().receive<bool>());
    t.grow(1000);
    finish(t);
    EXPECT_EQ(t.update(7, 1), status::updated);
    child.talk().send(true);
    EXPECT_TRUE(child.wait().success()) << child.wait().text();
}

// fault() is of the handle, and tells the first that it met.
TEST_F(HashTableGrow, WhatAHandleMetIsToldInLaterGenerations) {
    table t = table::create(uri(), {.capacity = 1000});
    fill(t, 900);
    reader r = reader::attach(uri());
    std::fstream file(place_.file("t"), std::ios::in | std::ios::out | std::ios::binary);
    const auto version =
        static_cast<std::streamoff>(header_bytes + t.geometry().lines_offset +
                                    static_cast<u64>(*t.slot_of(7)) / 26 * 64 + layout::line_version_offset);
    const auto set_version = [&](char odd) {
        file.seekp(version);
        file.put(odd);
        file.flush();
    };
    set_version(1);
    EXPECT_EQ(t.find(7), std::nullopt);
    EXPECT_EQ(r.find(7), std::nullopt);
    set_version(0);
    EXPECT_EQ(t.find(7), 49U);
    t.grow(2000);
    finish(t);
    EXPECT_EQ(t.fault(), errc::corrupt);
    EXPECT_EQ(r.find(7), 49U);
    EXPECT_EQ(r.capacity(), 2000U);
    EXPECT_EQ(r.fault(), errc::corrupt);
}

TEST_F(HashTableGrow, SlotsAreGoodWithinAGenerationAndSaySoAfter) {
    table t = table::create(uri(), {.capacity = 100});
    fill(t, 50);
    reader r = reader::attach(uri());
    const auto place = r.place_of(7), erased = r.place_of(8);
    ASSERT_TRUE(place && erased);
    EXPECT_EQ(t.place_of(7), place);
    EXPECT_EQ(r.place_of(1234), std::nullopt);
    EXPECT_EQ(t.erase(8), status::erased);
    reader::value_type entry{};
    EXPECT_EQ(r.entry_at(*place, entry), outcome::ok);
    EXPECT_EQ(entry.key, 7U);
    EXPECT_EQ(entry.value, 49U);
    EXPECT_EQ(r.entry_at(*erased, entry), outcome::not_found);
    t.grow(1000);
    while (t.growing()) {
        EXPECT_EQ(r.entry_at(*place, entry), outcome::ok);
        EXPECT_EQ(t.entry_at(*place, entry), outcome::ok);
        (void)t.advance();
    }
    EXPECT_EQ(r.entry_at(*place, entry), outcome::stale);
    EXPECT_EQ(t.entry_at(*place, entry), outcome::stale);
    const auto now = r.place_of(7);
    ASSERT_TRUE(now.has_value());
    EXPECT_EQ(r.entry_at(*now, entry), outcome::ok);
    EXPECT_EQ(entry.value, 49U);
    EXPECT_EQ(t.entry_at(*now, entry), outcome::ok);
}

// The loop's own operations move the table: each entry comes once all the same.
TEST_F(HashTableGrow, AScanGoesOnOverTheGenerationThatItBeganIn) {
    for (const u64 capacity : {5000U, 300U}) {
        SCOPED_TRACE(capacity);
        table t = table::create(place_.file_uri("to-" + std::to_string(capacity)), {.capacity = 1000});
        fill(t, 300);
        t.grow(capacity);
        std::map<u64, u64> seen;
        u64 behind = 0;
        for (const auto& entry : t) {
            ASSERT_TRUE(seen.emplace(entry.key, entry.value).second) << "key " << entry.key << " comes again";
            ASSERT_EQ(entry.value, entry.key * entry.key);
            ASSERT_EQ(t.update(entry.key, ~u64{0}), status::updated);
            behind += t.capacity() == capacity ? 1 : 0;
        }
        EXPECT_EQ(seen.size(), 300U);
        EXPECT_GT(behind, 100U);
        EXPECT_EQ(t.fault(), std::nullopt);
        EXPECT_FALSE(t.growth_failure());
        finish(t);
        // A scan that began before the move and ends behind it knows nothing of what came meanwhile.
        const auto whole = t.entries_from(hash_table_slot{0});
        auto at = whole.begin();
        t.grow(1000);
        finish(t);
        ASSERT_EQ(t.erase(7), status::erased);
        u64 entries = 0;
        for (; at != whole.end(); ++at) entries += at->value == ~u64{0} ? 1 : 0;
        EXPECT_EQ(entries, 300U);
        EXPECT_EQ(t.size(), 299U);
    }
}

TEST_F(HashTableGrow, WhatCannotBeDoneIsRefusedAndChangesNothing) {
    table t = table::create(uri(), {.capacity = 100});
    fill(t, 80);
    EXPECT_EQ(refusal_of([&] { t.grow(0); }), errc::invalid_argument);
    EXPECT_EQ(refusal_of([&] { t.grow(79); }), errc::invalid_argument);
    EXPECT_EQ(refusal_of([&] { t.grow(~u64{0}); }), errc::invalid_argument);
    EXPECT_FALSE(t.growing());
    t.grow(200);
    EXPECT_EQ(refusal_of([&] { t.grow(300); }), errc::invalid_argument);
    EXPECT_TRUE(t.growing());
    t.stop_growing();
    EXPECT_FALSE(t.growing());
    for (const char* kind : {"heap:", "anon:", "memfd:"}) {
        table unnamed = table::create(kind, {.capacity = 100});
        EXPECT_EQ(refusal_of([&] { unnamed.grow(200); }), errc::unsupported) << kind;
        EXPECT_EQ(unnamed.try_insert(1, 1), status::inserted);
    }
    EXPECT_THAT(files(), UnorderedElementsAre("t", "t.lease"));
    EXPECT_EQ(t.size(), 80U);
    EXPECT_EQ(damage_of(t), "");
}

TEST_F(HashTableGrow, TooMuchForASmallerTableGivesTheGrowthUp) {
    table t = table::create(uri(), {.capacity = 2000});
    fill(t, 100);
    t.grow(100);
    u64 key = 100;
    for (; t.growing() && key < 2000; ++key) ASSERT_EQ(t.try_insert(key, key * key), status::inserted);
    ASSERT_TRUE(t.growth_failure().has_value());
    EXPECT_EQ(t.growth_failure()->reason(), errc::no_space);
    EXPECT_EQ(t.capacity(), 2000U);
    EXPECT_EQ(t.size(), key);
    for (u64 n = 0; n < key; ++n) ASSERT_EQ(t.find(n), n * n);
    EXPECT_EQ(damage_of(t), "");
    EXPECT_FALSE(t.segment().moved());
    t.grow(4000);
    finish(t);
    EXPECT_EQ(t.size(), key);
}

TEST_F(HashTableGrow, FullFileSystemGivesTheGrowthUp) {
    if (!can_mount_tmpfs()) GTEST_SKIP() << "needs: mounting a tmpfs in a private mount namespace";
    const ended end = in_child([&]() -> std::string {
        if (!enter_private_mounts() || !mount_tmpfs(place_.path(), "size=2m")) return "no tmpfs";
        table t = table::create(uri(), {.capacity = 30'000});  // some 700 KB
        for (u64 n = 0; n < 30'000; ++n) (void)t.try_insert(n, n);
        reader r = reader::attach(uri());
        if (std::string text = expect_refusal(errc::no_space, [&] { t.grow(100'000); }); !text.empty()) return text;
        t.grow(50'000);  // there is room, and then there is none
        const int other = ::open(place_.file("other").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        while (::posix_fallocate(other, 0, ::lseek(other, 0, SEEK_END) + 4096) == 0) {
        }
        for (u64 n = 0; t.growing(); ++n)
            if (!(t.update(n, n) == status::updated)) return "an update was refused";
        if (!t.growth_failure() || t.growth_failure()->reason() != errc::no_space) return "not given up";
        if (t.capacity() != 30'000 || t.size() != 30'000 || !damage_of(t).empty()) return "the table has changed";
        for (u64 n = 0; n < 30'000; ++n)
            if (r.find(n) != n) return "an entry is lost";
        ::close(other);
        ::unlink(place_.file("other").c_str());
        if (files().size() != 2) return "left behind";
        t.grow(50'000);  // what was reserved is free again
        while (t.advance()) {
        }
        return t.capacity() == 50'000 && r.size() == 30'000 ? "" : "does not grow where there is room";
    });
    EXPECT_TRUE(end.success()) << end.text();
}

TEST_F(HashTableGrow, TheOldTablesMemoryGoesWithItsLastMapping) {
    if (!can_mount_tmpfs()) GTEST_SKIP() << "needs: mounting a tmpfs in a private mount namespace";
    const ended end = in_child([&]() -> std::string {
        if (!enter_private_mounts() || !mount_tmpfs(place_.path(), "size=16m")) return "no tmpfs";
        const auto used = [&]() -> u64 {
            struct statfs now{};
            if (::statfs(place_.path().c_str(), &now) != 0) return 0;
            return (now.f_blocks - now.f_bfree) * static_cast<u64>(now.f_bsize);
        };
        table t = table::create(uri(), {.capacity = 30'000});  // some 700 KB
        for (u64 n = 0; n < 30'000; ++n) (void)t.try_insert(n, n);
        const u64 one = used(), bytes = t.segment().info().total_bytes;
        if (one < bytes) return "the first table takes " + std::to_string(one);
        std::optional<hash_table_reader<u64, u64>> first(hash_table_reader<u64, u64>::attach(uri()));
        std::optional<hash_table_reader<u64, u64>> again(*first);  // the same mapping
        for (const u64 capacity : {u64{60'000}, u64{30'000}}) {
            t.grow(capacity);
            while (t.advance()) {
            }
        }
        if (files().size() != 2) return "left behind";
        if (used() < one + bytes) return "the old table's memory went while it was read";
        first.reset();
        if (used() < one + bytes || again->find(7) != u64{7}) return "it went with the first of two readers";
        again.reset();
        return used() <= one ? "" : "of the old tables " + std::to_string(used() - one) + " bytes stay";
    });
    EXPECT_TRUE(end.success()) << end.text();
}

// A new table would put a right checksum over what is wrong.
TEST_F(HashTableGrow, DamageIsNotCarriedOver) {
    std::optional<table> t = table::create(uri(), {.capacity = 1000});
    fill(*t, 900);
    const layout::hash_table_geometry g = t->geometry();
    const u64 slot = static_cast<u64>(*t->slot_of(777));
    t.reset();
    for (const u64 at : {g.nodes_offset + slot * g.node_bytes + g.value_offset + 3,
                         g.lines_offset + slot / 26 * 64 + layout::line_tags_offset + 2 * (slot % 26)}) {
        std::fstream file(place_.file("t"), std::ios::in | std::ios::out | std::ios::binary);
        const auto offset = static_cast<std::streamoff>(header_bytes + at);
        file.seekg(offset);
        const char sound = static_cast<char>(file.get());
        file.seekp(offset);
        file.put(static_cast<char>(sound ^ 0x10));
        file.flush();
        table damaged = table::attach(uri());
        damaged.grow(2000);
        while (damaged.advance()) {
        }
        ASSERT_TRUE(damaged.growth_failure().has_value());
        EXPECT_EQ(damaged.growth_failure()->reason(), errc::corrupt);
        EXPECT_EQ(damaged.capacity(), 1000U);
        EXPECT_NE(damage_of(damaged), "");
        file.seekp(offset);
        file.put(sound);
        file.flush();
        EXPECT_EQ(damage_of(damaged), "");
    }
}

// As much is looked at in one step as is copied, about: not a region of 416 entries, which may be megabytes.
TEST_F(HashTableGrow, ALargeRegionIsSummedInPieces) {
    using page = std::array<u64, 1024>;
    auto t = hash_table<u64, page>::create(uri(), {.capacity = 300});
    page value{};
    for (u64 n = 0; n < 300; ++n) {
        value.fill(n);
        ASSERT_EQ(t.try_insert(n, value), status::inserted);
    }
    const auto& view = detail::table_growth<hash_table<u64, page>>::finder_of(t).bytes();
    const auto digest = [&] { return detail::digest_region(view, 0, {}); };
    detail::region_sum sum;
    u64 pieces = 1;
    while (!sum.add_some(view, 0)) ++pieces;
    EXPECT_EQ(sum.take(), digest());
    EXPECT_GT(pieces, 300 * view.node_bytes / (detail::region_sum::bytes_a_piece + view.node_bytes));
    ASSERT_FALSE(sum.add_some(view, 0));
    value.fill(300);  // what no entry holds
    u64 first = 0;    // an entry of the first piece
    while (static_cast<u64>(*t.slot_of(first)) > 5) ++first;
    ASSERT_EQ(t.update(first, value), status::updated);
    while (!sum.add_some(view, 0)) {
    }
    EXPECT_NE(sum.take(), digest());
    while (!sum.add_some(view, 0)) {
    }
    EXPECT_EQ(sum.take(), digest());
}

TEST_F(HashTableGrow, DamageInALargeRegionIsNotCarriedOver) {
    using page = std::array<u64, 1024>;
    auto t = growing_hash_table<u64, page>::create(uri(), {.capacity = 60});
    for (u64 n = 0; n < 60; ++n) ASSERT_EQ(t.try_insert(n, page{}), status::inserted);
    const layout::hash_table_geometry g = t.geometry();
    t.grow(100);
    for (u64 n = 0; n < 3; ++n) ASSERT_TRUE(t.advance());  // reserved, and the first piece is summed
    std::fstream file(place_.file("t"), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(header_bytes + g.nodes_offset +
                                           static_cast<u64>(*t.slot_of(7)) * g.node_bytes + g.value_offset + 8000));
    file.put(1);
    file.flush();
    while (t.advance()) {
    }
    ASSERT_TRUE(t.growth_failure().has_value());
    EXPECT_EQ(t.growth_failure()->reason(), errc::corrupt);
    EXPECT_EQ(t.capacity(), 60U);
}

// A find meets damage that an erase passes by: the next generation cannot be told of the erase, so there is none.
TEST_F(HashTableGrow, AnEraseThatNoFindFollowsEndsTheGrowth) {
    table t = table::create(uri(), {.capacity = 1000});
    fill(t, 900);
    u64 key = 0;
    while (static_cast<u64>(*t.slot_of(key)) / 26 > 3) ++key;  // one of the first buckets
    t.grow(2000);
    ASSERT_TRUE(t.advance(20));  // they are copied
    std::fstream file(place_.file("t"), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(header_bytes + t.geometry().lines_offset +
                                           static_cast<u64>(*t.slot_of(key)) / 26 * 64 + layout::line_version_offset));
    file.put(1);
    file.flush();
    EXPECT_EQ(t.erase(key), status::erased);
    while (t.advance()) {
    }
    ASSERT_TRUE(t.growth_failure().has_value());
    EXPECT_EQ(t.growth_failure()->reason(), errc::corrupt);
    EXPECT_EQ(t.capacity(), 1000U);
    EXPECT_EQ(reader::attach(uri()).find(key), std::nullopt);
}

// What a writer leaves that was killed between the mark and the commit.
TEST_F(HashTableGrow, MarkWithoutACommitIsClearedByTheNextWriter) {
    {
        table t = table::create(uri(), {.capacity = 100});
        fill(t, 50);
    }
    reader r = reader::attach(uri());
    std::fstream file(place_.file("t"), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(offsetof(layout::segment_header, moved)));
    file.put('\1');
    file.close();
    std::ofstream(place_.file("t.growing")) << "half";
    EXPECT_EQ(r.find(7), 49U);
    EXPECT_TRUE(r.current().segment().moved());
    EXPECT_FALSE(r.contains(70));
    const auto t = hash_table<u64, u64>::attach(uri());
    EXPECT_FALSE(t.segment().moved());
    EXPECT_THAT(files(), UnorderedElementsAre("t", "t.lease"));
    EXPECT_EQ(r.find(7), 49U);
    EXPECT_EQ(r.fault(), std::nullopt);
}

TEST_F(HashTableGrow, RemovalTakesHalfAGrowthAlong) {
    (void)table::create(uri(), {.capacity = 100});
    std::ofstream(place_.file("t.growing")) << "half";
    segment::remove(uri());
    EXPECT_THAT(files(), UnorderedElementsAre());
}

TEST_F(HashTableGrow, ReaderSaysThatTheNewGenerationIsGone) {
    std::optional<table> t = table::create(uri(), {.capacity = 100});
    fill(*t, 50);
    reader r = reader::attach(uri());
    t->grow(200);
    finish(*t);
    t.reset();
    segment::remove(uri());
    EXPECT_EQ(r.find(7), std::nullopt);
    EXPECT_EQ(r.fault(), errc::not_found);
    EXPECT_EQ(r.size(), 0U);
    const u64 keys[] = {7, 8};
    std::optional<u64> values[2];
    EXPECT_EQ(r.find_many(keys, values), 0U);
    EXPECT_THAT(values, testing::Each(std::nullopt));
    t = table::create(uri(), {.capacity = 10});
    EXPECT_EQ(t->try_insert(7, 1), status::inserted);
    EXPECT_EQ(r.find(7), 1U);
    EXPECT_EQ(r.fault(), std::nullopt);
    // Made anew without a mark: only who asks the name learns of it.
    t.reset();
    segment::remove(uri());
    t = table::create(uri(), {.capacity = 10});
    EXPECT_EQ(r.find(7), 1U);
    EXPECT_TRUE(r.refresh());
    EXPECT_EQ(r.find(7), std::nullopt);
    EXPECT_FALSE(r.refresh());
}

TEST_F(HashTableGrow, ModeAndGroupGoOn) {
    hash_table_options options{.capacity = 100};
    options.segment.mode = 0640;
    table t = table::create(uri(), options);
    t.grow(200);
    finish(t);
    struct stat file{};
    ASSERT_EQ(::stat(place_.file("t").c_str(), &file), 0);
    EXPECT_EQ(file.st_mode & 0777U, 0640U);
}

TEST_F(HashTableGrow, ForkedChildLeavesTheGrowthAlone) {
    table t = table::create(uri(), {.capacity = 100});
    fill(t, 50);
    t.grow(200);
    const ended end = in_child([&]() -> std::string {
        if (t.advance(1000)) return "a child goes on with it";
        if (!(t.try_insert(1000, 1) == status::read_only)) return "a child writes";
        return {};
    });
    EXPECT_TRUE(end.success()) << end.text();
    EXPECT_EQ(t.capacity(), 100U);
    finish(t);
    EXPECT_EQ(t.capacity(), 200U);
    EXPECT_EQ(t.size(), 50U);
    EXPECT_EQ(damage_of(t), "");
}

// Where files under construction have a hidden name it is their maker's to remove.
TEST_F(HashTableGrow, ForkedChildLeavesTheHiddenFileToItsParent) {
    const ended end = in_child([&]() -> std::string {
        if (!refuse_unnamed_files()) return "no seccomp";
        table t = table::create(uri(), {.capacity = 100});
        fill(t, 50);
        t.grow(200);
        const ended child = in_child([&]() -> std::string {
            const table gone = std::move(t);
            return {};
        });
        if (!child.success()) return child.text();
        while (t.advance()) {
        }
        return t.capacity() == 200 && t.size() == 50 && !t.growth_failure() ? "" : "the growth came to nothing";
    });
    EXPECT_TRUE(end.success()) << end.text();
}

// The program grows tables of any type through this.
TEST_F(HashTableGrow, TablesWithoutATypeGrowToo) {
    {
        table t = table::create(uri(), {.capacity = 300});
        fill(t, 300);
    }
    auto t = dynamic_hash_table::attach(uri());
    detail::table_growth<dynamic_hash_table> growth(t, 1000);
    while (!growth.advance(t)) {
    }
    EXPECT_EQ(t.capacity(), 1000U);
    EXPECT_EQ(damage_of(t), "");
    auto r = reader::attach(uri());
    for (u64 n = 0; n < 300; ++n) ASSERT_EQ(r.find(n), n * n);
}

}  // namespace
