// SPDX-License-Identifier: Apache-2.0
// The word of a ring's record: what is encoded comes back, and nothing decoded reaches beyond the room given.
#include <gtest/gtest.h>

#include <array>
#include <set>
#include <string_view>

#include "holdfast/layout/ring_record.hpp"
#include "holdfast/outcome.hpp"
#include "support/scale.hpp"
#include "support/seed.hpp"

namespace {

using namespace holdfast::layout;
using holdfast::outcome;
using holdfast::result;

TEST(RingRecord, EveryLengthAndTypeComesBack) {
    constexpr std::array<std::uint16_t, 4> types{0, 1, 0x7FFF, 0xFFFF};
    for (const std::uint16_t type : types)
        for (std::uint64_t length = 0; length < 300; ++length) {
            const ring_word back = ring_decode(ring_message_word(length, type), 4096);
            ASSERT_EQ(back.kind, ring_word_kind::message);
            ASSERT_EQ(back.length, length);
            ASSERT_EQ(back.type, type);
            ASSERT_EQ(back.bytes, 8 + (length + 7) / 8 * 8);
        }
}

TEST(RingRecord, AMessageBeyondItsRoomIsCorrupt) {
    for (std::uint64_t room = 8; room <= 256; room += 8)
        for (std::uint64_t length = 0; length < 300; ++length) {
            const ring_word back = ring_decode(ring_message_word(length, 3), room);
            ASSERT_EQ(back.kind == ring_word_kind::message, 8 + (length + 7) / 8 * 8 <= room) << length << ' ' << room;
        }
}

TEST(RingRecord, ASkipReachesExactlyToTheEnd) {
    for (std::uint64_t room = 8; room <= 256; room += 8)
        for (std::uint64_t bytes = 8; bytes <= 256; bytes += 8) {
            const ring_word back = ring_decode(ring_skip_word(bytes), room);
            ASSERT_EQ(back.kind, bytes == room ? ring_word_kind::skip : ring_word_kind::corrupt);
        }
    EXPECT_EQ(ring_decode(ring_skip_word(64) | (std::uint64_t{1} << 32U), 64).kind, ring_word_kind::corrupt);
}

TEST(RingRecord, AnyWordIsBoundedByItsRoom) {
    holdfast::test::seeded_random random;
    for (std::uint64_t i = 0; i < holdfast::test::scaled(1'000'000); ++i) {
        const std::uint64_t room = 8 + 8 * random.below(std::uint64_t{1} << random.below(29));
        std::uint64_t word = random();
        if (i % 2 == 0) word &= 0x8000'FFFF'FFFF'FFFFU;
        const ring_word back = ring_decode(word, room);
        ASSERT_LE(back.bytes, room) << word;
        if (back.kind == ring_word_kind::message) {
            ASSERT_LE(back.length + 8, back.bytes) << word;
        }
        if (back.kind == ring_word_kind::message || back.kind == ring_word_kind::skip) {
            ASSERT_GE(back.bytes, 8U) << word;
        }
    }
}

TEST(RingRecord, TheLongestMessageFitsBehindAnySkip) {
    for (std::uint64_t capacity = ring_capacity_min; capacity <= 65536; capacity *= 2) {
        ASSERT_TRUE(ring_capacity_valid(capacity));
        const std::uint64_t record = ring_record_bytes(ring_message_max(capacity));
        for (std::uint64_t position = 0; position < capacity; position += 8) {
            const std::uint64_t room = ring_room(position, capacity);
            const std::uint64_t skip = room < record ? room : 0;
            ASSERT_LE(skip + record + 8, capacity) << position;
        }
    }
    EXPECT_FALSE(ring_capacity_valid(0));
    EXPECT_FALSE(ring_capacity_valid(96));
    EXPECT_FALSE(ring_capacity_valid(ring_capacity_max * 2));
}

TEST(Outcome, OnlyOkIsTrueAndEveryOutcomeHasAName) {
    EXPECT_TRUE(result{});
    std::set<std::string_view> names;
    const auto last = static_cast<unsigned>(outcome::collision);
    for (unsigned i = 0; i <= last; ++i) {
        const auto what = static_cast<outcome>(i);
        const std::string_view name = holdfast::outcome_name(what);
        EXPECT_FALSE(name.empty()) << i;
        EXPECT_TRUE(names.insert(name).second) << name << " is the name of another one, too";
        EXPECT_EQ(static_cast<bool>(result{what, 0}), what == outcome::ok) << name;
    }
    EXPECT_TRUE(holdfast::outcome_name(static_cast<outcome>(last + 1)).empty()) << "it was not the last";
    EXPECT_TRUE(holdfast::outcome_name(static_cast<outcome>(99)).empty());
}

}  // namespace
