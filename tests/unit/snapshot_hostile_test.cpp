// SPDX-License-Identifier: Apache-2.0
// A snapshot whose bytes somebody scribbled on: nothing crashes, hangs or reads out of bounds; what matters is found.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "holdfast/layout/snapshot_verify.hpp"
#include "support/image_corruption.hpp"
#include "support/scale.hpp"
#include "support/snapshot_bench.hpp"

namespace {

using holdfast::outcome;
using holdfast::layout::findings;
using holdfast::layout::no_hazards;
using holdfast::layout::snapshot_geometry;
using holdfast::layout::snapshot_pin_core;
using holdfast::layout::snapshot_read_core;
using holdfast::layout::snapshot_slot;
using holdfast::layout::snapshot_slot_of;
using holdfast::layout::snapshot_write_core;
using holdfast::test::damage;
using holdfast::test::for_each_bit_flip;
using holdfast::test::for_each_word_damage;
using holdfast::test::hazard_bench;
using holdfast::test::image_part;
using holdfast::test::is_whole;
using holdfast::test::random_damage;
using holdfast::test::snapshot_bench;
using holdfast::test::whole_object;

constexpr std::size_t object_bytes = 200;

class SnapshotHostile : public ::testing::Test {
 protected:
    explicit SnapshotHostile(std::size_t bytes = object_bytes) : bench_(3, bytes), bytes_(bytes) {
        auto writer = bench_.writer();
        no_hazards nobody;
        for (std::uint64_t version = 1; version <= 5; ++version)
            EXPECT_TRUE(writer.publish(whole_object(version, bytes - version), nobody, version));
        sound_.assign(bench_.body().begin(), bench_.body().end());
    }

    // Everything that any role does with an image; the answers may be anything but impossible.
    void use(std::span<std::byte> image) {
        const snapshot_geometry& geometry = bench_.geometry();
        const snapshot_read_core reader(image, geometry);
        std::vector<std::byte> out(2 * object_bytes);
        const auto got = reader.read(out);
        ASSERT_TRUE(got.status == outcome::ok || got.status == outcome::corrupt || got.status == outcome::empty);
        ASSERT_LE(got.bytes, bytes_);
        const auto seen = reader.visit([&](std::span<const std::byte> object, std::uint64_t) {
            ASSERT_LE(object.size(), bytes_);
            ASSERT_GE(object.data(), image.data());
            ASSERT_LE(object.data() + object.size(), image.data() + image.size());
        });
        // Out of the front where the slot is damaged.
        ASSERT_TRUE(seen.status == got.status || (seen.status == outcome::corrupt && got.bytes <= 40));
        std::vector<std::byte> slot(2 * object_bytes);
        const auto in_slot = reader.read_slot(slot);
        ASSERT_EQ(in_slot.status, seen.status);
        hazard_bench hazards(1);
        snapshot_pin_core pin(reader, hazards.cell(0));
        ASSERT_EQ(pin.pin().status, seen.status);
        findings found;
        verify_snapshot(image, geometry, found);
        found_ = found.count();
        if (seen.status == outcome::corrupt || (got && (in_slot.bytes != got.bytes || slot != out))) {
            ASSERT_GT(found_, 0U);
        }
        try {
            snapshot_write_core writer(image, geometry, "hostile");
            const auto next = writer.publish(whole_object(77, bytes_), hazards, 0);
            if (next) {
                const auto after = reader.read(out);
                ASSERT_EQ(after.version, next.version);
                out.resize(bytes_);
                ASSERT_EQ(out, whole_object(77, bytes_));
            }
        } catch (const holdfast::error& e) {
            ASSERT_EQ(e.reason(), holdfast::errc::corrupt);
            ASSERT_GT(found_, 0U) << "a writer refuses what verify finds sound";
        }
    }

    [[nodiscard]] image_part header_of(std::uint32_t slot) const {
        return {"slot header", static_cast<std::size_t>(snapshot_geometry::header_offset(slot)), sizeof(snapshot_slot)};
    }
    [[nodiscard]] std::uint32_t current_slot() { return snapshot_slot_of(bench_.reader().current()); }

    snapshot_bench bench_;
    std::size_t bytes_;
    std::vector<std::byte> sound_;
    std::uint64_t found_ = 0;
};

TEST_F(SnapshotHostile, EveryFlippedBitOfCurrentIsFound) {
    for_each_bit_flip(sound_, {"current", 0, 8}, [&](const damage& d, std::span<std::byte> image) {
        use(image);
        EXPECT_GT(found_, 0U) << d.text();
    });
}

TEST_F(SnapshotHostile, EveryFlippedBitOfTheCurrentSlotsHeaderIsFoundOrMeansNothing) {
    for_each_bit_flip(sound_, header_of(current_slot()), [&](const damage& d, std::span<std::byte> image) {
        use(image);
        const std::size_t field = d.offset - header_of(current_slot()).offset;
        if (field < offsetof(snapshot_slot, published_ns)) {
            EXPECT_GT(found_, 0U) << d.text();
        }
    });
}

TEST_F(SnapshotHostile, EveryFlippedBitOfAPayloadHeldIsFound) {
    for (std::uint32_t slot = 0; slot < 3; ++slot) {
        const auto bytes = static_cast<std::size_t>(bench_.reader().slot(slot).bytes.load());
        const auto at = static_cast<std::size_t>(bench_.geometry().payload_offset(slot));
        for_each_bit_flip(sound_, {"payload", at, bytes}, [&](const damage& d, std::span<std::byte> image) {
            findings found;
            verify_snapshot(image, bench_.geometry(), found);
            EXPECT_GT(found.count(), 0U) << d.text();
            EXPECT_EQ(found.list()[0].offset, at);
        });
    }
}

TEST_F(SnapshotHostile, DamagedWordsOfControlAndHeadersAreHarmless) {
    const std::size_t control = 128 + 3 * sizeof(snapshot_slot);
    for_each_word_damage(sound_, {"control", 0, control}, [&](const damage& d, std::span<std::byte> image) {
        SCOPED_TRACE(d.text());
        use(image);
    });
}

TEST_F(SnapshotHostile, RandomDamageAndGarbageAreHarmless) {
    holdfast::test::seeded_random random;
    const std::size_t control = 128 + 3 * sizeof(snapshot_slot);
    random_damage(sound_, {"control", 0, control}, random, holdfast::test::scaled(20000),
                  [&](const damage& d, std::span<std::byte> image) {
                      SCOPED_TRACE(d.text());
                      use(image);
                  });
    std::vector<std::byte> garbage(sound_.size());
    holdfast::test::shared_image work(sound_.size());
    for (std::uint64_t round = 0; round < holdfast::test::scaled(300); ++round) {
        for (std::byte& byte : garbage) byte = static_cast<std::byte>(random());
        work.assign(garbage);
        use(work.bytes());
    }
}

// The same with objects that also lie beside `current`.
class SmallSnapshotHostile : public SnapshotHostile {
 protected:
    SmallSnapshotHostile() : SnapshotHostile(32) {}
};

TEST_F(SmallSnapshotHostile, EveryFlippedBitOfTheFrontIsFoundOrMeansNothing) {
    const std::uint64_t bytes = bench_.reader().control().front.bytes.load();
    for_each_bit_flip(sound_, {"front", 8, 56}, [&](const damage& d, std::span<std::byte> image) {
        use(image);
        // A flip of its word makes it one of another version, of which nobody believes anything.
        if (d.offset >= 16 && d.offset < 24 + bytes) {
            EXPECT_GT(found_, 0U) << d.text();
        }
    });
}

TEST_F(SmallSnapshotHostile, EveryFlippedBitOfCurrentAndItsSlotsHeaderIsFoundOrMeansNothing) {
    for (const image_part& part : {image_part{"current", 0, 8}, header_of(current_slot())})
        for_each_bit_flip(sound_, part, [&](const damage& d, std::span<std::byte> image) {
            use(image);
            if (d.offset < part.offset + offsetof(snapshot_slot, published_ns)) {
                EXPECT_GT(found_, 0U) << d.text();
            }
        });
}

TEST_F(SmallSnapshotHostile, DamagedWordsAndRandomDamageAreHarmless) {
    const image_part control{"control", 0, 128 + 3 * sizeof(snapshot_slot)};
    const auto harmless = [&](const damage& d, std::span<std::byte> image) {
        SCOPED_TRACE(d.text());
        use(image);
    };
    for_each_word_damage(sound_, control, harmless);
    holdfast::test::seeded_random random;
    random_damage(sound_, {"control", 0, 64}, random, holdfast::test::scaled(5000), harmless);
}

TEST_F(SmallSnapshotHostile, ASizeBeyondTheFrontOrTheSlotIsNeverFollowed) {
    auto& control = *reinterpret_cast<holdfast::layout::snapshot_control*>(bench_.body().data());
    for (const std::uint64_t bytes :
         {std::uint64_t{33}, std::uint64_t{41}, std::uint64_t{1} << 40, ~std::uint64_t{0}}) {
        control.front.bytes.store(bytes);
        std::vector<std::byte> out(8192);
        const auto got = bench_.reader().read(out);
        EXPECT_EQ(got.status, outcome::ok);
        EXPECT_EQ(got.bytes, 27U) << "out of the slot";
        EXPECT_TRUE(is_whole({out.data(), 27}, 5));
    }
}

// A peer that writes where only the writer may: readers of a truncated mapping are the segment's affair, but a payload
// size beyond the slot is ours.
TEST_F(SnapshotHostile, ASizeBeyondTheSlotIsNeverFollowed) {
    auto& header = *reinterpret_cast<snapshot_slot*>(bench_.body().data() + header_of(current_slot()).offset);
    for (const std::uint64_t bytes : {object_bytes + 1, std::size_t{4096}, std::size_t{1} << 40, ~std::size_t{0}}) {
        header.bytes.store(bytes);
        std::vector<std::byte> out(8192);
        EXPECT_EQ(bench_.reader().read(out).status, outcome::corrupt);
    }
}

}  // namespace
