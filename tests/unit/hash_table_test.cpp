// SPDX-License-Identifier: Apache-2.0
#include "holdfast/hash_table.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <numeric>
#include <ranges>
#include <set>
#include <string>
#include <vector>

#include "holdfast/hash_table/dynamic.hpp"
#include "support/prefetch_count.hpp"
#include "support/process.hpp"
#include "support/scale.hpp"
#include "support/seed.hpp"
#include "support/table_answer.hpp"

namespace {

using namespace holdfast;
using u64 = std::uint64_t;
using status = holdfast::test::table_answer;

struct session {
    u64 user;
    std::uint32_t hits;
    char country[2];
    friend bool operator==(const session&, const session&) = default;
};
session made(u64 x) { return {x, static_cast<std::uint32_t>(x * 2), {'A', 'B'}}; }

using sessions = hash_table<u64, session>;
using counts = hash_table<std::uint32_t, std::uint32_t>;

static_assert(std::ranges::input_range<sessions>);
static_assert(std::ranges::input_range<hash_table_reader<u64, session>>);
static_assert(std::ranges::input_range<dynamic_hash_table_reader>);
static_assert(std::is_nothrow_move_constructible_v<sessions> && !std::is_copy_constructible_v<sessions>);

std::optional<errc> reason_of(const auto& action) {
    try {
        action();
    } catch (const error& failure) {
        return failure.reason();
    }
    return std::nullopt;
}

TEST(HashTable, OperationsReportStatusAndSlot) {
    sessions table = sessions::create("heap:", {.capacity = 100});
    EXPECT_TRUE(table.empty());
    EXPECT_EQ(table.find(1), std::nullopt);
    const hash_table_result inserted = table.try_insert(1, made(1));
    EXPECT_EQ(inserted, status::inserted);
    EXPECT_TRUE(inserted);
    const hash_table_result again = table.try_insert(1, made(2));
    EXPECT_EQ(again, status::exists);
    EXPECT_FALSE(again);
    EXPECT_EQ(again.slot, inserted.slot);
    EXPECT_EQ(table.insert_or_assign(1, made(3)), status::updated);
    EXPECT_EQ(table.find(1), made(3));
    EXPECT_EQ(table.update(2, made(2)), status::not_found);
    EXPECT_EQ(table.update(1, made(4)).slot, inserted.slot);
    EXPECT_EQ(table.modify(1, [](session& s) { ++s.hits; }), status::updated);
    EXPECT_EQ(table.find(1)->hits, 9U);
    EXPECT_EQ(table.modify(2, [](session&) { FAIL(); }), status::not_found);
    EXPECT_TRUE(table.contains(1));
    EXPECT_EQ(table.size(), 1U);
    EXPECT_EQ(table.erase(1), status::erased);
    EXPECT_EQ(table.erase(1), status::not_found);
    EXPECT_TRUE(table.empty());
    EXPECT_EQ(table.fault(), std::nullopt);
}

TEST(HashTable, ChangesAndTakesOutAnEntryOnlyAsItWasExpected) {
    auto table = hash_table<u64, u64>::create("heap:", {.capacity = 100});
    EXPECT_EQ(table.compare_and_set(1, 1, 2), status::not_found);
    EXPECT_EQ(table.compare_and_erase(1, 1), status::not_found);
    const hash_table_result inserted = table.try_insert(1, 1);
    EXPECT_EQ(table.compare_and_set(1, 2, 3), status::stale);
    EXPECT_EQ(table.compare_and_set(1, 2, 3).slot, inserted.slot);
    EXPECT_EQ(table.compare_and_set(1, 1, 2), status::updated);
    EXPECT_EQ(table.compare_and_erase(1, 1), status::stale);
    EXPECT_EQ(table.compare_and_erase(1, 1).slot, inserted.slot);
    EXPECT_EQ(table.find(1), 2U);
    EXPECT_EQ(table.compare_and_erase(1, 2), status::erased);
    EXPECT_FALSE(table.contains(1));
    (void)table.try_insert(2, 2);
    EXPECT_EQ(table.erase_if(2, [](const u64& value) { return value == 1; }), status::stale);
    EXPECT_THROW((void)table.erase_if(2, [](const u64&) -> bool { throw 1; }), int);
    EXPECT_TRUE(table.contains(2));
    EXPECT_EQ(table.erase_if(2, [](const u64& value) { return value == 2; }), status::erased);
    EXPECT_EQ(table.erase_if(2, [](const u64&) { return true; }), status::not_found);
    EXPECT_TRUE(table.empty());
    static_assert(noexcept(table.erase_if(2, [](const u64&) noexcept { return true; })));
}

TEST(HashTable, SlotHandleLeadsToItsEntryWhileThatLives) {
    sessions table = sessions::create("heap:", {.capacity = 100});
    const auto slot = table.try_insert(7, made(7)).slot;
    ASSERT_TRUE(slot);
    EXPECT_EQ(table.slot_of(7), slot);
    EXPECT_EQ(table.value_at(*slot), made(7));
    EXPECT_EQ(table.entry_at(*slot)->key, 7U);
    table.update(7, made(8));
    EXPECT_EQ(table.value_at(*slot), made(8));
    table.erase(7);
    EXPECT_EQ(table.value_at(*slot), std::nullopt);
    EXPECT_EQ(table.entry_at(*slot), std::nullopt) << "an erased entry must be gone for its handle too";
    EXPECT_EQ(table.value_at(hash_table_slot{~u64{0}}), std::nullopt);
    EXPECT_EQ(table.value_at(static_cast<hash_table_slot>(table.slots())), std::nullopt);
}

TEST(HashTable, IterationShowsEachEntryOnceAndWhole) {
    sessions table = sessions::create("heap:", {.capacity = 1000});
    for (u64 key = 0; key < 1000; ++key) ASSERT_TRUE(table.try_insert(key, made(key)));
    std::set<u64> seen;
    for (const auto& [slot, key, value] : table.make_reader()) {
        EXPECT_TRUE(seen.insert(key).second);
        EXPECT_EQ(value, made(key));
        EXPECT_EQ(table.slot_of(key), slot);
    }
    EXPECT_EQ(seen.size(), 1000U);
}

TEST(HashTable, EmptyTableIteratesOverNothing) {
    sessions table = sessions::create("heap:", {.capacity = 5});
    EXPECT_TRUE(table.begin() == table.end());
    EXPECT_TRUE(table.entries_from(hash_table_slot{table.slots()}).empty());
    EXPECT_TRUE(table.entries_from(hash_table_slot{~u64{0}}).empty());
}

TEST(HashTable, ScanInPortionsEqualsOneScan) {
    sessions table = sessions::create("heap:", {.capacity = 500});
    for (u64 key = 0; key < 500; ++key) ASSERT_TRUE(table.try_insert(key, made(key)));
    std::vector<u64> whole, portions;
    for (const auto& entry : table) whole.push_back(entry.key);
    u64 next = 0;
    for (bool more = true; more;) {
        more = false;
        int left = 7;
        for (const auto& entry : table.entries_from(hash_table_slot{next})) {
            portions.push_back(entry.key);
            next = static_cast<u64>(entry.slot) + 1;
            more = true;
            if (--left == 0) break;
        }
    }
    EXPECT_EQ(portions, whole);
}

TEST(HashTable, ErasingWhileIteratingIsAllowed) {
    sessions table = sessions::create("heap:", {.capacity = 300});
    for (u64 key = 0; key < 300; ++key) ASSERT_TRUE(table.try_insert(key, made(key)));
    for (const auto& entry : table)
        if (entry.key % 2 == 0) {
            EXPECT_EQ(table.erase(entry.key), status::erased);
        }
    EXPECT_EQ(table.size(), 150U);
    for (const auto& entry : table) EXPECT_EQ(entry.key % 2, 1U);
}

TEST(HashTable, FindManyAnswersInOrder) {
    counts table = counts::create("heap:", {.capacity = 100});
    for (std::uint32_t key = 0; key < 100; key += 2) ASSERT_TRUE(table.try_insert(key, key * 3));
    std::vector<std::uint32_t> keys(99);
    std::iota(keys.begin(), keys.end(), 0U);
    std::vector<std::optional<std::uint32_t>> values(keys.size(), 12345U);
    EXPECT_EQ(table.find_many(keys, values), 50U);
    for (std::uint32_t i = 0; i < keys.size(); ++i) {
        EXPECT_EQ(values[i], i % 2 == 0 ? std::optional(i * 3) : std::nullopt);
    }
}

TEST(HashTable, PrefetchChangesNothing) {
    counts table = counts::create("heap:", {.capacity = 200'000});  // large enough to guess at an entry's line
    for (std::uint32_t key = 0; key < 1000; ++key) ASSERT_TRUE(table.try_insert(key, key));
    const auto bytes = table.segment().bytes();
    const std::vector<std::byte> before(bytes.begin(), bytes.end());
    const auto reader = table.make_reader();
    for (std::uint32_t key = 0; key < 2000; ++key) reader.prefetch(key);
    for (std::uint32_t key = 0; key < 2000; ++key) EXPECT_EQ(reader.contains(key), key < 1000);
    EXPECT_TRUE(std::ranges::equal(bytes, before));
}

#if defined(__x86_64__)
TEST(HashTable, PrefetchAsksForTheLineAndWhereItPaysForTheEntrysPlace) {
    if (test::sanitized) GTEST_SKIP() << "needs: a build without sanitizers, whose code is stepped through";
    for (const std::uint64_t capacity : {1000U, 200'000U}) {
        const auto reader = counts::create("heap:", {.capacity = capacity}).make_reader();
        EXPECT_EQ(test::count_prefetches([&] { reader.prefetch(7); }), capacity == 1000 ? 1U : 2U);
    }
}
#endif

TEST(HashTable, FindIntoAValueTellsWhetherTheKeyIsThere) {
    counts table = counts::create("heap:", {.capacity = 1000});
    for (std::uint32_t key = 0; key < 1000; ++key) ASSERT_TRUE(table.try_insert(key, key * 3));
    const auto reader = table.make_reader();
    for (std::uint32_t key = 0; key < 2000; ++key) {
        std::uint32_t value = 0;
        ASSERT_EQ(reader.find(key, value), key < 1000);
        EXPECT_TRUE(key >= 1000 || value == key * 3);
    }
}

TEST(HashTable, CapacityAndSlotsAreThoseOfTheGeometry) {
    counts table = counts::create("heap:", {.capacity = 1000});
    EXPECT_EQ(table.capacity(), 1000U);
    EXPECT_GE(table.slots(), 1030U);
    u64 count = 0;
    for (std::uint32_t key = 0; table.try_insert(key, key); ++key) ++count;
    EXPECT_GE(count, table.capacity());
    EXPECT_EQ(table.try_insert(9999999, 0), status::full);
    EXPECT_EQ(table.insert_or_assign(9999999, 0), status::full);
    EXPECT_EQ(table.size(), count);
}

TEST(HashTable, ReaderOutlivesTheWriterObject) {
    auto reader = [] {
        sessions table = sessions::create("heap:", {.capacity = 10});
        table.try_insert(1, made(1));
        return table.make_reader();
    }();
    EXPECT_EQ(reader.find(1), made(1));
}

TEST(HashTable, RefusesWhatCannotBe) {
    EXPECT_EQ(reason_of([] { (void)counts::create("heap:", {}); }), errc::invalid_argument);
    EXPECT_EQ(reason_of([] { (void)counts::create("heap:", {.capacity = ~u64{0}}); }), errc::invalid_argument);
    EXPECT_EQ(reason_of([] { (void)counts::create("heap:", {.capacity = 5, .key_name = "no name"}); }),
              errc::invalid_argument);
}

TEST(HashTable, ChildOfAForkCannotWriteAndSaysSo) {
    sessions table = sessions::create("anon:", {.capacity = 10});
    table.try_insert(1, made(1));
    test::child_process child([&]() -> int {
        const bool refused = table.try_insert(2, made(2)) == status::read_only &&
                             table.update(1, made(3)) == status::read_only && table.erase(1) == status::read_only;
        return refused && table.find(1) == made(1) ? 0 : 1;
    });
    EXPECT_TRUE(child.wait().success());
    EXPECT_EQ(table.find(1), made(1));
    EXPECT_EQ(table.size(), 1U);
}

struct session_v2 {
    u64 user;
    std::uint32_t hits;
    char country[2];
    std::uint16_t added;
    u64 more;
};
struct session_other {
    u64 owner;
    std::uint32_t hits;
    char country[2];
};

TEST(HashTable, OldReaderReadsATableWithMoreFieldsButMayNotWriteIt) {
    auto table = hash_table<u64, session_v2>::create("anon:", {.capacity = 50});
    for (u64 key = 0; key < 50; ++key)
        ASSERT_TRUE(table.try_insert(key, {key, static_cast<std::uint32_t>(key * 2), {'A', 'B'}, 7, 8}));
    const auto descriptors = table.segment().descriptors();
    const segment_descriptors held{::dup(descriptors.data), ::dup(descriptors.lease), -1};
    const auto reader = hash_table_reader<u64, session>::attach(descriptors);
    for (u64 key = 0; key < 50; ++key) EXPECT_EQ(reader.find(key), made(key));
    u64 sum = 0;
    for (const auto& entry : reader) sum += entry.value.user;
    EXPECT_EQ(sum, 49U * 50 / 2);
    {
        const auto gone = std::move(table);
    }  // the writer's lease is free again
    using old_writer = hash_table<u64, session>;
    EXPECT_EQ(reason_of([&] { (void)old_writer::attach(held); }), errc::schema_mismatch);
    ::close(held.data);
    ::close(held.lease);
}

TEST(HashTable, OtherSchemaIsRefusedWithBothInTheText) {
    sessions table = sessions::create("anon:", {.capacity = 10});
    const auto descriptors = table.segment().descriptors();
    const auto message_of = [](const auto& action) -> std::string {
        try {
            action();
        } catch (const error& e) {
            EXPECT_EQ(e.reason(), errc::schema_mismatch);
            return e.what();
        }
        return "no error";
    };
    using renamed = hash_table_reader<u64, session_other>;
    const std::string text = message_of([&] { (void)renamed::attach(descriptors); });
    EXPECT_THAT(text, ::testing::HasSubstr("user"));
    EXPECT_THAT(text, ::testing::HasSubstr("owner"));
    using narrower = hash_table_reader<std::uint32_t, session>;
    EXPECT_THAT(message_of([&] { (void)narrower::attach(descriptors); }), ::testing::HasSubstr("key"));
    using newer = hash_table_reader<u64, session_v2>;
    EXPECT_THAT(message_of([&] { (void)newer::attach(descriptors); }), ::testing::HasSubstr("added"));
}

std::span<const std::byte> bytes(const auto& value) { return std::as_bytes(std::span(&value, 1)); }

TEST(DynamicHashTable, ReadsAndWritesWhatTheTypedTableDoes) {
    const container_schema schema = {.key = schema_of<u64>("key"), .value = schema_of<session>()};
    auto table = dynamic_hash_table::create("anon:", schema, {.capacity = 100});
    EXPECT_EQ(table.key_bytes(), 8U);
    EXPECT_EQ(table.value_bytes(), sizeof(session));
    for (u64 key = 0; key < 100; ++key) {
        const session value = made(key);
        ASSERT_EQ(table.try_insert(bytes(key), bytes(value)), status::inserted);
    }
    const auto typed = hash_table_reader<u64, session>::attach(table.segment().descriptors());
    std::map<u64, session> seen;
    for (const auto& entry : typed) seen.emplace(entry.key, entry.value);
    ASSERT_EQ(seen.size(), 100U);
    for (const auto& [key, value] : seen) EXPECT_EQ(value, made(key));

    const u64 key = 5;
    const session changed = made(500);
    EXPECT_EQ(table.update(bytes(key), bytes(changed)), status::updated);
    EXPECT_EQ(typed.find(5), changed);
    EXPECT_EQ(table.insert_or_assign(bytes(key), bytes(changed)), status::updated);
    EXPECT_EQ(table.slot_of(bytes(key)), typed.slot_of(5));
    session copy{};
    EXPECT_TRUE(table.find(bytes(key), std::as_writable_bytes(std::span(&copy, 1))));
    EXPECT_EQ(copy, changed);
    EXPECT_EQ(table.erase(bytes(key)), status::erased);
    EXPECT_FALSE(typed.contains(5));
    EXPECT_FALSE(table.contains(bytes(key)));
    EXPECT_EQ(table.schema().value->text(), schema_of<session>().text());
}

TEST(DynamicHashTable, ScansAndFindsManyByBytes) {
    counts table = counts::create("heap:", {.capacity = 200});
    for (std::uint32_t key = 0; key < 200; ++key) ASSERT_TRUE(table.try_insert(key, key + 1));
    const auto reader = [&] {
        // The same mapping by another type: through the typed reader's segment.
        return dynamic_hash_table_reader(std::shared_ptr<const segment>(&table.segment(), [](const segment*) {}));
    }();
    std::size_t entries = 0;
    for (const dynamic_hash_table_entry entry : reader) {
        std::uint32_t key = 0, value = 0;
        std::memcpy(&key, entry.key.data(), 4);
        std::memcpy(&value, entry.value.data(), 4);
        EXPECT_EQ(value, key + 1);
        ++entries;
    }
    EXPECT_EQ(entries, 200U);
    const std::array<std::uint32_t, 5> keys{3, 1000, 5, 7, 2000};
    std::array<std::uint32_t, 5> values{};
    std::array<bool, 5> found{};
    EXPECT_EQ(reader.find_many(std::as_bytes(std::span(keys)), std::as_writable_bytes(std::span(values)), found), 3U);
    EXPECT_THAT(found, ::testing::ElementsAre(true, false, true, true, false));
    EXPECT_EQ(values[0], 4U);
    EXPECT_EQ(values[3], 8U);
}

TEST(DynamicHashTable, SpansOfAnotherSizeAreRefused) {
    auto table = dynamic_hash_table::create("heap:", {.key = schema_of<u64>("key"), .value = schema_of<u64>("value")},
                                            {.capacity = 10});
    const u64 eight = 8;
    const std::uint32_t four = 4;
    EXPECT_EQ(reason_of([&] { table.try_insert(bytes(four), bytes(eight)); }), errc::invalid_argument);
    EXPECT_EQ(reason_of([&] { table.try_insert(bytes(eight), bytes(four)); }), errc::invalid_argument);
    EXPECT_EQ(reason_of([&] { table.erase(bytes(four)); }), errc::invalid_argument);
    EXPECT_EQ(reason_of([&] { (void)table.contains(bytes(four)); }), errc::invalid_argument);
    EXPECT_TRUE(table.empty());
}

}  // namespace
