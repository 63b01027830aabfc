// SPDX-License-Identifier: Apache-2.0
// A death at every store of random histories of a snapshot, of its writer and of two readers that pin (store_rig.hpp),
// and all interleavings of two operations of each side with few pre-emptions and a death anywhere (schedule_rig.hpp);
// and which of its memory orders they need (weak_interleaving.hpp).
#include "hooks/snapshot_interleaving.hpp"
#include "hooks/snapshot_subject.hpp"
#include "hooks/volume.hpp"

namespace {

using namespace holdfast::test;
using looks = snapshot_interleaving::looks;
constexpr auto small = snapshot_interleaving::small;

TEST(StoreDeaths, Snapshot) { die_at_every_store<snapshot_subject>("snapshot", 2'500'000); }

TEST(Interleavings, Snapshot) {
    for (const std::uint64_t slots : {2U, 3U}) {
        snapshot_interleaving reads(slots, looks::read_and_visit), pins(slots, looks::pin_and_pin);
        interleave("snapshot: publish, publish | read, visit", reads);
        interleave("snapshot: publish, publish | pin, pin", pins);
        snapshot_interleaving released(slots, looks::pin_and_release);
        interleave("snapshot: publish, publish | pin, release", released);
    }
}

TEST(Interleavings, SmallSnapshot) {
    for (const std::uint64_t slots : {2U, 3U}) {
        snapshot_interleaving reads(slots, looks::read_and_visit, small), pins(slots, looks::pin_and_pin, small);
        interleave("small snapshot: publish, publish | read, visit", reads);
        if (slots == 2) interleave("small snapshot: publish, publish | pin, pin", pins);
    }
}

TEST(Interleavings, SnapshotVerifyBesideAWriter) {
    for (const std::uint64_t slots : {2U, 3U}) {
        snapshot_interleaving verified(slots, looks::read_and_verify);
        interleave("snapshot: publish, publish | read, verify", verified);
    }
    snapshot_interleaving verified(2, looks::read_and_verify, small);
    interleave("small snapshot: publish, publish | read, verify", verified);
}
TEST(Interleavings, SnapshotSuccessors) {
    for (const std::uint64_t slots : {2U, 3U}) {
        snapshot_interleaving reads(slots, looks::read_and_visit), pins(slots, looks::pin_and_pin),
            verified(slots, looks::read_and_verify);
        interleave_successors("snapshot: publish, publish, successor | read, visit", reads);
        interleave_successors("snapshot: publish, publish, successor | pin, pin", pins);
        interleave_successors("snapshot: publish, publish, successor | read, verify", verified);
    }
    snapshot_interleaving reads(2, looks::read_and_visit, small), verified(2, looks::read_and_verify, small);
    interleave_successors("small snapshot: publish, publish, successor | read, visit", reads);
    interleave_successors("small snapshot: publish, publish, successor | read, verify", verified);
}

TEST(Interleavings, SnapshotLosesNothingByMerging) {
    snapshot_interleaving reads(2, looks::read_and_visit), pins(2, looks::pin_and_pin);
    expect_merging_loses_nothing(reads, 3, false);
    expect_merging_loses_nothing(pins, 2, true);
}

TEST(Orders, Snapshot) {
    snapshot_interleaving reads(2, looks::read_and_visit), pins(2, looks::pin_and_pin),
        more_reads(3, looks::read_and_visit), more_pins(3, looks::pin_and_pin);
    snapshot_interleaving small_reads(2, looks::read_and_visit, small);
    snapshot_interleaving released(2, looks::pin_and_release);
    expect_orders_matter("snapshot", {&reads, &pins, &more_reads, &more_pins, &small_reads, &released});
    snapshot_interleaving verified(2, looks::read_and_verify), small_verified(2, looks::read_and_verify, small);
    expect_orders_matter("snapshot, looked at", {&verified, &small_verified}, 1000);
}

}  // namespace
