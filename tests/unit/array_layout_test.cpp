// SPDX-License-Identifier: Apache-2.0
// Where everything in an array lies, for any size of array and element, and what a reader of the geometry refuses.
#include <gtest/gtest.h>

#include <cstdint>

#include "holdfast/layout/array_layout.hpp"

namespace {

using namespace holdfast::layout;
using u64 = std::uint64_t;

// The numbers below are layout v1: a change of one of them needs a new version.
TEST(ArrayLayout, IsPinned) {
    const array_geometry narrow = plan_array(1000, 8);
    EXPECT_EQ(narrow, (array_geometry{1000, 8, 8, 128, 512, 0, 4224, 4288, 4288}));
    EXPECT_EQ(narrow.body_bytes(), 4288U + 8000U);
    const array_geometry wide = plan_array(1000, 20);
    EXPECT_EQ(wide, (array_geometry{1000, 20, 24, 32, 170, 0, 4224, 4480, 4736}));
    EXPECT_EQ(plan_array(5, 3).stride, 4U);
    EXPECT_EQ(plan_array(5, 1200), (array_geometry{5, 1200, 1200, 1, 3, 0, 3776, 3840, 3904}));
}

TEST(ArrayLayout, EveryPlanIsAcceptedAndARecordsGroupsFitIntoTheJournal) {
    for (u64 bytes = 1; bytes <= array_element_bytes_max; bytes += bytes < 5000 ? 1 : 777)
        for (const u64 size : {u64{1}, u64{2}, u64{1000}, array_size_max}) {
            ASSERT_EQ(check_array(size, bytes), nullptr);
            const array_geometry g = plan_array(size, bytes);
            array_geometry read;
            const char* const why = read_array_geometry(geometry_words_of(g), g.body_bytes(), read);
            ASSERT_EQ(why, nullptr) << why << ", " << bytes << " bytes";
            EXPECT_EQ(read, g);
            EXPECT_NE(read_array_geometry(geometry_words_of(g), g.body_bytes() - 1, read), nullptr);
            // However a record of range_max elements lies to the groups.
            EXPECT_LE((g.range_max - 1) / g.group_elements + 2, array_next_max) << bytes;
            EXPECT_LT(g.range_max, 1U << 16);
            EXPECT_GE(g.range_max, g.group_elements);  // fill() goes by whole groups
            EXPECT_GE(g.stride, bytes);
            EXPECT_LE(g.versions_bytes() + g.groups() * 8, (g.size * g.stride + 1023) / 512 * 16 + 64);
        }
}

TEST(ArrayLayout, GroupsOfAnotherSizeThanPlannedAreRefused) {
    for (const u64 bytes : {u64{1}, u64{8}, u64{20}, u64{1200}, array_element_bytes_max}) {
        const array_geometry g = plan_array(5000, bytes);
        // A body with room for whatever the other groups would need.
        const u64 room = g.body_bytes() + (u64{1} << 20);
        for (u64 elements = 1; elements <= 2 * array_group_bytes; elements *= 2) {
            array_geometry changed = g;
            changed.group_elements = elements;
            changed.versions_offset += 1 << 17;
            changed.elements_offset += 1 << 18;
            array_geometry read;
            const char* const why = read_array_geometry(geometry_words_of(changed), room, read);
            EXPECT_EQ(why == nullptr, elements == g.group_elements) << elements << " of " << bytes << " bytes";
        }
    }
}

TEST(ArrayLayout, ImpossibleRequestsAreRefusedWithACure) {
    EXPECT_STREQ(check_array(0, 8), "the size is 0; ask for at least one element");
    EXPECT_NE(check_array(array_size_max + 1, 8), nullptr);
    EXPECT_NE(check_array(1, 0), nullptr);
    EXPECT_NE(check_array(1, array_element_bytes_max + 1), nullptr);
}

}  // namespace
