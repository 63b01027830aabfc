// SPDX-License-Identifier: Apache-2.0
// What operations of a hash table cost in instructions (instruction_cost.hpp). That tables can have many writers, and
// can grow, is not paid by those of one writer that do not: their operations stay below ceilings that leave no room for
// a stripe. design/0004 has the numbers.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "holdfast/hash_table.hpp"
#include "holdfast/hash_table/many.hpp"
#include "holdfast/perf_test/counters.hpp"
#include "support/instruction_cost.hpp"
#include "support/scale.hpp"

namespace {

using namespace holdfast;
using perf_test::run_counted;
using test::expect_cost;
using test::expect_nothing_of_many;
using u64 = std::uint64_t;

constexpr u64 entries = 10'000, large_entries = 80'000;  // the latter's nodes are more than the second cache holds
const hash_table_options options{.capacity = 11'111, .seed = 1};

template <class Reader>
void count_finds(Reader& table) {
    u64 found = 0;
    run_counted([&] {
        for (u64 n = 0; n < 2 * entries; ++n) found += table.find(n).has_value() ? 1 : 0;
    });
    ASSERT_EQ(found, entries);
}
/// The same keys, all there, each value into the caller's place.
struct seven_words {
    std::array<u64, 7> words;
};
void count_wide_finds() {
    auto table = hash_table<u64, seven_words>::create("heap:", options);
    for (u64 n = 0; n < entries; ++n) ASSERT_TRUE(table.try_insert(n, {{n}}));
    u64 found = 0;
    seven_words value{};
    run_counted([&] {
        for (u64 n = 0; n < entries; ++n) {
            found += table.find(n, value) ? 1 : 0;
            asm volatile("" : : "m"(value));
        }
    });
    ASSERT_EQ(found, entries);
}
/// The same keys, 16 at a time, of as many entries.
void count_batches(u64 of, std::uint64_t capacity) {
    auto table = hash_table<u64, u64>::create("heap:", {.capacity = capacity, .seed = 1});
    for (u64 n = 0; n < of; ++n) ASSERT_TRUE(table.try_insert(n, n));
    std::array<u64, 16> keys{};
    std::array<std::optional<u64>, 16> values{};
    u64 found = 0;
    run_counted([&] {
        for (u64 from = 0; from < 2 * of; from += keys.size()) {
            std::iota(keys.begin(), keys.end(), from);
            found += table.find_many(keys, values);
        }
    });
    ASSERT_EQ(found, of);
}
/// Into a table whose lines are asked for ahead, 64 at a time or one after the other.
void count_inserts(std::size_t at_once) {
    auto table = hash_table<u64, u64>::create("heap:", {.capacity = 88'889, .seed = 1});
    std::vector<u64> keys(large_entries);
    std::iota(keys.begin(), keys.end(), 0);
    const std::span<const u64> all(keys);
    u64 done = 0;
    run_counted([&] {
        if (at_once == 1)
            for (const u64 key : keys) done += table.try_insert(key, key) ? 1 : 0;
        else
            for (u64 from = 0; from < large_entries; from += at_once)
                done += table.try_insert_many(all.subspan(from, at_once), all.subspan(from, at_once));
    });
    ASSERT_EQ(done, large_entries);
}

enum class change { insert, update, erase };
/// The same keys again, each changed once.
template <class Table>
void count_changes(change what) {
    auto table = Table::create("heap:", options);
    const typename Table::mapped_type value{};
    const auto each = [&](auto&& operation) {
        u64 done = 0;
        for (u64 n = 0; n < entries; ++n) done += operation(n) ? 1 : 0;
        return done;
    };
    const auto insert = [&](u64 n) { return table.try_insert(n, value); };
    u64 done = what == change::insert ? entries : each(insert);
    ASSERT_EQ(done, entries);
    run_counted([&] {
        switch (what) {
            case change::insert: done = each(insert); break;
            case change::update: done = each([&](u64 n) { return table.update(n, value); }); break;
            case change::erase: done = each([&](u64 n) { return table.erase(n); }); break;
        }
    });
    ASSERT_EQ(done, entries);
}
using narrow = hash_table<u64, u64>;
using wide = hash_table<u64, seven_words>;
using narrow_of_many = hash_table<u64, u64, writers::many>;
using wide_of_many = hash_table<u64, seven_words, writers::many>;

const test::counted_bodies counted{
    {"Finds",
     [] {
         auto table = hash_table<u64, u64>::create("heap:", options);
         for (u64 n = 0; n < entries; ++n) ASSERT_TRUE(table.try_insert(n, n));
         count_finds(table);
     }},
    {"FindsOfWideValues", [] { count_wide_finds(); }},
    {"FindsInBatches", [] { count_batches(entries, options.capacity); }},
    {"FindsInBatchesOfALargeTable", [] { count_batches(large_entries, 88'889); }},
    {"Inserts", [] { count_inserts(1); }},
    {"InsertsAtOnce", [] { count_inserts(64); }},
    {"Insert", [] { count_changes<narrow>(change::insert); }},
    {"InsertWide", [] { count_changes<wide>(change::insert); }},
    {"InsertOfMany", [] { count_changes<narrow_of_many>(change::insert); }},
    {"InsertWideOfMany", [] { count_changes<wide_of_many>(change::insert); }},
    {"Update", [] { count_changes<narrow>(change::update); }},
    {"UpdateWide", [] { count_changes<wide>(change::update); }},
    {"UpdateOfMany", [] { count_changes<narrow_of_many>(change::update); }},
    {"UpdateWideOfMany", [] { count_changes<wide_of_many>(change::update); }},
    {"Erase", [] { count_changes<narrow>(change::erase); }},
    {"EraseWide", [] { count_changes<wide>(change::erase); }},
    {"EraseOfMany", [] { count_changes<narrow_of_many>(change::erase); }},
    {"EraseWideOfMany", [] { count_changes<wide_of_many>(change::erase); }},
};

// Each operation by itself: what one pays alone would be lost in a mean.
TEST(HashTableCost, OfOneWriterHasNothingOfManyInIt) {
    if (test::sanitized) GTEST_SKIP() << "needs: a build without sanitizers";
    if (expect_cost("Finds", 2 * entries, 58.9) == 0) GTEST_SKIP() << "needs: valgrind";
    expect_nothing_of_many({{"Insert", 202.4},
                            {"Update", 110.0},
                            {"Erase", 121.8},
                            {"InsertWide", 315.8},
                            {"UpdateWide", 359.9},
                            {"EraseWide", 219.6}},
                           entries, 100);
}

// Fifty-six bytes are copied once, by vectors: word by word they cost 109 instructions.
TEST(HashTableCost, OfAWideValueIsLittleMoreThanThatOfAWord) {
    if (test::sanitized) GTEST_SKIP() << "needs: a build without sanitizers";
    if (expect_cost("FindsOfWideValues", entries, 68.9) == 0) GTEST_SKIP() << "needs: valgrind";
}

// A key of a batch costs no more than a find, where nothing is asked for ahead, and little more, where it is.
TEST(HashTableCost, OfABatchIsLittleMoreThanThatOfItsFinds) {
    if (test::sanitized) GTEST_SKIP() << "needs: a build without sanitizers";
    const double near = expect_cost("FindsInBatches", 2 * entries, 63.8);
    if (near == 0) GTEST_SKIP() << "needs: valgrind";
    EXPECT_GT(expect_cost("FindsInBatchesOfALargeTable", 2 * large_entries, 97.5), near);
}

// What is asked for ahead costs a hash and two addresses.
TEST(HashTableCost, OfManyInsertsAtOnceIsLittleMoreThanThatOfEach) {
    if (test::sanitized) GTEST_SKIP() << "needs: a build without sanitizers";
    const double each = expect_cost("Inserts", large_entries, 209.6);
    if (each == 0) GTEST_SKIP() << "needs: valgrind";
    const double at_once = expect_cost("InsertsAtOnce", large_entries, 225.8);
    EXPECT_GT(at_once, each);
    EXPECT_LT(at_once, each + 40);
}

}  // namespace
