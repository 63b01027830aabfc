// SPDX-License-Identifier: Apache-2.0
// A broadcast ring whose bytes somebody scribbled on, at rest and while it is in use: nothing crashes, hangs, reads out
// of bounds or allocates more than the longest message; damage to the structure is found.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "support/broadcast_bench.hpp"
#include "support/image_corruption.hpp"
#include "support/scale.hpp"

namespace {

using holdfast::broadcast_policy;
using holdfast::broadcast_read;
using holdfast::broadcast_start;
using holdfast::outcome;
using holdfast::layout::broadcast_control;
using holdfast::layout::broadcast_entry;
using holdfast::layout::broadcast_geometry;
using holdfast::layout::broadcast_hold_core;
using holdfast::layout::broadcast_read_core;
using holdfast::layout::broadcast_slot;
using holdfast::layout::broadcast_view;
using holdfast::layout::broadcast_write_core;
using holdfast::layout::findings;
using holdfast::layout::no_broadcast_slots;
using holdfast::test::broadcast_bench;
using holdfast::test::damage;
using holdfast::test::for_each_bit_flip;
using holdfast::test::for_each_word_damage;
using holdfast::test::image_part;
using holdfast::test::nth_message;
using holdfast::test::random_damage;
using holdfast::test::scaled;
using holdfast::test::slot_bench;

constexpr std::uint64_t capacity = 2048;
constexpr std::size_t bytes_max = 100;
const broadcast_start starts[]{broadcast_start::oldest(),     broadcast_start::latest(),
                               broadcast_start::sequence(95), broadcast_start::sequence(1),
                               broadcast_start::time(1'000),  broadcast_start::time(0)};

/// Takes everything a reader can get and fails on whatever lies outside the ring or has no end.
template <class Reader>
void drain(Reader& reader, std::span<const std::byte> image, const broadcast_geometry& geometry) {
    // A lap has at most capacity / 8 records; nobody writes, so nobody gets more.
    const std::uint64_t answers_max = 2 * geometry.capacity / 8 + 2;
    for (std::uint64_t answers = 0;; ++answers) {
        ASSERT_LT(answers, answers_max) << "reading does not end";
        const broadcast_read got = reader.next([&](std::span<const std::byte> message, std::uint16_t) noexcept {
            EXPECT_LE(message.size(), geometry.message_max());
            EXPECT_GE(message.data(), image.data() + geometry.ring_offset());
            EXPECT_LE(message.data() + message.size(), image.data() + image.size());
            return true;
        });
        ASSERT_NE(got.status, outcome::too_small);
        if (got.status != outcome::ok && got.status != outcome::lapped) break;
    }
}

class BroadcastHostile : public ::testing::Test {
 protected:
    BroadcastHostile() : bench_(capacity, 1) {
        auto writer = bench_.writer();
        no_broadcast_slots nobody;
        for (std::uint64_t i = 1; i <= 100; ++i) {
            EXPECT_TRUE(writer.append(nth_message(i, bytes_max), 0, nobody));
            EXPECT_TRUE(writer.commit());
        }
        tail_ = writer.tail();
        sound_.assign(bench_.body().begin(), bench_.body().end());
    }

    // Everything that any role does with an image; the answers may be anything but impossible.
    void use(std::span<std::byte> image) {
        const broadcast_geometry& geometry = bench_.geometry();
        findings found;
        ASSERT_TRUE(holdfast::layout::verify_broadcast(image, geometry, found).quiet) << "nothing is at work here";
        found_ = found.count();
        for (const broadcast_start& start : starts) {
            broadcast_read_core reader(image, geometry);
            (void)reader.join(start);
            drain(reader, image, geometry);
            slot_bench slots(1);
            broadcast_hold_core hold(broadcast_read_core(image, geometry), slots.slot(0));
            (void)hold.enrol(start, broadcast_policy::block, 0, 1);
            drain(hold, image, geometry);
            hold.leave();
        }
        try {
            broadcast_write_core writer = bench_.writer_of(image);
            slot_bench slots(1);
            slots.slot(0).held = image.size();
            for (int i = 0; i < 60; ++i) {
                if (!writer.append(nth_message(7, bytes_max), 0, slots)) break;
                (void)writer.commit();
            }
            broadcast_read_core reader = bench_.reader_of(image, broadcast_start::oldest());
            drain(reader, image, geometry);
        } catch (const holdfast::error& e) {
            ASSERT_EQ(e.reason(), holdfast::errc::corrupt);
            ASSERT_GT(found_, 0U) << "a writer refuses what verify finds sound: " << e.what();
        }
    }
    [[nodiscard]] image_part index() const {
        return {"index", static_cast<std::size_t>(bench_.geometry().index_offset()),
                static_cast<std::size_t>(bench_.geometry().entries() * sizeof(broadcast_entry))};
    }
    [[nodiscard]] image_part ring() const {
        return {"ring", static_cast<std::size_t>(bench_.geometry().ring_offset()), capacity};
    }

    broadcast_bench bench_;
    std::vector<std::byte> sound_;
    std::uint64_t tail_ = 0;
    std::uint64_t found_ = 0;
};

TEST_F(BroadcastHostile, TheSoundImageIsSound) {
    use(bench_.body());
    EXPECT_EQ(found_, 0U);
}

TEST_F(BroadcastHostile, EveryFlippedBitOfTheHorizonIsFound) {
    for_each_bit_flip(sound_, {"horizon", 0, 8}, [&](const damage& d, std::span<std::byte> image) {
        SCOPED_TRACE(d.text());
        use(image);
        EXPECT_GT(found_, 0U);
    });
}

TEST_F(BroadcastHostile, EveryFlippedBitOfALivingEntryIsFoundButInItsTime) {
    const broadcast_view view(bench_.body(), bench_.geometry());
    const std::uint64_t horizon = view.horizon();
    for (std::uint64_t stride = view.oldest_stride(horizon, 0); stride <= view.newest_stride(horizon); ++stride) {
        const image_part entry{"entry", static_cast<std::size_t>(bench_.geometry().entry_offset(stride)), 24};
        for_each_bit_flip(sound_, entry, [&](const damage& d, std::span<std::byte> image) {
            SCOPED_TRACE(d.text() + ", stride " + std::to_string(stride));
            use(image);
            // The newest may have a tag of 0: a kill leaves that.
            if (stride != view.newest_stride(horizon) || holdfast::test::rig::get_word(image, entry.offset, 8) != 0) {
                EXPECT_GT(found_, 0U);
            }
        });
    }
}

TEST_F(BroadcastHostile, DamagedWordsAreHarmless) {
    for (const image_part& part : {image_part{"control", 0, sizeof(broadcast_control)}, index(), ring()})
        for_each_word_damage(sound_, part, [&](const damage& d, std::span<std::byte> image) {
            // The index and the ring have thousands of words: a tenth of the damage unless the long run asks for all.
            if (part.name != "control" && scaled(100) < 1000 && (d.offset / 8 + d.value) % 10 != 0) return;
            SCOPED_TRACE(d.text());
            use(image);
        });
}

// Two contradicting parts: what an entry names lies above a horizon that went back, or just below it.
TEST_F(BroadcastHostile, AnEntryAboveTheHorizonIsFound) {
    const std::uint64_t stride = bench_.geometry().stride;
    for (const std::uint64_t horizon : {std::uint64_t{0}, stride, 4 * stride, std::uint64_t{capacity}})
        for (std::uint64_t above = 8; above <= capacity / 4; above += 8) {
            SCOPED_TRACE(std::to_string(above) + " above " + std::to_string(horizon));
            std::ranges::copy(sound_, bench_.body().begin());
            const std::uint64_t oldest = broadcast_view(bench_.body(), bench_.geometry()).oldest_stride(horizon, 0);
            const std::uint64_t entry[]{oldest + 1, horizon + above, 1};
            std::memcpy(bench_.body().data(), &horizon, sizeof horizon);
            std::memcpy(bench_.body().data() + bench_.geometry().entry_offset(oldest), entry, sizeof entry);
            use(bench_.body());
            EXPECT_GT(found_, 0U);
        }
}

TEST_F(BroadcastHostile, FlippedBitsOfTheRingAreHarmless) {
    for_each_bit_flip(sound_, ring(), [&](const damage& d, std::span<std::byte> image) {
        if (scaled(100) < 1000 && d.offset % 3 != 0) return;
        SCOPED_TRACE(d.text());
        use(image);
    });
}

TEST_F(BroadcastHostile, RandomDamageAndGarbageAreHarmless) {
    holdfast::test::seeded_random random;
    for (const image_part& part : {image_part{"all", 0, sound_.size()}, index(), ring()})
        random_damage(sound_, part, random, scaled(5000), [&](const damage& d, std::span<std::byte> image) {
            SCOPED_TRACE(d.text());
            use(image);
        });
    std::vector<std::byte> garbage(sound_.size());
    holdfast::test::shared_image work(sound_.size());
    for (std::uint64_t round = 0; round < scaled(300); ++round) {
        for (std::byte& byte : garbage) byte = static_cast<std::byte>(random());
        // Half of them with a horizon that looks sound, so that what lies behind it is looked at.
        const std::uint64_t horizon = random.below(1000) * bench_.geometry().stride;
        if (round % 2 == 0) std::memcpy(garbage.data(), &horizon, sizeof horizon);
        work.assign(garbage);
        use(work.bytes());
    }
}

TEST_F(BroadcastHostile, AllZerosAndAllOnesAreCorruptNotEmpty) {
    for (const std::byte fill : {std::byte{0}, std::byte{0xff}}) {
        std::memset(bench_.body().data(), static_cast<int>(fill), bench_.body().size());
        broadcast_read_core reader(bench_.body(), bench_.geometry());
        EXPECT_EQ(reader.join(broadcast_start::oldest()).status, outcome::corrupt);
        EXPECT_THROW((void)bench_.writer(), holdfast::error);
        use(bench_.body());
        EXPECT_GT(found_, 0U);
    }
}

// Any word in a slot: the writer goes on or is held up, and never beyond what the word can protect.
TEST_F(BroadcastHostile, RubbishInASlotHoldsNobodyUpForNothing) {
    holdfast::test::seeded_random random;
    for (std::uint64_t round = 0; round < scaled(5000); ++round) {
        bench_.image().assign(sound_);
        auto writer = bench_.writer();
        slot_bench slots(1);
        broadcast_slot& slot = slots.slot(0);
        slot.held = random.below(2) == 0 ? random() : tail_ - 2 * capacity + random.below(4 * capacity);
        slot.patience_ns = ~std::uint64_t{0};
        slot.registered_ns = random.below(3);
        const std::uint64_t held = slot.held, position = held & ~std::uint64_t{7};
        const bool policy = (held & 7U) == 1 || (held & 7U) == 3;
        const broadcast_view view(bench_.body(), bench_.geometry());
        const bool valid = position <= tail_ && view.horizon() - position <= capacity;
        std::uint64_t published = 0;
        while (published < 400 && writer.append(nth_message(7, bytes_max), 0, slots)) {
            (void)writer.commit();
            ++published;
        }
        if (policy && valid) {
            ASSERT_LT(published, 400U) << held;
        }
        // What lay in the future may have come to protect something; then it is still protected.
        if (published < 400) {
            ASSERT_TRUE(policy && position <= writer.tail() && view.horizon() - position <= capacity) << held;
        }
    }
}

// A peer that may write the data scribbles while all roles work: no answer counts but that each call comes back.
TEST_F(BroadcastHostile, AScribblingThreadHurtsNobody) {
    holdfast::test::seeded_random random;
    std::atomic<bool> stop{false};
    const std::uint64_t seed = random.seed();
    const std::span<std::byte> body = bench_.body();
    std::thread scribbler([&] {
        std::mt19937_64 draw(seed);
        while (!stop.load(std::memory_order_relaxed)) {
            // The beginning of the body steers the rest: half of the hits there.
            const std::size_t words = draw() % 2 == 0 ? 2 : body.size() / 8;
            auto& word = reinterpret_cast<std::atomic<std::uint64_t>*>(body.data())[draw() % words];
            const std::uint64_t old = word.load(std::memory_order_relaxed);
            const std::uint64_t values[]{draw(), old + 8, old - 64, old ^ (1ULL << (draw() % 64)), 0, tail_, 65};
            word.store(values[draw() % 7], std::memory_order_relaxed);
        }
    });
    std::uint64_t takeovers = 0;
    std::vector<std::byte> out(static_cast<std::size_t>(bench_.geometry().message_max()));
    for (std::uint64_t round = 0; round < scaled(20'000); ++round) {
        broadcast_read_core reader(body, bench_.geometry());
        (void)reader.join(starts[round % 6]);
        for (int i = 0; i < 20; ++i) ASSERT_LE(reader.read(out).count, ~std::uint64_t{0});
        findings found;
        (void)holdfast::layout::verify_broadcast(body, bench_.geometry(), found);
        ASSERT_LE(found.list().size(), findings::kept_max);
        slot_bench slots(1);
        try {
            broadcast_write_core writer = bench_.writer_of(body);
            for (int i = 0; i < 20 && writer.append(nth_message(9, bytes_max), 0, slots); ++i) (void)writer.commit();
            ++takeovers;
        } catch (const holdfast::error& e) {
            ASSERT_EQ(e.reason(), holdfast::errc::corrupt);
        }
        if (round % 8 == 0)  // sound again for a moment, so that all paths are met
            for (std::size_t at = 0; at < sound_.size(); at += 8) {
                std::uint64_t word = 0;
                std::memcpy(&word, sound_.data() + at, 8);
                reinterpret_cast<std::atomic<std::uint64_t>*>(body.data() + at)->store(word, std::memory_order_relaxed);
            }
    }
    stop.store(true);
    scribbler.join();
    EXPECT_GT(takeovers, 0U);
    RecordProperty("takeovers", std::to_string(takeovers));
}

}  // namespace
