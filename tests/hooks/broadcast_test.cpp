// SPDX-License-Identifier: Apache-2.0
// A death at every store of random histories of a broadcast ring, of its writer and of a registered reader
// (store_rig.hpp), and all interleavings of two operations of each side with few pre-emptions and a death anywhere
// (schedule_rig.hpp); and which of its memory orders they need (weak_interleaving.hpp).
#include <utility>

#include "hooks/broadcast_evict_interleaving.hpp"
#include "hooks/broadcast_interleaving.hpp"
#include "hooks/broadcast_subject.hpp"
#include "hooks/broadcast_wake_interleaving.hpp"
#include "hooks/volume.hpp"

namespace {

using namespace holdfast::test;

TEST(StoreDeaths, Broadcast) { die_at_every_store<broadcast_subject>("broadcast", 650'000); }

using reads = broadcast_interleaving::reads;

TEST(Interleavings, BroadcastBesideAReader) {
    // After 57 messages the next ones enter a stride and overwrite what the oldest reader reads.
    for (const std::uint64_t before : {3U, 57U, 60U}) {
        broadcast_interleaving oldest(before, reads::at_the_oldest), end(before, reads::at_the_end);
        broadcast_interleaving joins(before, reads::joins_and_reads);
        interleave("broadcast: message, batch | read, read from the oldest", oldest);
        interleave("broadcast: message, batch | read, read from the end", end);
        interleave("broadcast: message, batch | join, read", joins);
    }
}
TEST(Interleavings, BroadcastBesideAReaderByBatches) {
    for (const std::uint64_t before : {3U, 57U, 60U}) {
        broadcast_interleaving oldest(before, reads::batches_at_the_oldest), end(before, reads::batches_at_the_end);
        interleave("broadcast: message, batch | two at once, twice, from the oldest", oldest);
        interleave("broadcast: message, batch | two at once, twice, from the end", end);
    }
}
TEST(Interleavings, BroadcastBesideARegisteredReader) {
    for (const std::uint64_t before : {57U, 60U}) {
        broadcast_interleaving batches(before, reads::registers_and_batches);
        interleave("broadcast: message, batch | register to block, two at once", batches);
        broadcast_interleaving blocks(before, reads::registers_and_blocks), drops(before, reads::registers_and_drops);
        interleave("broadcast: message, batch | register to block, read", blocks);
        interleave("broadcast: message, batch | register to drop, read", drops);
    }
}

TEST(Interleavings, BroadcastBesideAReaderThatIsEvicted) {
    std::uint64_t evicted = 0, came_back = 0;
    for (const std::uint64_t before : {57U, 60U}) {
        broadcast_evict_interleaving at_once(before, 0), patient(before, 1);
        interleave("broadcast: message, batch | read, come back and read, evicted at once", at_once);
        interleave("broadcast: message, batch | read, come back and read, evicted when out of patience", patient);
        interleave_successors("broadcast: message, batch, successor | read, come back and read", at_once);
        interleave_successors("broadcast: message, batch, successor | read, come back and read, patience", patient);
        evicted += at_once.evicted() + patient.evicted();
        came_back += at_once.came_back() + patient.came_back();
    }
    std::printf("broadcast: %llu evictions, %llu registered anew\n", static_cast<unsigned long long>(evicted),
                static_cast<unsigned long long>(came_back));
    if (std::getenv("HOLDFAST_TEST_SCHEDULE") != nullptr) return;
    EXPECT_GT(evicted, 1000U);
    EXPECT_GT(came_back, 1000U);
}

TEST(Interleavings, BroadcastVerifyBesideAWriter) {
    for (const std::uint64_t before : {3U, 57U, 60U}) {
        broadcast_interleaving verified(before, reads::verifies);
        interleave("broadcast: message, batch | verify, verify", verified);
    }
}
TEST(Interleavings, BroadcastSuccessors) {
    broadcast_interleaving oldest(57, reads::at_the_oldest), end(60, reads::at_the_end),
        joins(57, reads::joins_and_reads), blocks(57, reads::registers_and_blocks), verified(57, reads::verifies);
    interleave_successors("broadcast: message, batch, successor | read, read from the oldest", oldest);
    interleave_successors("broadcast: message, batch, successor | read, read from the end", end);
    interleave_successors("broadcast: message, batch, successor | join, read", joins);
    interleave_successors("broadcast: message, batch, successor | register to block, read", blocks);
    interleave_successors("broadcast: message, batch, successor | verify, verify", verified);
    broadcast_interleaving overrun(57, reads::batches_at_the_oldest), following(57, reads::batches_at_the_end),
        held(57, reads::registers_and_batches);
    interleave_successors("broadcast: message, batch, successor | two at once, twice, from the oldest", overrun);
    interleave_successors("broadcast: message, batch, successor | two at once, twice, from the end", following);
    interleave_successors("broadcast: message, batch, successor | register to block, two at once", held);
}

using sleeper = broadcast_wake_interleaving::sleeper;

TEST(Interleavings, BroadcastSleepers) {
    const std::pair<sleeper, const char*> sleepers[] = {
        {sleeper::reader, "broadcast: message, message | sleep for each, read"},
        {sleeper::writer, "broadcast, full: sleep for room, message, twice | read, read"},
        {sleeper::writer_until_the_reader_goes, "broadcast, full: sleep for room, message, twice | read, go"}};
    for (const auto& [who, name] : sleepers) {
        broadcast_wake_interleaving subject(who);
        interleave(name, subject);
    }
}
TEST(Interleavings, BroadcastSleepersLoseNothingByMerging) {
    for (const sleeper who : {sleeper::reader, sleeper::writer_until_the_reader_goes}) {
        broadcast_wake_interleaving subject(who);
        expect_merging_loses_nothing(subject, 1, true);
    }
}

TEST(Orders, BroadcastSleepers) {
    {
        broadcast_wake_interleaving reader(sleeper::reader);
        expect_orders_matter("broadcast, its reader asleep", {&reader}, 300);
    }
    {
        broadcast_wake_interleaving writer(sleeper::writer);
        expect_orders_matter("broadcast, its writer asleep", {&writer}, 300);
    }
    broadcast_wake_interleaving writer(sleeper::writer_until_the_reader_goes);
    expect_orders_matter("broadcast, its writer asleep until the reader goes", {&writer}, 300);
}
TEST(Orders, Broadcast) {
    broadcast_interleaving oldest(57, reads::at_the_oldest), end(60, reads::at_the_end),
        joins(57, reads::joins_and_reads);
    broadcast_interleaving blocks(57, reads::registers_and_blocks), drops(60, reads::registers_and_drops);
    expect_orders_matter("broadcast", {&oldest, &end, &joins, &blocks, &drops}, 1500);
    broadcast_interleaving overrun(57, reads::batches_at_the_oldest), following(60, reads::batches_at_the_end),
        held(57, reads::registers_and_batches);
    expect_orders_matter("broadcast, read by batches", {&overrun, &following, &held}, 1500);
    broadcast_interleaving verified(57, reads::verifies);
    expect_orders_matter("broadcast, looked at", {&verified}, 300);
}

}  // namespace
