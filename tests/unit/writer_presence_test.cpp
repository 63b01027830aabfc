// SPDX-License-Identifier: Apache-2.0
// Whether a writer lives, as those learn it who wait for it: by its slot of NAME.peers, and by its lease where it has
// not come to that slot.
#include "holdfast/segment/writer_presence.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "holdfast/broadcast.hpp"
#include "holdfast/queue.hpp"
#include "support/memory_kinds.hpp"

namespace {

using namespace std::chrono_literals;
using holdfast::access;
using holdfast::broadcast_options;
using holdfast::broadcast_reader;
using holdfast::broadcast_reliable_reader;
using holdfast::broadcast_writer;
using holdfast::outcome;
using holdfast::peers;
using holdfast::queue;
using holdfast::queue_consumer;
using holdfast::queue_observer;
using holdfast::queue_producer;
using holdfast::segment;
using holdfast::segment_spec;
using holdfast::layout::broadcast_geometry;
using holdfast::layout::broadcast_write_core;
using holdfast::layout::queue_geometry;
using holdfast::test::memory_place;

/// A queue whose producer has the lease and has not come to its slot.
[[nodiscard]] segment queue_without_slot(const std::string& uri, const queue_geometry& geometry) {
    segment_spec spec = holdfast::detail::queue_spec(geometry);
    if (geometry.form == holdfast::layout::queue_form::elements)
        spec.schema = holdfast::container_schema{std::nullopt, holdfast::schema_of<std::uint64_t>()}.text();
    return segment::create(uri, spec, {}, [](std::span<std::byte>) {});
}
/// Likewise a ring with room for a registered reader.
[[nodiscard]] segment ring_without_board(const std::string& uri) {
    const auto geometry = broadcast_geometry::make(4096, 1, uri);
    segment_spec spec;
    spec.kind = holdfast::container_kind::broadcast;
    spec.container_version = holdfast::broadcast_layout_version;
    std::ranges::copy(geometry.words(), spec.geometry.begin());
    spec.body_bytes = geometry.body_bytes();
    spec.peer_slots = 2;
    return segment::create(uri, spec, {},
                           [&](std::span<std::byte> body) { broadcast_write_core::format(body, geometry, 1); });
}
[[nodiscard]] broadcast_options ring_for_one() {
    broadcast_options options;
    options.capacity_bytes = 4096;
    options.registered_readers = 1;
    return options;
}

class WriterPresence : public ::testing::TestWithParam<std::string> {
 protected:
    memory_place place{GetParam()};

    /// Whoever waits is told that nobody writes once that is so, and neither at once nor in a long wait before.
    template <class Waiting>
    void expect_told_of(std::optional<segment>& writer, Waiting& waiting) {
        for (int life = 0; life < 2; ++life) {
            EXPECT_EQ(waiting.wait(0ms).status, outcome::timed_out);
            EXPECT_EQ(waiting.wait(200ms).status, outcome::timed_out);  // longer than a sleep
            writer.reset();
            EXPECT_EQ(waiting.wait(0ms).status, outcome::writer_gone);
            EXPECT_EQ(waiting.wait(1h).status, outcome::writer_gone);
            writer.emplace(segment::attach(place.uri(), access::read_write));  // a successor's beginning
        }
    }
};

TEST_P(WriterPresence, AProducerLivesBeforeItHasItsSlot) {
    std::optional<segment> writer(queue_without_slot(place.uri(), queue_geometry::of_bytes(1024, true, "")));
    auto consumer = queue_consumer::attach(place.uri());
    const auto observer = queue_observer::attach(place.uri());
    EXPECT_TRUE(consumer.producer_alive());
    EXPECT_EQ(observer.producer_alive(), true);
    expect_told_of(writer, consumer);
    writer.reset();
    EXPECT_FALSE(consumer.producer_alive());
    EXPECT_EQ(observer.producer_alive(), false);
}

TEST_P(WriterPresence, AProducerOfRecordsLivesBeforeItHasItsSlot) {
    std::optional<segment> writer(queue_without_slot(place.uri(), queue_geometry::of_elements(8, 8, false, "")));
    auto consumer = queue<std::uint64_t>::consumer::attach(place.uri());
    expect_told_of(writer, consumer);
}

TEST_P(WriterPresence, ARingsWriterLivesBeforeItHasTheBoard) {
    std::optional<segment> writer(ring_without_board(place.uri()));
    auto registered = broadcast_reliable_reader::attach(place.uri());
    expect_told_of(writer, registered);
}

TEST_P(WriterPresence, AnotherSegmentOfTheNameSaysNothing) {
    std::optional<queue_producer> first(queue_producer::create(place.uri()));
    auto consumer = queue_consumer::attach(place.uri());
    first.reset();
    segment::remove(place.uri());
    const auto second = queue_producer::create(place.uri());
    EXPECT_EQ(consumer.wait(0ms).status, outcome::writer_gone);
    EXPECT_FALSE(consumer.producer_alive());
}

// It has no slot to ask about, and the lease that it would ask is gone with the name, or another ring's.
TEST_P(WriterPresence, AnUnregisteredReaderLearnsThatItsRingWasRemoved) {
    std::optional<broadcast_writer> first(broadcast_writer::create(place.uri(), ring_for_one()));
    auto reader = broadcast_reader::attach(place.uri());
    ASSERT_TRUE(first->publish({}));
    first.reset();
    segment::remove(place.uri());
    EXPECT_EQ(reader.wait(1h).status, outcome::ok) << "what is there is read first";
    std::vector<std::byte> message;
    EXPECT_TRUE(reader.read(message));
    ASSERT_EQ(reader.wait(0ms).status, outcome::writer_gone) << "its name leads nowhere";
    EXPECT_EQ(reader.wait(1h).status, outcome::writer_gone);
    const auto second = broadcast_writer::create(place.uri(), ring_for_one());
    ASSERT_EQ(reader.wait(0ms).status, outcome::writer_gone) << "its name leads to another ring";
    EXPECT_EQ(reader.wait(1h).status, outcome::writer_gone);
}

// It keeps its writer's lease, which is all that an unregistered one has to ask.
TEST_P(WriterPresence, AReaderOnItsWritersMappingLearnsThatItIsGone) {
    std::optional<broadcast_writer> writer(broadcast_writer::create(place.uri(), ring_for_one()));
    auto registered = writer->make_reliable_reader();
    auto unregistered = writer->make_reader();
    EXPECT_EQ(registered.wait(0ms).status, outcome::timed_out);
    writer.reset();
    EXPECT_EQ(registered.wait(0ms).status, outcome::writer_gone);
    EXPECT_EQ(unregistered.wait(0ms).status, outcome::timed_out);
}

// A hostile reader holds the writer's slot: writers do not wait for it for longer than for a dying holder of the lease,
// and live nonetheless for who asks.
class AHeldSlot : public WriterPresence {
 protected:
    /// What attach() gives, which must not take the second that it would if nothing but the slot told.
    template <class Attach>
    [[nodiscard]] auto soon(Attach&& attach) {
        const auto begin = std::chrono::steady_clock::now();
        auto writer = attach(holdfast::attach_options{.trust = {}, .lease_timeout = 5ms, .pages = {}});
        EXPECT_LT(std::chrono::steady_clock::now() - begin, 500ms);
        return writer;
    }
    [[nodiscard]] peers hold(std::uint32_t slot) {
        auto strange = peers::open(segment::attach(place.uri(), access::read_only));
        EXPECT_TRUE(strange.hold(slot));
        return strange;
    }
};

TEST_P(AHeldSlot, DoesNotKeepAProducer) {
    {
        (void)queue_producer::create(place.uri());
    }
    std::optional<peers> strange(hold(holdfast::layout::queue_producer_slot));
    const auto producer = soon([&](const auto& how) { return queue_producer::attach(place.uri(), how); });
    auto consumer = queue_consumer::attach(place.uri());
    EXPECT_TRUE(consumer.producer_alive());
    strange.reset();
    EXPECT_EQ(consumer.wait(0ms).status, outcome::timed_out);
}

TEST_P(AHeldSlot, DoesNotKeepAProducerOfRecords) {
    using numbers = queue<std::uint64_t>;
    {
        (void)numbers::producer::create(place.uri());
    }
    std::optional<peers> strange(hold(holdfast::layout::queue_producer_slot));
    const auto producer = soon([&](const auto& how) { return numbers::producer::attach(place.uri(), how); });
    auto consumer = numbers::consumer::attach(place.uri());
    strange.reset();
    EXPECT_EQ(consumer.wait(0ms).status, outcome::timed_out);
}

TEST_P(AHeldSlot, DoesNotKeepARingsWriter) {
    {
        (void)broadcast_writer::create(place.uri(), ring_for_one());
    }
    std::optional<peers> strange(hold(holdfast::detail::broadcast_board_slot));
    const auto writer = soon([&](const auto& how) { return broadcast_writer::attach(place.uri(), how); });
    auto registered = broadcast_reliable_reader::attach(place.uri());
    strange.reset();
    EXPECT_EQ(registered.wait(0ms).status, outcome::timed_out);
}

INSTANTIATE_TEST_SUITE_P(Named, WriterPresence, ::testing::ValuesIn(holdfast::test::named_kinds),
                         holdfast::test::kind_case_name);
INSTANTIATE_TEST_SUITE_P(Named, AHeldSlot, ::testing::ValuesIn(holdfast::test::named_kinds),
                         holdfast::test::kind_case_name);

}  // namespace
