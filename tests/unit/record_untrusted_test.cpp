// SPDX-License-Identifier: Apache-2.0
// A segment's bytes are input: whatever they are, a typed read gives a value that may be used.
#include "holdfast/record/untrusted.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace {

struct inner {
    std::uint16_t number;
    bool flags[3];
};
struct switches {
    std::uint32_t before;
    bool on;
    inner nested;
    bool last;
};
struct plain {
    std::uint32_t a, b;
};

static_assert(holdfast::detail::has_boolean(holdfast::detail::facts_for<switches>()));
static_assert(holdfast::detail::has_boolean(holdfast::detail::facts_for<bool>()));
static_assert(!holdfast::detail::has_boolean(holdfast::detail::facts_for<plain>()));

TEST(RecordOf, EveryByteOfABoolIsTrueOrFalse) {
    std::array<std::byte, sizeof(switches)> bytes;
    bytes.fill(std::byte{0x7e});
    bytes[offsetof(switches, nested) + offsetof(inner, flags) + 1] = std::byte{0};
    const auto made = holdfast::detail::record_of<switches>(bytes);
    std::array<std::byte, sizeof(switches)> stored;
    std::memcpy(stored.data(), &made, sizeof made);
    EXPECT_EQ(made.before, 0x7e7e7e7eU);
    EXPECT_EQ(made.nested.number, 0x7e7eU);
    EXPECT_EQ(stored[offsetof(switches, on)], std::byte{1});
    EXPECT_EQ(stored[offsetof(switches, nested) + offsetof(inner, flags)], std::byte{1});
    EXPECT_EQ(stored[offsetof(switches, nested) + offsetof(inner, flags) + 1], std::byte{0});
    EXPECT_EQ(stored[offsetof(switches, nested) + offsetof(inner, flags) + 2], std::byte{1});
    EXPECT_EQ(stored[offsetof(switches, last)], std::byte{1});
}

TEST(RecordOf, AScalarBoolToo) {
    EXPECT_TRUE(holdfast::detail::record_of<bool>({std::byte{2}}));
    EXPECT_FALSE(holdfast::detail::record_of<bool>({std::byte{0}}));
}

}  // namespace
