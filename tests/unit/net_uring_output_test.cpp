// SPDX-License-Identifier: Apache-2.0
// What io_uring keeps for output that has not left: the bytes in their order, and not many times their room.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "net/buffer_room.hpp"
#include "net/uring_output.hpp"

namespace {

using holdfast::net::uring_output;

constexpr std::size_t much = 1U << 20U, little = 200;

/// A buffer that was once large, with little in it.
std::string roomy(std::size_t bytes) {
    std::string text(bytes, 'x');
    text.reserve(much);
    return text;
}

/// (O2) Of what is on its way, and of what has gathered behind.
std::size_t most_for(std::size_t bytes) {
    return 2 * holdfast::net::room_factor * std::max(bytes, holdfast::net::idle_bytes_max);
}

TEST(UringOutput, ALargeBufferStaysWithWhoHasLittleInIt) {
    uring_output out;
    std::string bytes = roomy(little);
    out.begin(bytes);
    EXPECT_EQ(bytes, "");
    EXPECT_GE(bytes.capacity(), much);
    EXPECT_EQ(out.to_send(), std::string(little, 'x'));
    EXPECT_LE(out.capacity(), most_for(little));
}

TEST(UringOutput, ABufferThatFitsIsTakenWithoutACopy) {
    uring_output out;
    std::string bytes = roomy(much / 2);
    const void* const memory = bytes.data();
    out.begin(bytes);
    EXPECT_EQ(bytes, "");
    EXPECT_EQ(static_cast<const void*>(out.to_send().data()), memory);
    EXPECT_EQ(out.unsent(), much / 2);
}

TEST(UringOutput, RoomGoesWithWhatHasLeft) {
    uring_output out;
    std::string bytes = roomy(much);
    out.begin(bytes);
    out.append(std::string(little, 'y'));
    out.took(much / 3);
    EXPECT_TRUE(out.waits());
    EXPECT_EQ(out.unsent(), much - much / 3 + little);
    out.took(out.to_send().size() - little);
    EXPECT_EQ(out.to_send(), std::string(little, 'x'));
    EXPECT_LE(out.capacity(), most_for(little));
    out.took(little);
    EXPECT_EQ(out.to_send(), std::string(little, 'y'));
    EXPECT_LE(out.capacity(), most_for(little));
}

// The memory of what has left serves what may come behind the rest, unless that is little.
TEST(UringOutput, TheRoomOfMuchThatHasLeftIsNotKeptForLittle) {
    uring_output out;
    std::string bytes = roomy(60'000);
    out.begin(bytes);
    out.append(std::string(little, 'y'));
    out.took(60'000);
    EXPECT_EQ(out.to_send(), std::string(little, 'y'));
    EXPECT_LE(out.capacity(), most_for(little));
}

// Outputs are used again, and what one of them needed is not kept for the little of the next.
TEST(UringOutput, OneThatIsUsedAgainHasNotTheRoomOfTheLastTime) {
    holdfast::net::uring_outputs spare;
    auto one = spare.take();
    std::string first(40'000, 'a'), second = roomy(little);
    one->begin(first);
    one->append(std::string(40'000, 'b'));
    one->took(40'000);
    one->took(40'000);
    EXPECT_EQ(one->unsent(), 0U);
    const uring_output* const same = one.get();
    spare.give_back(std::move(one));
    one = spare.take();
    EXPECT_EQ(one.get(), same);
    one->begin(second);
    EXPECT_EQ(one->to_send(), std::string(little, 'x'));
    EXPECT_LE(one->capacity(), most_for(little));
}

}  // namespace
