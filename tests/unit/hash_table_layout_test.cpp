// SPDX-License-Identifier: Apache-2.0
#include "holdfast/layout/hash_table_layout.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

namespace {

using namespace holdfast;
using layout::hash_table_geometry;

using words = std::array<std::uint64_t, 16>;

hash_table_geometry example() {
    return layout::plan_hash_table(
        {.capacity = 1000, .key_bytes = 8, .value_bytes = 24, .value_alignment = 8, .seed = 42});
}

const char* reason(const words& w, std::uint64_t body_bytes) {
    hash_table_geometry out;
    return layout::read_hash_table_geometry(w, body_bytes, out);
}

TEST(HashTableLayout, PlanSurvivesTheHeader) {
    for (std::uint64_t capacity : {1U, 2U, 77U, 78U, 1000U, 1000000U, 30000000U})
        for (std::uint64_t key : {1U, 4U, 8U, 13U, 16U, 4096U})
            for (std::uint64_t value : {1U, 3U, 8U, 9U, 24U, 65536U}) {
                const hash_table_geometry g = layout::plan_hash_table(
                    {.capacity = capacity, .key_bytes = key, .value_bytes = value, .value_alignment = 4, .seed = 7});
                hash_table_geometry back;
                const char* why = layout::read_hash_table_geometry(layout::geometry_words_of(g), g.body_bytes(), back);
                ASSERT_EQ(why, nullptr) << why;
                EXPECT_EQ(back, g);
                EXPECT_NE(reason(layout::geometry_words_of(g), g.body_bytes() - 1), nullptr);
            }
}

TEST(HashTableLayout, CapacityFillsAtMost97PercentOfAPrimeNumberOfBuckets) {
    for (std::uint64_t capacity = 1; capacity < 20000; capacity += 37) {
        const hash_table_geometry g = layout::plan_hash_table({.capacity = capacity, .key_bytes = 8, .value_bytes = 8});
        EXPECT_GE(g.buckets, 3U);
        EXPECT_TRUE(layout::is_prime(g.buckets));
        EXPECT_GE(static_cast<double>(g.slots()), 1.03 * static_cast<double>(capacity));
        // No prime in between was passed over.
        for (std::uint64_t b = (capacity * 103 + 2599) / 2600; b < g.buckets; ++b)
            EXPECT_TRUE(b < 3 || !layout::is_prime(b));
    }
}

TEST(HashTableLayout, PrimesAreThoseOfTheSieve) {
    std::vector<bool> composite(10000);
    for (std::size_t i = 2; i < composite.size(); ++i) {
        EXPECT_EQ(layout::is_prime(i), !composite[i]) << i;
        for (std::size_t j = 2 * i; j < composite.size(); j += i) composite[j] = true;
    }
    EXPECT_TRUE(layout::is_prime(layout::buckets_max));
    EXPECT_FALSE(layout::is_prime(65521ULL * 65519));
}

TEST(HashTableLayout, SmallValuesNeverCrossAWord) {
    for (std::uint64_t key = 1; key <= 40; ++key)
        for (std::uint64_t value = 1; value <= 8; ++value)
            for (std::uint64_t alignment : {1U, 2U, 4U, 8U}) {
                const auto g = layout::plan_hash_table(
                    {.capacity = 10, .key_bytes = key, .value_bytes = value, .value_alignment = alignment});
                EXPECT_LE(g.value_offset % 8 + value, 8U) << key << ' ' << value;
                EXPECT_EQ(g.value_offset % alignment, 0U);
                EXPECT_EQ(g.node_bytes % 8, 0U);
                EXPECT_GE(g.node_bytes, g.value_offset + value);
            }
}

TEST(HashTableLayout, SixteenByteEntryTakesSixteenBytesPlusItsShareOfALine) {
    const auto g = layout::plan_hash_table({.capacity = 1000000, .key_bytes = 8, .value_bytes = 8});
    EXPECT_EQ(g.node_bytes, 16U);
    EXPECT_EQ(g.body_bytes() - g.lines_offset, g.slots() * 16 + g.buckets * 64);
}

TEST(HashTableLayout, ChecksumsLeaveASixteenByteEntryBelow2055HundredthsAt90Percent) {
    const auto g = layout::plan_hash_table({.capacity = 1'000'000, .key_bytes = 8, .value_bytes = 8});
    EXPECT_EQ(g.regions(), (g.buckets + 15) / 16);
    EXPECT_LE(static_cast<double>(g.body_bytes()) / (0.9 * static_cast<double>(g.slots())), 20.55);
}

TEST(HashTableLayout, LargeTableStartsItsLinesOnAHugePage) {
    const auto g = layout::plan_hash_table({.capacity = 10'000'000, .key_bytes = 8, .value_bytes = 8});
    EXPECT_EQ((g.lines_offset + 4096) % (2U << 20), 0U);
}

TEST(HashTableLayout, RequestsOutsideTheLimitsAreRefusedWithAReason) {
    const layout::hash_table_request good{.capacity = 1, .key_bytes = 1, .value_bytes = 1};
    EXPECT_EQ(layout::check(good), nullptr);
    const auto refused = [&](auto&& change) {
        layout::hash_table_request r = good;
        change(r);
        return layout::check(r) != nullptr;
    };
    EXPECT_TRUE(refused([](auto& r) { r.capacity = 0; }));
    EXPECT_TRUE(refused([](auto& r) { r.capacity = layout::hash_table_capacity_max + 1; }));
    EXPECT_TRUE(refused([](auto& r) { r.key_bytes = 0; }));
    EXPECT_TRUE(refused([](auto& r) { r.key_bytes = 4097; }));
    EXPECT_TRUE(refused([](auto& r) { r.value_bytes = 0; }));
    EXPECT_TRUE(refused([](auto& r) { r.value_bytes = 65537; }));
    EXPECT_TRUE(refused([](auto& r) { r.value_alignment = 3; }));
    EXPECT_TRUE(refused([](auto& r) { r.value_alignment = 0; }));
}

TEST(HashTableLayout, LargestTableThatCanBePlannedIsValid) {
    const auto g = layout::plan_hash_table(
        {.capacity = layout::hash_table_capacity_max, .key_bytes = 4096, .value_bytes = 65536, .value_alignment = 8});
    EXPECT_LE(g.buckets, layout::buckets_max);
    EXPECT_EQ(reason(layout::geometry_words_of(g), g.body_bytes()), nullptr);
}

// Attacks I1: whatever a word is changed to, either the geometry is refused or every part still lies inside the body.
TEST(HashTableLayout, ChangedWordIsRefusedOrStillInBounds) {
    const hash_table_geometry good = example();
    const std::uint64_t body = good.body_bytes();
    const words sound = layout::geometry_words_of(good);
    std::uint64_t accepted = 0;
    for (std::size_t i = 0; i < sound.size(); ++i) {
        std::vector<std::uint64_t> values{0, 1, 2, 3, 63, 64, 65, body - 64, body - 1, body, body + 1};
        for (unsigned bit = 0; bit < 64; ++bit) {
            values.push_back(std::uint64_t{1} << bit);
            values.push_back((std::uint64_t{1} << bit) - 1);
            values.push_back(sound[i] ^ (std::uint64_t{1} << bit));
            values.push_back(~(std::uint64_t{1} << bit));
        }
        for (std::uint64_t d = 0; d < 200; ++d) {
            values.push_back(sound[i] + d);
            values.push_back(sound[i] - d);
        }
        values.push_back(std::numeric_limits<std::uint64_t>::max());
        for (std::uint64_t value : values) {
            words w = sound;
            w[i] = value;
            hash_table_geometry g;
            if (layout::read_hash_table_geometry(w, body, g) != nullptr) continue;
            ++accepted;
            __extension__ using wide = unsigned __int128;
            const wide journal_end = wide{g.journal_offset} + 64 + g.node_bytes;
            const wide lines_end = wide{g.lines_offset} + wide{g.buckets} * 64;
            const wide nodes_end = wide{g.nodes_offset} + wide{g.buckets} * 26 * g.node_bytes;
            EXPECT_LE(journal_end, g.digests_offset);
            EXPECT_LE(wide{g.digests_offset} + wide{(g.buckets + 15) / 16} * 8, g.lines_offset);
            EXPECT_LE(lines_end, g.nodes_offset);
            EXPECT_LE(nodes_end, body);
            EXPECT_EQ((g.journal_offset | g.digests_offset | g.lines_offset | g.nodes_offset) % 64, 0U);
            EXPECT_EQ(g.node_bytes % 8, 0U);
            EXPECT_LE(g.key_bytes, g.value_offset);
            EXPECT_LE(g.value_offset + g.value_bytes, g.node_bytes);
            EXPECT_LT(2 * g.pairs_max, g.buckets);
        }
    }
    EXPECT_GT(accepted, 0U);  // the seed may be anything
}

TEST(HashTableLayout, EveryKindOfDamageHasItsReason) {
    const hash_table_geometry good = example();
    const auto reason_of = [&](std::size_t word, std::uint64_t value) {
        words w = layout::geometry_words_of(good);
        w[word] = value;
        const char* why = reason(w, good.body_bytes());
        return std::string(why == nullptr ? "" : why);
    };
    EXPECT_THAT(reason_of(0, 0), ::testing::HasSubstr("capacity"));
    EXPECT_THAT(reason_of(1, 2), ::testing::HasSubstr("number of buckets"));
    EXPECT_THAT(reason_of(1, 9), ::testing::HasSubstr("probe length"));
    EXPECT_THAT(reason_of(2, 0), ::testing::HasSubstr("probe length"));
    EXPECT_THAT(reason_of(3, 0), ::testing::HasSubstr("key size"));
    EXPECT_THAT(reason_of(4, 0), ::testing::HasSubstr("value size"));
    EXPECT_THAT(reason_of(5, 36), ::testing::HasSubstr("node size"));
    EXPECT_THAT(reason_of(6, 4), ::testing::HasSubstr("right behind the key"));
    EXPECT_THAT(reason_of(6, 16), ::testing::HasSubstr("right behind the key"));
    EXPECT_THAT(reason_of(7, 1U << 30), ::testing::HasSubstr("behind the end"));
    EXPECT_THAT(reason_of(8, good.nodes_offset + 8), ::testing::HasSubstr("not aligned"));
    EXPECT_THAT(reason_of(8, good.nodes_offset + 64), ::testing::HasSubstr("behind the end"));
    EXPECT_THAT(reason_of(9, 64), ::testing::HasSubstr("overlap"));
    EXPECT_THAT(reason_of(11, 1), ::testing::HasSubstr("not aligned"));
    EXPECT_THAT(reason_of(11, 0), ::testing::HasSubstr("overlap"));
    EXPECT_THAT(reason_of(11, good.lines_offset), ::testing::HasSubstr("overlap"));
    EXPECT_THAT(reason_of(11, good.body_bytes() + 64), ::testing::HasSubstr("behind the end"));
    EXPECT_THAT(reason_of(12, 1), ::testing::HasSubstr("number of stripes"));
    EXPECT_THAT(reason_of(12, 1025), ::testing::HasSubstr("writer slots"));
    EXPECT_THAT(reason_of(13, 1), ::testing::HasSubstr("number of stripes"));
    EXPECT_THAT(reason_of(14, 64), ::testing::HasSubstr("number of stripes"));
    EXPECT_THAT(reason_of(15, 1), ::testing::HasSubstr("leaves zero"));
}

}  // namespace
