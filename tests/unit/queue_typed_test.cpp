// SPDX-License-Identifier: Apache-2.0
// What a queue of records makes of its header and counts. How it behaves: tests/conformance/queue_conformance_test.cpp.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "holdfast/queue.hpp"
#include "support/segment_tools.hpp"

namespace {

using holdfast::container_schema;
using holdfast::errc;
using holdfast::queue;
using holdfast::queue_observer;
using holdfast::schema_of;
using holdfast::segment;
using holdfast::layout::queue_form;
using holdfast::layout::queue_geometry;
using holdfast::test::refusal_of;

struct alignas(16) pair_of_words {
    std::uint64_t first, second;
};

/// A queue of T whose header is whole and says that its slots are `stride` bytes apart.
template <class T>
[[nodiscard]] segment queue_with_stride(std::uint64_t stride) {
    auto spec = holdfast::detail::queue_spec({queue_form::elements, 8, stride, true});
    spec.schema = container_schema{std::nullopt, schema_of<T>()}.text();
    return segment::create("heap:", spec, {}, [](std::span<std::byte>) {});
}

// By that distance a T* is made of a place in the ring: it would not be aligned.
TEST(QueueTyped, SlotsThatAreNotOfTheRecordsSizeAreRefused) {
    using pairs = queue<pair_of_words>;
    for (const std::uint64_t stride : {8U, 24U, 32U}) {
        EXPECT_EQ(refusal_of([&] { const pairs::producer no(queue_with_stride<pair_of_words>(stride)); }),
                  errc::geometry_mismatch)
            << stride;
        const auto shared = std::make_shared<const segment>(queue_with_stride<pair_of_words>(stride));
        EXPECT_EQ(refusal_of([&] { const pairs::consumer no(shared); }), errc::geometry_mismatch) << stride;
    }
    pairs::producer producer(queue_with_stride<pair_of_words>(16));
    for (int i = 0; i < 8; ++i) {
        const auto slot = producer.try_claim();
        ASSERT_TRUE(slot);
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(slot.value) % alignof(pair_of_words), 0U);
        ASSERT_TRUE(producer.commit());
    }
}

// A slot is 8 bytes long at least.
TEST(QueueTyped, BytesAreThoseOfTheRecords) {
    auto producer = queue<std::uint32_t>::producer::create("heap:");
    auto consumer = producer.make_consumer();
    ASSERT_TRUE(producer.try_push(std::vector<std::uint32_t>{1, 2, 3}));
    EXPECT_EQ(producer.stats().bytes, 12U);
    EXPECT_TRUE(consumer.try_pop());
    consumer.acknowledge();
    EXPECT_EQ(consumer.stats().bytes, 4U);
    const queue_observer observer(std::shared_ptr<const segment>(std::shared_ptr<void>(), &producer.segment()));
    EXPECT_EQ(observer.producer().bytes, 12U);
    EXPECT_EQ(observer.consumer()->bytes, 4U);
}

struct shorter {
    std::uint32_t number;
};
struct longer {
    std::uint32_t number, more, yet_more;
};

TEST(QueueTyped, BytesOfRecordsWithMoreFieldsAreThoseThatWerePut) {
    auto producer = queue<longer>::producer::create("heap:");
    ASSERT_TRUE(producer.try_push({1, 2, 3}));
    const auto shared = std::shared_ptr<const segment>(std::shared_ptr<void>(), &producer.segment());
    queue<shorter>::consumer consumer(shared);
    EXPECT_EQ(consumer.try_pop().value.number, 1U);
    consumer.acknowledge();
    EXPECT_EQ(producer.stats().bytes, 12U);
    EXPECT_EQ(consumer.stats().bytes, 12U);
}

}  // namespace
