// SPDX-License-Identifier: Apache-2.0
// What a queue must do alike in every kind of memory: one producer, one consumer, takeover, refusals, waiting.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <concepts>
#include <cstring>
#include <iterator>
#include <memory>
#include <ranges>
#include <string>
#include <vector>

#include "holdfast/queue.hpp"
#include "support/memory_kinds.hpp"
#include "support/process.hpp"
#include "support/queue_bench.hpp"
#include "support/segment_tools.hpp"

namespace {

using namespace std::chrono_literals;
using holdfast::access;
using holdfast::delivery;
using holdfast::errc;
using holdfast::outcome;
using holdfast::outcome_name;
using holdfast::queue;
using holdfast::queue_consumer;
using holdfast::queue_consumer_options;
using holdfast::queue_message;
using holdfast::queue_observer;
using holdfast::queue_options;
using holdfast::queue_producer;
using holdfast::segment;
using holdfast::test::child_process;
using holdfast::test::is_message;
using holdfast::test::memory_place;
using holdfast::test::message_of;
using holdfast::test::refusal_of;
using holdfast::test::type_of;

queue_options ring_of(std::uint64_t bytes, bool rings = true) {
    queue_options options;
    options.capacity_bytes = bytes;
    options.rings = rings;
    return options;
}

class Everywhere : public ::testing::TestWithParam<std::string> {
 protected:
    memory_place place{GetParam()};
};
class Shareable : public Everywhere {
 protected:
    std::shared_ptr<const segment> again(const queue_producer& producer) {
        return std::make_shared<const segment>(place.attach_again(producer.segment(), access::read_only));
    }
};

TEST_P(Everywhere, MessagesComeOutInOrderAndCountsAreExact) {
    auto producer = queue_producer::create(place.uri(), ring_of(2000));
    EXPECT_EQ(producer.capacity_bytes(), 2048U);
    EXPECT_EQ(producer.message_bytes_max(), 1016U);
    queue_consumer consumer = producer.make_consumer();
    std::vector<std::byte> out(consumer.message_bytes_max());
    EXPECT_EQ(consumer.try_pop(out).status, outcome::empty);
    std::uint64_t bytes = 0;
    for (std::uint64_t i = 0; i < 500; ++i) {
        const auto message = message_of(i, i % 900);
        ASSERT_TRUE(producer.try_push(message, type_of(i)));
        bytes += message.size();
        if (i % 2 == 0) {
            ASSERT_TRUE(is_message(consumer.front(), i, i % 900));
            ASSERT_TRUE(consumer.pop());
            ASSERT_FALSE(consumer.pop());
        } else {
            ASSERT_TRUE(is_message(consumer.try_pop(out), i, i % 900));
        }
    }
    consumer.acknowledge();
    EXPECT_EQ(producer.stats().messages, 500U);
    EXPECT_EQ(producer.stats().bytes, bytes);
    EXPECT_EQ(consumer.stats().messages, 500U);
    EXPECT_EQ(consumer.stats().bytes, bytes);
    EXPECT_EQ(consumer.stats().position, producer.stats().position);
    EXPECT_EQ(producer.fault(), std::nullopt);
    EXPECT_EQ(consumer.fault(), std::nullopt);
}

TEST_P(Everywhere, ABufferTooSmallSaysWhatIsNeededAndTakesNothing) {
    auto producer = queue_producer::create(place.uri(), ring_of(1024));
    queue_consumer consumer = producer.make_consumer();
    ASSERT_TRUE(producer.try_push(message_of(1, 100), type_of(1)));
    std::vector<std::byte> out(99);
    EXPECT_EQ(consumer.try_pop(out).status, outcome::too_small);
    EXPECT_EQ(consumer.try_pop(out).count, 100U);
    out.resize(100);
    EXPECT_TRUE(is_message(consumer.try_pop(out), 1, 100));
}

TEST_P(Everywhere, WorksWithRangesAndBackInserter) {
    auto producer = queue_producer::create(place.uri(), ring_of(4096));
    queue_consumer consumer = producer.make_consumer();
    std::vector<std::vector<std::byte>> messages;
    for (std::uint64_t i = 0; i < 10; ++i) messages.push_back(message_of(i, 10 * i));
    std::ranges::copy(messages, std::back_inserter(producer));
    std::size_t i = 0;
    for (const queue_message& message : consumer.messages())
        ASSERT_TRUE(std::ranges::equal(message.bytes, messages[i++]));
    EXPECT_EQ(i, 10U);
    ASSERT_EQ(producer.try_push_all(messages, 3).count, 10U);
    i = 0;
    EXPECT_EQ(consumer.drain(4, [&](const queue_message& m) { i += m.type; }).count, 4U);
    EXPECT_EQ(i, 12U);
    EXPECT_EQ(consumer.drain(100, [&](const queue_message&) {}).count, 6U);
    EXPECT_EQ(consumer.drain(100, [&](const queue_message&) {}).status, outcome::empty);
    EXPECT_EQ(producer.stats().messages, consumer.stats().messages);
    const std::vector<std::vector<std::byte>> too_many(6, message_of(1, 1000));
    EXPECT_EQ(producer.try_push_all(too_many).status, outcome::too_large);
    EXPECT_EQ(consumer.front().status, outcome::empty) << "a batch that does not fit leaves nothing";
    EXPECT_EQ(refusal_of([&] {
                  for (const auto& message : too_many) producer.push_back(message);
              }),
              errc::no_space);
    const std::vector<std::byte> too_long(producer.message_bytes_max() + 1);
    EXPECT_EQ(refusal_of([&] { producer.push_back(too_long); }), errc::invalid_argument) << "no room will do";
}

TEST_P(Everywhere, WhatUseThrowsInADrainPassesThroughAndKeepsTheMessage) {
    auto producer = queue_producer::create(place.uri(), ring_of(1024));
    queue_consumer consumer = producer.make_consumer();
    for (std::uint64_t i = 0; i < 3; ++i) ASSERT_TRUE(producer.try_push(message_of(i, 8), type_of(i)));
    unsigned seen = 0;
    EXPECT_THROW(consumer.drain(9, [&](const queue_message&) { return ++seen == 2 ? throw 1 : void(); }), int);
    EXPECT_EQ(consumer.stats().messages, 1U);
    EXPECT_FALSE(consumer.pop()) << "front() gave none";
    EXPECT_TRUE(is_message(consumer.front(), 1, 8));
}

TEST_P(Everywhere, PopReleasesOnlyWhatFrontGave) {
    auto producer = queue_producer::create(place.uri(), ring_of(1024));
    queue_consumer consumer = producer.make_consumer();
    for (std::uint64_t i = 0; i < 4; ++i) ASSERT_TRUE(producer.try_push(message_of(i, 8), type_of(i)));
    EXPECT_TRUE(consumer.wait(10s));
    EXPECT_FALSE(consumer.pop()) << "a wait shows no message";
    EXPECT_EQ(consumer.try_pop({}).status, outcome::too_small);
    EXPECT_FALSE(consumer.pop()) << "too small takes nothing";
    EXPECT_TRUE(is_message(consumer.front(), 0, 8));
    EXPECT_TRUE(consumer.wait(10s));
    EXPECT_TRUE(consumer.pop());
    EXPECT_FALSE(consumer.pop());
    EXPECT_EQ(consumer.stats().messages, 1U);
    EXPECT_TRUE(is_message(consumer.front(), 1, 8));
}

// `use` may take messages itself: nothing is passed that nobody was given.
TEST_P(Everywhere, ADrainThatIsReenteredPassesEachMessageOnce) {
    auto producer = queue_producer::create(place.uri(), ring_of(1024));
    queue_consumer consumer = producer.make_consumer();
    for (std::uint64_t i = 0; i < 6; ++i) ASSERT_TRUE(producer.try_push(message_of(i, 8), type_of(i)));
    std::vector<std::uint16_t> seen;
    std::vector<std::byte> out(8);
    const auto done = consumer.drain(100, [&](const queue_message& message) {
        seen.push_back(message.type);
        if (seen.size() != 1) return;
        EXPECT_TRUE(is_message(consumer.try_pop(out), 0, 8));  // the one that it was given
        EXPECT_TRUE(is_message(consumer.try_pop(out), 1, 8));
        EXPECT_TRUE(is_message(consumer.front(), 2, 8));  // looked at, not taken
    });
    EXPECT_TRUE(done);
    EXPECT_EQ(seen, (std::vector<std::uint16_t>{type_of(0), type_of(2), type_of(3), type_of(4), type_of(5)}));
    EXPECT_EQ(done.count, seen.size());
    EXPECT_EQ(consumer.stats().messages, 6U);
    EXPECT_FALSE(consumer.pop());
}

TEST_P(Everywhere, OneConsumerAtATimeAndItsSuccessorGoesOn) {
    auto producer = queue_producer::create(place.uri(), ring_of(1024));
    auto first = std::make_unique<queue_consumer>(producer.make_consumer());
    EXPECT_TRUE(producer.consumer_alive());
    EXPECT_TRUE(first->producer_alive());
    EXPECT_EQ(refusal_of([&] { (void)producer.make_consumer(); }), errc::writer_alive);
    for (std::uint64_t i = 0; i < 5; ++i) ASSERT_TRUE(producer.try_push(message_of(i, 20), type_of(i)));
    std::vector<std::byte> out(100);
    ASSERT_TRUE(first->front());
    ASSERT_TRUE(first->pop());                            // 0: released
    ASSERT_TRUE(is_message(first->try_pop(out), 1, 20));  // released by the next look
    ASSERT_TRUE(is_message(first->try_pop(out), 2, 20));  // not acknowledged
    first.reset();
    EXPECT_FALSE(producer.consumer_alive());
    queue_consumer second = producer.make_consumer(delivery::at_most_once);
    ASSERT_TRUE(is_message(second.try_pop(out), 2, 20)) << "at least once: the last one copied comes again";
    ASSERT_TRUE(is_message(second.try_pop(out), 3, 20));
    second = queue_consumer(std::move(second));
    {
        queue_consumer third(std::move(second));
        EXPECT_EQ(second.front().status, outcome::read_only);  // NOLINT: a moved-from handle says so
        ASSERT_TRUE(is_message(third.try_pop(out), 4, 20));
    }
    queue_consumer fourth = producer.make_consumer();
    EXPECT_EQ(fourth.front().status, outcome::empty) << "at most once: never again";
    EXPECT_EQ(fourth.stats().messages, 5U);
}

TEST_P(Everywhere, WaitingEndsByDeadlineByDeathOrAtOnce) {
    for (const bool rings : {true, false}) {
        memory_place here{GetParam()};
        auto producer = std::make_unique<queue_producer>(queue_producer::create(here.uri(), ring_of(256, rings)));
        queue_consumer consumer = producer->make_consumer();
        EXPECT_EQ(consumer.wait(0ns).status, outcome::timed_out);
        EXPECT_EQ(consumer.wait(2ms).status, outcome::timed_out);
        ASSERT_TRUE(producer->try_push(message_of(1, 8)));
        EXPECT_TRUE(consumer.wait(10s));
        EXPECT_TRUE(producer->wait_room(100, 10s));
        EXPECT_EQ(producer->wait_room(10'000, 10s).status, outcome::too_large);
        while (producer->try_push(message_of(1, 8))) {
        }
        EXPECT_EQ(producer->wait_room(8, 2ms).status, outcome::timed_out);
        while (consumer.front()) consumer.pop();
        EXPECT_TRUE(producer->wait_room(8, 10s));
        ASSERT_TRUE(producer->try_push(message_of(2, 8), type_of(2)));
        producer.reset();
        EXPECT_TRUE(consumer.wait(10s)) << "what the dead left is delivered first";
        EXPECT_TRUE(is_message(consumer.front(), 2, 8));
        consumer.pop();
        EXPECT_EQ(consumer.wait(10s).status, outcome::writer_gone);
        EXPECT_FALSE(consumer.producer_alive());
    }
}

TEST_P(Everywhere, AnotherKindOrFormIsRefused) {
    {
        auto elements = queue<std::uint64_t>::producer::create(place.uri(), {.capacity = 8});
        const auto shared = std::shared_ptr<const segment>(std::shared_ptr<void>(), &elements.segment());
        EXPECT_EQ(refusal_of([&] { const queue_consumer no(shared); }), errc::kind_mismatch);
        EXPECT_EQ(refusal_of([&] { const queue<std::uint32_t>::consumer no(shared); }), errc::schema_mismatch);
        EXPECT_EQ(refusal_of([&] { const queue<std::uint64_t>::consumer yes(shared); }), std::nullopt);
    }
    memory_place other{GetParam()};
    holdfast::segment_spec spec;
    spec.body_bytes = 100'000;
    const auto raw =
        std::make_shared<const segment>(segment::create(other.uri(), spec, {}, [](std::span<std::byte>) {}));
    EXPECT_EQ(refusal_of([&] { const queue_consumer no(raw); }), errc::kind_mismatch);
}

TEST_P(Everywhere, AForkedChildCanNeitherPutNorTake) {
    auto producer = queue_producer::create(place.uri(), ring_of(1024));
    queue_consumer consumer = producer.make_consumer();
    ASSERT_TRUE(producer.try_push(message_of(1, 8), type_of(1)));
    child_process child([&]() -> std::string {
        if (producer.try_push(message_of(2, 8)).status != outcome::read_only) return "pushed";
        if (producer.begin_batch()) return "opened a batch";
        if (producer.commit_batch().status != outcome::read_only) return "committed";
        if (consumer.front().status != outcome::read_only) return "looked";
        if (consumer.pop()) return "popped";
        if (consumer.wait(1s).status != outcome::read_only) return "waited";
        return {};
    });
    EXPECT_TRUE(child.wait().success()) << child.wait().text();
    EXPECT_TRUE(is_message(consumer.front(), 1, 8));
}

TEST_P(Everywhere, AnObserverSeesBothSides) {
    auto producer = queue_producer::create(place.uri(), ring_of(1024));
    queue_consumer consumer = producer.make_consumer();
    for (std::uint64_t i = 0; i < 5; ++i) ASSERT_TRUE(producer.try_push(message_of(i, 20)));
    ASSERT_TRUE(consumer.front() && consumer.pop());
    const queue_observer observer(std::shared_ptr<const segment>(std::shared_ptr<void>(), &producer.segment()));
    EXPECT_EQ(observer.size(), 4U);
    EXPECT_EQ(observer.producer().messages, 5U);
    EXPECT_EQ(observer.consumer()->messages, 1U);
    const auto seen = observer.verify();
    EXPECT_TRUE(seen.found.empty());
    EXPECT_EQ(seen.messages, 4U);
}

struct tick {
    std::uint64_t sequence;
    double price;
    bool bid;
    char symbol[6];
};
struct longer_tick {
    std::uint64_t sequence;
    double price;
    bool bid;
    char symbol[6];
    std::uint32_t venue;
};
struct span_of_time {
    std::uint64_t begin;
};
struct span_with_end {
    std::uint64_t begin;
    std::uint64_t end;
};

TEST_P(Everywhere, RecordsComeOutInOrderOneByOneAndInBatches) {
    auto producer = queue<tick>::producer::create(place.uri(), {.capacity = 50});
    EXPECT_EQ(producer.capacity(), 64U);
    auto consumer = producer.make_consumer();
    EXPECT_EQ(consumer.front().status, outcome::empty);
    EXPECT_FALSE(consumer.pop());
    std::uint64_t in = 0, out = 0;
    for (unsigned round = 0; round < 300; ++round) {
        std::vector<tick> batch(round % 40);
        for (tick& t : batch) t = {in++, 0.5, true, {'A', 'B'}};
        const auto put = producer.try_push(batch);
        if (!put) {
            ASSERT_EQ(put.status, outcome::full);
            in -= batch.size();
        }
        if (auto slot = producer.try_claim()) {
            *slot.value = {in, 0.25, false, {}};
            if (round % 2 == 0) {
                producer.discard();
                ASSERT_EQ(producer.commit().status, outcome::not_claimed);
            } else {
                ASSERT_TRUE(producer.commit());
                ++in;
            }
        }
        if (consumer.front()) {
            ASSERT_EQ(consumer.front().value.sequence, out++);
            ASSERT_TRUE(consumer.pop());
        }
        if (const auto one = consumer.try_pop()) {
            ASSERT_EQ(one.value.sequence, out++);
        }
        std::vector<tick> taken(round % 50);
        const auto got = consumer.try_pop(taken);
        for (std::uint64_t i = 0; got && i < got.count; ++i) ASSERT_EQ(taken[i].sequence, out++);
    }
    EXPECT_GT(out, 1000U);
    unsigned seen = 0;
    const std::uint64_t left = in - out;
    if (left > 1) {
        EXPECT_THROW(consumer.drain(99, [&](const tick& t) { return ++seen == 2 ? throw 1 : void(t); }), int);
        EXPECT_EQ(consumer.front().value.sequence, ++out) << "the element that was thrown over stays";
    }
    EXPECT_EQ(consumer.drain(1, [&](const tick& t) { EXPECT_EQ(t.sequence, out++); }).count, left > 0 ? 1U : 0U);
    while (consumer.try_pop()) ++out;
    EXPECT_EQ(consumer.drain(9, [](const tick&) {}).status, outcome::empty);
    EXPECT_EQ(in, out);
    EXPECT_EQ(producer.stats().messages, in);
    EXPECT_EQ(consumer.stats().messages, in);
    EXPECT_EQ(producer.try_push(std::vector<tick>(65)).status, outcome::too_large);
    EXPECT_EQ(producer.wait_room(65, 1s).status, outcome::too_large);
    std::vector<tick> all(64);
    std::ranges::copy(all, std::back_inserter(producer));
    EXPECT_EQ(refusal_of([&] { producer.push_back(all[0]); }), errc::no_space);
    EXPECT_EQ(refusal_of([&] { (void)producer.make_consumer(); }), errc::writer_alive);
    EXPECT_EQ(producer.wait_room(1, 2ms).status, outcome::timed_out);
    EXPECT_TRUE(consumer.wait(10s));
}

static_assert(std::ranges::input_range<holdfast::queue_messages> && std::ranges::input_range<queue<tick>::elements>);
static_assert(std::same_as<std::ranges::range_reference_t<queue<tick>::elements>, const tick&>);

TEST_P(Everywhere, RecordsAreARangeWhoseElementsAreReleasedAsTheyArePassed) {
    auto producer = queue<tick>::producer::create(place.uri(), {.capacity = 16});
    auto consumer = producer.make_consumer();
    EXPECT_EQ(std::ranges::distance(consumer.values()), 0) << "an empty queue is an empty range";
    for (std::uint64_t round = 0, next = 0; round < 5; ++round) {
        for (std::uint64_t i = 0; i < 10; ++i) producer.push_back({round * 10 + i, 0.5, true, {'A', 'B'}});
        for (const tick& t : consumer.values()) {
            ASSERT_EQ(t.sequence, next);
            if (next % 10 == 3) break;  // it was not passed: it stays
            ++next;
        }
        ASSERT_EQ(consumer.front().value.sequence, round * 10 + 3);
        std::vector<std::uint64_t> rest;
        std::ranges::copy(consumer.values() | std::views::transform(&tick::sequence), std::back_inserter(rest));
        ASSERT_EQ(rest.size(), 7U);
        for (const std::uint64_t sequence : rest) ASSERT_EQ(sequence, next++);
        EXPECT_EQ(consumer.front().status, outcome::empty);
        EXPECT_EQ(consumer.stats().messages, next);
    }
}

TEST_P(Everywhere, ADrainOfRecordsThatIsReenteredPassesEachOnce) {
    auto producer = queue<std::uint64_t>::producer::create(place.uri(), {.capacity = 8});
    auto consumer = producer.make_consumer();
    for (std::uint64_t i = 0; i < 5; ++i) producer.push_back(i);
    std::vector<std::uint64_t> seen;
    const auto done = consumer.drain(100, [&](std::uint64_t value) {
        seen.push_back(value);
        if (seen.size() == 1) {
            EXPECT_EQ(consumer.try_pop().value, 0U);  // the one that it was given
            EXPECT_EQ(consumer.try_pop().value, 1U);
        }
        if (seen.size() > 5) throw 1;  // elements that are none
    });
    EXPECT_TRUE(done);
    EXPECT_EQ(seen, (std::vector<std::uint64_t>{0, 2, 3, 4}));
    EXPECT_EQ(done.count, seen.size());
    EXPECT_EQ(consumer.stats().messages, 5U);
    EXPECT_EQ(consumer.front().status, outcome::empty);
    EXPECT_EQ(consumer.fault(), std::nullopt);
}

TEST_P(Everywhere, RecordsAreReadInPlaceByBlocksUpToTheEndOfTheRing) {
    auto producer = queue<std::uint64_t>::producer::create(place.uri(), {.capacity = 8});
    auto consumer = producer.make_consumer();
    EXPECT_EQ(consumer.front_block().status, outcome::empty);
    EXPECT_FALSE(consumer.pop(1)) << "nothing was given";
    const auto read = [&](std::uint64_t most) {
        const auto block = consumer.front_block(most);
        return std::vector<std::uint64_t>(block.values.begin(), block.values.end());
    };
    std::uint64_t in = 0;
    const auto put = [&](unsigned count) {
        while (count-- > 0) ASSERT_TRUE(producer.try_push(in++));
    };
    using values = std::vector<std::uint64_t>;
    put(6);
    EXPECT_EQ(read(0), values{});
    EXPECT_EQ(read(4), (values{0, 1, 2, 3}));
    EXPECT_EQ(read(99), (values{0, 1, 2, 3, 4, 5})) << "a block stays until it is released";
    EXPECT_FALSE(consumer.pop(7)) << "more than were given";
    EXPECT_FALSE(consumer.pop(0));
    EXPECT_TRUE(consumer.pop(2));
    EXPECT_TRUE(consumer.pop(3)) << "a part of what is left of the block";
    EXPECT_FALSE(consumer.pop(2));
    EXPECT_EQ(consumer.stats().messages, 5U);
    put(7);
    EXPECT_EQ(producer.try_push(99).status, outcome::full);
    EXPECT_EQ(read(99), (values{5, 6, 7})) << "to the end of the ring";
    EXPECT_TRUE(consumer.pop(3));
    EXPECT_EQ(read(99), (values{8, 9, 10, 11, 12})) << "and on at its front";
    EXPECT_EQ(consumer.try_pop().value, 8U);
    EXPECT_FALSE(consumer.pop()) << "what was given before another call is void";
    EXPECT_EQ(read(2), (values{9, 10}));
    EXPECT_TRUE(consumer.pop(2));
    EXPECT_EQ(read(99), (values{11, 12}));
    EXPECT_EQ(consumer.front().value, 11U);
    EXPECT_FALSE(consumer.pop(2)) << "front() gave one";
    EXPECT_TRUE(consumer.pop());
    EXPECT_EQ(consumer.try_pop().value, 12U);
    EXPECT_EQ(consumer.front_block().status, outcome::empty);
    EXPECT_EQ(consumer.fault(), std::nullopt);
}

TEST_P(Everywhere, ARecordWithMoreFieldsServesOldConsumers) {
    auto producer = queue<longer_tick>::producer::create(place.uri(), {.capacity = 8});
    producer.push_back({7, 0.25, true, {'x'}, 9});
    const auto shared = std::shared_ptr<const segment>(std::shared_ptr<void>(), &producer.segment());
    queue<tick>::consumer old(shared);
    EXPECT_EQ(old.front().value.sequence, 7U);
    EXPECT_EQ(old.front().value.price, 0.25);
}

TEST_P(Everywhere, RecordsWithMoreFieldsAreNotReadInPlace) {
    auto producer = queue<span_with_end>::producer::create(place.uri(), {.capacity = 8});
    producer.push_back({7, 9});
    const auto shared = std::shared_ptr<const segment>(std::shared_ptr<void>(), &producer.segment());
    queue<span_of_time>::consumer old(shared);
    EXPECT_EQ(refusal_of([&] { (void)old.front_block(); }), errc::schema_mismatch);
    EXPECT_EQ(old.try_pop().value.begin, 7U) << "copies are taken as before";
}

TEST_P(Shareable, ASecondMappingTakesWhatTheFirstPuts) {
    auto producer = queue_producer::create(place.uri(), ring_of(1024));
    queue_consumer consumer(again(producer));
    for (std::uint64_t i = 0; i < 200; ++i) {
        ASSERT_TRUE(producer.try_push(message_of(i, i % 100), type_of(i)));
        ASSERT_TRUE(is_message(consumer.front(), i, i % 100));
        ASSERT_TRUE(consumer.pop());
    }
    EXPECT_EQ(refusal_of([&] { const queue_consumer second(again(producer)); }), errc::writer_alive);
    EXPECT_EQ(refusal_of([&] { (void)place.attach_again(producer.segment(), access::read_write); }),
              errc::writer_alive);
}

// The kernel sleeps on a word in a read-only mapping, in every kind of memory: a wait that only spins would look much
// more often.
TEST_P(Shareable, AConsumerThatMayOnlyReadTheDataSleepsAndLearnsOfADeath) {
    auto producer = std::make_unique<queue_producer>(queue_producer::create(place.uri(), ring_of(1024)));
    queue_consumer consumer(again(*producer));
    EXPECT_EQ(consumer.wait(250ms).status, outcome::timed_out);
    EXPECT_GE(consumer.stats().parked, 2U);
    EXPECT_LE(consumer.stats().parked, 10U);
    ASSERT_TRUE(producer->try_push(message_of(1, 9), type_of(1)));
    EXPECT_TRUE(consumer.wait(10s));
    consumer.pop();
    producer.reset();
    while (consumer.front()) consumer.pop();
    EXPECT_EQ(consumer.wait(10s).status, outcome::writer_gone);
    EXPECT_LE(consumer.stats().parked, 20U);
}

class Named : public Shareable {
 protected:
    [[nodiscard]] std::string peers_path() const {
        return holdfast::detail::places_of(holdfast::memory::uri::parse(place.uri())).peers();
    }
};

TEST_P(Named, ByNameEachSideTakesOver) {
    {
        ASSERT_TRUE(queue_producer::create(place.uri(), ring_of(1024)).try_push(message_of(0, 9), type_of(0)));
    }
    queue_consumer consumer = queue_consumer::attach(place.uri());
    EXPECT_FALSE(consumer.producer_alive());
    auto producer = queue_producer::attach(place.uri());
    EXPECT_TRUE(consumer.producer_alive());
    EXPECT_EQ(refusal_of([&] { (void)queue_producer::attach(place.uri()); }), errc::writer_alive);
    EXPECT_EQ(refusal_of([&] { (void)queue_consumer::attach(place.uri()); }), errc::writer_alive);
    ASSERT_TRUE(producer.try_push(message_of(1, 9), type_of(1)));
    for (std::uint64_t i = 0; i < 2; ++i) {
        ASSERT_TRUE(is_message(consumer.front(), i, 9));
        ASSERT_TRUE(consumer.pop());
    }
    const auto seen = queue_observer::attach(place.uri());
    EXPECT_EQ(seen.producer_alive(), true);
    EXPECT_EQ(seen.consumer_alive(), true);
}

// The consumer's position lies in the peers file: without it, or with another, nothing is delivered that was released.
TEST_P(Named, ALostPeersFileIsRefusedAndNeverGuessed) {
    {
        auto producer = queue_producer::create(place.uri(), ring_of(256));
        queue_consumer consumer = producer.make_consumer();
        for (std::uint64_t i = 0; i < 40; ++i) {
            ASSERT_TRUE(producer.try_push(message_of(i, 20)));
            ASSERT_TRUE(consumer.front() && consumer.pop());
        }
    }
    ASSERT_EQ(::unlink(peers_path().c_str()), 0);
    EXPECT_EQ(refusal_of([&] { (void)queue_consumer::attach(place.uri()); }), errc::not_found);
    const auto blind = queue_observer::attach(place.uri());
    EXPECT_TRUE(blind.refusal());
    EXPECT_EQ(blind.size(), std::nullopt);
    EXPECT_TRUE(blind.verify().found.empty()) << "the producer's side is sound";
    EXPECT_EQ(refusal_of([&] { (void)queue_producer::attach(place.uri()); }), errc::corrupt);
    EXPECT_EQ(refusal_of([&] { (void)queue_consumer::attach(place.uri()); }), errc::corrupt);
    EXPECT_FALSE(queue_observer::attach(place.uri()).verify().found.empty());
}

// Both sides sleep and wake each other, across processes and mappings.
TEST_P(Shareable, TwoProcessesWakeEachOther) {
    constexpr std::uint64_t messages = 5000;
    auto producer = queue_producer::create(place.uri(), ring_of(256));
    child_process reader([&]() -> std::string {
        queue_consumer consumer(again(producer));
        for (std::uint64_t i = 0; i < messages; ++i) {
            if (const auto came = consumer.wait(60s); !came) return std::string(outcome_name(came.status));
            if (!is_message(consumer.front(), i, i % 50)) return "another message";
            consumer.pop();
        }
        return {};
    });
    for (std::uint64_t i = 0; i < messages; ++i) {
        holdfast::result room{outcome::reader_gone, 0};  // at first: the child is not there yet
        for (int tries = 0; !room && tries < 600; ++tries) room = producer.wait_room(i % 50, 60s);
        ASSERT_TRUE(room) << outcome_name(room.status);
        ASSERT_TRUE(producer.try_push(message_of(i, i % 50), type_of(i)));
    }
    EXPECT_TRUE(reader.wait().success()) << reader.wait().text();
}

INSTANTIATE_TEST_SUITE_P(Queue, Everywhere, ::testing::ValuesIn(holdfast::test::every_kind),
                         holdfast::test::kind_case_name);
INSTANTIATE_TEST_SUITE_P(Queue, Named, ::testing::ValuesIn(holdfast::test::named_kinds),
                         holdfast::test::kind_case_name);
INSTANTIATE_TEST_SUITE_P(Queue, Shareable, ::testing::ValuesIn(holdfast::test::shareable_kinds),
                         holdfast::test::kind_case_name);

}  // namespace
