// SPDX-License-Identifier: Apache-2.0
#include "holdfast/small_table.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <ranges>
#include <string>
#include <vector>

#include "holdfast/array.hpp"
#include "support/process.hpp"
#include "support/scale.hpp"
#include "support/seed.hpp"
#include "support/segment_tools.hpp"
#include "support/unique_name.hpp"

namespace {

using namespace holdfast;
using test::refusal_of;
using u64 = std::uint64_t;

struct limit {
    double rate;
    std::uint32_t burst;
    bool on;
    friend bool operator==(const limit&, const limit&) = default;
};
struct limit_of_old {
    double rate;
};
enum class rank : std::uint16_t { none, low, high = 40'000 };

using numbers = small_table<u64, u64>;
using numbers_reader = small_table_reader<u64, u64>;
using raw_entry = small_table_entry<u64, u64>;

/// The first damage of a full check; "" for none.
template <class Reader>
std::string damage_of(const Reader& reader) {
    std::string text;
    const small_table_verification done = reader.verify([&](const small_table_finding& found) {
        text = std::string(describe(found.what)) + ", element " + std::to_string(found.place);
        return false;
    });
    EXPECT_EQ(done.intact(), text.empty());
    return done.busy ? "busy" : text;
}

TEST(SmallTable, FindsWhatWasPutIn) {
    auto limits = small_table<rank, limit>::create("heap:", {.capacity = 3});
    auto reader = limits.make_reader();
    EXPECT_EQ(reader.find(rank::none), std::nullopt) << "a zero key is none of an empty table";
    EXPECT_TRUE(limits.empty());
    const limit a{1.5, 10, true}, b{2.5, 20, false};
    EXPECT_EQ(limits.try_insert(rank::none, a), outcome::ok);
    EXPECT_EQ(limits.try_insert(rank::none, b), outcome::exists);
    EXPECT_EQ(reader.find(rank::none), a);
    EXPECT_EQ(limits.insert_or_assign(rank::none, b), outcome::ok);
    EXPECT_EQ(reader.find(rank::none), b);
    EXPECT_EQ(limits.update(rank::high, a), outcome::not_found);
    EXPECT_EQ(limits.insert_or_assign(rank::high, a), outcome::ok);
    EXPECT_EQ(limits.modify(rank::high, [](limit& l) { ++l.burst; }), outcome::ok);
    EXPECT_EQ(limits.modify(rank::low, [](limit& l) { ++l.burst; }), outcome::not_found);
    limit got{};
    EXPECT_EQ(reader.find(rank::high, got), outcome::ok);
    EXPECT_EQ(got, (limit{1.5, 11, true}));
    EXPECT_EQ(reader.find(rank::low, got), outcome::not_found);
    EXPECT_EQ(limits.find(rank::high)->burst, 11U);
    EXPECT_EQ(limits.size(), 2U);
    EXPECT_EQ(reader.size(), 2U);
    EXPECT_EQ(reader.capacity(), 3U);
    EXPECT_EQ(limits.erase(rank::none), outcome::ok);
    EXPECT_EQ(limits.erase(rank::none), outcome::not_found);
    EXPECT_FALSE(reader.contains(rank::none));
    EXPECT_TRUE(reader.contains(rank::high));
    EXPECT_EQ(damage_of(reader), "");
}

TEST(SmallTable, TakesItsCapacityAndNoMore) {
    auto table = numbers::create("heap:", {.capacity = 100});
    auto reader = table.make_reader();
    for (int round = 0; round < 3; ++round) {
        for (u64 key = 0; key < 100; ++key) ASSERT_EQ(table.try_insert(key << 56, key), outcome::ok);
        EXPECT_EQ(table.try_insert(1, 1), outcome::full);
        EXPECT_EQ(table.insert_or_assign(1, 1), outcome::full);
        EXPECT_EQ(table.insert_or_assign(0, 0), outcome::ok) << "a key that is there needs no room";
        for (u64 key = 0; key < 100; ++key) ASSERT_EQ(reader.find(key << 56), key);
        for (u64 key = 0; key < 100; ++key) ASSERT_EQ(table.erase(key << 56), outcome::ok);
        EXPECT_EQ(reader.size(), 0U);
    }
    EXPECT_EQ(damage_of(reader), "");
    const auto refused = [](u64 capacity) {
        return refusal_of([&] { (void)numbers::create("heap:", {.capacity = capacity}); });
    };
    EXPECT_EQ(refused(0), errc::invalid_argument);
    EXPECT_EQ(refused(small_table_capacity_max + 1), errc::invalid_argument);
    EXPECT_EQ(refused(~u64{0}), errc::invalid_argument);
    EXPECT_EQ(refused(small_table_capacity_max), std::nullopt);
}

TEST(SmallTable, RandomChangesEqualAMapForReadersOldAndNew) {
    test::seeded_random random;
    for (const u64 capacity : {1U, 7U, 64U, 300U, 1000U}) {
        auto table = numbers::create("heap:", {.capacity = capacity});
        std::map<u64, u64> model;
        // One reader looks after each change, the other now and then.
        auto reader = table.make_reader(), seldom = table.make_reader();
        for (u64 i = 0; i < test::scaled(3000); ++i) {
            const u64 key = random.below(capacity * 3 / 2 + 1), value = random();
            const bool there = model.contains(key);
            if (random.below(3) != 0) {
                const outcome got = table.insert_or_assign(key, value);
                ASSERT_EQ(got, there || model.size() < capacity ? outcome::ok : outcome::full);
                if (got == outcome::ok) model[key] = value;
            } else {
                ASSERT_EQ(table.erase(key), there ? outcome::ok : outcome::not_found);
                model.erase(key);
            }
            const u64 other = random.below(capacity * 3 / 2 + 1);
            for (auto* const each : {&reader, &seldom}) {
                if (each == &seldom && random.below(50) != 0) continue;
                for (const u64 wanted : {key, other}) {
                    const auto at = model.find(wanted);
                    ASSERT_EQ(each->find(wanted), at == model.end() ? std::nullopt : std::optional(at->second));
                }
            }
        }
        std::map<u64, u64> seen;
        EXPECT_EQ(reader.visit([&](u64 key, u64 value) { seen[key] = value; }), outcome::ok);
        EXPECT_EQ(seen, model);
        EXPECT_EQ(table.size(), model.size());
        EXPECT_EQ(damage_of(reader), "");
    }
}

static_assert(std::ranges::input_range<const numbers_reader>);

TEST(SmallTable, AReaderIsARangeOfItsEntries) {
    auto table = small_table<std::uint16_t, limit>::create("heap:", {.capacity = 6});
    const auto reader = table.make_reader();
    EXPECT_TRUE(reader.begin() == reader.end());
    const std::map<std::uint16_t, limit> model{{0, {0.5, 1, true}}, {7, {1, 2, false}}, {9, {2, 3, true}}};
    for (const auto& [key, value] : model) ASSERT_EQ(table.try_insert(key, value), outcome::ok);
    ASSERT_EQ(table.try_insert(1, {}), outcome::ok);
    ASSERT_EQ(table.erase(1), outcome::ok);
    std::map<std::uint16_t, limit> seen;
    for (const auto& [key, value] : reader) EXPECT_TRUE(seen.emplace(key, value).second) << key;
    EXPECT_EQ(seen, model);
    const auto burst = [](const auto& entry) { return entry.second.burst; };
    std::uint32_t sum = 0;
    for (const std::uint32_t each : reader | std::views::transform(burst)) sum += each;
    EXPECT_EQ(sum, 6U);
    ASSERT_EQ(table.try_insert(3, {}), outcome::ok);
    ASSERT_EQ(table.try_insert(4, {}), outcome::ok);
    ASSERT_EQ(table.try_insert(5, {}), outcome::ok);
    EXPECT_EQ(std::ranges::distance(reader.begin(), reader.end()), 6);
}

TEST(SmallTable, CopiesOfAReaderAreReadersOfTheirOwn) {
    auto table = numbers::create("heap:", {.capacity = 10});
    ASSERT_EQ(table.try_insert(1, 10), outcome::ok);
    auto first = table.make_reader();
    EXPECT_EQ(first.find(1), 10U);
    auto second = first;
    ASSERT_EQ(table.try_insert(2, 20), outcome::ok);
    EXPECT_EQ(second.find(2), 20U);
    EXPECT_EQ(first.find(2), 20U);
    ASSERT_EQ(table.erase(1), outcome::ok);
    second = first;
    EXPECT_FALSE(second.contains(1));
    EXPECT_TRUE(second.contains(2));
}

TEST(SmallTable, TheNextWriterGoesOnWhereAKilledOneWasInAChange) {
    test::unique_posix_name name("small");
    const std::string& uri = name.uri();
    {
        auto table = numbers::create(uri, {.capacity = 10});
        ASSERT_EQ(table.try_insert(1, 10), outcome::ok);
        EXPECT_EQ(refusal_of([&] { (void)numbers::attach(uri); }), errc::writer_alive);
    }
    auto reader = numbers_reader::attach(uri);
    EXPECT_EQ(reader.find(1), 10U);
    {
        // What a writer leaves that is killed behind the entry's store of an insert.
        auto raw = array<raw_entry>::attach(uri);
        raw.modify(0, [](raw_entry& head) { ++head.state; });
        raw.store(5, {.key = 2, .state = 1, .value = 20});
    }
    auto late = numbers_reader::attach(uri);
    for (auto* const each : {&reader, &late}) {
        EXPECT_EQ(each->find(2), 20U);
        EXPECT_EQ(each->find(1), 10U);
        EXPECT_EQ(each->find(3), std::nullopt);
        EXPECT_EQ(each->find(2), 20U);
    }
    EXPECT_TRUE(reader.verify([](const auto&) { return true; }).change_open);
    EXPECT_EQ(damage_of(reader), "");
    auto next = numbers::attach(uri);
    EXPECT_TRUE(next.recovery().change_ended);
    EXPECT_FALSE(reader.verify([](const auto&) { return true; }).change_open);
    EXPECT_EQ(next.size(), 2U);
    EXPECT_EQ(next.try_insert(3, 30), outcome::ok);
    for (auto* const each : {&reader, &late}) EXPECT_EQ(each->find(3), 30U);
    EXPECT_EQ(damage_of(reader), "");
}

TEST(SmallTable, WhatIsNoSmallTableOfTheseTypesIsRefused) {
    test::unique_posix_name name("small"), other("small");
    (void)small_table<u64, limit>::create(name.uri(), {.capacity = 5});
    using old_reader = small_table_reader<u64, limit_of_old>;
    EXPECT_EQ(refusal_of([&] { (void)old_reader::attach(name.uri()); }), std::nullopt)
        << "a value that got a field at its end";
    EXPECT_EQ(refusal_of([&] { (void)small_table<u64, limit_of_old>::attach(name.uri()); }), errc::schema_mismatch);
    EXPECT_EQ(refusal_of([&] { (void)numbers_reader::attach(name.uri()); }), errc::schema_mismatch);
    EXPECT_EQ(refusal_of([&] { (void)small_table_reader<std::int64_t, limit>::attach(name.uri()); }),
              errc::schema_mismatch);
    (void)array<raw_entry>::create(other.uri(), {.size = small_table_capacity_max + 2});
    EXPECT_EQ(refusal_of([&] { (void)numbers_reader::attach(other.uri()); }), errc::geometry_mismatch);
    EXPECT_EQ(refusal_of([&] { (void)numbers::attach(other.uri()); }), errc::geometry_mismatch);
}

TEST(SmallTable, AReaderOfAnEarlierVersionOfTheValueFindsItsFields) {
    auto table = small_table<std::uint32_t, limit>::create("anon:", {.capacity = 50});
    for (std::uint32_t key = 0; key < 50; ++key) ASSERT_EQ(table.try_insert(key, {key * 1.5, key, true}), outcome::ok);
    const auto mapping =
        std::make_shared<const segment>(segment::attach(table.segment().descriptors(), access::read_only));
    auto reader = small_table_reader<std::uint32_t, limit_of_old>(mapping);
    for (std::uint32_t key = 0; key < 50; ++key) {
        const auto got = reader.find(key);
        ASSERT_TRUE(got);
        EXPECT_EQ(got->rate, key * 1.5);
    }
    EXPECT_FALSE(reader.contains(50));
}

TEST(SmallTable, AChildThatInheritedTheWriterMayNotWrite) {
    auto table = numbers::create("memfd:", {.capacity = 10});
    ASSERT_EQ(table.try_insert(1, 10), outcome::ok);
    test::child_process child([&]() -> int {
        if (table.try_insert(2, 2) != outcome::read_only || table.update(1, 2) != outcome::read_only) return 1;
        return table.erase(1) == outcome::read_only && table.insert_or_assign(1, 2) == outcome::read_only ? 0 : 2;
    });
    EXPECT_TRUE(child.wait().success()) << child.wait().text();
    EXPECT_EQ(table.make_reader().find(1), 10U);
}

TEST(SmallTable, VerifyFindsWhatNoWriterLeaves) {
    const auto found_after = [](const std::vector<std::pair<u64, raw_entry>>& stores) {
        auto raw = std::make_shared<segment>(
            detail::create_array("heap:", {.size = 11}, {std::nullopt, schema_of<raw_entry>()}));
        const auto g = detail::array_geometry_of(*raw);
        detail::array_mutator<detail::fixed_element<raw_entry>> writer({raw->body(), g, {}});
        for (const auto& [place, entry] : stores) writer.store(place, 1, detail::bytes_of(entry), sizeof entry);
        std::vector<std::pair<small_table_damage, u64>> found;
        numbers_reader reader(raw);
        (void)reader.verify([&](const small_table_finding& f) {
            found.emplace_back(f.what, f.place);
            return true;
        });
        for (u64 key = 0; key < 10; ++key) (void)reader.find(key);
        return found;
    };
    using ::testing::ElementsAre;
    using ::testing::IsEmpty;
    using ::testing::Pair;
    EXPECT_THAT(found_after({}), IsEmpty());
    EXPECT_THAT(found_after({{3, {1, 1, 1}}, {4, {2, 1, 1}}}), IsEmpty());
    EXPECT_THAT(found_after({{3, {1, 1, 1}}, {4, {1, 1, 2}}}), ElementsAre(Pair(small_table_damage::twice, 4)));
    EXPECT_THAT(found_after({{5, {1, 2, 1}}}), ElementsAre(Pair(small_table_damage::state, 5)));
    EXPECT_THAT(found_after({{6, {0, 0, 1}}}), ElementsAre(Pair(small_table_damage::remains, 6)));
}

TEST(SmallTable, AKeyThatIsThereTwiceIsOneAndGoesAtOnce) {
    test::unique_posix_name name("small");
    (void)numbers::create(name.uri(), {.capacity = 10});
    {
        auto raw = array<raw_entry>::attach(name.uri());
        for (const u64 place : {7U, 2U, 9U}) raw.store(place, {.key = 5, .state = 1, .value = place});
    }
    auto reader = numbers_reader::attach(name.uri());
    EXPECT_EQ(reader.find(5), 2U);
    auto table = numbers::attach(name.uri());
    EXPECT_EQ(table.recovery().doubles, 2U);
    EXPECT_EQ(table.find(5), 2U);
    EXPECT_EQ(table.update(5, 50), outcome::ok);
    EXPECT_EQ(reader.find(5), 50U);
    EXPECT_EQ(table.erase(5), outcome::ok);
    EXPECT_EQ(reader.find(5), std::nullopt);
    EXPECT_EQ(damage_of(reader), "");
    for (u64 key = 0; key < 10; ++key) EXPECT_EQ(table.try_insert(key, key), outcome::ok);
}

// Words that a bad hash would not tell apart, and numbers of words of all sizes.
TEST(KeyArrangement, EveryWordHasItsPlace) {
    test::seeded_random random;
    const std::vector<std::pair<const char*, u64 (*)(u64)>> kinds{
        {"numbers from 0 on", [](u64 i) { return i; }},
        {"upper bits alone", [](u64 i) { return i << 50; }},
        {"strides", [](u64 i) { return i * 0x1'0000'0001; }},
        {"multiples of a power of two", [](u64 i) { return i << 20; }},
        {"texts", [](u64 i) { return 0x3030'3030'3030'3030 + (i % 10) + ((i / 10 % 10) << 8) + ((i / 100) << 32); }},
        {"bits", [](u64 i) { return i < 64 ? u64{1} << i : 3 * i; }},
    };
    const std::size_t most = 5000;
    detail::key_arrangement arrangement(most, random());
    for (const std::size_t count :
         {0U, 1U, 2U, 3U, 4U, 5U, 7U, 8U, 16U, 64U, 264U, 341U, 342U, 512U, 1000U, 4096U, 5000U}) {
        const auto holds = [&](auto&& word_of, const char* kind) {
            std::vector<detail::placed_word> words;
            for (std::size_t i = 0; i < count; ++i) words.push_back({word_of(i), static_cast<std::uint16_t>(i + 1)});
            ASSERT_TRUE(arrangement.arrange(words)) << count << ' ' << kind;
            for (const auto& each : words)
                ASSERT_EQ(arrangement.place_of(each.word), each.place) << count << ' ' << kind;
            for (int i = 0; i < 1000; ++i) ASSERT_LE(arrangement.place_of(random()), count);
        };
        for (const auto& [kind, word_of] : kinds) holds(word_of, kind);
        std::vector<u64> drawn(count);
        for (int round = 0; round < 5; ++round) {
            for (u64& word : drawn) word = random();
            holds([&](u64 i) { return drawn[i]; }, "drawn");
        }
    }
    arrangement.clear();
    EXPECT_EQ(arrangement.place_of(random()), 0U);
}

TEST(KeyArrangement, OfEqualWordsTheFirstCountsAndTooManyAreRefused) {
    detail::key_arrangement arrangement(20, 1);
    std::vector<detail::placed_word> words;
    for (std::uint16_t i = 1; i <= 20; ++i) words.push_back({i % 5U, i});
    ASSERT_TRUE(arrangement.arrange(words));
    for (u64 word = 0; word < 5; ++word) EXPECT_EQ(arrangement.place_of(word), word == 0 ? 5U : word);
    words.push_back({77, 77});
    EXPECT_FALSE(arrangement.arrange(words));
    EXPECT_EQ(arrangement.place_of(77), 0U);
}

}  // namespace
