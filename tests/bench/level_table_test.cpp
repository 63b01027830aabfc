// SPDX-License-Identifier: Apache-2.0
// The two published many-level tables as written for comparison: do they have the shape that was described?
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <set>
#include <span>
#include <vector>

#include "../../bench/peers/level_table.hpp"
#include "support/hash_table_kinds.hpp"

namespace holdfast::test {

std::vector<workload::hash_table_kind> level_tables() {
    return {workload::kind_of<bench::classic_table>(), workload::kind_of<bench::geometric_table>()};
}

INSTANTIATE_TEST_SUITE_P(Levels, HashTableKinds, testing::ValuesIn(parameters_of(level_tables(), true)), text_of);

}  // namespace holdfast::test

namespace {

using holdfast::bench::geometric_table;
using holdfast::workload::make_keys;
using holdfast::workload::page_choice;
using holdfast::workload::table_value;
using holdfast::workload::value_of;
using study::geometric_rows;
using study::nearest_prime;
using study::row_lengths;
using value = table_value<1>;

/// A table on memory of its own.
struct own_table {
    explicit own_table(const std::vector<std::uint64_t>& lengths)
        : words(study::level_table<value>::bytes_for(lengths) / 8),
          levels(study::level_table<value>::format(std::as_writable_bytes(std::span(words)), lengths)) {}
    std::vector<std::uint64_t> words;
    study::level_table<value> levels;
};

/// Part of the places in use when the first insert is refused.
double usage_at_first_refusal(const std::vector<std::uint64_t>& lengths) {
    own_table own(lengths);
    auto& table = own.levels;
    for (const std::uint64_t key : make_keys(1, 2 * table.places()))
        if (table.insert(key, value_of<value>(key)) != study::level_result::inserted) break;
    return static_cast<double>(table.size()) / static_cast<double>(table.places());
}

TEST(LevelTable, PrimesAreTheNearestThatAreLeft) {
    EXPECT_EQ(nearest_prime(97), 97U);
    EXPECT_EQ(nearest_prime(98), 97U);
    EXPECT_EQ(nearest_prime(99), 101U) << "of two the larger";
    const std::vector<std::uint64_t> taken = {97, 101};
    EXPECT_EQ(nearest_prime(97, taken), 103U) << "6 away, 89 is 8 away";
    EXPECT_EQ(nearest_prime(0), 2U);
}

TEST(LevelTable, RowsAreDistinctPrimesOfTheAskedShape) {
    const std::vector<std::uint64_t> equal = row_lengths(1'000'000, 50, 1.0);
    EXPECT_EQ(equal.size(), 50U);
    EXPECT_EQ(std::set(equal.begin(), equal.end()).size(), 50U);
    EXPECT_NEAR(static_cast<double>(std::accumulate(equal.begin(), equal.end(), std::uint64_t{0})), 1e6, 5e3);
    const std::vector<std::uint64_t> small = row_lengths(11'111, 50, 1.0);
    EXPECT_EQ(std::set(small.begin(), small.end()).size(), 50U);
    EXPECT_NEAR(static_cast<double>(std::accumulate(small.begin(), small.end(), std::uint64_t{0})), 11'111, 200);

    const std::vector<std::uint64_t> shrinking = row_lengths(1'000'000, 15, 0.6);
    for (std::size_t i = 1; i < 8; ++i)
        EXPECT_NEAR(static_cast<double>(shrinking[i]) / static_cast<double>(shrinking[i - 1]), 0.6, 0.01);
}

TEST(LevelTable, RowsOfTheGeometricTableFollowTheRule) {
    EXPECT_EQ(geometric_rows(1'000'000, 0.6), 15U) << "27 rows would bring a million down to one; 3 * sqrt(27) = 15.6";
    EXPECT_EQ(geometric_rows(20, 0.6), 5U) << "few rows are not cut";
}

TEST(LevelTable, UsageIsWhatWasPublished) {
    EXPECT_GT(usage_at_first_refusal(row_lengths(200'000, 50, 1.0)), 0.9);
    EXPECT_GT(usage_at_first_refusal(row_lengths(200'000, geometric_rows(80'000, 0.6), 0.6)), 0.85);
}

TEST(LevelTable, KeysInLaterRowsStayReachableWhenEarlierOnesGo) {
    own_table own(row_lengths(1000, 10, 0.6));
    auto& table = own.levels;
    const std::vector<std::uint64_t> keys = make_keys(1, 800);
    for (const std::uint64_t key : keys)
        ASSERT_EQ(table.insert(key, value_of<value>(key)), study::level_result::inserted);
    for (std::size_t i = 0; i < keys.size(); i += 2) ASSERT_TRUE(table.erase(keys[i]));
    for (std::size_t i = 0; i < keys.size(); ++i) EXPECT_EQ(table.find(keys[i]) != nullptr, i % 2 == 1);
    EXPECT_EQ(table.insert(keys[1], value_of<value>(keys[1])), study::level_result::exists) << "in whichever row";
}

// Not published: an entry that overflowed never comes back, so the short last rows fill up.
TEST(LevelTable, GeometricTableRefusesInsertsUnderChurn) {
    constexpr std::uint64_t entries = 100'000;
    geometric_table<value> table({entries, page_choice::small});
    const std::vector<std::uint64_t> keys = make_keys(1, 6 * entries);
    for (std::uint64_t i = 0; i < entries; ++i) ASSERT_TRUE(table.insert(keys[i], value_of<value>(keys[i])));
    std::uint64_t refused = 0;
    for (std::uint64_t i = 0; i < 5 * entries; ++i) {
        table.erase(keys[i]);
        if (!table.insert(keys[i + entries], value_of<value>(keys[i + entries]))) ++refused;
    }
    EXPECT_GT(refused, entries / 10) << "2 % of the inserts at least";
}

}  // namespace
