// SPDX-License-Identifier: Apache-2.0
// Counters over plain bytes; the segment around them is tested in counter_set_test.cpp.
#include "holdfast/metrics/counter_slots.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "support/seed.hpp"

namespace {

using holdfast::errc;
using holdfast::detail::counter_slots;
namespace layout = holdfast::layout;

/// Zeroed memory for some slots, as a segment gives it.
struct slot_memory {
    explicit slot_memory(std::size_t capacity)
        : bytes(static_cast<std::byte*>(
                    std::aligned_alloc(4096, (capacity * sizeof(layout::counter_slot) + 4095) / 4096 * 4096)),
                &std::free),
          size(capacity * sizeof(layout::counter_slot)) {
        std::memset(bytes.get(), 0, size);
    }
    [[nodiscard]] counter_slots slots() const { return {span(), size / sizeof(layout::counter_slot), "heap:"}; }
    [[nodiscard]] layout::counter_slot& slot(std::size_t i) const {
        return reinterpret_cast<layout::counter_slot*>(bytes.get())[i];
    }
    [[nodiscard]] std::span<std::byte> span() const { return {bytes.get(), size}; }

    std::unique_ptr<std::byte, void (*)(void*)> bytes;
    std::size_t size;
};

layout::counter_name_words words_of(std::string_view family, std::string_view labels = {}) {
    return layout::encode_counter_name(family, labels).value();
}

std::map<std::string, std::uint64_t> contents(const counter_slots& slots) {
    std::map<std::string, std::uint64_t> found;
    slots.for_each([&](std::string_view family, std::string_view labels, std::uint64_t value) {
        found[std::string(family) + "{" + std::string(labels) + "}"] += value;
    });
    return found;
}

TEST(CounterSlots, SameNameIsSameSlotAndOtherNamesAreOthers) {
    const slot_memory memory(8);
    const counter_slots slots = memory.slots();
    layout::counter_slot* const first = slots.install(words_of("a_total"));
    layout::counter_slot* const second = slots.install(words_of("a_total", R"(x="1")"));
    EXPECT_EQ(first, &memory.slot(0));
    EXPECT_EQ(second, &memory.slot(1));
    EXPECT_EQ(slots.install(words_of("a_total")), first);
    EXPECT_EQ(slots.install(words_of("a_total", R"(x="1")")), second);
    EXPECT_EQ(slots.find(words_of("a_total", R"(x="1")")), second);
    EXPECT_EQ(slots.find(words_of("b_total")), nullptr);
}

TEST(CounterSlots, FamilyAndLabelsDoNotRunIntoEachOther) {
    const slot_memory memory(4);
    const counter_slots slots = memory.slots();
    // The same characters, cut in two different places.
    EXPECT_NE(slots.install(words_of("ab", R"(c="1")")), slots.install(words_of("a", R"(bc="1")")));
}

TEST(CounterSlots, WalkShowsNamesAndValuesInOrder) {
    const slot_memory memory(4);
    const counter_slots slots = memory.slots();
    holdfast::counter(slots.install(words_of("b_total"))->value).add(7);
    holdfast::counter(slots.install(words_of("a_total", R"(x="1")"))->value).add(9);
    std::vector<std::string> order;
    const auto walk = slots.for_each([&](std::string_view family, std::string_view labels, std::uint64_t value) {
        order.push_back(std::string(family) + "|" + std::string(labels) + "|" + std::to_string(value));
    });
    EXPECT_EQ(order, (std::vector<std::string>{"b_total||7", R"(a_total|x="1"|9)"}));
    EXPECT_EQ(walk.counters, 2U);
    EXPECT_EQ(walk.unfinished + walk.damaged, 0U);
}

TEST(CounterSlots, FullSetRefusesNewNamesAndKeepsOldOnes) {
    const slot_memory memory(3);
    const counter_slots slots = memory.slots();
    for (const char* name : {"a", "b", "c"}) ASSERT_NE(slots.install(words_of(name)), nullptr);
    EXPECT_EQ(slots.install(words_of("d")), nullptr);
    EXPECT_EQ(slots.install(words_of("b")), &memory.slot(1));
}

TEST(CounterSlots, LongestNameFitsAndOneByteMoreDoesNot) {
    const std::string longest(layout::counter_text_bytes_max, 'n');
    const slot_memory memory(2);
    EXPECT_EQ(memory.slots().install(words_of(longest)), &memory.slot(0));
    EXPECT_EQ(contents(memory.slots()).count(longest + "{}"), 1U);
    EXPECT_EQ(layout::encode_counter_name(longest, "x"), std::nullopt);
}

// Attacks I3: a process killed after each possible word. Whoever asks for that name completes it in place; whoever asks
// for another one passes by; readers never show half a name.
TEST(CounterSlots, NameLeftHalfWrittenIsCompletedByTheNextWhoAsks) {
    const auto name = words_of("a_rather_long_family_of_metrics_total", R"(label="value")");
    for (std::size_t written = 1; written < layout::counter_words && name[written] != 0; ++written) {
        const slot_memory memory(2);
        const counter_slots slots = memory.slots();
        for (std::size_t i = 0; i < written; ++i) memory.slot(0).words[i].store(name[i]);
        const auto walk = slots.for_each([](auto...) { FAIL() << "half a name was shown"; });
        EXPECT_EQ(walk.unfinished, 1U);
        EXPECT_EQ(slots.find(name), nullptr);
        EXPECT_EQ(slots.install(words_of("other")), &memory.slot(1));
        EXPECT_EQ(slots.install(name), &memory.slot(0));
        EXPECT_EQ(contents(slots).size(), 2U);
    }
}

// Attacks I1 and I3 by a collision: two names that agree in word 0 and differ later never mix.
TEST(CounterSlots, NamesThatShareFirstWordsNeverMix) {
    auto one = words_of("aaaaaaaabbbbbbbbcccccccc");
    auto two = words_of("aaaaaaaabbbbbbbbdddddddd");
    two[0] = one[0];  // as if their hashes were equal
    const slot_memory memory(2);
    memory.slot(0).words[0].store(one[0]);
    memory.slot(0).words[1].store(one[1]);
    memory.slot(0).words[2].store(one[2]);
    EXPECT_EQ(memory.slots().install(two), &memory.slot(0));
    EXPECT_EQ(memory.slots().install(one), &memory.slot(1));
}

TEST(CounterSlots, CapacityBeyondTheBytesIsRefused) {
    const slot_memory memory(4);
    for (const std::uint64_t capacity :
         {std::uint64_t{0}, std::uint64_t{5}, layout::counter_capacity_max + 1, ~std::uint64_t{0}}) {
        try {
            (void)counter_slots(memory.span(), capacity, "posix:/x");
            ADD_FAILURE() << capacity;
        } catch (const holdfast::error& e) {
            EXPECT_EQ(e.reason(), errc::geometry_mismatch);
        }
    }
}

// Hostile bytes: whatever is in the memory, a walk ends, shows well-formed names only, and registration still works or
// says that the set is full.
TEST(CounterSlots, RandomBytesNeverShowAMalformedName) {
    holdfast::test::seeded_random random;
    for (int round = 0; round < 2000; ++round) {
        const slot_memory memory(6);
        const counter_slots slots = memory.slots();
        for (const char* name : {"a_total", "bb_total", "ccc_total"})
            ASSERT_NE(slots.install(words_of(name, R"(x="y")")), nullptr);
        const std::uint64_t hits = 1 + random.below(20);
        for (std::uint64_t hit = 0; hit < hits; ++hit) {
            const std::uint64_t at = random.below(memory.size);
            memory.span()[at] = static_cast<std::byte>(random.below(256));
        }
        std::size_t shown = 0;
        const auto walk = slots.for_each([&](std::string_view family, std::string_view labels, std::uint64_t) {
            ++shown;
            EXPECT_TRUE(holdfast::valid_metric_family(family));
            EXPECT_TRUE(holdfast::valid_metric_labels(labels));
        });
        EXPECT_EQ(shown, walk.counters);
        EXPECT_LE(walk.counters + walk.unfinished + walk.damaged, 6U);
        const auto fresh = words_of("fresh_total");
        if (layout::counter_slot* const slot = slots.install(fresh)) {
            EXPECT_EQ(slots.find(fresh), slot);
        }
    }
}

TEST(CounterSlots, DamagedNameIsCountedNotShown) {
    const slot_memory memory(4);
    const counter_slots slots = memory.slots();
    (void)slots.install(words_of("good_total"));
    (void)slots.install(words_of("a_total"));
    (void)slots.install(words_of("last_total"));
    memory.slot(1).words[1].store(0x0101010101010101);
    const auto walk =
        slots.for_each([](std::string_view family, std::string_view, std::uint64_t) { EXPECT_NE(family, "a_total"); });
    EXPECT_EQ(walk.counters, 2U);
    EXPECT_EQ(walk.damaged, 1U);
}

// Who asks for the name goes past such a slot, so a walk must not show it: the name would be there twice.
TEST(CounterSlots, BytesBehindANameAreDamage) {
    const slot_memory memory(4);
    const counter_slots slots = memory.slots();
    (void)slots.install(words_of("a_total"));
    memory.slot(0).words[1].fetch_or(std::uint64_t{1} << 63U);
    EXPECT_EQ(slots.find(words_of("a_total")), nullptr);
    EXPECT_EQ(slots.for_each([](std::string_view, std::string_view, std::uint64_t) { ADD_FAILURE(); }).damaged, 1U);
    EXPECT_EQ(slots.install(words_of("a_total")), &memory.slot(1));
    EXPECT_EQ(contents(slots), (std::map<std::string, std::uint64_t>{{"a_total{}", 0}}));
}

}  // namespace
