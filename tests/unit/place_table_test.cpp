// SPDX-License-Identifier: Apache-2.0
#include "net/place_table.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

namespace {

using holdfast::net::place_table;

struct place {
    std::uint32_t number = 7;
    std::unique_ptr<int> owned;
};

TEST(PlaceTable, PlacesThatAreNewAreAsTheirTypeBegins) {
    place_table<place> table;
    EXPECT_EQ(table.size(), 0U);
    table.grow(3 * place_table<place>::step + 1);
    EXPECT_EQ(table.size(), 3 * place_table<place>::step + 1);
    for (std::size_t i = 0; i < table.size(); ++i) {
        ASSERT_EQ(table[i].number, 7U) << i;
        ASSERT_EQ(table[i].owned, nullptr) << i;
    }
}

TEST(PlaceTable, EachPlaceIsAnother) {
    place_table<std::uint32_t> table;
    const std::size_t count = 5 * place_table<std::uint32_t>::step / 2;
    table.grow(count);
    for (std::size_t i = 0; i < count; ++i) table[i] = static_cast<std::uint32_t>(i);
    const place_table<std::uint32_t>& same = table;
    for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(same[i], i);
}

// Attacks P1.
TEST(PlaceTable, PlacesStayWhereTheyAre) {
    place_table<place> table;
    std::vector<const place*> where;
    for (std::size_t count = 1; count < 10 * place_table<place>::step; count += 17) {
        table.grow(count);
        table[count - 1].number = static_cast<std::uint32_t>(count);
        where.push_back(&table[count - 1]);
        for (std::size_t i = 0; i < where.size(); ++i) {
            ASSERT_EQ(&table[i * 17], where[i]);
            ASSERT_EQ(where[i]->number, i * 17 + 1);
        }
    }
}

TEST(PlaceTable, GrowingToLessChangesNothing) {
    place_table<place> table;
    table.grow(10);
    table[9].number = 1;
    table.grow(3);
    EXPECT_EQ(table.size(), 10U);
    EXPECT_EQ(table[9].number, 1U);
}

TEST(PlaceTable, APlaceLargerThanAPieceStandsAlone) {
    using large = std::array<char, 2 * place_table<char>::piece_bytes_max>;
    static_assert(place_table<large>::step == 1);
    place_table<large> table;
    table.grow(2);
    table[1].back() = 'x';
    EXPECT_EQ(table[0].back(), '\0');
}

struct reluctant {
    static inline int left = 0;
    reluctant() {
        if (left-- == 0) throw std::bad_alloc();
    }
};

// Attacks P2: the fifth piece cannot be made.
TEST(PlaceTable, WhatCannotGrowStaysAsItWas) {
    constexpr int step = static_cast<int>(place_table<reluctant>::step);
    place_table<reluctant> table;
    reluctant::left = 4 * step + 5;
    table.grow(1);
    EXPECT_THROW(table.grow(static_cast<std::size_t>(5 * step)), std::bad_alloc);
    EXPECT_EQ(table.size(), 1U);
    reluctant::left = step;
    table.grow(static_cast<std::size_t>(5 * step));
    EXPECT_EQ(table.size(), static_cast<std::size_t>(5 * step));
}

}  // namespace
