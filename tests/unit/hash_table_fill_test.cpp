// SPDX-License-Identifier: Apache-2.0
// How full a hash table gets, how it lives when it is nearly full, and what an entry costs.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "support/hash_table_image.hpp"
#include "support/scale.hpp"
#include "support/seed.hpp"
#include "support/table_answer.hpp"

namespace {

using namespace holdfast;
using test::capacity_for_slots;
using test::geometry_for;
using test::hash_table_image;
using u64 = std::uint64_t;
using status = holdfast::test::table_answer;
using table_type = hash_table_image<u64, u64>;

/// The sizes to try: up to a million slots, larger ones only in the long run.
std::vector<u64> sizes() {
    std::vector<u64> s{10'000, 100'000};
    if (!test::sanitized) s.push_back(1'000'000);
    if (test::scale() >= 100) s.push_back(20'000'000);
    return s;
}

/// Keys as random numbers, counting up, and in large steps: what comes in must not matter.
u64 key_number(u64 i, unsigned pattern, u64 seed) {
    switch (pattern) {
        case 0: return test::random_at(seed, 0, i);
        case 1: return i;
        default: return i << 32;
    }
}

TEST(HashTableFill, FirstFailedInsertComesAbove99Percent) {
    test::seeded_random random;
    for (u64 slots : sizes())
        for (unsigned pattern = 0; pattern < 3; ++pattern) {
            table_type table(geometry_for<u64, u64>(capacity_for_slots(slots), random()));
            u64 i = 0;
            while (table.try_insert(key_number(i, pattern, random.seed()), i) == status::inserted) ++i;
            EXPECT_GE(static_cast<double>(i), 0.99 * static_cast<double>(table.geometry().slots()))
                << "pattern " << pattern;
            EXPECT_GE(i, table.geometry().capacity);
            EXPECT_EQ(table.writer().size(), i);
        }
}

TEST(HashTableFill, CapacityAsAskedForAlwaysFits) {
    test::seeded_random random;
    for (u64 capacity : {1U, 2U, 10U, 50U, 75U, 76U, 100U, 500U, 1000U, 5000U})
        for (int round = 0; round < 200; ++round) {
            table_type table(geometry_for<u64, u64>(capacity, random()));
            for (u64 i = 0; i < capacity; ++i)
                ASSERT_EQ(table.try_insert(random(), i), status::inserted) << i << " of " << capacity;
        }
}

// Oldest out, newest in, five times over, at 95 %: no insert may fail, and nothing may be lost.
TEST(HashTableFill, FiveTurnoversAt95PercentNeverFail) {
    test::seeded_random random;
    for (u64 slots : sizes()) {
        table_type table(geometry_for<u64, u64>(capacity_for_slots(slots), random()));
        const u64 live = table.geometry().slots() * 95 / 100;
        const u64 seed = random();
        for (u64 i = 0; i < live; ++i) ASSERT_EQ(table.try_insert(test::random_at(seed, 1, i), i), status::inserted);
        for (u64 i = 0; i < 5 * live; ++i) {
            ASSERT_EQ(table.erase(test::random_at(seed, 1, i)), status::erased) << i;
            ASSERT_EQ(table.try_insert(test::random_at(seed, 1, live + i), live + i), status::inserted) << i;
        }
        EXPECT_EQ(table.writer().size(), live);
        for (u64 i = 0; i < live; ++i) {
            u64 value = 0;
            ASSERT_TRUE(table.find(test::random_at(seed, 1, 5 * live + i), value));
            ASSERT_EQ(value, 5 * live + i);
        }
        if (slots <= 100'000) {
            EXPECT_EQ(table.damage(), "");
        }
    }
}

// The whole segment counts, header and journal included.
// 480 bytes for 26 places are 20.51 bytes for each entry at 90 %, and the checksum of 16 buckets makes 20.534 of that.
// On top come the journal and, from 64 MiB on, the way to the next huge page: less than 2 MiB.
TEST(HashTableFill, SixteenByteEntryCosts20Point53BytesAt90PercentAndTheTableAJournal) {
    for (const u64 slots : {10'000U, 100'000U, 1'000'000U, 20'000'000U}) {
        const auto g = geometry_for<u64, u64>(capacity_for_slots(slots));
        const double entries = 0.9 * static_cast<double>(g.slots());
        const double on_top = 200 + (slots == 20'000'000U ? 2 << 20 : 0);
        EXPECT_GE(static_cast<double>(g.body_bytes()), 20.534 * entries) << slots;
        EXPECT_LE(static_cast<double>(g.body_bytes()), 20.535 * entries + on_top) << slots;
    }
}

}  // namespace
