// SPDX-License-Identifier: Apache-2.0
// The broadcast ring over plain bytes: publishing, reading, loss, joining, batches, and random histories against a
// model.
#include <gtest/gtest.h>

#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "support/broadcast_bench.hpp"
#include "support/scale.hpp"

namespace {

using holdfast::broadcast_policy;
using holdfast::broadcast_read;
using holdfast::broadcast_start;
using holdfast::errc;
using holdfast::outcome;
using holdfast::result;
using holdfast::detail::copy_way;
using holdfast::layout::broadcast_geometry;
using holdfast::layout::broadcast_hold_core;
using holdfast::layout::broadcast_read_core;
using holdfast::layout::broadcast_write_core;
using holdfast::layout::no_broadcast_slots;
using holdfast::test::bench_clock;
using holdfast::test::broadcast_bench;
using holdfast::test::is_message;
using holdfast::test::nth_message;
using holdfast::test::read_to_end;
using holdfast::test::scaled;

constexpr std::uint64_t capacity = 4096;
constexpr std::size_t bytes_max = 200;
no_broadcast_slots nobody;

void publish(broadcast_write_core& writer, std::uint64_t count, std::size_t longest = bytes_max) {
    for (std::uint64_t i = 0; i < count; ++i) {
        ASSERT_TRUE(writer.append(nth_message(writer.published() + 1, longest), 0, nobody));
        ASSERT_TRUE(writer.commit());
    }
}

TEST(BroadcastGeometry, CapacityIsAPowerOfTwoAndStridesAreBounded) {
    EXPECT_EQ(broadcast_geometry::make(1, 0, "x").capacity, 2048U);
    EXPECT_EQ(broadcast_geometry::make(2049, 0, "x").capacity, 4096U);
    EXPECT_EQ(broadcast_geometry::make(1 << 20, 0, "x").stride, 32768U);
    EXPECT_EQ(broadcast_geometry::make(1 << 30, 0, "x").stride, 65536U);
    EXPECT_EQ(broadcast_geometry::make(1 << 30, 0, "x").entries(), 2U << 14U);
    EXPECT_THROW((void)broadcast_geometry::make(0, 0, "x"), holdfast::error);
    EXPECT_THROW((void)broadcast_geometry::make((std::uint64_t{1} << 32U) + 1, 0, "x"), holdfast::error);
    EXPECT_THROW((void)broadcast_geometry::make(4096, 4097, "x"), holdfast::error);
}

TEST(BroadcastGeometry, ParseRefusesEveryWordThatDoesNotFit) {
    const auto sound = broadcast_geometry::make(capacity, 3, "x");
    EXPECT_EQ(broadcast_geometry::parse(sound.words(), sound.body_bytes(), "x").readers, 3U);
    for (std::size_t word = 0; word < 5; ++word)
        for (const std::uint64_t value : {std::uint64_t{0}, std::uint64_t{1}, sound.words()[word] + 1,
                                          sound.words()[word] * 2, ~std::uint64_t{0}, std::uint64_t{1} << 63U}) {
            auto words = sound.words();
            if (words[word] == value) continue;
            words[word] = value;
            EXPECT_THROW((void)broadcast_geometry::parse(words, sound.body_bytes(), "x"), holdfast::error)
                << word << " " << value;
        }
    EXPECT_THROW((void)broadcast_geometry::parse(sound.words(), sound.body_bytes() - 1, "x"), holdfast::error);
}

TEST(BroadcastCore, AnEmptyRingIsEmptyWhereverOneJoins) {
    broadcast_bench bench(capacity);
    auto writer = bench.writer();
    for (const auto& start : {broadcast_start::oldest(), broadcast_start::latest(), broadcast_start::sequence(1),
                              broadcast_start::time(5'000)}) {
        broadcast_read_core reader(bench.body(), bench.geometry());
        EXPECT_EQ(reader.join(start).status, outcome::ok);
        EXPECT_EQ(reader.sequence(), 1U);
        std::vector<std::byte> out(10);
        EXPECT_EQ(reader.read(out).status, outcome::empty);
    }
    EXPECT_EQ(bench.damage(), "");
}

TEST(BroadcastCore, MessagesOfEverySizeArriveInOrderAndOnce) {
    broadcast_bench bench(capacity);
    auto writer = bench.writer();
    auto reader = bench.reader();
    const std::size_t longest = bench.geometry().message_max();
    std::uint64_t next = 1;
    for (std::uint64_t i = 0; i < 3000; ++i) {
        publish(writer, 1, i % 3 == 0 ? longest : bytes_max);
        std::vector<std::byte> out(longest);
        const broadcast_read got = reader.read(out);
        ASSERT_EQ(got.status, outcome::ok) << i;
        ASSERT_EQ(got.sequence, next);
        out.resize(got.count);
        ASSERT_TRUE(is_message(out, next, i % 3 == 0 ? longest : bytes_max));
        ++next;
        ASSERT_EQ(reader.read(out).status, outcome::empty);
    }
    EXPECT_EQ(bench.damage(), "");
}

TEST(BroadcastCore, LongMessagesArriveWholeWhicheverWayTheyAreCopied) {
    for (const copy_way way : {copy_way::through_caches, copy_way::past_caches}) {
        broadcast_bench bench(1 << 16);
        auto writer = bench.writer();
        auto reader = bench.reader();
        writer.long_copies().keep_to(way);
        std::uint64_t next = 1;
        for (std::uint64_t i = 0; i < 1000; ++i) {
            for (std::uint64_t k = 1; k <= 1 + i % 3; ++k)
                ASSERT_TRUE(writer.append(nth_message(writer.published() + k, 3000), 0, nobody));
            ASSERT_TRUE(writer.commit());
            ASSERT_EQ(read_to_end(reader, next, 3000), "");
            ASSERT_EQ(next, writer.published() + 1);
        }
        EXPECT_EQ(bench.damage(), "");
    }
}

TEST(BroadcastCore, TypesAndEmptyMessagesArrive) {
    broadcast_bench bench(capacity);
    auto writer = bench.writer();
    auto reader = bench.reader();
    ASSERT_TRUE(writer.append({}, 0xFFFF, nobody));
    ASSERT_TRUE(writer.commit());
    const broadcast_read got = reader.read({});
    EXPECT_EQ(got.status, outcome::ok);
    EXPECT_EQ(got.type, 0xFFFF);
    EXPECT_EQ(got.count, 0U);
}

TEST(BroadcastCore, AMessageTooLongForTheBufferStays) {
    broadcast_bench bench(capacity);
    auto writer = bench.writer();
    auto reader = bench.reader();
    const std::vector<std::byte> message(100, std::byte{7});
    ASSERT_TRUE(writer.append(message, 3, nobody));
    ASSERT_TRUE(writer.commit());
    std::vector<std::byte> out(99);
    for (int i = 0; i < 3; ++i) {
        const broadcast_read got = reader.read(out);
        EXPECT_EQ(got.status, outcome::too_small);
        EXPECT_EQ(got.count, 100U);
        EXPECT_EQ(got.sequence, 1U);
    }
    out.resize(100);
    EXPECT_EQ(reader.read(out).status, outcome::ok);
    EXPECT_EQ(out, message);
}

TEST(BroadcastCore, WhatNeverFitsIsTooLargeAndChangesNothing) {
    broadcast_bench bench(capacity);
    auto writer = bench.writer();
    const std::uint64_t longest = bench.geometry().message_max();
    const std::vector<std::byte> message(static_cast<std::size_t>(longest) + 1);
    const result refused = writer.append(message, 0, nobody);
    EXPECT_EQ(refused.status, outcome::too_large);
    EXPECT_EQ(refused.count, longest);
    // A batch of more than half the ring.
    result last{};
    std::uint64_t staged = 0;
    while ((last = writer.append(std::span(message).first(500), 0, nobody))) ++staged;
    EXPECT_EQ(last.status, outcome::too_large);
    EXPECT_EQ(writer.commit().count, staged);
    EXPECT_EQ(bench.reader().sequence(), 1U);
    EXPECT_EQ(bench.damage(), "");
}

// Batches of every length from every place of the ring: what is named fits, a byte more does not.
TEST(BroadcastCore, TooLargeNamesTheLongestThatFits) {
    broadcast_bench bench(capacity);
    auto writer = bench.writer();
    holdfast::test::seeded_random random;
    const std::vector<std::byte> message(static_cast<std::size_t>(bench.geometry().message_max()) + 1);
    std::uint64_t named = 0, shorter = 0;
    for (std::uint64_t round = 0; round < scaled(20'000); ++round) {
        const auto bytes = static_cast<std::size_t>(random.below(message.size() + 1));
        const result put = writer.append(std::span(message).first(bytes), 0, nobody);
        if (!put) {
            ASSERT_EQ(put.status, outcome::too_large);
            ASSERT_TRUE(put.count < bytes || bytes == 0);
            if (put.count != 0) {  // 0: of 0 bytes, or none at all
                ASSERT_TRUE(writer.claim(put.count, nobody)) << put.count;
            }
            const auto more = writer.claim(put.count + 1, nobody);
            ASSERT_EQ(more.status, outcome::too_large) << put.count;
            ASSERT_EQ(more.count, put.count);
            ++named;
            shorter += put.count < bench.geometry().message_max() ? 1 : 0;
        }
        if (random.below(10) == 0) (void)writer.commit();
    }
    EXPECT_GT(shorter, 0U) << named;
    EXPECT_EQ(bench.damage(), "");
}

TEST(BroadcastCore, CommitWithoutAClaimIsRefused) {
    broadcast_bench bench(capacity);
    auto writer = bench.writer();
    EXPECT_EQ(writer.commit().status, outcome::not_claimed);
    EXPECT_EQ(writer.stage(0, 0), outcome::not_claimed);
    ASSERT_TRUE(writer.claim(10, nobody));
    EXPECT_EQ(writer.stage(11, 0), outcome::not_claimed);
    EXPECT_EQ(writer.stage(10, 0), outcome::ok);
    EXPECT_EQ(writer.stage(10, 0), outcome::not_claimed);
    EXPECT_EQ(writer.commit().count, 1U);
}

TEST(BroadcastCore, AClaimMayBeUsedInPartOrNotAtAll) {
    broadcast_bench bench(capacity);
    auto writer = bench.writer();
    auto reader = bench.reader();
    std::uint64_t next = 1;
    for (std::uint64_t i = 0; i < 500; ++i) {
        auto room = writer.claim(bench.geometry().message_max(), nobody);
        ASSERT_TRUE(room);
        std::memset(room.bytes.data(), 0xEE, room.bytes.size());
        if (i % 3 == 0) writer.discard();
        const auto message = nth_message(writer.published() + 1, bytes_max);
        room = writer.claim(message.size() + i % 50, nobody);
        ASSERT_TRUE(room);
        std::ranges::copy(message, room.bytes.begin());
        ASSERT_EQ(writer.stage(message.size(), 0), outcome::ok);
        ASSERT_TRUE(writer.commit());
        ASSERT_EQ(read_to_end(reader, next, bytes_max), "");
    }
    EXPECT_EQ(next, 501U);
    EXPECT_EQ(bench.damage(), "");
}

TEST(BroadcastCore, ABatchAppearsAtOnce) {
    broadcast_bench bench(capacity);
    auto writer = bench.writer();
    auto reader = bench.reader();
    std::uint64_t next = 1;
    for (std::uint64_t round = 0; round < 300; ++round) {
        const std::uint64_t before = next;
        for (std::uint64_t i = 0; i <= round % 7; ++i) {
            ASSERT_TRUE(writer.append(nth_message(before + i, bytes_max), 0, nobody));
            ASSERT_EQ(read_to_end(reader, next, bytes_max), "");
            ASSERT_EQ(next, before);
        }
        ASSERT_EQ(writer.commit().count, round % 7 + 1);
        ASSERT_EQ(read_to_end(reader, next, bytes_max), "");
        ASSERT_EQ(next, before + round % 7 + 1);
    }
    EXPECT_EQ(bench.damage(), "");
}

TEST(BroadcastCore, AnOverrunReaderIsToldExactlyWhatItLost) {
    for (const std::uint64_t gap : {50U, 100U, 1000U, 5000U}) {
        broadcast_bench bench(capacity);
        auto writer = bench.writer();
        auto reader = bench.reader();
        publish(writer, 3);
        std::uint64_t next = 1;
        ASSERT_EQ(read_to_end(reader, next, bytes_max), "");
        publish(writer, gap);
        std::vector<std::byte> out(bytes_max);
        const broadcast_read lost = reader.read(out);
        if (lost.status == outcome::lapped) {
            EXPECT_GT(lost.count, 0U);
            EXPECT_EQ(lost.sequence, 4 + lost.count);
            next += lost.count;
        } else {
            next += 1;
        }
        ASSERT_EQ(read_to_end(reader, next, bytes_max), "");
        EXPECT_EQ(next, 4 + gap) << "messages read and lost give all";
    }
}

TEST(BroadcastCore, ASequenceNumberIsFoundOrItsDistanceIsExact) {
    broadcast_bench bench(capacity);
    auto writer = bench.writer();
    publish(writer, 500);
    const std::uint64_t oldest = bench.reader().sequence();
    ASSERT_GT(oldest, 1U);
    ASSERT_LT(oldest, 490U);
    for (std::uint64_t wanted = 0; wanted <= 520; ++wanted) {
        broadcast_read_core reader(bench.body(), bench.geometry());
        const result joined = reader.join(broadcast_start::sequence(wanted));
        const std::uint64_t number = wanted == 0 ? 1 : wanted;
        if (number < oldest) {
            EXPECT_EQ(joined, (result{outcome::lapped, oldest - number}));
            EXPECT_EQ(reader.sequence(), oldest);
        } else if (number <= 501) {
            EXPECT_EQ(joined, (result{outcome::ok, 0})) << number;
            EXPECT_EQ(reader.sequence(), number);
        } else {
            EXPECT_EQ(joined, (result{outcome::empty, 0})) << number;
            EXPECT_EQ(reader.sequence(), 501U);
        }
        std::uint64_t next = reader.sequence();
        ASSERT_EQ(read_to_end(reader, next, bytes_max), "");
        EXPECT_EQ(next, 501U);
    }
}

TEST(BroadcastCore, TheLatestIsWhatComesNext) {
    broadcast_bench bench(capacity);
    auto writer = bench.writer();
    for (std::uint64_t i = 0; i < 300; ++i) {
        auto reader = bench.reader(broadcast_start::latest());
        ASSERT_EQ(reader.sequence(), writer.published() + 1);
        publish(writer, 1);
        std::uint64_t next = writer.published();
        ASSERT_EQ(read_to_end(reader, next, bytes_max), "");
        ASSERT_EQ(next, writer.published() + 1);
    }
}

TEST(BroadcastCore, NoMessagePublishedAfterTheTimeIsMissed) {
    broadcast_bench bench(capacity);
    bench_clock::unix_time = 1'000'000;
    auto writer = bench.writer();
    for (std::uint64_t i = 1; i <= 400; ++i) {
        bench_clock::unix_time = 1'000'000 + 10 * i;  // message i is published at that time
        publish(writer, 1);
    }
    const std::uint64_t oldest = bench.reader().sequence();
    std::uint64_t former = 0;
    for (std::uint64_t i = 0; i <= 410; ++i) {
        broadcast_read_core reader(bench.body(), bench.geometry());
        const result joined = reader.join(broadcast_start::time(1'000'000 + 10 * i));
        EXPECT_LE(reader.sequence(), std::max(i + 1, oldest)) << "message i + 1 came after that time";
        EXPECT_GE(reader.sequence(), former);
        EXPECT_EQ(joined.status, i + 1 < oldest ? outcome::lapped : joined.status);
        former = reader.sequence();
    }
    EXPECT_GT(former, 350U) << "a stride's worth of older messages at most";
}

TEST(BroadcastCore, AClockSetBackNeverMakesTimesRunBackwards) {
    broadcast_bench bench(capacity);
    auto writer = bench.writer();
    for (std::uint64_t i = 0; i < 300; ++i) {
        bench_clock::unix_time = i % 2 == 0 ? 1'000'000'000'000'000'000 : 315'360'000'000'000'000;  // ten years
        publish(writer, 1);
    }
    EXPECT_EQ(bench.damage(), "");
    bench_clock::unix_time = 1'000;
    broadcast_read_core reader(bench.body(), bench.geometry());
    EXPECT_EQ(reader.join(broadcast_start::time(400'000'000'000'000'000)).status, outcome::lapped);
}

TEST(BroadcastCore, ASuccessorGoesOnAndReadersAreTold) {
    broadcast_bench bench(capacity);
    auto reader = bench.reader();
    std::uint64_t next = 1;
    std::vector<std::byte> out(bytes_max);
    for (std::uint64_t round = 1; round <= 50; ++round) {
        auto writer = bench.writer();
        ASSERT_EQ(writer.published(), next - 1);
        publish(writer, round % 5 + 1);
        const broadcast_read first = reader.read(out);
        ASSERT_EQ(first.status, outcome::ok);
        EXPECT_TRUE(first.restarted);
        ++next;
        EXPECT_EQ(reader.epoch(), 1 + round);
        if (round % 5 > 0) {
            EXPECT_FALSE(reader.read(out).restarted);
            ++next;
        }
        ASSERT_EQ(read_to_end(reader, next, bytes_max), "");
    }
}

TEST(BroadcastCore, ARestartEndsABatchAndIsToldOnceByTheMessageBehindIt) {
    broadcast_bench bench(capacity);
    std::optional<broadcast_write_core> writer(bench.writer());
    auto reader = bench.reader();
    std::vector<std::byte> room(2000);
    holdfast::layout::broadcast_batch batch;
    for (std::uint64_t next = 1; next < 200; next += 6) {
        publish(*writer, 3, 40);
        EXPECT_TRUE(reader.next_batch(room, 2, batch));
        writer.emplace(bench.writer());
        publish(*writer, 3, 40);
        std::uint64_t told = 0;
        for (;;) {
            const broadcast_read got = reader.next_batch(room, 9, batch);
            if (!got) break;
            if (!got.restarted) continue;
            ++told;
            EXPECT_EQ(got.count, 1U) << "alone";
        }
        EXPECT_EQ(told, 1U);
        EXPECT_EQ(reader.sequence(), next + 6);
    }
}

TEST(BroadcastCore, ARestartIsToldAfterALookThatThrew) {
    broadcast_bench bench(capacity);
    auto reader = bench.reader();
    auto writer = bench.writer();
    publish(writer, 2);
    const auto throws = [](std::span<const std::byte>, std::uint16_t) -> bool { throw 1; };
    for (int i = 0; i < 2; ++i) EXPECT_THROW((void)reader.next(throws), int);
    std::vector<std::byte> out(bytes_max);
    const broadcast_read got = reader.read(out);
    EXPECT_TRUE(got && got.restarted);
    EXPECT_EQ(got.sequence, 1U);
    EXPECT_FALSE(reader.read(out).restarted) << "told once";
}

// The slot of a dead reader; while the writer asks about it another one takes it over and joins at the same place.
struct succession {
    broadcast_bench* bench;
    holdfast::layout::broadcast_slot only{};
    broadcast_hold_core successor{};
    bool taken_over = false;

    [[nodiscard]] static std::uint32_t size() noexcept { return 1; }
    [[nodiscard]] holdfast::layout::broadcast_slot& slot(std::uint32_t) noexcept { return only; }
    [[nodiscard]] bool seize(std::uint32_t) noexcept {
        if (std::exchange(taken_over, true)) return false;
        only.held.store(0);
        successor = broadcast_hold_core(broadcast_read_core(bench->body(), bench->geometry()), only);
        EXPECT_TRUE(successor.enrol(broadcast_start::oldest(), broadcast_policy::block, 0, 2));
        return false;
    }
    static void give_back(std::uint32_t) noexcept { ADD_FAILURE() << "what was not seized is given back"; }
};

TEST(BroadcastCore, ASuccessorThatJoinsWhereADeadReaderStoodKeepsItsPlace) {
    broadcast_bench bench(capacity, 1);
    succession slots{.bench = &bench};
    broadcast_hold_core dead(broadcast_read_core(bench.body(), bench.geometry()), slots.only);
    ASSERT_TRUE(dead.enrol(broadcast_start::oldest(), broadcast_policy::block, 0, 1));
    const std::uint64_t word = slots.only.held.load();
    auto writer = bench.writer();
    const std::vector<std::byte> message(400);
    for (int i = 0; i < 8; ++i) {
        ASSERT_TRUE(writer.append(message, 0, slots));
        ASSERT_TRUE(writer.commit());
    }
    ASSERT_FALSE(slots.taken_over) << "nobody was in the way yet";
    EXPECT_EQ(writer.claim(bench.geometry().message_max(), slots).status, outcome::full);
    ASSERT_TRUE(slots.taken_over);
    EXPECT_EQ(slots.only.held.load(), word) << "the successor's word was taken for the dead one's";
    EXPECT_TRUE(slots.successor.registered());
    const auto take = [](std::span<const std::byte>, std::uint16_t) noexcept { return true; };
    for (std::uint64_t i = 1; i <= 8; ++i) EXPECT_EQ(slots.successor.next(take).sequence, i);
    EXPECT_EQ(slots.successor.next(take).status, outcome::empty);
    EXPECT_TRUE(writer.claim(bench.geometry().message_max(), slots)) << "and lets the writer go on when it has read";
}

// A reader under evict with a second's patience, in a ring that four messages fill.
class BroadcastPatience : public ::testing::Test {
 protected:
    BroadcastPatience() {
        EXPECT_TRUE(reader_.enrol(broadcast_start::oldest(), broadcast_policy::evict, 1'000'000'000, 1));
        for (int i = 0; i < 4; ++i) EXPECT_EQ(publish_at(0), outcome::ok);
    }
    outcome publish_at(std::uint64_t ms) {
        bench_clock::monotonic_time = 5'000 + ms * 1'000'000;
        const result put = writer_.append(message_, 0, slots_);
        return put ? writer_.commit().status : put.status;
    }
    void read_one() {
        const auto take = [](std::span<const std::byte>, std::uint16_t) noexcept { return true; };
        EXPECT_TRUE(reader_.next(take));
    }
    [[nodiscard]] const holdfast::layout::broadcast_report& report() {
        return *reinterpret_cast<holdfast::layout::broadcast_report*>(bench_.body().data() +
                                                                      broadcast_geometry::report_offset(0));
    }

    broadcast_bench bench_{65536, 1};
    holdfast::test::slot_bench slots_{1};
    broadcast_write_core writer_ = bench_.writer();
    broadcast_hold_core reader_{bench_.reader(), slots_.slot(0)};
    std::vector<std::byte> message_ = std::vector<std::byte>(15'360);
};

TEST_F(BroadcastPatience, CountsFromTheFirstRefusal) {
    EXPECT_EQ(publish_at(0), outcome::full);
    EXPECT_EQ(publish_at(999), outcome::full);
    EXPECT_EQ(publish_at(1'000), outcome::ok);
    EXPECT_FALSE(reader_.registered());
    EXPECT_EQ(report().blocked_ns.load(), 1'000'000'000U);
}

TEST_F(BroadcastPatience, CountsAnewWhenTheReaderHasMovedAndIsStillInTheWay) {
    EXPECT_EQ(publish_at(0), outcome::full);
    read_one();
    EXPECT_EQ(publish_at(600), outcome::full) << "the next message goes round the ring's end: one read is not enough";
    EXPECT_EQ(publish_at(1'000), outcome::full);
    EXPECT_EQ(publish_at(1'599), outcome::full);
    EXPECT_TRUE(reader_.registered());
    EXPECT_EQ(publish_at(1'600), outcome::ok);
    EXPECT_FALSE(reader_.registered());
    EXPECT_EQ(report().blocked.load(), 1U) << "it held the writer up once";
    EXPECT_EQ(report().blocked_ns.load(), 1'600'000'000U);
}

TEST_F(BroadcastPatience, IsNotUsedUpByAWriterThatLooksLater) {
    EXPECT_EQ(publish_at(0), outcome::full);
    read_one();
    EXPECT_EQ(publish_at(60'000), outcome::full);
    read_one();
    EXPECT_EQ(publish_at(60'500), outcome::ok);
    EXPECT_TRUE(reader_.registered());
}

/// Reads to the end by batches of random sizes into room that may be too small. Returns what was wrong.
std::string read_batches_to_end(broadcast_read_core& reader, std::uint64_t& next, std::size_t longest,
                                holdfast::test::seeded_random& random) {
    std::vector<std::byte> room(longest * 8);
    for (;;) {
        const std::span<std::byte> part(room.data(), static_cast<std::size_t>(random.below(room.size() + 1)));
        const std::uint64_t most = 1 + random.below(2 * holdfast::layout::broadcast_batch::size_max);
        holdfast::layout::broadcast_batch batch;
        const broadcast_read got = reader.next_batch(part, most, batch);
        std::uint64_t copies = 0;
        std::string wrong;
        batch.for_each(part, [&](std::span<const std::byte> message, std::uint16_t type) {
            if (type != 0 || !is_message(message, next + copies, longest)) wrong = std::to_string(next + copies);
            ++copies;
        });
        if (!wrong.empty()) return "message " + wrong + " is not whole";
        if (copies != (got ? got.count : 0) || copies > most) return std::to_string(copies) + " copies";
        switch (got.status) {
            case outcome::ok:
                if (got.sequence != next) return "a batch begins with " + std::to_string(got.sequence);
                next += copies;
                break;
            case outcome::lapped: next += got.count; break;
            case outcome::too_small:
                if (got.count <= part.size() || got.sequence != next) return "it would have fitted";
                break;
            case outcome::empty: return {};
            default: return std::string(outcome_name(got.status));
        }
    }
}

TEST(BroadcastCore, ABatchOfReadsIsTheMessagesOneByOne) {
    broadcast_bench bench(capacity);
    auto writer = bench.writer();
    auto reader = bench.reader();
    holdfast::layout::broadcast_batch batch;
    std::vector<std::byte> room(64);
    EXPECT_EQ(reader.next_batch(room, 9, batch).status, outcome::empty);
    const std::vector<std::byte> message(12, std::byte{7});
    for (std::uint16_t type = 1; type <= 5; ++type) ASSERT_TRUE(writer.append(message, type, nobody));
    ASSERT_TRUE(writer.commit());
    const auto types = [&](std::span<std::byte> into, std::uint64_t most) {
        std::vector<unsigned> seen;
        const broadcast_read got = reader.next_batch(into, most, batch);
        batch.for_each(into, [&](std::span<const std::byte> bytes, std::uint16_t type) {
            EXPECT_EQ(reinterpret_cast<std::uintptr_t>(bytes.data()) % 8, 0U);
            EXPECT_TRUE(std::ranges::equal(bytes, message));
            seen.push_back(type);
        });
        EXPECT_EQ(seen.size(), got ? got.count : 0U);
        return seen;
    };
    EXPECT_EQ(types(room, 2), (std::vector<unsigned>{1, 2}));
    EXPECT_EQ(types(std::span(room).first(28), 9), (std::vector<unsigned>{3, 4})) << "each takes 16 bytes, the last 12";
    EXPECT_EQ(types(room, 0), std::vector<unsigned>{});
    EXPECT_EQ(types(room, 9), std::vector<unsigned>{5});
    EXPECT_EQ(reader.sequence(), 6U);
}

// Random publishes, batches, aborts and takeovers; a reader that looks now and then; the truth is kept beside.
TEST(BroadcastCore, RandomHistoriesAgreeWithTheModel) {
    holdfast::test::seeded_random random;
    for (std::uint64_t history = 0; history < scaled(60); ++history) {
        broadcast_bench bench(random.below(2) == 0 ? 2048 : 8192);
        const auto longest = static_cast<std::size_t>(1 + random.below(bench.geometry().message_max()));
        auto writer = bench.writer();
        std::vector<broadcast_read_core> readers(3, bench.reader());
        std::vector<std::uint64_t> next(3, 1);
        auto by_batches = bench.reader();
        std::uint64_t next_of_batch = 1;
        std::uint64_t published = 0;
        for (std::uint64_t step = 0; step < 2000; ++step) {
            const std::uint64_t batch = random.below(4) == 0 ? 1 + random.below(4) : 1;
            std::uint64_t staged = 0;
            while (staged < batch && writer.append(nth_message(published + staged + 1, longest), 0, nobody)) ++staged;
            if (random.below(10) == 0) {
                writer.discard();
            } else {
                ASSERT_EQ(writer.commit().count, staged);
                published += staged;
            }
            ASSERT_EQ(writer.published(), published);
            if (random.below(100) == 0) writer = bench.writer();
            for (std::size_t r = 0; r < readers.size(); ++r)
                if (random.below(r == 0 ? 3 : 100 * r) == 0) {
                    ASSERT_EQ(read_to_end(readers[r], next[r], longest), "");
                    ASSERT_EQ(next[r], published + 1);
                }
            if (random.below(20) == 0) {
                ASSERT_EQ(read_batches_to_end(by_batches, next_of_batch, longest, random), "");
                ASSERT_EQ(next_of_batch, published + 1);
            }
            if (random.below(50) == 0) {
                ASSERT_EQ(bench.damage(), "");
                const std::uint64_t from = random.below(published + 2);
                auto late = bench.reader(broadcast_start::sequence(from));
                std::uint64_t expected = late.sequence();
                ASSERT_EQ(read_to_end(late, expected, longest), "");
                ASSERT_EQ(expected, published + 1);
            }
        }
    }
}

}  // namespace
