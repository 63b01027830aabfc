// SPDX-License-Identifier: Apache-2.0
// What a queue of bytes promises over plain bytes: order, claims, batches, room, counts, recovery. Invariants (I1..I5)
// are those of layout/queue_layout.hpp.
#include <gtest/gtest.h>

#include <deque>
#include <string>
#include <vector>

#include "support/queue_bench.hpp"
#include "support/scale.hpp"

namespace {

using holdfast::errc;
using holdfast::outcome;
using holdfast::queue_claim;
using holdfast::queue_message;
using holdfast::detail::copy_way;
using holdfast::layout::queue_geometry;
using holdfast::layout::queue_read_core;
using holdfast::layout::queue_write_core;
using holdfast::layout::ring_message_max;
using holdfast::test::claim_message;
using holdfast::test::consumer_side_in;
using holdfast::test::is_message;
using holdfast::test::producer_side_in;
using holdfast::test::push_message;
using holdfast::test::queue_bench;
using holdfast::test::seeded_random;

void take(queue_read_core& reader) {
    EXPECT_TRUE(reader.next());
    EXPECT_TRUE(reader.release());
}

void expect_sound(queue_bench& bench, std::uint64_t messages) {
    const auto seen = bench.verify_in(bench.body());
    EXPECT_TRUE(seen.found.empty()) << seen.found.list()[0].what;
    EXPECT_EQ(seen.messages, messages);
    EXPECT_FALSE(seen.unsettled);
    EXPECT_FALSE(seen.busy);
}

TEST(QueueCore, AFreshQueueIsEmptyAndSound) {
    queue_bench bench(64);
    queue_read_core reader = bench.reader();
    EXPECT_EQ(reader.front().status, outcome::empty);
    EXPECT_FALSE(reader.next());
    EXPECT_FALSE(reader.release());
    expect_sound(bench, 0);
}

TEST(QueueCore, MessagesOfEverySizeComeOutInOrderAndWhole) {
    queue_bench bench(1024);
    queue_write_core writer = bench.writer();
    queue_read_core reader = bench.reader();
    std::uint64_t bytes_in = 0;
    for (std::uint64_t i = 0; i < 3000; ++i) {
        const std::size_t bytes = i % (ring_message_max(1024) + 1);
        ASSERT_TRUE(push_message(writer, i, bytes)) << i;
        bytes_in += bytes;
        ASSERT_TRUE(is_message(reader.front(), i, bytes)) << i;
        ASSERT_TRUE(is_message(reader.front(), i, bytes)) << "a second look at " << i;
        take(reader);
        ASSERT_EQ(reader.front().status, outcome::empty);
    }
    EXPECT_EQ(writer.counts().messages, 3000U);
    EXPECT_EQ(writer.counts().bytes, bytes_in);
    EXPECT_EQ(reader.counts(), writer.counts());
    expect_sound(bench, 0);
}

// Each way by itself, and by turns as the producer finds them out: alone, in batches, between short ones and claims.
TEST(QueueCore, LongMessagesComeOutWholeWhicheverWayTheyAreCopied) {
    enum class ways { through, past, chosen };
    for (const ways way : {ways::through, ways::past, ways::chosen}) {
        queue_bench bench(1 << 16);
        queue_write_core writer = bench.writer();
        queue_read_core reader = bench.reader();
        if (way != ways::chosen)
            writer.long_copies().keep_to(way == ways::past ? copy_way::past_caches : copy_way::through_caches);
        for (std::uint64_t i = 0; i < 6000;) {
            const std::uint64_t first = i;
            const auto size = [](std::uint64_t n) { return n % 4 == 3 ? n % 40 : 500 + n * 37 % 5000; };
            writer.begin_batch();
            for (; i < first + 1 + first % 4; ++i)
                ASSERT_TRUE(i % 5 == 4 ? claim_message(writer, i, size(i)) : push_message(writer, i, size(i))) << i;
            ASSERT_TRUE(writer.commit_batch());
            for (std::uint64_t k = first; k < i; ++k) {
                ASSERT_TRUE(is_message(reader.front(), k, size(k))) << k;
                take(reader);
            }
        }
        expect_sound(bench, 0);
    }
}

TEST(QueueCore, AFullRingRefusesAndTakesAgainAfterARelease) {
    queue_bench bench(128);  // three records of 40 bytes, and the zero word
    queue_write_core writer = bench.writer();
    queue_read_core reader = bench.reader();
    for (std::uint64_t i = 0; i < 3; ++i) ASSERT_TRUE(push_message(writer, i, 32));
    EXPECT_EQ(push_message(writer, 3, 0).status, outcome::full);
    EXPECT_EQ(writer.side().refused.load(), 1U);
    expect_sound(bench, 3);
    ASSERT_TRUE(is_message(reader.front(), 0, 32));
    ASSERT_TRUE(reader.next());
    EXPECT_EQ(push_message(writer, 3, 0).status, outcome::full) << "passed is not released";
    ASSERT_TRUE(reader.release());
    ASSERT_TRUE(push_message(writer, 3, 0));
    for (std::uint64_t i = 1; i < 4; ++i) {
        ASSERT_TRUE(is_message(reader.front(), i, i == 3 ? 0 : 32));
        take(reader);
    }
    expect_sound(bench, 0);
}

TEST(QueueCore, TheLargestMessageFitsAtEveryPosition) {
    queue_bench bench(256);
    queue_write_core writer = bench.writer();
    queue_read_core reader = bench.reader();
    const std::size_t most = ring_message_max(256);
    for (std::uint64_t i = 0; i < 64; ++i) {
        ASSERT_TRUE(push_message(writer, i, most)) << "at position " << writer.tail();
        ASSERT_TRUE(is_message(reader.front(), i, most));
        take(reader);
        ASSERT_TRUE(push_message(writer, i, 0));  // moves on by one word
        ASSERT_TRUE(is_message(reader.front(), i, 0));
        take(reader);
    }
    const queue_claim refused = writer.try_claim(most + 1);
    EXPECT_EQ(refused.status, outcome::too_large);
    EXPECT_EQ(refused.count, most);
}

TEST(QueueCore, ACommitMayBeShorterThanItsClaimAndNeverLonger) {
    queue_bench bench(256);
    queue_write_core writer = bench.writer();
    queue_read_core reader = bench.reader();
    EXPECT_EQ(writer.commit(0, 0).status, outcome::not_claimed);
    queue_claim room = writer.try_claim(100);
    ASSERT_EQ(room.bytes.size(), 100U);
    std::memset(room.bytes.data(), 0x55, 100);
    EXPECT_EQ(writer.commit(101, 0).status, outcome::not_claimed);
    ASSERT_TRUE(writer.commit(3, 9));
    const queue_message found = reader.front();
    ASSERT_EQ(found.bytes.size(), 3U);
    EXPECT_EQ(found.type, 9);
    take(reader);
    EXPECT_EQ(reader.front().status, outcome::empty) << "bytes of the claim's rest are no message";
    room = writer.try_claim(8);
    writer.discard();
    EXPECT_EQ(writer.commit(8, 0).status, outcome::not_claimed);
    EXPECT_EQ(reader.front().status, outcome::empty);
    expect_sound(bench, 0);
}

TEST(QueueCore, ABatchAppearsAtOnceOrNever) {
    queue_bench bench(512);
    queue_write_core writer = bench.writer();
    queue_read_core reader = bench.reader();
    for (std::uint64_t round = 0; round < 200; ++round) {
        ASSERT_TRUE(writer.begin_batch());
        ASSERT_FALSE(writer.begin_batch());
        for (std::uint64_t i = 0; i < 7; ++i) {
            ASSERT_TRUE(push_message(writer, round * 7 + i, i * 5));
            ASSERT_EQ(reader.front().status, outcome::empty);
        }
        if (round % 3 == 1) {
            writer.discard_batch();
            ASSERT_EQ(reader.front().status, outcome::empty);
            expect_sound(bench, 0);
            continue;
        }
        ASSERT_EQ(writer.commit_batch().count, 7U);
        expect_sound(bench, 7);
        for (std::uint64_t i = 0; i < 7; ++i) {
            ASSERT_TRUE(is_message(reader.front(), round * 7 + i, i * 5));
            ASSERT_TRUE(reader.next());
        }
        ASSERT_TRUE(reader.release());
    }
    EXPECT_EQ(writer.commit_batch().status, outcome::not_claimed);
    ASSERT_TRUE(writer.begin_batch());
    EXPECT_EQ(writer.commit_batch().count, 0U);
    expect_sound(bench, 0);
}

TEST(QueueCore, ABatchThatCanNeverFitSaysWhatStillDoes) {
    queue_bench bench(256);
    queue_write_core writer = bench.writer();
    ASSERT_TRUE(writer.begin_batch());
    ASSERT_TRUE(push_message(writer, 0, 112));
    ASSERT_TRUE(push_message(writer, 1, 64));
    queue_claim room = writer.try_claim(120);
    ASSERT_EQ(room.status, outcome::too_large);
    EXPECT_EQ(room.count, 256 - 8 - 120 - 72 - 8U);
    ASSERT_TRUE(push_message(writer, 2, room.count));
    EXPECT_EQ(writer.try_claim(0).status, outcome::too_large);
    EXPECT_EQ(writer.commit_batch().count, 3U);
    expect_sound(bench, 3);
}

// Payload of an earlier lap must never pass for a record: the word behind the last record is 0 (I1).
TEST(QueueCore, BytesOfTheLastLapAreNeverTakenForARecord) {
    queue_bench bench(256);
    std::memset(bench.body().data() + holdfast::layout::queue_ring_offset + 8, 0x01, 248);
    queue_write_core writer = bench.writer();
    queue_read_core reader = bench.reader();
    for (std::uint64_t i = 0; i < 500; ++i) {
        const queue_claim room = writer.try_claim(i % 90);
        ASSERT_TRUE(room);
        std::memset(room.bytes.data(), 0x01, room.bytes.size());
        ASSERT_TRUE(writer.commit(room.bytes.size(), 0));
        ASSERT_EQ(reader.front().bytes.size(), i % 90);
        take(reader);
        ASSERT_EQ(reader.front().status, outcome::empty);
    }
}

TEST(QueueCore, WhoTakesOverGoesOnWhereTheLastStopped) {
    queue_bench bench(256);
    std::uint64_t next_in = 0, next_out = 0;
    seeded_random random;
    for (unsigned round = 0; round < 500; ++round) {
        queue_write_core writer = bench.writer();
        ASSERT_EQ(writer.counts().messages, next_in);
        for (std::uint64_t n = random.below(4); n > 0; --n) next_in += push_message(writer, next_in, 20) ? 1 : 0;
        (void)writer.try_claim(5);  // open when the producer goes
        queue_read_core reader = bench.reader();
        ASSERT_EQ(reader.counts().messages, next_out);
        for (std::uint64_t n = random.below(4); n > 0 && reader.front(); --n) {
            ASSERT_TRUE(is_message(reader.front(), next_out, 20));
            ASSERT_TRUE(reader.next());
            reader.release();
            ++next_out;
        }
        (void)reader.front();
        (void)reader.next();  // passed and not released: comes again
        expect_sound(bench, next_in - next_out);
    }
    EXPECT_GT(next_out, 100U);
}

// Everything random: sizes, batches, claims dropped, both sides exchanged, against a deque.
TEST(QueueCore, BehavesAsADequeOfMessages) {
    seeded_random random;
    for (const std::uint64_t capacity : {64U, 128U, 512U, 4096U}) {
        queue_bench bench(capacity);
        queue_write_core writer = bench.writer();
        queue_read_core reader = bench.reader();
        std::deque<std::pair<std::uint64_t, std::size_t>> model, open;
        std::uint64_t seed = 0;
        for (std::uint64_t step = 0; step < holdfast::test::scaled(40'000); ++step) {
            switch (random.below(10)) {
                case 0:
                case 1:
                case 2:
                case 3: {
                    const std::size_t bytes = random.below(ring_message_max(capacity) + 1) >> random.below(4);
                    if (push_message(writer, seed, bytes)) (writer.in_batch() ? open : model).emplace_back(seed, bytes);
                    ++seed;
                    break;
                }
                case 4: (void)writer.try_claim(random.below(ring_message_max(capacity))); break;
                case 5:
                    if (writer.begin_batch()) break;
                    if (random.below(3) == 0) {
                        writer.discard_batch();
                    } else {
                        ASSERT_EQ(writer.commit_batch().count, open.size());
                        model.insert(model.end(), open.begin(), open.end());
                    }
                    open.clear();
                    break;
                case 6:
                    if (random.below(20) != 0) break;
                    writer = bench.writer();
                    open.clear();
                    break;
                case 7:
                    if (random.below(20) == 0) reader = bench.reader();
                    break;
                default: {
                    const queue_message found = reader.front();
                    ASSERT_EQ(static_cast<bool>(found), !model.empty());
                    if (model.empty()) break;
                    ASSERT_TRUE(is_message(found, model.front().first, model.front().second));
                    take(reader);
                    model.pop_front();
                }
            }
            if (step % 64 == 0) expect_sound(bench, model.size());
        }
        ASSERT_EQ(reader.fault(), std::nullopt);
        ASSERT_EQ(writer.fault(), std::nullopt);
        EXPECT_GT(reader.counts().messages, 100U);
    }
}

TEST(QueueCore, AHeadThatNoConsumerCanHaveIsReportedAndNotFollowed) {
    for (const std::uint64_t head : {std::uint64_t{1} << 40U, std::uint64_t{4}, ~std::uint64_t{0}}) {
        queue_bench bench(64);
        queue_write_core writer = bench.writer();
        ASSERT_TRUE(push_message(writer, 0, 24));
        consumer_side_in(bench.body()).position.store(head);
        ASSERT_EQ(push_message(writer, 1, 24).status, outcome::corrupt);
        EXPECT_EQ(writer.fault(), errc::corrupt);
        EXPECT_EQ(writer.tail(), 32U);
    }
}

TEST(QueueCore, ARingFullOfRecordsDoesNotHoldTheConsumerForEver) {
    queue_bench bench(64);
    auto* words = reinterpret_cast<std::uint64_t*>(bench.body().data() + holdfast::layout::queue_ring_offset);
    for (int i = 0; i < 8; ++i) words[i] = holdfast::layout::ring_message_word(0, 0);
    queue_read_core reader = bench.reader();
    int steps = 0;
    while (reader.front() && ++steps < 1000) reader.next();
    EXPECT_LT(steps, 8);
    EXPECT_EQ(reader.front().status, outcome::corrupt);
    EXPECT_EQ(reader.fault(), errc::corrupt);
}

TEST(QueueCore, HeadNeededIsReachedWhenTheRingIsEmptied) {
    queue_bench bench(1024);
    queue_write_core writer = bench.writer();
    queue_read_core reader = bench.reader();
    EXPECT_EQ(writer.head_needed(100), 0U);
    for (std::uint64_t lap = 0; lap < 50; ++lap) {
        std::uint64_t i = 0;
        while (push_message(writer, lap + i, 24 + lap)) ++i;
        const std::uint64_t needed = writer.head_needed(24 + lap);
        ASSERT_GT(needed, reader.head());
        ASSERT_LE(needed, writer.tail());
        ASSERT_LE(writer.tail() - needed, 1024 - 1024 / 8);
        while (reader.head() < needed && reader.front()) take(reader);
        ASSERT_GE(reader.head(), needed);
        ASSERT_EQ(writer.head_needed(24 + lap), 0U);
        while (reader.front()) take(reader);
    }
}

TEST(QueueGeometry, WhatCannotBeIsRefused) {
    const auto refuses = [](auto&& make) {
        try {
            (void)make();
        } catch (const holdfast::error& e) {
            return e.reason();
        }
        return errc{};
    };
    EXPECT_EQ(refuses([] { return queue_geometry::of_bytes(0, true, "x"); }), errc::invalid_argument);
    EXPECT_EQ(refuses([] { return queue_geometry::of_bytes((std::uint64_t{1} << 32U) + 1, true, "x"); }),
              errc::invalid_argument);
    EXPECT_EQ(refuses([] { return queue_geometry::of_elements(0, 8, true, "x"); }), errc::invalid_argument);
    EXPECT_EQ(refuses([] { return queue_geometry::of_elements(8, (1U << 20U) + 1, true, "x"); }),
              errc::invalid_argument);
    for (const auto& good :
         {queue_geometry::of_bytes(1000, false, "x"), queue_geometry::of_elements(3, 12, true, "x")}) {
        const auto words = good.words();
        EXPECT_EQ(queue_geometry::parse(words, good.body_bytes(), "x").capacity, good.capacity);
        EXPECT_EQ(refuses([&] { return queue_geometry::parse(words, good.body_bytes() + 8, "x"); }),
                  errc::geometry_mismatch);
        for (std::size_t i = 0; i < words.size(); ++i)
            for (unsigned bit = 0; bit < 64; ++bit) {
                auto hostile = words;
                hostile[i] ^= std::uint64_t{1} << bit;
                if (i == 3 && bit == 0) continue;  // the flag, either way a queue
                EXPECT_EQ(refuses([&] { return queue_geometry::parse(hostile, good.body_bytes(), "x"); }),
                          errc::geometry_mismatch)
                    << i << ' ' << bit;
            }
    }
}

}  // namespace
