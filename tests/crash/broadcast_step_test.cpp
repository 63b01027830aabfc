// SPDX-License-Identifier: Apache-2.0
// A death at any instruction of publish, batch, claim and commit, takeover, takeover of a takeover, registration, move
// and eviction: the image after each single instruction is sound, shows the messages before or after and nothing else,
// and the next operations work. (The compiled code's own stores, in its own order; layout/broadcast_write.hpp tells
// what each leaves.)
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "support/broadcast_bench.hpp"
#include "support/capability.hpp"
#include "support/scale.hpp"
#include "support/single_step.hpp"

namespace {

using holdfast::broadcast_policy;
using holdfast::broadcast_start;
using holdfast::outcome;
using holdfast::detail::copy_way;
using holdfast::layout::broadcast_gate;
using holdfast::layout::broadcast_held;
using holdfast::layout::broadcast_held_policy;
using holdfast::layout::broadcast_held_position;
using holdfast::layout::broadcast_hold_core;
using holdfast::layout::broadcast_read_core;
using holdfast::layout::broadcast_slot;
using holdfast::layout::broadcast_view;
using holdfast::layout::broadcast_write_core;
using holdfast::layout::no_broadcast_slots;
using holdfast::test::bench_clock;
using holdfast::test::broadcast_bench;
using holdfast::test::nth_message;
using holdfast::test::read_to_end;
using holdfast::test::shared_image;
using holdfast::test::single_step;
using holdfast::test::slot_bench;
using holdfast::test::step_report;
using holdfast::test::tell_more;

constexpr std::uint64_t capacity = 2048;
std::size_t bytes_max = 120;  // of a message; more in the test of long ones
no_broadcast_slots nobody;

void publish(broadcast_write_core& writer, std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i) {
        ASSERT_TRUE(writer.append(nth_message(writer.published() + 1, bytes_max), 0, nobody));
        ASSERT_TRUE(writer.commit());
    }
}

/// What a reader finds that starts at the oldest message: every number from there on, whole. `last` is the last of
/// them.
std::string shows(std::span<const std::byte> image, const broadcast_bench& bench, std::uint64_t before,
                  std::uint64_t after, std::uint64_t& last) {
    broadcast_read_core oldest(image, bench.geometry()), latest(image, bench.geometry());
    if (oldest.join(broadcast_start::oldest()).status != outcome::ok) return "no oldest message";
    std::uint64_t next = oldest.sequence();
    if (std::string fault = read_to_end(oldest, next, bytes_max); !fault.empty()) return fault;
    last = next - 1;
    if (last != before && last != after) return "message " + std::to_string(last) + " is the last";
    if (latest.join(broadcast_start::latest()).status != outcome::ok || latest.sequence() != next)
        return "the latest message is another than the last";
    return {};
}

/// A successor takes over and goes twice around the ring; a reader that stood at `next` follows it.
std::string continues(std::span<std::byte> image, const broadcast_bench& bench, std::uint64_t last) {
    broadcast_write_core writer = bench.writer_of(image);
    if (writer.published() != last) return "recovery found message " + std::to_string(writer.published());
    if (std::string fault = bench.damage_of(image); !fault.empty()) return "after recovery, " + fault;
    broadcast_read_core reader = bench.reader_of(image, broadcast_start::sequence(last + 1));
    std::uint64_t next = reader.sequence();
    if (next != last + 1) return "the place behind the last message is not found after recovery";
    for (std::uint64_t i = 1; i <= 60; ++i) {
        if (!writer.append(nth_message(last + i, bytes_max), 0, nobody) || !writer.commit())
            return "publish " + std::to_string(i) + " after recovery failed";
        if (i % 8 != 0) continue;
        if (std::string fault = read_to_end(reader, next, bytes_max); !fault.empty()) return "next: " + fault;
        if (next != last + i + 1) return "a message was lost without need";
    }
    std::uint64_t end = 0;
    if (std::string fault = shows(image, bench, last + 60, last + 60, end); !fault.empty()) return "next: " + fault;
    return bench.damage_of(image);
}

std::string before_or_after(std::span<std::byte> image, const broadcast_bench& bench, std::uint64_t before,
                            std::uint64_t after, std::uint64_t& seen) {
    if (std::string fault = bench.damage_of(image); !fault.empty()) return fault;
    if (std::string fault = shows(image, bench, before, after, seen); !fault.empty()) return fault;
    // A reader that was at the end before: it gets what came, or nothing.
    broadcast_read_core waiting = bench.reader_of(image, broadcast_start::sequence(before + 1));
    std::uint64_t next = before + 1;
    if (waiting.sequence() != next) return "the place behind the former last message is gone";
    if (std::string fault = read_to_end(waiting, next, bytes_max); !fault.empty()) return fault;
    if (next != seen + 1) return "two readers disagree on the last message";
    return continues(image, bench, seen);
}

class BroadcastStep : public ::testing::Test {
 protected:
    void SetUp() override {
        if (!holdfast::test::can_trace() || holdfast::test::sanitized)
            GTEST_SKIP() << "needs: ptrace and a build without sanitizers";
    }
    static void report(const step_report& r) {
        EXPECT_TRUE(r.passed()) << r.failure;
        tell_more("steps", r.steps);
        tell_more("images", r.images);
    }
    /// Steps operate(writer), which publishes `count` messages at once, after `published` others.
    static step_report step_at(std::uint64_t published, std::uint64_t count,
                               const std::function<void(broadcast_write_core&)>& operate,
                               std::uint64_t ring_bytes = capacity) {
        broadcast_bench bench(ring_bytes);
        auto writer = bench.writer();
        publish(writer, published);
        std::uint64_t before = 0, after = 0;
        step_report r = single_step(
            bench.image(), [&] { operate(writer); },
            [&](std::span<std::byte> image) {
                std::uint64_t seen = 0;
                std::string fault = before_or_after(image, bench, published, published + count, seen);
                ++(seen == published ? before : after);
                return fault;
            });
        if (r.passed() && (before == 0 || after == 0)) r.failure = "the commit was not among the steps";
        if (!r.passed()) r.failure = "after " + std::to_string(published) + " messages: " + r.failure;
        return r;
    }
};

// From the empty ring over the first lap to the third: strides are entered, the ring wraps with and without a skip.
TEST_F(BroadcastStep, PublishInEveryStateOfTheRing) {
    step_report total;
    for (std::uint64_t published = 0; published <= 90 && total.passed(); ++published)
        total += step_at(published, 1, [&](broadcast_write_core& writer) {
            const auto message = nth_message(published + 1, bytes_max);
            if (!writer.append(message, 0, nobody) || !writer.commit()) ::_exit(1);
        });
    report(total);
    EXPECT_GT(total.images, 90U * 5);
}

TEST_F(BroadcastStep, BatchesThatCrossStridesAndTheEndOfTheRing) {
    step_report total;
    for (std::uint64_t published = 0; published <= 60 && total.passed(); published += 4)
        total += step_at(published, 6, [&](broadcast_write_core& writer) {
            for (std::uint64_t i = 1; i <= 6; ++i)
                if (!writer.append(nth_message(published + i, bytes_max), 0, nobody)) ::_exit(1);
            if (writer.commit().count != 6) ::_exit(1);
        });
    report(total);
}

TEST_F(BroadcastStep, ClaimsDroppedAndClaimsUsedInPart) {
    step_report total;
    for (std::uint64_t published = 0; published <= 60 && total.passed(); published += 5)
        total += step_at(published, 1, [&](broadcast_write_core& writer) {
            auto room = writer.claim(500, nobody);
            std::memset(room.bytes.data(), 0x77, room.bytes.size());  // the user's own plain stores
            if (writer.stage(400, 0) != outcome::ok) ::_exit(1);
            writer.discard();
            const auto message = nth_message(published + 1, bytes_max);
            room = writer.claim(bytes_max, nobody);
            std::memcpy(room.bytes.data(), message.data(), message.size());
            if (writer.stage(message.size(), 0) != outcome::ok || !writer.commit()) ::_exit(1);
        });
    report(total);
}

TEST_F(BroadcastStep, LongMessagesPastTheCaches) {
    const std::size_t usual = std::exchange(bytes_max, 1400);
    step_report total;
    for (const std::uint64_t published : {0U, 17U, 33U, 50U}) {
        if (!total.passed()) break;
        total += step_at(
            published, 3,
            [&](broadcast_write_core& writer) {
                writer.long_copies().keep_to(copy_way::past_caches);
                // A long one first that is dropped: its bytes lie where the others go.
                if (!writer.append(std::vector<std::byte>(700, std::byte{0x77}), 0, nobody)) ::_exit(1);
                writer.discard();
                for (std::uint64_t i = 1; i <= 3; ++i)
                    if (!writer.append(nth_message(published + i, bytes_max), 0, nobody)) ::_exit(1);
                if (writer.commit().count != 3) ::_exit(1);
            },
            16384);
    }
    bytes_max = usual;
    report(total);
    EXPECT_GT(total.images, 4U * 4 * 10) << "lines stored one by one were not seen";
}

/// Every distinct image of a batch of `count` after `published` messages.
std::vector<std::vector<std::byte>> states_of(broadcast_bench& bench, std::uint64_t published, std::uint64_t count,
                                              step_report& total) {
    std::vector<std::vector<std::byte>> states;
    auto writer = bench.writer();
    publish(writer, published);
    total += single_step(
        bench.image(),
        [&] {
            for (std::uint64_t i = 1; i <= count; ++i)
                if (!writer.append(nth_message(published + i, bytes_max), 0, nobody)) ::_exit(1);
            (void)writer.commit();
        },
        [&](std::span<std::byte> image) -> std::string {
            states.emplace_back(image.begin(), image.end());
            return {};
        });
    return states;
}

// Death during the takeover after a death: every image of a batch is taken over under the stepper, and every image of
// that takeover is taken over again.
TEST_F(BroadcastStep, TakeoverFromEveryStateIsItselfRecoverable) {
    step_report total;
    std::uint64_t mended = 0;
    for (const std::uint64_t published : {0U, 20U, 37U, 55U}) {
        broadcast_bench bench(capacity);
        for (const auto& state : states_of(bench, published, 5, total)) {
            bench.image().assign(state);
            const step_report r = single_step(
                bench.image(), [&] { (void)bench.writer(); },
                [&](std::span<std::byte> image) {
                    std::uint64_t seen = 0;
                    return before_or_after(image, bench, published, published + 5, seen);
                });
            total += r;
            mended += r.images > 2 ? 1 : 0;  // more than the epoch
            ASSERT_TRUE(total.passed()) << published << " messages: " << total.failure;
        }
    }
    EXPECT_GT(mended, 0U) << "no state needed the index mended: the states behind the commit are missing";
    report(total);
}

// The image is the ring; a registered reader that blocks stands in the way, or not, or is dead, or out of patience.
TEST_F(BroadcastStep, PublishBesideRegisteredReaders) {
    step_report total;
    for (const bool lives : {true, false})
        for (const auto policy : {broadcast_policy::block, broadcast_policy::drop, broadcast_policy::evict}) {
            broadcast_bench bench(capacity, 1);
            auto writer = bench.writer();
            slot_bench slots(1);
            slots.slot(0).held = broadcast_held(0, policy);
            slots.slot(0).registered_ns = 7;
            if (!lives) slots.bury(0);
            std::uint64_t published = 0;
            const auto append = [&] { return writer.append(nth_message(published + 1, bytes_max), 0, slots); };
            while (append() && published < 100) {
                (void)writer.commit();
                ++published;
            }
            writer.discard();
            const bool blocked = lives && policy == broadcast_policy::block;
            ASSERT_EQ(published < 100, blocked) << "evict without patience and drop let the writer go on";
            const step_report r = single_step(
                bench.image(),
                [&] {
                    if (append()) (void)writer.commit();
                },
                [&](std::span<std::byte> image) {
                    std::uint64_t seen = 0;
                    return before_or_after(image, bench, published, published + (blocked ? 0 : 1), seen);
                });
            total += r;
            ASSERT_TRUE(total.passed()) << total.failure;
        }
    report(total);
}

/// A writer that runs on beside the slot as it was found in some image: it never overwrites what the word protects
/// while the reader lives, and never stops when it is dead.
std::string writer_goes_on(broadcast_bench& bench, std::span<const std::byte> body, std::uint64_t held) {
    for (const bool lives : {true, false}) {
        shared_image copy(body.size());
        copy.assign(body);
        slot_bench seen(1);
        seen.slot(0).held = held;
        if (!lives) seen.bury(0);
        broadcast_write_core writer = bench.writer_of(copy.bytes());
        const broadcast_view view(copy.bytes(), bench.geometry());
        const std::uint64_t position = broadcast_held_position(held);
        const bool binding = broadcast_held_policy(held) == static_cast<std::uint64_t>(broadcast_policy::block);
        const bool valid = binding && view.horizon() - position <= bench.geometry().capacity;
        for (int i = 0; i < 100; ++i) {
            if (!writer.append(nth_message(writer.published() + 1, bytes_max), 0, seen) || !writer.commit()) {
                if (lives && valid) break;
                return lives ? "a word that protects nothing held the writer up" : "a dead reader held the writer up";
            }
            if (lives && valid && view.horizon() - position > bench.geometry().capacity)
                return "the writer overran a living reader that blocks";
        }
        if (std::string fault = bench.damage_of(copy.bytes()); !fault.empty()) return fault;
    }
    return {};
}

/// Steps a reader that registers, reads, moves and leaves, twice, after `published` messages. The image is its slot.
step_report register_move_and_leave(std::uint64_t published, broadcast_policy policy) {
    broadcast_bench bench(capacity, 1);
    shared_image table(4096);
    auto& slot = *new (table.bytes().data()) broadcast_slot{};
    auto writer = bench.writer();
    publish(writer, published);
    const std::vector<std::byte> body(bench.body().begin(), bench.body().end());
    step_report r = single_step(
        table,
        [&] {
            broadcast_hold_core reader(broadcast_read_core(bench.body(), bench.geometry()), slot);
            std::uint64_t received = 0;
            for (int round = 0; round < 2; ++round) {
                if (reader.enrol(broadcast_start::oldest(), policy, 0, 9).status == outcome::corrupt) ::_exit(1);
                while (reader.next([](std::span<const std::byte>, std::uint16_t) noexcept { return true; })) ++received;
                reader.leave();
            }
            if (published != 0 && received == 0) ::_exit(1);
        },
        [&](std::span<std::byte> image) {
            return writer_goes_on(bench, body, reinterpret_cast<broadcast_slot*>(image.data())->held.load());
        });
    if (!r.passed()) r.failure = "after " + std::to_string(published) + " messages: " + r.failure;
    return r;
}

// After each instruction of registering, reading, moving and leaving the writer goes on, beside a reader that lives and
// beside one that died right there.
TEST_F(BroadcastStep, RegisterMoveAndLeave) {
    for (const auto policy : {broadcast_policy::block, broadcast_policy::drop, broadcast_policy::evict}) {
        step_report total;
        for (const std::uint64_t published : {0U, 15U, 50U, 77U}) total += register_move_and_leave(published, policy);
        EXPECT_GT(total.images, 20U) << "policy " << static_cast<int>(policy);
        report(total);
    }
}

// The image is the slot; the writer evicts its reader and dies in between: the word is the reader's or none.
TEST_F(BroadcastStep, EvictionTakesTheWordOrLeavesIt) {
    broadcast_bench bench(capacity, 1);
    shared_image table(4096);
    auto& slot = *new (table.bytes().data()) broadcast_slot{};
    struct one_slot {
        broadcast_slot* at;
        [[nodiscard]] static std::uint32_t size() noexcept { return 1; }
        [[nodiscard]] broadcast_slot& slot(std::uint32_t) const noexcept { return *at; }
        [[nodiscard]] static bool seize(std::uint32_t) noexcept { return false; }
        static void give_back(std::uint32_t) noexcept {}
    } slots{&slot};
    auto writer = bench.writer();
    const std::uint64_t held = broadcast_held(0, broadcast_policy::evict);
    slot.held = held;
    slot.patience_ns = 1;
    while (writer.append(nth_message(writer.published() + 1, bytes_max), 0, slots)) (void)writer.commit();
    bench_clock::monotonic_time = bench_clock::monotonic_ns() + 10;
    std::uint64_t gone = 0;
    const step_report r = single_step(
        table,
        [&] {
            if (!writer.append(nth_message(writer.published() + 1, bytes_max), 0, slots)) ::_exit(1);
        },
        [&](std::span<std::byte> image) -> std::string {
            const std::uint64_t now = reinterpret_cast<broadcast_slot*>(image.data())->held.load();
            gone += now == 0 ? 1 : 0;
            return now == 0 || now == held ? "" : "the word is neither the reader's nor none";
        });
    EXPECT_EQ(gone, 1U);
    report(r);
}

// The rig fails when it should: an index entry written before the commit of the record it lies behind, as a naive
// writer would, is caught at the instruction between the two.
TEST_F(BroadcastStep, AnEntryThatComesBeforeItsCommitIsFound) {
    broadcast_bench bench(capacity);
    auto writer = bench.writer();
    publish(writer, 20);
    const std::uint64_t tail = writer.tail(), stride = bench.geometry().stride_of(tail) + 1;
    const step_report r = single_step(
        bench.image(),
        [&] {
            auto* const body = bench.body().data();
            auto* const entry = reinterpret_cast<std::uint64_t*>(body + bench.geometry().entry_offset(stride));
            entry[1] = tail + 72;
            entry[2] = 22;
            reinterpret_cast<std::atomic<std::uint64_t>*>(entry)->store(stride + 1);
            auto* const word = reinterpret_cast<std::atomic<std::uint64_t>*>(body + bench.geometry().ring_offset() +
                                                                             (tail & (capacity - 1)));
            word[9].store(0);
            word->store(holdfast::layout::ring_message_word(64, 0));
        },
        [&](std::span<std::byte> image) { return bench.damage_of(image); });
    EXPECT_FALSE(r.passed());
}

}  // namespace
