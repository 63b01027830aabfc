// SPDX-License-Identifier: Apache-2.0
// A death at every store of random histories of a broadcast ring, of its writer and of a registered reader
// (store_rig.hpp), and all interleavings of two operations of each side with few pre-emptions and a death anywhere
// (schedule_rig.hpp); and which of its memory orders they need (weak_interleaving.hpp).
#include "hooks/broadcast_interleaving.hpp"
#include "hooks/broadcast_subject.hpp"
#include "hooks/volume.hpp"

namespace {

using namespace holdfast::test;

TEST(StoreDeaths, Broadcast) { die_at_every_store<broadcast_subject>("broadcast", 500'000); }

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
TEST(Interleavings, BroadcastBesideARegisteredReader) {
    for (const std::uint64_t before : {57U, 60U}) {
        broadcast_interleaving blocks(before, reads::registers_and_blocks), drops(before, reads::registers_and_drops);
        interleave("broadcast: message, batch | register to block, read", blocks);
        interleave("broadcast: message, batch | register to drop, read", drops);
    }
}

TEST(Orders, Broadcast) {
    broadcast_interleaving oldest(57, reads::at_the_oldest), end(60, reads::at_the_end),
        joins(57, reads::joins_and_reads);
    broadcast_interleaving blocks(57, reads::registers_and_blocks), drops(60, reads::registers_and_drops);
    expect_orders_matter("broadcast", {&oldest, &end, &joins, &blocks, &drops}, 1500);
}

}  // namespace
