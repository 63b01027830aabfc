// SPDX-License-Identifier: Apache-2.0
// Geometry of hash maps: what is planned, and what is refused as an untrusted header.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>

#include "holdfast/layout/hash_map_layout.hpp"

namespace {

using namespace holdfast::layout;

constexpr hash_map_request request{
    .capacity = 1000, .bytes = 100'000, .entry_bytes = 100, .unit_bytes = 64, .evicting = true, .seed = 99};

TEST(HashMapLayout, ThePartsLieOneAfterTheOther) {
    const hash_map_geometry g = plan_hash_map(request);
    EXPECT_GE(g.table.capacity, 1000U);
    EXPECT_EQ(g.table.node_bytes, 24U);
    EXPECT_EQ(g.store.units, 1563U);
    EXPECT_TRUE(g.evicting);
    EXPECT_EQ(g.control_offset() % 4096, 0U);
    EXPECT_GE(g.control_offset(), g.table.body_bytes());
    EXPECT_LT(g.control_offset(), g.table.body_bytes() + 4096);
    EXPECT_EQ(g.store_offset(), g.control_offset() + 4096);
    EXPECT_EQ(g.body_bytes(), g.store_offset() + g.store.body_bytes());
}

TEST(HashMapLayout, RoomFollowsFromTheTypicalEntry) {
    for (const std::uint64_t entry : {std::uint64_t{0}, std::uint64_t{20}, std::uint64_t{120}, std::uint64_t{5000}}) {
        const hash_map_geometry g = plan_hash_map({.capacity = 100, .entry_bytes = entry});
        // A hundred entries with a key of 8 bytes and the spare ones, and no more than one unit a piece beyond them.
        const std::uint64_t each = g.store.units_for(map_value_offset(8) + (entry > 8 ? entry - 8 : 0));
        EXPECT_GE(g.store.units, 101 * each);
        EXPECT_LE(g.store.units, (100 + map_spare_entries) * (each + 1));
    }
}

TEST(HashMapLayout, RequestsThatCannotBeMetSayWhy) {
    EXPECT_EQ(check(request), nullptr);
    EXPECT_EQ(check(hash_map_request{.capacity = 1}), nullptr);
    EXPECT_NE(check(hash_map_request{.capacity = 0}), nullptr);
    EXPECT_NE(check(hash_map_request{.capacity = ~std::uint64_t{0}}), nullptr);
    EXPECT_NE(check(hash_map_request{.capacity = 1, .bytes = ~std::uint64_t{0}}), nullptr);
    for (const std::uint64_t unit : {std::uint64_t{1}, std::uint64_t{96}, std::uint64_t{131072}, std::uint64_t{1} << 63,
                                     ~std::uint64_t{0}, ~std::uint64_t{0} - 63})
        EXPECT_NE(check(hash_map_request{.capacity = 1, .unit_bytes = unit}), nullptr) << unit;
    // Products that would wrap.
    EXPECT_NE(check(hash_map_request{.capacity = std::uint64_t{1} << 36, .entry_bytes = std::uint64_t{1} << 40}),
              nullptr);
    EXPECT_NE(check(hash_map_request{.capacity = std::uint64_t{1} << 36, .entry_bytes = ~std::uint64_t{0}}), nullptr);
}

TEST(HashMapLayout, GeometryGoesThroughTheHeader) {
    for (const bool evicting : {false, true}) {
        hash_map_request changed = request;
        changed.evicting = evicting;
        const hash_map_geometry g = plan_hash_map(changed);
        hash_map_geometry out;
        EXPECT_EQ(read_hash_map_geometry(geometry_words_of(g), g.body_bytes(), out), nullptr);
        EXPECT_EQ(out, g);
    }
}

// All but the seed, which may be any; a capacity is only accepted where the same table follows from it, and one flag is
// known.
TEST(HashMapLayout, EveryChangedGeometryWordIsRefused) {
    const hash_map_geometry g = plan_hash_map(request);
    const auto sound = geometry_words_of(g);
    for (std::size_t i = 0; i < sound.size(); ++i)
        for (unsigned bit = 0; bit < 64; ++bit) {
            auto words = sound;
            words[i] ^= std::uint64_t{1} << bit;
            hash_map_geometry out;
            out.store = {7, 64};
            const char* const why = read_hash_map_geometry(words, g.body_bytes(), out);
            if (i == 1 || (i == 4 && bit == 0)) {
                EXPECT_EQ(why, nullptr) << "word " << i << " bit " << bit;
            } else if (i == 0 && why == nullptr) {
                EXPECT_EQ(out.table.buckets, g.table.buckets) << "bit " << bit;
            } else {
                EXPECT_NE(why, nullptr) << "word " << i << " bit " << bit;
                EXPECT_EQ(out.store.units, 7U) << "nothing is changed";
            }
        }
    hash_map_geometry out;
    for (const std::uint64_t bytes : {std::uint64_t{0}, g.body_bytes() - 64, g.body_bytes() + 64, ~std::uint64_t{0}})
        EXPECT_NE(read_hash_map_geometry(sound, bytes, out), nullptr) << bytes;
}

// Numbers whose products and sums would wrap around to the size of the body.
TEST(HashMapLayout, GeometryThatWrapsIsRefused) {
    hash_map_geometry out;
    auto words = geometry_words_of(plan_hash_map(request));
    for (const std::uint64_t lie : {std::uint64_t{1} << 32, std::uint64_t{1} << 58, ~std::uint64_t{0}})
        for (const std::size_t word : {std::size_t{0}, std::size_t{2}, std::size_t{3}}) {
            auto bad = words;
            bad[word] = lie;
            for (const std::uint64_t bytes : {std::uint64_t{1} << 20, std::uint64_t{1} << 62})
                EXPECT_NE(read_hash_map_geometry(bad, bytes, out), nullptr) << word << " " << lie;
        }
}

}  // namespace
