// SPDX-License-Identifier: Apache-2.0
#include "net/spare_buffers.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

namespace {

using holdfast::net::spare_buffers;

std::string with_room(std::size_t bytes) {
    std::string one("text");
    one.reserve(bytes);
    return one;
}

TEST(SpareBuffers, GivesBackWhatWasGivenTheLastOneFirst) {
    spare_buffers spare;
    std::string first = with_room(1000), second = with_room(1000);
    const void* const memory = second.data();
    spare.give_back(first);
    spare.give_back(second);
    EXPECT_EQ(second.capacity(), std::string().capacity());
    const std::string taken = spare.take(1000, 2000);
    EXPECT_EQ(taken.data(), memory);
    EXPECT_EQ(taken, "");
    EXPECT_GE(spare.take(1000, 2000).capacity(), 1000U);
    EXPECT_EQ(spare.take(1000, 2000).capacity(), std::string().capacity());
}

TEST(SpareBuffers, GivesNoneThatIsTooSmallOrTooLarge) {
    spare_buffers spare;
    std::string small = with_room(100), large = with_room(100'000);
    spare.give_back(large);
    spare.give_back(small);
    EXPECT_EQ(spare.take(200, 99'999).capacity(), std::string().capacity());
    EXPECT_GE(spare.take(200, 100'000).capacity(), 100'000U);
    EXPECT_GE(spare.take(100, 199).capacity(), 100U);
}

// (M1)
TEST(SpareBuffers, KeepsNoMoreThanItMay) {
    spare_buffers spare;
    std::vector<std::string> many;
    for (int i = 0; i < 100; ++i) many.push_back(with_room(1U << 20U));
    for (std::string& one : many) spare.give_back(one);
    std::size_t kept = 0;
    while (true) {
        const std::string one = spare.take(1U << 20U, 2U << 20U);
        if (one.capacity() < 1U << 20U) break;
        kept += one.capacity();
    }
    EXPECT_GT(kept, 2U << 20U);
    EXPECT_LE(kept, 4U << 20U);
    std::string again = with_room(1U << 20U);
    spare.give_back(again);
    EXPECT_GE(spare.take(1, 2U << 20U).capacity(), 1U << 20U) << "what was taken counts no more";
    for (int i = 0; i < 1000; ++i) {
        std::string one = with_room(100);
        spare.give_back(one);
    }
    std::size_t count = 0;
    while (spare.take(100, 200).capacity() >= 100) ++count;
    EXPECT_EQ(count, 64U);
}

}  // namespace
