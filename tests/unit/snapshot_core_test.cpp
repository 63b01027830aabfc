// SPDX-License-Identifier: Apache-2.0
// What a snapshot promises over plain bytes: publishing, choosing slots, hazards, recovery, damage. Invariants (I1..I5)
// are those of layout/snapshot_layout.hpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "holdfast/layout/snapshot_verify.hpp"
#include "support/scale.hpp"
#include "support/seed.hpp"
#include "support/snapshot_bench.hpp"

namespace {

using holdfast::errc;
using holdfast::outcome;
using holdfast::publish_result;
using holdfast::layout::findings;
using holdfast::layout::no_hazards;
using holdfast::layout::snapshot_geometry;
using holdfast::layout::snapshot_pin_core;
using holdfast::layout::snapshot_read_core;
using holdfast::layout::snapshot_slot;
using holdfast::layout::snapshot_slot_of;
using holdfast::layout::snapshot_word;
using holdfast::layout::snapshot_write_core;
using holdfast::test::hazard_bench;
using holdfast::test::is_whole;
using holdfast::test::snapshot_bench;
using holdfast::test::whole_object;

no_hazards nobody;

publish_result publish_object(snapshot_write_core& writer, std::uint64_t seed, std::size_t bytes) {
    return writer.publish(whole_object(seed, bytes), nobody, seed);
}

std::vector<std::byte> read_all(const snapshot_read_core& reader, std::uint64_t* version = nullptr) {
    std::vector<std::byte> out(static_cast<std::size_t>(reader.geometry().slot_bytes));
    const auto got = reader.read(out);
    EXPECT_EQ(got.status, outcome::ok);
    out.resize(static_cast<std::size_t>(got.bytes));
    if (version != nullptr) *version = got.version;
    return out;
}

TEST(Snapshot, NothingPublishedReadsAsEmpty) {
    snapshot_bench bench(3, 100);
    std::vector<std::byte> out(100);
    EXPECT_EQ(bench.reader().read(out).status, outcome::empty);
    EXPECT_EQ(bench.reader().current(), 0U);
}

TEST(Snapshot, ReadGivesTheNewestObjectAndItsVersion) {
    snapshot_bench bench(3, 1000);
    auto writer = bench.writer();
    for (std::uint64_t version = 1; version <= 10; ++version) {
        const std::size_t bytes = static_cast<std::size_t>(version * 97);
        const publish_result result = publish_object(writer, version, bytes);
        ASSERT_EQ(result.status, outcome::ok);
        ASSERT_EQ(result.version, version);
        std::uint64_t seen = 0;
        const auto object = read_all(bench.reader(), &seen);
        EXPECT_EQ(seen, version);
        EXPECT_EQ(object.size(), bytes);
        EXPECT_TRUE(is_whole(object, version));
    }
}

TEST(Snapshot, AnEmptyObjectIsAnObject) {
    snapshot_bench bench(2, 8);
    auto writer = bench.writer();
    ASSERT_TRUE(publish_object(writer, 1, 0));
    const auto got = bench.reader().read({});
    EXPECT_EQ(got.status, outcome::ok);
    EXPECT_EQ(got.bytes, 0U);
}

TEST(Snapshot, TooLargeIsRefusedAndChangesNothing) {
    snapshot_bench bench(2, 100);
    auto writer = bench.writer();
    ASSERT_TRUE(publish_object(writer, 1, 100));
    EXPECT_EQ(publish_object(writer, 2, 101).status, outcome::too_large);
    EXPECT_EQ(writer.version(), 1U);
    EXPECT_TRUE(is_whole(read_all(bench.reader()), 1));
}

// What lies behind the prepared bytes is a former object's.
TEST(Snapshot, ACommitOfMoreThanWasPreparedIsRefusedAndChangesNothing) {
    snapshot_bench bench(2, 100);
    auto writer = bench.writer();
    ASSERT_TRUE(publish_object(writer, 1, 100));
    ASSERT_TRUE(publish_object(writer, 2, 100));
    for (const std::uint64_t more : {11U, 100U, 101U}) {
        ASSERT_TRUE(writer.prepare(10, nobody));
        EXPECT_EQ(writer.commit(more, 0).status, outcome::not_claimed) << more;
        EXPECT_TRUE(is_whole(read_all(bench.reader()), 2)) << more;
    }
    EXPECT_EQ(writer.commit(10, 0).version, 3U) << "what is prepared stays so";
    EXPECT_EQ(read_all(bench.reader()).size(), 10U);
}

TEST(Snapshot, TooSmallBufferIsToldTheSizeItNeeds) {
    snapshot_bench bench(2, 100);
    auto writer = bench.writer();
    ASSERT_TRUE(publish_object(writer, 1, 60));
    std::vector<std::byte> out(59, std::byte{7});
    const auto got = bench.reader().read(out);
    EXPECT_EQ(got.status, outcome::too_small);
    EXPECT_EQ(got.bytes, 60U);
    EXPECT_EQ(out, std::vector<std::byte>(59, std::byte{7}));
}

TEST(Snapshot, PreparedBytesAreInvisibleUntilCommit) {
    snapshot_bench bench(2, 64);
    auto writer = bench.writer();
    ASSERT_TRUE(publish_object(writer, 1, 64));
    const auto room = writer.prepare(64, nobody);
    ASSERT_TRUE(room);
    const auto object = whole_object(2, 64);
    std::memcpy(room.bytes.data(), object.data(), object.size());
    EXPECT_TRUE(is_whole(read_all(bench.reader()), 1));
    ASSERT_EQ(writer.commit(40, 0).version, 2U);  // fewer than prepared
    EXPECT_EQ(read_all(bench.reader()).size(), 40U);
    EXPECT_EQ(writer.commit(40, 0).status, outcome::not_claimed);
}

TEST(Snapshot, AbortedPrepareLeavesNoTraceAndItsSlotFree) {
    snapshot_bench bench(2, 64);
    auto writer = bench.writer();
    ASSERT_TRUE(publish_object(writer, 1, 64));
    for (int i = 0; i < 5; ++i) {
        ASSERT_TRUE(writer.prepare(64, nobody));
        writer.discard();
    }
    EXPECT_EQ(publish_object(writer, 2, 64).version, 2U);
    EXPECT_TRUE(is_whole(read_all(bench.reader()), 2));
}

TEST(Snapshot, AnOldObjectSurvivesSlotsMinusTwoPublishes) {
    // The grace of a reader without a hazard: it found version 1 and is still reading.
    constexpr std::uint32_t slots = 6;
    snapshot_bench bench(slots, 64);
    auto writer = bench.writer();
    ASSERT_TRUE(publish_object(writer, 1, 64));
    const snapshot_read_core reader = bench.reader();
    const auto found = reader.locate();
    for (std::uint64_t version = 2; version <= slots; ++version) {
        ASSERT_TRUE(publish_object(writer, version, 64));
        EXPECT_TRUE(reader.still_there(found)) << "after version " << version;
        EXPECT_TRUE(is_whole({reader.payload(found.word), 64}, 1));
    }
    ASSERT_TRUE(publish_object(writer, slots + 1, 64));
    EXPECT_FALSE(reader.still_there(found));
}

TEST(Snapshot, VisitRunsAgainWhenTheWriterOverranIt) {
    snapshot_bench bench(2, 64);
    auto writer = bench.writer();
    ASSERT_TRUE(publish_object(writer, 1, 64));
    std::uint64_t version = 1;
    int runs = 0;
    bool torn = false;
    std::vector<std::byte> kept;
    const auto got = bench.reader().visit([&](std::span<const std::byte> bytes, std::uint64_t) {
        kept.assign(bytes.begin(), bytes.begin() + 32);
        // The reader is stopped here while the writer works: two publishes reuse its slot.
        if (++runs == 1) {
            for (int i = 0; i < 2; ++i) ASSERT_TRUE(publish_object(writer, ++version, 64));
        }
        kept.insert(kept.end(), bytes.begin() + 32, bytes.end());
        torn = torn || !is_whole(kept, version);
    });
    EXPECT_EQ(runs, 2);
    EXPECT_TRUE(torn) << "the first run saw a mix, or this test proves nothing";
    EXPECT_EQ(got.status, outcome::ok);
    EXPECT_EQ(got.version, 3U);
    EXPECT_TRUE(is_whole(kept, 3));
}

TEST(Snapshot, VisitOverrunWithoutEndIsContendedNotEndless) {
    snapshot_bench bench(2, 64);
    auto writer = bench.writer();
    ASSERT_TRUE(publish_object(writer, 1, 64));
    std::uint64_t version = 1;
    unsigned runs = 0;
    const auto got = bench.reader().visit([&](std::span<const std::byte>, std::uint64_t) {
        ++runs;
        for (int i = 0; i < 2; ++i) ASSERT_TRUE(publish_object(writer, ++version, 64));
    });
    EXPECT_EQ(got.status, outcome::contended);
    EXPECT_EQ(runs, holdfast::layout::snapshot_attempts);
}

TEST(SnapshotPin, PinnedObjectOutlivesAnyNumberOfPublishes) {
    snapshot_bench bench(3, 64);
    hazard_bench hazards(1);
    auto writer = bench.writer();
    ASSERT_TRUE(writer.publish(whole_object(1, 64), hazards, 0));
    snapshot_pin_core pin(bench.reader(), hazards.cell(0));
    const auto held = pin.pin();
    ASSERT_EQ(held.status, outcome::ok);
    for (std::uint64_t version = 2; version < 100; ++version) {
        ASSERT_TRUE(writer.publish(whole_object(version, 64), hazards, 0)) << version;
        ASSERT_TRUE(is_whole({bench.reader().payload(held.word), 64}, 1)) << version;
        ASSERT_TRUE(is_whole(read_all(bench.reader()), version)) << version;
    }
    EXPECT_EQ(hazards.asked, 0U) << "a living reader that blocks nothing costs no system call";
    EXPECT_EQ(pin.pin().version(), 99U) << "the next pin follows current";
}

TEST(SnapshotPin, RepeatedPinOfTheSameObjectStoresNothing) {
    snapshot_bench bench(3, 64);
    hazard_bench hazards(1);
    auto writer = bench.writer();
    ASSERT_TRUE(writer.publish(whole_object(1, 64), hazards, 0));
    snapshot_pin_core pin(bench.reader(), hazards.cell(0));
    ASSERT_EQ(pin.pin().status, outcome::ok);
    hazards.cell(0).store(77, std::memory_order_relaxed);  // would be overwritten by a store
    EXPECT_EQ(pin.pin().status, outcome::ok);
    EXPECT_EQ(hazards.cell(0).load(std::memory_order_relaxed), 77U);
}

TEST(SnapshotPin, NothingPublishedPinsAsEmptyAndHoldsNothing) {
    snapshot_bench bench(3, 64);
    hazard_bench hazards(1);
    snapshot_pin_core pin(bench.reader(), hazards.cell(0));
    EXPECT_EQ(pin.pin().status, outcome::empty);
    EXPECT_EQ(hazards.cell(0).load(std::memory_order_relaxed), 0U);
}

TEST(SnapshotPin, ReadersPlusTwoSlotsAlwaysSuffice) {
    constexpr std::uint32_t readers = 4;
    snapshot_bench bench(readers + 2, 64);
    hazard_bench hazards(readers);
    auto writer = bench.writer();
    std::vector<snapshot_pin_core> pins;
    for (std::uint32_t i = 0; i < readers; ++i) {
        ASSERT_TRUE(writer.publish(whole_object(i + 1, 64), hazards, 0));
        pins.emplace_back(bench.reader(), hazards.cell(i));
        ASSERT_EQ(pins.back().pin().version(), i + 1);
    }
    for (std::uint64_t i = 0; i < 20; ++i) ASSERT_TRUE(writer.publish(whole_object(i, 64), hazards, 0)) << i;
    for (std::uint32_t i = 0; i < readers; ++i)
        EXPECT_TRUE(is_whole({bench.reader().payload(pins[i].held().word), 64}, i + 1));
}

TEST(SnapshotPin, WithoutAFreeSlotPublishIsRefusedAndNothingChanges) {
    snapshot_bench bench(2, 64);
    hazard_bench hazards(1);
    auto writer = bench.writer();
    ASSERT_TRUE(writer.publish(whole_object(1, 64), hazards, 0));
    snapshot_pin_core pin(bench.reader(), hazards.cell(0));
    ASSERT_EQ(pin.pin().version(), 1U);
    ASSERT_TRUE(writer.publish(whole_object(2, 64), hazards, 0));  // the pinned one and the new one: full
    const std::vector<std::byte> before(bench.body().begin() + 128, bench.body().end());
    EXPECT_EQ(writer.publish(whole_object(3, 64), hazards, 0).status, outcome::full);
    EXPECT_TRUE(std::equal(before.begin(), before.end(), bench.body().begin() + 128));
    EXPECT_EQ(bench.reader().control().refused.load(std::memory_order_relaxed), 1U);
    EXPECT_EQ(hazards.asked, 1U);
    pin.release();
    EXPECT_EQ(writer.publish(whole_object(3, 64), hazards, 0).version, 3U);
}

TEST(SnapshotPin, ADeadReadersSlotIsReclaimedOnlyWhenItBlocks) {
    snapshot_bench bench(3, 64);
    hazard_bench hazards(2);
    auto writer = bench.writer();
    ASSERT_TRUE(writer.publish(whole_object(1, 64), hazards, 0));
    snapshot_pin_core dead(bench.reader(), hazards.cell(0)), living(bench.reader(), hazards.cell(1));
    ASSERT_EQ(dead.pin().version(), 1U);
    ASSERT_TRUE(writer.publish(whole_object(2, 64), hazards, 0));
    ASSERT_EQ(living.pin().version(), 2U);
    hazards.bury(0);
    ASSERT_TRUE(writer.publish(whole_object(3, 64), hazards, 0));
    EXPECT_EQ(hazards.asked, 0U);
    ASSERT_TRUE(writer.publish(whole_object(4, 64), hazards, 0));  // needs the dead one's slot
    EXPECT_EQ(hazards.asked, 2U);
    EXPECT_EQ(hazards.cell(0).load(std::memory_order_relaxed), 0U);
    EXPECT_EQ(bench.reader().control().reclaimed.load(std::memory_order_relaxed), 1U);
    EXPECT_TRUE(is_whole({bench.reader().payload(living.held().word), 64}, 2)) << "the living one kept its object";
}

TEST(SnapshotPin, RubbishInAHazardWordKeepsNothing) {
    snapshot_bench bench(2, 64);
    hazard_bench hazards(4);
    auto writer = bench.writer();
    ASSERT_TRUE(writer.publish(whole_object(1, 64), hazards, 0));
    ASSERT_TRUE(writer.publish(whole_object(2, 64), hazards, 0));
    const std::uint32_t other = 1 - snapshot_slot_of(bench.reader().current());
    hazards.cell(0).store(~std::uint64_t{0}, std::memory_order_relaxed);        // slot 255
    hazards.cell(1).store(snapshot_word(9, other), std::memory_order_relaxed);  // a version the slot does not hold
    hazards.cell(2).store(snapshot_word(0, other), std::memory_order_relaxed);  // no version
    hazards.cell(3).store(snapshot_word(2, 200), std::memory_order_relaxed);    // no such slot
    EXPECT_TRUE(writer.publish(whole_object(3, 64), hazards, 0));
    EXPECT_EQ(hazards.asked, 0U);
}

std::uint64_t word_in_front(snapshot_bench& bench) { return bench.reader().control().front.word.load(); }

// Everything but the slot's size and version says otherwise: so the front is where the object came from.
TEST(SnapshotFront, ASmallObjectIsReadBesideCurrentAndALargerOneOutOfItsSlot) {
    for (const std::size_t bytes : {0U, 1U, 8U, 16U, 39U, 40U, 41U, 60U}) {
        snapshot_bench bench(2, 60);
        auto writer = bench.writer();
        ASSERT_TRUE(publish_object(writer, 9, bytes));
        const bool small = bytes <= holdfast::layout::snapshot_front_bytes;
        EXPECT_EQ(word_in_front(bench) == bench.reader().current(), small) << bytes;
        std::byte* const in_slot =
            bench.body().data() + bench.geometry().payload_offset(snapshot_slot_of(bench.reader().current()));
        const std::vector<std::byte> object = whole_object(9, bytes), other(bytes, std::byte{7});
        std::copy(other.begin(), other.end(), in_slot);
        EXPECT_EQ(read_all(bench.reader()), small ? object : other) << bytes;
        std::vector<std::byte> out(60);
        ASSERT_TRUE(bench.reader().read_slot(out));
        EXPECT_TRUE(std::equal(other.begin(), other.end(), out.begin())) << bytes;
    }
}

TEST(SnapshotFront, LargeAndSmallObjectsInTurnAreEachReadWhole) {
    snapshot_bench bench(3, 100);
    auto writer = bench.writer();
    for (std::uint64_t version = 1; version <= 60; ++version) {
        const std::size_t bytes = static_cast<std::size_t>(version * 37 % 101);
        ASSERT_EQ(publish_object(writer, version, bytes).version, version);
        EXPECT_EQ(read_all(bench.reader()), whole_object(version, bytes)) << version;
        findings found;
        verify_snapshot(bench.body(), bench.geometry(), found);
        ASSERT_TRUE(found.empty()) << found.list()[0].what;
    }
}

TEST(SnapshotFront, TooSmallBufferIsToldTheSizeItNeeds) {
    snapshot_bench bench(2, 100);
    auto writer = bench.writer();
    ASSERT_TRUE(publish_object(writer, 1, 30));
    std::vector<std::byte> out(29, std::byte{7});
    const auto got = bench.reader().read(out);
    EXPECT_EQ(got.status, outcome::too_small);
    EXPECT_EQ(got.bytes, 30U);
    EXPECT_EQ(out, std::vector<std::byte>(29, std::byte{7}));
}

// An image of before there was a front, and one that a program went on with which knows of none (I5).
TEST(SnapshotFront, OfAnotherVersionIsNotBelieved) {
    snapshot_bench bench(3, 64);
    auto writer = bench.writer();
    ASSERT_TRUE(publish_object(writer, 1, 24));
    const std::vector<std::byte> front(bench.body().begin() + 8, bench.body().begin() + 64);
    for (const bool zeros : {true, false}) {
        ASSERT_TRUE(publish_object(writer, 2, 24));
        if (zeros)
            std::memset(bench.body().data() + 8, 0, 56);
        else
            std::memcpy(bench.body().data() + 8, front.data(), front.size());
        EXPECT_EQ(read_all(bench.reader()), whole_object(2, 24));
        findings found;
        verify_snapshot(bench.body(), bench.geometry(), found);
        EXPECT_TRUE(found.empty());
        writer = bench.writer();  // recovers it
        EXPECT_EQ(word_in_front(bench), bench.reader().current());
        EXPECT_EQ(read_all(bench.reader()), whole_object(2, 24));
    }
}

// A word from beyond `current` would be believed when the writer comes there.
TEST(SnapshotFront, OfAVersionToComeIsFoundAndForgotten) {
    for (const std::size_t bytes : {24U, 64U}) {
        snapshot_bench bench(2, 64);
        {
            auto writer = bench.writer();
            for (std::uint64_t i = 1; i <= 4; ++i) ASSERT_TRUE(publish_object(writer, i, bytes));
        }
        auto& front = reinterpret_cast<holdfast::layout::snapshot_control*>(bench.body().data())->front;
        const std::uint64_t next = snapshot_word(5, 1 - snapshot_slot_of(bench.reader().current()));
        front.word.store(next);
        front.bytes.store(40);
        findings found;
        verify_snapshot(bench.body(), bench.geometry(), found);
        ASSERT_EQ(found.count(), 1U);
        EXPECT_EQ(found.list()[0].offset, 8U);
        EXPECT_EQ(read_all(bench.reader()), whole_object(4, bytes));
        auto writer = bench.writer();
        EXPECT_NE(word_in_front(bench), next);
        ASSERT_TRUE(publish_object(writer, 5, 64));
        EXPECT_EQ(bench.reader().current(), next);
        EXPECT_EQ(read_all(bench.reader()), whole_object(5, 64));
    }
}

TEST(SnapshotFront, DamageToItIsFoundThereAndOnlyThere) {
    snapshot_bench bench(2, 64);
    auto writer = bench.writer();
    ASSERT_TRUE(publish_object(writer, 1, 33));
    for (const std::size_t at : {24U, 40U, 56U}) {
        bench.body()[at] ^= std::byte{4};
        findings found;
        verify_snapshot(bench.body(), bench.geometry(), found);
        ASSERT_EQ(found.count(), 1U) << at;
        EXPECT_EQ(found.list()[0].offset, 24U);
        bench.body()[at] ^= std::byte{4};
    }
    bench.body()[57] ^= std::byte{4};  // behind the object
    findings found;
    verify_snapshot(bench.body(), bench.geometry(), found);
    EXPECT_TRUE(found.empty());
    ASSERT_TRUE(publish_object(writer, 2, 33));
    EXPECT_TRUE(is_whole(read_all(bench.reader()), 2));
}

TEST(SnapshotRecovery, ASuccessorContinuesTheVersions) {
    snapshot_bench bench(3, 64);
    {
        auto writer = bench.writer();
        for (std::uint64_t i = 1; i <= 7; ++i) ASSERT_TRUE(publish_object(writer, i, 64));
    }
    auto writer = bench.writer();
    EXPECT_EQ(writer.version(), 7U);
    EXPECT_EQ(publish_object(writer, 8, 64).version, 8U);
}

TEST(SnapshotRecovery, APublishCutShortBeforeItsLastStoreIsUndone) {
    snapshot_bench bench(3, 64);
    std::uint64_t before = 0;
    {
        auto writer = bench.writer();
        ASSERT_TRUE(publish_object(writer, 1, 64));
        before = bench.reader().current();
        ASSERT_TRUE(publish_object(writer, 2, 64));
    }
    reinterpret_cast<std::atomic<std::uint64_t>*>(bench.body().data())->store(before, std::memory_order_relaxed);
    findings found;
    verify_snapshot(bench.body(), bench.geometry(), found);
    EXPECT_TRUE(found.empty()) << found.list()[0].what;
    auto writer = bench.writer();
    EXPECT_EQ(writer.version(), 1U);
    EXPECT_TRUE(is_whole(read_all(bench.reader()), 1));
    EXPECT_EQ(publish_object(writer, 5, 64).version, 2U);
    EXPECT_TRUE(is_whole(read_all(bench.reader()), 5));
    found = {};
    verify_snapshot(bench.body(), bench.geometry(), found);
    EXPECT_TRUE(found.empty());
}

TEST(SnapshotRecovery, CurrentThatNamesNoObjectIsCorrupt) {
    snapshot_bench bench(3, 64);
    {
        auto writer = bench.writer();
        ASSERT_TRUE(publish_object(writer, 1, 64));
    }
    auto& current = *reinterpret_cast<std::atomic<std::uint64_t>*>(bench.body().data());
    for (const std::uint64_t word : {snapshot_word(1, 3), snapshot_word(2, 0), snapshot_word(0, 1),
                                     snapshot_word(1, 255), ~std::uint64_t{0}, std::uint64_t{1}}) {
        current.store(word, std::memory_order_relaxed);
        try {
            static_cast<void>(bench.writer());
            ADD_FAILURE() << "accepted " << word;
        } catch (const holdfast::error& e) {
            EXPECT_EQ(e.reason(), errc::corrupt);
            EXPECT_EQ(e.subject(), "bench");
        }
        std::vector<std::byte> out(64);
        EXPECT_EQ(bench.reader().read(out).status, outcome::corrupt) << word;
        findings found;
        verify_snapshot(bench.body(), bench.geometry(), found);
        EXPECT_FALSE(found.empty()) << word;
    }
}

TEST(SnapshotRecovery, TheLastVersionIsReportedNotWrapped) {
    snapshot_bench bench(2, 64);
    {
        auto writer = bench.writer();
        ASSERT_TRUE(publish_object(writer, 1, 64));
    }
    const std::uint32_t slot = snapshot_slot_of(bench.reader().current());
    auto* const body = bench.body().data();
    reinterpret_cast<snapshot_slot*>(body + snapshot_geometry::header_offset(slot))
        ->version.store(holdfast::layout::snapshot_version_max, std::memory_order_relaxed);
    reinterpret_cast<std::atomic<std::uint64_t>*>(body)->store(
        snapshot_word(holdfast::layout::snapshot_version_max, slot), std::memory_order_relaxed);
    auto writer = bench.writer();
    EXPECT_EQ(publish_object(writer, 2, 64).status, outcome::corrupt);
    EXPECT_TRUE(is_whole(read_all(bench.reader()), 1));
}

TEST(SnapshotGeometry, RoundTripsThroughTheHeadersWords) {
    const auto made = snapshot_geometry::make(5, 12345, 9, "x");
    const auto words = made.words();
    const auto parsed = snapshot_geometry::parse(words, made.body_bytes(), "x");
    EXPECT_EQ(parsed.slots, 5U);
    EXPECT_EQ(parsed.slot_bytes, 12345U);
    EXPECT_EQ(parsed.format, 9U);
    EXPECT_EQ(parsed.payload_offset(0) % 4096, 0U);
    EXPECT_EQ(parsed.payload_offset(1) - parsed.payload_offset(0), 16384U);
}

TEST(SnapshotGeometry, ImpossibleRequestsAreRefusedByName) {
    for (const auto& [slots, bytes] : std::vector<std::pair<std::uint64_t, std::uint64_t>>{
             {0, 10}, {1, 10}, {256, 10}, {3, 0}, {3, (std::uint64_t{1} << 46) + 1}}) {
        try {
            snapshot_geometry::make(slots, bytes, 0, "x");
            ADD_FAILURE() << slots << " slots of " << bytes;
        } catch (const holdfast::error& e) {
            EXPECT_EQ(e.reason(), errc::invalid_argument);
        }
    }
}

TEST(SnapshotGeometry, HostileWordsAreRefused) {
    const auto sound = snapshot_geometry::make(5, 12345, 9, "x");
    for (std::size_t word : {0U, 1U, 3U}) {
        for (const std::uint64_t value : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{256}, ~std::uint64_t{0},
                                          std::uint64_t{1} << 63, std::uint64_t{1} << 46}) {
            auto words = sound.words();
            words[word] = value;
            EXPECT_THROW(snapshot_geometry::parse(words, sound.body_bytes(), "x"), holdfast::error)
                << word << " = " << value;
        }
    }
    const auto words = sound.words();
    EXPECT_THROW(snapshot_geometry::parse(words, sound.body_bytes() + 1, "x"), holdfast::error);
    EXPECT_THROW(snapshot_geometry::parse(words, sound.body_bytes() - 1, "x"), holdfast::error);
    EXPECT_THROW(snapshot_geometry::parse(std::span(words).first(3), sound.body_bytes(), "x"), holdfast::error);
}

// Publishes, pins, unpins, aborts, restarts and deaths in random order against a model: the content of every version,
// and what each reader holds.
TEST(Snapshot, RandomOperationsAgreeWithAModel) {
    holdfast::test::seeded_random random;
    for (std::uint64_t round = 0; round < holdfast::test::scaled(60); ++round) {
        const auto slots = 2 + random.below(6);
        const auto readers = static_cast<std::uint32_t>(random.below(5));
        snapshot_bench bench(slots, 256);
        hazard_bench hazards(readers);
        auto writer = bench.writer();
        std::vector<snapshot_pin_core> pins;
        for (std::uint32_t i = 0; i < readers; ++i) pins.emplace_back(bench.reader(), hazards.cell(i));
        std::map<std::uint64_t, std::size_t> size_of;  // by version; the seed of an object is its version
        std::uint64_t version = 0;
        for (int step = 0; step < 300; ++step) {
            const std::uint64_t dice = random.below(10);
            if (dice < 5) {
                const auto bytes = static_cast<std::size_t>(random.below(random.below(2) == 0 ? 257 : 50));
                const auto result = writer.publish(whole_object(version + 1, bytes), hazards, 0);
                if (result) {
                    ASSERT_EQ(result.version, ++version);
                    size_of[version] = bytes;
                } else {
                    ASSERT_EQ(result.status, outcome::full);
                    ASSERT_LT(slots, readers + 2U) << "readers + 2 slots always suffice";
                }
            } else if (dice < 7 && readers > 0) {
                auto& pin = pins[random.below(readers)];
                const auto held = pin.pin();
                ASSERT_EQ(held.status, version == 0 ? outcome::empty : outcome::ok);
                ASSERT_EQ(held.version(), version);
            } else if (dice == 7 && readers > 0) {
                pins[random.below(readers)].release();
            } else if (dice == 8) {
                if (const auto room = writer.prepare(256, hazards)) std::memset(room.bytes.data(), 0xEE, 256);
                if (random.below(2) == 0) writer = bench.writer();  // died here; a successor recovers
            } else {
                writer.discard();
            }
            for (const auto& pin : pins) {
                if (pin.held().status != outcome::ok) continue;
                const auto& held = pin.held();
                ASSERT_EQ(held.bytes, size_of[held.version()]);
                ASSERT_TRUE(is_whole({bench.reader().payload(held.word), static_cast<std::size_t>(held.bytes)},
                                     held.version()));
            }
            if (version > 0) {
                std::uint64_t seen = 0;
                const auto object = read_all(bench.reader(), &seen);
                ASSERT_EQ(seen, version);
                ASSERT_EQ(object.size(), size_of[version]);
                ASSERT_TRUE(is_whole(object, version));
            }
        }
        findings found;
        verify_snapshot(bench.body(), bench.geometry(), found);
        ASSERT_TRUE(found.empty()) << found.list()[0].what;
    }
}

}  // namespace
