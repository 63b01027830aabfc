// SPDX-License-Identifier: Apache-2.0
// Stores past the caches are ordered by no release store, so what is copied by them must be fenced before it is
// published. No run shows a fence that is missing: processors let whole lines through in order. So the instructions
// themselves are looked at, those of the compiled operations in the order in which they are executed.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "support/broadcast_bench.hpp"
#include "support/capability.hpp"
#include "support/queue_bench.hpp"
#include "support/scale.hpp"
#include "support/single_step.hpp"

#if defined(__x86_64__)

namespace {

using holdfast::detail::copy_past_caches;
using holdfast::detail::copy_way;
using holdfast::detail::fence_past_caches;
using holdfast::layout::broadcast_write_core;
using holdfast::layout::no_broadcast_slots;
using holdfast::layout::queue_element_write_core;
using holdfast::layout::queue_geometry;
using holdfast::layout::queue_ring_offset;
using holdfast::layout::queue_write_core;
using holdfast::test::broadcast_bench;
using holdfast::test::consumer_side_in;
using holdfast::test::producer_side_in;
using holdfast::test::queue_bench;
using holdfast::test::shared_image;
using holdfast::test::step_through;

/// What an operation's instructions were, up to the one that changed the word that publishes.
struct seen_order {
    std::uint64_t past = 0;      // stores past the caches
    std::uint64_t unfenced = 0;  // of them, without a fence between them and the publication
    bool published = false;
    std::string failure;
};

/// movntdq of a register of 16 bytes to wherever.
bool is_store_past_caches(std::uint64_t code) {
    if ((code & 0xFF) != 0x66) return false;
    const bool prefixed = (code >> 8 & 0xF0) == 0x40;  // a register from r8 on
    return (code >> (prefixed ? 16 : 8) & 0xFFFF) == 0xE70F;
}
/// sfence, or mfence, which does more.
bool is_store_fence(std::uint64_t code) { return (code & 0xFFFFFF) == 0xF8AE0F || (code & 0xFFFFFF) == 0xF0AE0F; }

/// Requires: `word` lies in pages that both share.
seen_order order_of(const std::atomic<std::uint64_t>& word, const std::function<void()>& operate) {
    seen_order seen;
    // Relaxed: the other is stopped while we look.
    const std::uint64_t before = word.load(std::memory_order_relaxed);
    seen.failure = step_through(
                       operate,
                       [&](std::uint64_t) -> std::string {
                           seen.published |= word.load(std::memory_order_relaxed) != before;
                           return {};
                       },
                       [&](pid_t child) {
                           if (seen.published) return;
                           const std::uint64_t code = holdfast::test::rig::next_code(child);
                           if (is_store_past_caches(code)) ++seen.past, ++seen.unfenced;
                           if (is_store_fence(code)) seen.unfenced = 0;
                       })
                       .failure;
    return seen;
}

class PastCachesStep : public ::testing::Test {
 protected:
    void SetUp() override {
        if (!holdfast::test::can_trace() || holdfast::test::sanitized)
            GTEST_SKIP() << "needs: ptrace and a build without sanitizers";
    }
    static void expect_fenced(const seen_order& seen, std::uint64_t at_least) {
        EXPECT_EQ(seen.failure, "");
        EXPECT_TRUE(seen.published) << "the word that publishes did not change";
        EXPECT_GE(seen.past, at_least) << "stores past the caches were not seen";
        EXPECT_EQ(seen.unfenced, 0U) << "the commit does not wait for them";
    }
};

const std::vector<std::byte> message(1000, std::byte{7});

std::atomic<std::uint64_t>& word_at(std::byte* at) { return *reinterpret_cast<std::atomic<std::uint64_t>*>(at); }

TEST_F(PastCachesStep, AQueuesMessagesAndBatchesAreFencedBeforeTheirCommit) {
    for (const bool batch : {false, true}) {
        queue_bench bench(1 << 14);
        queue_write_core writer = bench.writer();
        writer.long_copies().keep_to(copy_way::past_caches);
        expect_fenced(order_of(word_at(bench.body().data() + queue_ring_offset),
                               [&] {
                                   if (batch) writer.begin_batch();
                                   (void)writer.append(message, 0);
                                   if (batch) (void)writer.append(message, 0);
                                   if (batch) (void)writer.append(std::span(message).first(20), 0);
                                   if (batch) (void)writer.commit_batch();
                               }),
                      (batch ? 2 : 1) * 14U * 4);
    }
}

// While both ways are timed: whichever the copy went.
TEST_F(PastCachesStep, ATrialIsFencedToo) {
    queue_bench bench(1 << 14);
    queue_write_core writer = bench.writer();
    auto reader = bench.reader();
    std::uint64_t bytes = 0, past = 0;
    const auto pass = [&] {
        bytes += 1000;
        (void)writer.append(message, 0);
        (void)reader.front();
        reader.next();
        reader.release();
    };
    while (bytes < holdfast::detail::way_chooser::first_trial_after + 20'000) pass();
    for (int i = 0; i < 200 && past < 40 * 14 * 4; ++i) {  // through the trials of both ways
        const std::uint64_t at = writer.tail() & (writer.capacity() - 1);
        const seen_order seen =
            order_of(word_at(bench.body().data() + queue_ring_offset + at), [&] { (void)writer.append(message, 0); });
        expect_fenced(seen, 0);
        past += seen.past;
        pass();
    }
    EXPECT_GE(past, 40U * 14 * 4) << "the other way was not tried";
}

// The way changes between two copies that are published together: the first went past the caches, as the trial's second
// half does, and with the second the trial is given up.
TEST_F(PastCachesStep, ATrialThatIsGivenUpInABatchIsFencedToo) {
    using holdfast::detail::way_chooser;
    constexpr std::size_t timed = 100'000, other = 600;
    static_assert(timed >= way_chooser::trial_bytes && other < timed / 2);
    const std::vector<std::byte> from(timed, std::byte{7});
    shared_image pages(4096 + timed);
    std::byte* const to = pages.bytes().data() + 4096;
    holdfast::detail::long_copier copier;
    const auto copy = [&](std::size_t bytes) { copier.copy(to, from.data(), bytes); };
    for (std::uint64_t bytes = 0; bytes <= way_chooser::first_trial_after; bytes += timed) copy(timed), copier.fence();
    std::uint64_t passed = 0;
    for (; passed + 2 * other <= way_chooser::passed_bytes_max; passed += other) copy(other), copier.fence();
    auto& word = word_at(pages.bytes().data());
    expect_fenced(order_of(word,
                           [&] {
                               copy(other);
                               copy(other);
                               copier.fence();
                               word.store(1, std::memory_order_release);
                           }),
                  8U * 4);
}

TEST_F(PastCachesStep, AQueuesElementsAreFencedBeforeTheirCommit) {
    const auto geometry = queue_geometry::of_elements(1024, 8, true, "bench");
    queue_bench bench(geometry);
    queue_element_write_core writer(bench.body(), geometry, consumer_side_in(bench.body()), "bench");
    writer.long_copies().keep_to(copy_way::past_caches);
    const std::vector<std::byte> elements(3000, std::byte{7});
    expect_fenced(order_of(producer_side_in(bench.body()).position,
                           [&] {
                               if (writer.room(375) != holdfast::outcome::ok) return;
                               writer.long_copies().copy(writer.slot(0), elements.data(), elements.size());
                               writer.publish(375);
                           }),
                  46U * 4);
}

TEST_F(PastCachesStep, ABroadcastsChainsAreFencedBeforeTheirCommit) {
    broadcast_bench bench(1 << 16);
    broadcast_write_core writer = bench.writer();
    writer.long_copies().keep_to(copy_way::past_caches);
    no_broadcast_slots nobody;
    auto* const first = const_cast<std::byte*>(writer.view().at(writer.tail()));
    expect_fenced(order_of(word_at(first),
                           [&] {
                               (void)writer.append(message, 0, nobody);
                               (void)writer.append(message, 0, nobody);
                               (void)writer.commit();
                           }),
                  2U * 14 * 4);
}

// Whoever uses the space next may be another thread, whose fences do not cover these stores.
TEST_F(PastCachesStep, WhatIsDroppedIsFencedToo) {
    no_broadcast_slots nobody;
    queue_bench bench(1 << 14);
    broadcast_bench ring(1 << 16);
    queue_write_core producer = bench.writer();
    broadcast_write_core writer = ring.writer();
    producer.long_copies().keep_to(copy_way::past_caches);
    writer.long_copies().keep_to(copy_way::past_caches);
    const auto& word = word_at(bench.body().data() + queue_ring_offset);
    for (const seen_order& seen : {order_of(word,
                                            [&] {
                                                producer.begin_batch();
                                                (void)producer.append(message, 0);
                                                producer.discard_batch();
                                            }),
                                   order_of(word, [&] {
                                       (void)writer.append(message, 0, nobody);
                                       writer.discard();
                                   })}) {
        EXPECT_EQ(seen.failure, "");
        EXPECT_FALSE(seen.published);
        EXPECT_GE(seen.past, 14U * 4);
        EXPECT_EQ(seen.unfenced, 0U);
    }
}

// The rig's own teeth.
TEST_F(PastCachesStep, ACommitThatDoesNotWaitIsFound) {
    shared_image pages(8192);
    for (const bool fenced : {false, true}) {
        auto& word = word_at(pages.bytes().data());
        const seen_order seen = order_of(word, [&] {
            copy_past_caches(pages.bytes().data() + 64, message.data(), message.size());
            if (fenced) fence_past_caches();
            word.store(word.load(std::memory_order_relaxed) + 1, std::memory_order_release);
        });
        EXPECT_EQ(seen.failure, "");
        EXPECT_TRUE(seen.published);
        EXPECT_EQ(seen.past, 15U * 4);
        EXPECT_EQ(seen.unfenced, fenced ? 0U : 15U * 4);
    }
}

}  // namespace

#endif
