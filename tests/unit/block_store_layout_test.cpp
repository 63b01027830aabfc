// SPDX-License-Identifier: Apache-2.0
// Geometry of block stores: what is planned, and what is refused as an untrusted header.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>

#include "holdfast/block_store/view.hpp"
#include "holdfast/layout/block_store_layout.hpp"

namespace {

using namespace holdfast::layout;
using view = holdfast::detail::block_view<const std::byte>;

// No bytes, for what is asked of numbers alone; at an address, since that of none must not be added to.
std::span<const std::byte> nothing() {
    static const std::byte here{};
    return {&here, 0};
}

TEST(BlockStoreLayout, PlansWholeUnits) {
    const block_store_geometry g = plan_block_store({.bytes = 1000, .value_bytes = 0, .unit_bytes = 64});
    EXPECT_EQ(g.units, 16U);
    EXPECT_EQ(g.unit_bytes, 64U);
    EXPECT_EQ(g.units_offset(), 8192U);
    EXPECT_EQ(g.body_bytes(), 8192U + 16 * 64);
    EXPECT_EQ(g.value_bytes_max(), 1000U);
}

TEST(BlockStoreLayout, UnitsFitTheTypicalValue) {
    EXPECT_EQ(best_unit_bytes(0), 64U);
    EXPECT_EQ(best_unit_bytes(100), 64U);
    EXPECT_EQ(best_unit_bytes(1000), 128U);
    EXPECT_EQ(best_unit_bytes(16 * 1024), 512U);
    EXPECT_EQ(best_unit_bytes(~std::uint64_t{0}), block_unit_bytes_max);
    // Half a unit is lost at the end of a value and 8 bytes with each unit: no other unit loses less.
    for (const std::uint64_t bytes :
         {std::uint64_t{1}, std::uint64_t{300}, std::uint64_t{5000}, std::uint64_t{300000}}) {
        const auto waste = [&](std::uint64_t unit) { return unit / 2 + 8 * (bytes + block_head_bytes) / unit; };
        const std::uint64_t best = best_unit_bytes(bytes);
        for (std::uint64_t unit = block_unit_bytes_min; unit <= block_unit_bytes_max; unit *= 2)
            EXPECT_LE(waste(best), waste(unit)) << bytes << " bytes, unit " << unit;
    }
}

TEST(BlockStoreLayout, CountsTheUnitsOfAValue) {
    const block_store_geometry g{1000, 64};
    EXPECT_EQ(g.units_for(0), 1U);
    EXPECT_EQ(g.units_for(40), 1U);
    EXPECT_EQ(g.units_for(41), 2U);
    EXPECT_EQ(g.units_for(40 + 64), 2U);
    EXPECT_EQ(g.units_for(g.value_bytes_max()), 1000U);
    EXPECT_EQ(g.units_for_at_worst(40), 1U);
    EXPECT_EQ(g.units_for_at_worst(41), 2U);
    EXPECT_EQ(g.units_for_at_worst(40 + 56), 2U);
    EXPECT_EQ(g.units_for_at_worst(40 + 57), 3U);
}

TEST(BlockStoreLayout, RequestsThatCannotBeMetSayWhy) {
    EXPECT_NE(check({.bytes = 0, .value_bytes = 1, .unit_bytes = 0}), nullptr);
    EXPECT_NE(check({.bytes = 1, .value_bytes = 1, .unit_bytes = 32}), nullptr);
    EXPECT_NE(check({.bytes = 1, .value_bytes = 1, .unit_bytes = 96}), nullptr);
    EXPECT_NE(check({.bytes = 1, .value_bytes = 1, .unit_bytes = 131072}), nullptr);
    EXPECT_NE(check({.bytes = ~std::uint64_t{0}, .value_bytes = 1, .unit_bytes = 64}), nullptr);
    EXPECT_EQ(check({.bytes = 1, .value_bytes = 1, .unit_bytes = 64}), nullptr);
    EXPECT_EQ(check({.bytes = block_units_max * 64, .value_bytes = 1, .unit_bytes = 64}), nullptr);
}

TEST(BlockStoreLayout, GeometryGoesThroughTheHeader) {
    for (const block_store_geometry g : {block_store_geometry{1, 64}, {2, 65536}, {123457, 256}}) {
        block_store_geometry out;
        EXPECT_EQ(read_block_store_geometry(geometry_words_of(g), g.body_bytes(), out), nullptr);
        EXPECT_EQ(out, g);
    }
}

TEST(BlockStoreLayout, EveryChangedGeometryWordIsRefused) {
    const block_store_geometry g{500, 128};
    const auto sound = geometry_words_of(g);
    for (std::size_t i = 0; i < sound.size(); ++i)
        for (unsigned bit = 0; bit < 64; ++bit) {
            auto words = sound;
            words[i] ^= std::uint64_t{1} << bit;
            block_store_geometry out{7, 64};
            EXPECT_NE(read_block_store_geometry(words, g.body_bytes(), out), nullptr) << "word " << i << " bit " << bit;
            EXPECT_EQ(out.units, 7U);
        }
    block_store_geometry out;
    EXPECT_NE(read_block_store_geometry(sound, g.body_bytes() - 128, out), nullptr);
    EXPECT_NE(read_block_store_geometry(sound, g.body_bytes() + 128, out), nullptr);
    EXPECT_NE(read_block_store_geometry(sound, 0, out), nullptr);
}

// Numbers whose products and sums would wrap around to the size of the body.
TEST(BlockStoreLayout, GeometryThatWrapsIsRefused) {
    block_store_geometry out;
    for (const std::uint64_t units : {std::uint64_t{1} << 32, std::uint64_t{1} << 58, ~std::uint64_t{0}}) {
        const block_store_geometry g{units, 64};
        EXPECT_NE(read_block_store_geometry(geometry_words_of(g), g.body_bytes(), out), nullptr);
    }
}

TEST(BlockStoreLayout, AHandleIsItsIndexAndItsSerial) {
    for (const std::uint64_t units :
         {std::uint64_t{1}, std::uint64_t{2}, std::uint64_t{3}, std::uint64_t{1000}, block_units_max}) {
        const view v(nothing(), {units, 64});
        for (const std::uint64_t index : {std::uint64_t{0}, units / 2, units - 1})
            for (const std::uint64_t serial : {std::uint64_t{1}, v.serial_max()}) {
                const std::uint64_t handle = v.handle(index, serial);
                EXPECT_EQ(v.index_of(handle), index);
                EXPECT_EQ(v.serial_of(handle), serial);
                EXPECT_TRUE(v.is_handle(handle));
                EXPECT_FALSE(v.is_handle(handle & ~block_live_bit));
                EXPECT_FALSE(v.is_handle(handle | block_claim_bit));
            }
        EXPECT_FALSE(v.is_handle(v.handle(0, 0))) << "serial 0 is none";
        EXPECT_GE(v.serial_max(), (std::uint64_t{1} << 30) - 1);
    }
    const view v(nothing(), {1000, 64});
    EXPECT_FALSE(v.is_handle(v.handle(1000, 5))) << "no such unit";
}

TEST(BlockStoreLayout, AValueOfOneRunEndsInItsLastUnit) {
    const view v(nothing(), {1000, 64});
    for (const std::uint64_t units : {std::uint64_t{1}, std::uint64_t{2}, std::uint64_t{1000}}) {
        const std::uint64_t run = block_run_word(units, block_no_run), room = units * 64 - block_head_bytes;
        const std::uint64_t least = units == 1 ? 0 : room - 63;
        EXPECT_TRUE(v.is_one_run(0, room, run));
        EXPECT_TRUE(v.is_one_run(0, least, run));
        EXPECT_FALSE(v.is_one_run(1000 - units + 1, room, run));
        // Sizes around both ends, and those that wrap.
        for (std::uint64_t off = 1; off < 200; ++off) {
            EXPECT_FALSE(v.is_one_run(0, room + off, run)) << off;
            EXPECT_FALSE(v.is_one_run(0, least - off, run)) << off;
            EXPECT_FALSE(v.is_one_run(0, std::uint64_t{0} - off, run)) << off;
        }
    }
    EXPECT_FALSE(v.is_one_run(0, 10, block_run_word(1, 5))) << "another run follows";
    EXPECT_FALSE(v.is_one_run(0, 10, block_run_word(0, block_no_run)));
}

}  // namespace
