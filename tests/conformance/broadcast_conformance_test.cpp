// SPDX-License-Identifier: Apache-2.0
// What a broadcast ring must do alike in every kind of memory: one writer, readers of both sorts, recovery, refusals.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstring>
#include <iterator>
#include <memory>
#include <ranges>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "holdfast/broadcast.hpp"
#include "support/broadcast_bench.hpp"
#include "support/memory_kinds.hpp"
#include "support/process.hpp"
#include "support/segment_tools.hpp"

namespace {

using holdfast::access;
using holdfast::broadcast_options;
using holdfast::broadcast_policy;
using holdfast::broadcast_read;
using holdfast::broadcast_reader;
using holdfast::broadcast_registration;
using holdfast::broadcast_reliable_reader;
using holdfast::broadcast_start;
using holdfast::broadcast_writer;
using holdfast::errc;
using holdfast::outcome;
using holdfast::segment;
using holdfast::test::child_process;
using holdfast::test::is_message;
using holdfast::test::memory_place;
using holdfast::test::nth_message;
using holdfast::test::refusal_of;

constexpr std::size_t bytes_max = 300;

broadcast_options ring_of(std::uint64_t capacity, std::uint32_t readers = 0) {
    broadcast_options options;
    options.capacity_bytes = capacity;
    options.registered_readers = readers;
    return options;
}
outcome publish(broadcast_writer& writer) {
    return writer.publish(nth_message(writer.sequence() + 1, bytes_max)).status;
}
/// Reads one message and says what is wrong with it, if anything.
template <class Reader>
std::string read_one(Reader& reader) {
    std::vector<std::byte> out;
    const std::uint64_t expected = reader.sequence();
    const auto got = reader.read(out);
    if (!got) return "message " + std::to_string(expected) + ": " + std::string(outcome_name(got.status));
    return got.sequence == expected && is_message(out, expected, bytes_max) ? "" : "another message than published";
}

template <class T>
concept publishes = requires(T& handle, std::span<const std::byte> message) { handle.publish(message); };

class Everywhere : public ::testing::TestWithParam<std::string> {
 protected:
    memory_place place{GetParam()};
};
class Shareable : public Everywhere {
 protected:
    std::shared_ptr<const segment> again(const broadcast_writer& writer) {
        return std::make_shared<const segment>(place.attach_again(writer.segment(), access::read_only));
    }
};

TEST_P(Everywhere, AReaderOnTheWritersMappingGetsEachMessage) {
    auto writer = broadcast_writer::create(place.uri(), ring_of(10'000));
    EXPECT_EQ(writer.capacity_bytes(), 16384U);
    broadcast_reader reader = writer.make_reader();
    std::vector<std::byte> out;
    EXPECT_EQ(reader.read(out).status, outcome::empty);
    for (int i = 0; i < 1000; ++i) {
        ASSERT_EQ(publish(writer), outcome::ok);
        ASSERT_EQ(read_one(reader), "");
    }
    const std::vector<std::byte> longest(static_cast<std::size_t>(writer.message_bytes_max()) + 1);
    EXPECT_EQ(writer.publish(longest).status, outcome::too_large);
    EXPECT_TRUE(reader.verify().empty());
    EXPECT_EQ(reader.fault(), std::nullopt);
}

TEST_P(Everywhere, OnlyATakeoverIsToldAsARestart) {
    auto writer = broadcast_writer::create(place.uri(), ring_of(4096));
    broadcast_reader reader = writer.make_reader();
    EXPECT_EQ(reader.epoch(), 1U) << "known from the start, also to who attaches before its writer goes on";
    ASSERT_EQ(publish(writer), outcome::ok);
    std::vector<std::byte> out;
    EXPECT_FALSE(reader.read(out).restarted);
}

TEST_P(Everywhere, TheReaderKeepsTheMappingAliveWithoutTheWriter) {
    auto writer = std::make_unique<broadcast_writer>(broadcast_writer::create(place.uri(), ring_of(4096)));
    ASSERT_EQ(publish(*writer), outcome::ok);
    broadcast_reader reader = writer->make_reader();
    writer.reset();
    EXPECT_EQ(read_one(reader), "");
}

TEST_P(Everywhere, ABatchOfSpansAppearsAtOnceOrNotAtAll) {
    auto writer = broadcast_writer::create(place.uri(), ring_of(4096));
    auto reader = writer.make_reader();
    std::vector<std::vector<std::byte>> messages;
    for (std::uint64_t i = 1; i <= 5; ++i) messages.push_back(nth_message(i, bytes_max));
    ASSERT_EQ(writer.publish_batch(messages).count, 5U);
    for (int i = 0; i < 5; ++i) ASSERT_EQ(read_one(reader), "");
    messages.assign(3, std::vector<std::byte>(900));
    EXPECT_EQ(writer.publish_batch(messages).status, outcome::too_large);
    std::vector<std::byte> out;
    EXPECT_EQ(reader.read(out).status, outcome::empty);
    EXPECT_EQ(writer.commit().count, 0U) << "a refused batch leaves nothing staged";
}

TEST_P(Everywhere, ABatchWhoseRangeThrowsLeavesNothingStaged) {
    auto writer = broadcast_writer::create(place.uri(), ring_of(4096));
    auto reader = writer.make_reader();
    std::vector<std::vector<std::byte>> messages(3, std::vector<std::byte>(20));
    auto throwing = messages | std::views::transform([n = 0](std::vector<std::byte>& message) mutable {
                        if (++n == 3) throw 1;
                        return std::span<const std::byte>(message);
                    });
    EXPECT_THROW(writer.publish_batch(throwing), int);
    EXPECT_EQ(writer.commit().count, 0U) << "half a batch was still staged";
    ASSERT_EQ(publish(writer), outcome::ok);
    EXPECT_EQ(read_one(reader), "");
    std::vector<std::byte> out;
    EXPECT_EQ(reader.read(out).status, outcome::empty);
}

TEST_P(Everywhere, MessagesAreBuiltInPlaceAndSeenInPlace) {
    auto writer = broadcast_writer::create(place.uri(), ring_of(4096));
    auto reader = writer.make_reader();
    for (std::uint8_t i = 0; i < 100; ++i) {
        const auto room = writer.claim(200);
        ASSERT_TRUE(room);
        ASSERT_EQ(room.bytes.size(), 200U);
        std::memset(room.bytes.data(), i, 100);
        ASSERT_EQ(writer.commit(100, i).count, 1U);
        bool same = false;
        const auto got = reader.visit([&](std::span<const std::byte> bytes, std::uint16_t type) {
            same = bytes.size() == 100 && bytes[99] == std::byte{i} && type == i;
        });
        ASSERT_TRUE(got && same);
    }
}

TEST_P(Everywhere, TheRingIsAContainerToAppendTo) {
    auto writer = broadcast_writer::create(place.uri(), ring_of(4096));
    auto reader = writer.make_reader();
    const std::array<std::vector<std::byte>, 2> messages{nth_message(1, bytes_max), nth_message(2, bytes_max)};
    auto into = std::back_inserter(writer);
    for (const auto& message : messages) *into++ = message;
    EXPECT_EQ(read_one(reader), "");
    EXPECT_EQ(read_one(reader), "");
    EXPECT_EQ(refusal_of([&] { writer.push_back(std::vector<std::byte>(2000)); }), errc::invalid_argument);
    const broadcast_writer moved = std::move(writer);
    EXPECT_EQ(refusal_of([&] { writer.push_back(std::vector<std::byte>(2)); }), errc::read_only);
}

TEST_P(Everywhere, ReadersAreRanges) {
    static_assert(std::ranges::input_range<holdfast::broadcast_drain<broadcast_reader>>);
    static_assert(std::ranges::input_range<holdfast::broadcast_drain<broadcast_reliable_reader>>);
    static_assert(!std::is_copy_constructible_v<broadcast_writer>, "two writers from one handle");
    static_assert(!std::is_copy_constructible_v<broadcast_reliable_reader>, "two readers in one slot");
    static_assert(publishes<broadcast_writer> && !publishes<broadcast_reader> && !publishes<broadcast_reliable_reader>);
    auto writer = broadcast_writer::create(place.uri(), ring_of(4096));
    auto reader = writer.make_reader();
    std::vector<std::byte> buffer;
    std::uint64_t next = 1, lapped = 0;
    for (int round = 0; round < 20; ++round) {
        for (int i = 0; i < 10 * round; ++i) ASSERT_EQ(publish(writer), outcome::ok);
        for (const auto& [answer, bytes] : reader.drain(buffer)) {
            if (answer.status == outcome::lapped) {
                ++lapped;
                next += answer.count;
            } else {
                ASSERT_TRUE(answer && is_message(bytes, next++, bytes_max));
            }
        }
        ASSERT_EQ(next, writer.sequence() + 1);
    }
    EXPECT_GT(lapped, 0U);
}

TEST_P(Everywhere, AnotherKindOfContainerIsRefused) {
    holdfast::segment_spec spec;
    spec.kind = holdfast::container_kind::raw;
    spec.body_bytes = 100'000;
    const auto raw =
        std::make_shared<const segment>(segment::create(place.uri(), spec, {}, [](std::span<std::byte>) {}));
    EXPECT_EQ(refusal_of([&] { const broadcast_reader reader(raw); }), errc::kind_mismatch);
}

TEST_P(Everywhere, AHeaderThatContradictsItsSizeIsRefused) {
    holdfast::segment_spec spec;
    spec.kind = holdfast::container_kind::broadcast;
    const auto geometry = holdfast::layout::broadcast_geometry::make(4096, 0, "x");
    std::ranges::copy(geometry.words(), spec.geometry.begin());
    spec.body_bytes = geometry.body_bytes() - 4096;
    const auto bad =
        std::make_shared<const segment>(segment::create(place.uri(), spec, {}, [](std::span<std::byte>) {}));
    EXPECT_EQ(refusal_of([&] { const broadcast_reader reader(bad); }), errc::geometry_mismatch);
}

TEST_P(Everywhere, ARingThatWasNeverMadeIsCorruptNotEmpty) {
    holdfast::segment_spec spec;
    spec.kind = holdfast::container_kind::broadcast;
    const auto geometry = holdfast::layout::broadcast_geometry::make(4096, 0, "x");
    std::ranges::copy(geometry.words(), spec.geometry.begin());
    spec.body_bytes = geometry.body_bytes();
    auto bad = segment::create(place.uri(), spec, {}, [](std::span<std::byte>) {});
    EXPECT_EQ(refusal_of([&] { const broadcast_writer writer(std::move(bad)); }), errc::corrupt);
}

TEST_P(Everywhere, AForkedChildCannotPublish) {
    auto writer = broadcast_writer::create(place.uri(), ring_of(4096));
    ASSERT_EQ(publish(writer), outcome::ok);
    child_process child([&]() -> std::string {
        if (publish(writer) != outcome::read_only) return "published";
        if (writer.claim(100).status != outcome::read_only) return "claimed";
        if (writer.stage(0) != outcome::read_only) return "staged";
        if (writer.commit(0).status != outcome::read_only) return "committed";
        if (writer.commit().status != outcome::read_only) return "committed a batch";
        return {};
    });
    EXPECT_TRUE(child.wait().success()) << child.wait().text();
    EXPECT_EQ(publish(writer), outcome::ok);
    EXPECT_EQ(writer.sequence(), 2U);
}

TEST_P(Shareable, ASecondMappingGetsEachMessage) {
    auto writer = broadcast_writer::create(place.uri(), ring_of(4096));
    broadcast_reader reader(again(writer));
    for (int i = 0; i < 500; ++i) {
        ASSERT_EQ(publish(writer), outcome::ok);
        ASSERT_EQ(read_one(reader), "");
    }
}

TEST_P(Shareable, ASecondWriterIsRefusedWhileTheFirstLives) {
    auto writer = broadcast_writer::create(place.uri(), ring_of(4096));
    EXPECT_EQ(refusal_of([&] { (void)place.attach_again(writer.segment(), access::read_write); }), errc::writer_alive);
}

TEST_P(Shareable, ABlockingReaderLosesNothingAndTheWriterIsTold) {
    auto writer = broadcast_writer::create(place.uri(), ring_of(4096, 2));
    broadcast_reliable_reader reader(again(writer));
    std::uint64_t refused = 0;
    for (std::uint64_t i = 0; i < 2000; ++i) {
        outcome done;
        while ((done = publish(writer)) == outcome::full) {
            ++refused;
            for (int n = 0; n < 5; ++n) ASSERT_EQ(read_one(reader), "");
        }
        ASSERT_EQ(done, outcome::ok);
    }
    while (reader.sequence() <= writer.sequence()) ASSERT_EQ(read_one(reader), "");
    EXPECT_GT(refused, 0U);
    EXPECT_EQ(reader.lost(), 0U);
    const auto reports = writer.registered_readers();
    ASSERT_EQ(reports.size(), 1U);
    EXPECT_TRUE(reports[0].alive);
    EXPECT_EQ(reports[0].policy, broadcast_policy::block);
    EXPECT_GT(reports[0].blocked, 0U);
    EXPECT_FALSE(reports[0].evicted);
}

TEST_P(Shareable, BatchesAreReadByBothKindsOfReaders) {
    auto writer = broadcast_writer::create(place.uri(), ring_of(4096, 2));
    broadcast_reader plain(again(writer));
    broadcast_reliable_reader reliable(again(writer));
    std::vector<std::byte> room(1024);
    const auto batches = [&](auto& reader, std::uint64_t first) {
        std::uint64_t messages = 0;
        for (;;) {
            const broadcast_read got = reader.read_batch(room, [&](std::span<const std::byte> bytes, std::uint16_t) {
                std::uint64_t number = 0;
                ASSERT_EQ(bytes.size(), sizeof number);
                std::memcpy(&number, bytes.data(), sizeof number);
                ASSERT_EQ(number, first + messages++);
            });
            if (!got) break;
            EXPECT_EQ(got.sequence + got.count, first + messages);
        }
        return messages;
    };
    std::uint64_t next = 1;
    for (std::uint64_t round = 0; round < 100; ++round) {
        const std::uint64_t first = next, count = 1 + round % 40;
        for (; next < first + count; ++next)
            ASSERT_TRUE(writer.publish(std::as_bytes(std::span(&next, 1)))) << "the registered reader kept up";
        ASSERT_EQ(batches(plain, first), count);
        ASSERT_EQ(batches(reliable, first), count);
    }
    EXPECT_EQ(reliable.lost(), 0U);
    ASSERT_EQ(writer.registered_readers().size(), 1U);
    EXPECT_EQ(writer.registered_readers()[0].received, next - 1);
    EXPECT_THROW(
        {
            ASSERT_TRUE(writer.publish(std::as_bytes(std::span(&next, 1))));
            plain.read_batch(room, [](std::span<const std::byte>, std::uint16_t) { throw 1; });
        },
        int);
    EXPECT_EQ(plain.read_batch(room, [](std::span<const std::byte>, std::uint16_t) {}).status, outcome::empty)
        << "what `use` threw over counts as read";
}

TEST_P(Shareable, AReaderThatDropsNeverHoldsTheWriterUp) {
    auto writer = broadcast_writer::create(place.uri(), ring_of(4096, 2));
    broadcast_reliable_reader reader(again(writer), {.start = {}, .policy = broadcast_policy::drop});
    for (std::uint64_t i = 0; i < 500; ++i) ASSERT_EQ(publish(writer), outcome::ok);
    std::vector<std::byte> out;
    const auto got = reader.read(out);
    ASSERT_EQ(got.status, outcome::lapped);
    EXPECT_EQ(reader.sequence(), 1 + got.count);
    const auto reports = holdfast::registered_readers_of(*again(writer));
    ASSERT_EQ(reports.size(), 1U);
    EXPECT_EQ(reports[0].lost, got.count);
    EXPECT_EQ(reports[0].policy, broadcast_policy::drop);
    EXPECT_EQ(holdfast::broadcast_writer_report_of(writer.segment()).refused, 0U);
}

TEST_P(Shareable, AReaderWithoutPatienceIsEvictedAndMayComeBack) {
    auto writer = broadcast_writer::create(place.uri(), ring_of(4096, 1));
    const broadcast_registration how{.start = {}, .policy = broadcast_policy::evict, .patience = {}};
    broadcast_reliable_reader reader(again(writer), how);
    EXPECT_TRUE(reader.registered());
    for (std::uint64_t i = 0; i < 500; ++i) ASSERT_EQ(publish(writer), outcome::ok);
    EXPECT_FALSE(reader.registered());
    EXPECT_TRUE(writer.registered_readers().at(0).evicted);
    EXPECT_EQ(holdfast::broadcast_writer_report_of(writer.segment()).evicted, 1U);
    EXPECT_EQ(writer.registered_readers().at(0).policy, std::nullopt);
    std::vector<std::byte> out;
    const auto got = reader.read(out);
    ASSERT_EQ(got.status, outcome::lapped);
    EXPECT_EQ(reader.sequence(), 1 + got.count);
    EXPECT_EQ(reader.enrol(how).status, outcome::ok);
    EXPECT_TRUE(reader.registered());
    EXPECT_EQ(read_one(reader), "");
}

TEST_P(Shareable, AReaderThatLeavesHoldsNobodyUp) {
    auto writer = broadcast_writer::create(place.uri(), ring_of(4096, 1));
    auto reader = std::make_unique<broadcast_reliable_reader>(again(writer));
    EXPECT_EQ(refusal_of([&] { const broadcast_reliable_reader second(again(writer)); }), errc::no_space);
    while (publish(writer) == outcome::ok) continue;
    reader.reset();
    for (std::uint64_t i = 0; i < 500; ++i) ASSERT_EQ(publish(writer), outcome::ok);
    EXPECT_TRUE(writer.registered_readers().empty());
}

TEST_P(Shareable, AReaderThatIsAssignedToGivesItsRegistrationBackAtOnce) {
    auto writer = broadcast_writer::create(place.uri(), ring_of(4096, 2));
    broadcast_reliable_reader first(again(writer)), second(again(writer));
    EXPECT_EQ(refusal_of([&] { const broadcast_reliable_reader third(again(writer)); }), errc::no_space);
    while (publish(writer) == outcome::ok) continue;
    while (second.sequence() <= writer.sequence()) ASSERT_EQ(read_one(second), "");
    second.acknowledge();
    ASSERT_EQ(publish(writer), outcome::full) << "the first has read nothing";
    first = std::move(second);
    EXPECT_EQ(publish(writer), outcome::ok) << "nobody is there who has not read the others";
    EXPECT_EQ(read_one(first), "");
    std::vector<std::byte> out;
    EXPECT_EQ(second.read(out).status, outcome::read_only);  // NOLINT: a moved-from handle says so
    EXPECT_EQ(second.enrol({}).status, outcome::read_only);
    EXPECT_FALSE(second.registered());
    EXPECT_EQ(writer.registered_readers().size(), 1U);
    const broadcast_reliable_reader third(again(writer));
    EXPECT_EQ(writer.registered_readers().size(), 2U);
}

TEST_P(Shareable, AReaderThatIsMovedToItselfStaysRegistered) {
    auto writer = broadcast_writer::create(place.uri(), ring_of(4096, 1));
    broadcast_reliable_reader reader(again(writer));
    broadcast_reliable_reader& same = reader;
    reader = std::move(same);
    EXPECT_TRUE(reader.registered());
    while (publish(writer) == outcome::ok) continue;
    EXPECT_EQ(read_one(reader), "");
    EXPECT_EQ(reader.lost(), 0U);
}

TEST_P(Shareable, AForkedChildCannotUseItsParentsRegistration) {
    auto writer = broadcast_writer::create(place.uri(), ring_of(4096, 1));
    auto reader = std::make_unique<broadcast_reliable_reader>(again(writer));
    child_process child([&]() -> std::string {
        std::vector<std::byte> out;
        if (reader->read(out).status != outcome::read_only) return "the child may read";
        if (reader->enrol({}).status != outcome::read_only) return "the child may register";
        reader.reset();  // must leave the parent's slot and lock alone
        return {};
    });
    ASSERT_TRUE(child.wait().success()) << child.wait().text();
    EXPECT_TRUE(reader->registered());
    while (publish(writer) == outcome::ok) continue;
    EXPECT_EQ(read_one(*reader), "");
}

TEST_P(Shareable, WithoutRoomForRegisteredReadersNobodyRegisters) {
    auto writer = broadcast_writer::create(place.uri(), ring_of(4096));
    EXPECT_EQ(refusal_of([&] { const broadcast_reliable_reader reader(again(writer)); }), errc::not_found);
}

TEST_P(Everywhere, AWaitEndsWithTheMessageOrTheTime) {
    auto writer = broadcast_writer::create(place.uri(), ring_of(4096));
    auto reader = writer.make_reader();
    EXPECT_EQ(reader.wait(std::chrono::milliseconds(2)).status, outcome::timed_out);
    ASSERT_EQ(publish(writer), outcome::ok);
    EXPECT_EQ(reader.wait(std::chrono::seconds(0)).status, outcome::ok);
    EXPECT_EQ(read_one(reader), "");
    std::thread late([&] { (void)publish(writer); });
    EXPECT_EQ(reader.wait(std::chrono::hours(1)).status, outcome::ok);
    late.join();
    EXPECT_EQ(read_one(reader), "");
    EXPECT_EQ(writer.wait_room(100, std::chrono::hours(1)).status, outcome::ok) << "nobody can hold this writer up";
    EXPECT_EQ(writer.wait_room(5000, std::chrono::hours(1)).status, outcome::too_large);
}

TEST_P(Shareable, ARegisteredReaderIsWokenByEachMessage) {
    auto writer = broadcast_writer::create(place.uri(), ring_of(4096, 2));
    broadcast_reliable_reader reader(again(writer));
    const auto board = holdfast::peers::open(writer.segment());
    const auto& asleep = holdfast::detail::broadcast_board_in(board).asleep;
    constexpr int rounds = 100;
    std::string fault;
    const auto begin = std::chrono::steady_clock::now();
    std::thread sleeper([&] {
        for (int i = 0; i < rounds && fault.empty(); ++i) {
            if (reader.wait(std::chrono::hours(1)).status != outcome::ok) fault = "not woken";
            if (fault.empty()) fault = read_one(reader);
        }
    });
    for (int i = 0; i < rounds; ++i) {
        while (asleep.load() == 0) std::this_thread::yield();  // it sleeps or is about to
        ASSERT_EQ(publish(writer), outcome::ok);
    }
    sleeper.join();
    EXPECT_EQ(fault, "");
    // A lost wake costs 100 ms: half of them lost would show here.
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(rounds * 50));
}

TEST_P(Shareable, AWriterWaitsForRoomAndIsWoken) {
    auto writer = broadcast_writer::create(place.uri(), ring_of(4096, 1));
    broadcast_reliable_reader reader(again(writer));
    while (publish(writer) == outcome::ok) continue;
    EXPECT_EQ(writer.wait_room(bytes_max, std::chrono::milliseconds(2)).status, outcome::timed_out);
    const std::uint64_t last = writer.sequence();
    std::string fault;
    std::thread other([&] {
        while (fault.empty() && reader.sequence() <= last) fault = read_one(reader);
        reader.acknowledge();
    });
    EXPECT_EQ(writer.wait_room(bytes_max, std::chrono::hours(1)).status, outcome::ok);
    other.join();
    EXPECT_EQ(fault, "");
    EXPECT_EQ(publish(writer), outcome::ok);
    EXPECT_GT(writer.registered_readers().at(0).blocked_for.count(), 0);
}

TEST_P(Shareable, AWriterThatWaitsIsNotHeldUpByTheDead) {
    auto writer = broadcast_writer::create(place.uri(), ring_of(4096, 1));
    child_process child([&](holdfast::test::channel& talk) -> std::string {
        const broadcast_reliable_reader reader(again(writer));
        talk.signal();
        talk.wait();  // reads nothing until it is killed
        return "outlived its kill";
    });
    ASSERT_TRUE(child.talk().wait());
    while (publish(writer) == outcome::ok) continue;
    std::thread killer([&] { EXPECT_TRUE(child.kill().signalled); });
    EXPECT_EQ(writer.wait_room(bytes_max, std::chrono::hours(1)).status, outcome::ok);
    killer.join();
    EXPECT_EQ(holdfast::broadcast_writer_report_of(writer.segment()).reclaimed, 1U);
    broadcast_reliable_reader successor(again(writer));
    EXPECT_EQ(successor.slot(), 0U) << "the writer keeps no slot that it took back";
    EXPECT_EQ(read_one(successor), "");
}

TEST_P(Shareable, AWriterThatWaitsEvictsWhenPatienceEnds) {
    auto writer = broadcast_writer::create(place.uri(), ring_of(4096, 1));
    const broadcast_reliable_reader reader(
        again(writer), {.start = {}, .policy = broadcast_policy::evict, .patience = std::chrono::milliseconds(30)});
    while (publish(writer) == outcome::ok) continue;
    EXPECT_TRUE(reader.registered());
    EXPECT_EQ(writer.wait_room(bytes_max, std::chrono::hours(1)).status, outcome::ok);
    EXPECT_FALSE(reader.registered());
    EXPECT_GE(writer.registered_readers().at(0).blocked_for, std::chrono::milliseconds(30));
}

TEST_P(Shareable, NobodySleepsForAWriterThatIsGone) {
    auto writer = std::make_unique<broadcast_writer>(broadcast_writer::create(place.uri(), ring_of(4096, 1)));
    broadcast_reliable_reader reader(again(*writer));
    broadcast_reader unknown(again(*writer));
    ASSERT_EQ(publish(*writer), outcome::ok);
    const bool named = writer->segment().name().named();
    writer.reset();
    EXPECT_EQ(reader.wait(std::chrono::hours(1)).status, outcome::ok) << "what is there is read first";
    EXPECT_EQ(read_one(reader), "");
    EXPECT_EQ(read_one(unknown), "");
    EXPECT_EQ(reader.wait(std::chrono::hours(1)).status, outcome::writer_gone);
    if (!named) {  // the lease cannot be found, nor can a successor find the ring
        EXPECT_EQ(unknown.wait(std::chrono::milliseconds(1)).status, outcome::timed_out);
        return;
    }
    EXPECT_EQ(unknown.wait(std::chrono::hours(1)).status, outcome::writer_gone);
    auto next = broadcast_writer::attach(place.uri());
    EXPECT_EQ(reader.wait(std::chrono::milliseconds(1)).status, outcome::timed_out);
    ASSERT_EQ(publish(next), outcome::ok);
    std::vector<std::byte> out;
    const auto got = reader.read(out);
    EXPECT_TRUE(got && got.restarted);
}

INSTANTIATE_TEST_SUITE_P(Broadcast, Everywhere, ::testing::ValuesIn(holdfast::test::every_kind),
                         holdfast::test::kind_case_name);
INSTANTIATE_TEST_SUITE_P(Broadcast, Shareable, ::testing::ValuesIn(holdfast::test::shareable_kinds),
                         holdfast::test::kind_case_name);

}  // namespace
