// SPDX-License-Identifier: Apache-2.0
// Real SIGKILLs, real files and locks: writers killed while they publish, pinned readers killed while they hold.
#include <gtest/gtest.h>

#include <signal.h>

#include <chrono>
#include <cstdio>
#include <span>
#include <string>
#include <vector>

#include "holdfast/layout/snapshot_verify.hpp"
#include "holdfast/snapshot.hpp"
#include "support/kill_rig.hpp"
#include "support/process.hpp"
#include "support/scale.hpp"
#include "support/segment_tools.hpp"
#include "support/snapshot_bench.hpp"

namespace {

using holdfast::attach_options;
using holdfast::outcome;
using holdfast::snapshot_options;
using holdfast::snapshot_pinned_reader;
using holdfast::snapshot_reader;
using holdfast::snapshot_writer;
using holdfast::test::child_process;
using holdfast::test::is_whole;
using holdfast::test::kill_progress;
using holdfast::test::unique_posix_name;
using holdfast::test::whole_object;

constexpr std::size_t object_bytes = 20'000;

class SnapshotKill : public holdfast::test::segment_test {
 protected:
    snapshot_writer make(std::uint32_t pinned, std::uint32_t slots = 0) {
        snapshot_options options;
        options.slot_bytes = object_bytes;
        options.pinned_readers = pinned;
        options.slots = slots;
        return snapshot_writer::create(name_.uri(), options);
    }
    // A dead writer's lease is free once the kernel has torn it down: wait for that, on the lock itself.
    [[nodiscard]] snapshot_writer take_over() const {
        attach_options options;
        options.lease_timeout = std::chrono::seconds(10);
        return snapshot_writer::attach(name_.uri(), options);
    }

    unique_posix_name name_{"snapshot"};
};

TEST_F(SnapshotKill, WritersKilledAtRandomInstantsLoseNothingPublished) {
    {
        (void)make(0, 3);
    }
    holdfast::test::seeded_random random;
    std::uint64_t version = 0;  // known to be published
    const auto worker = [&](kill_progress& progress, std::uint64_t) {
        snapshot_writer writer = take_over();
        const auto even = whole_object(0, object_bytes), odd = whole_object(1, object_bytes);
        progress.ready();
        for (;;) {
            progress.begin();
            if (!writer.publish((writer.version() + 1) % 2 == 0 ? even : odd)) ::_exit(1);
            progress.end();
        }
    };
    const auto verify = [&](const kill_progress& progress, std::uint64_t) -> std::string {
        snapshot_reader reader = snapshot_reader::attach(name_.uri());
        std::vector<std::byte> out;
        const auto got = reader.read(out);
        const std::uint64_t least = version + progress.completed();
        if (least == 0 && got.status == outcome::empty) return {};
        if (got.status != outcome::ok) return "a reader gets no object";
        if (got.version != least && !(progress.in_flight() && got.version == least + 1))
            return "version " + std::to_string(got.version) + " after " + std::to_string(least) + " publishes";
        if (out.size() != object_bytes || !is_whole(out, got.version % 2)) return "a mixed object";
        if (const auto found = reader.verify(); !found.empty()) return "verify: " + found.list()[0].what;
        version = got.version;
        snapshot_writer next = take_over();
        if (next.publish(whole_object((version + 1) % 2, object_bytes)).version != version + 1)
            return "the successor cannot publish";
        ++version;
        return {};
    };
    const auto report = holdfast::test::run_kill_rounds(
        {.rounds = holdfast::test::scaled(10'000), .delay_ns_max = 60'000, .seed = random.seed()}, worker, verify);
    EXPECT_TRUE(report.passed()) << report.text();
    RecordProperty("kills", report.text());
}

// Over plain bytes, so that a round is short: recovery and publishing are killed where they stand, and again in the
// next round. After each kill every slot can be used again at once: none is lost.
TEST(SnapshotCoreKill, TenThousandKillsLoseNoVersionAndNoSlot) {
    constexpr std::uint64_t slots = 4, bytes_max = 600;
    const std::uint64_t seed = holdfast::test::choose_seed();
    SCOPED_TRACE("repeat with HOLDFAST_TEST_SEED=" + std::to_string(seed));
    holdfast::test::snapshot_bench bench(slots, bytes_max);
    holdfast::test::shared_image copy(bench.image().size());
    // Made beforehand: what is killed is publishing, not the making of objects.
    std::vector<std::vector<std::byte>> objects;
    // Half of them small enough to lie beside `current`, too.
    for (std::uint64_t n = 0; n < 8; ++n)
        objects.push_back(whole_object(n, n % 2 == 0 ? bytes_max - 70 * n : 40 - 5 * n));
    const auto object_of = [&](std::uint64_t of) -> const std::vector<std::byte>& { return objects[of % 8]; };
    holdfast::layout::no_hazards nobody;
    const auto publish = [&](holdfast::layout::snapshot_write_core& writer) {
        const std::uint64_t next = writer.version() + 1;
        return writer.publish(object_of(next), nobody, next).version == next;
    };
    std::uint64_t version = 0;
    const auto worker = [&](kill_progress& progress, std::uint64_t round) {
        if (round % 4 == 0) progress.ready();  // from here on: recovery is killed, too
        auto writer = bench.writer();
        for (std::uint64_t i = 0;; ++i) {
            // A fresh process meets a fault at each page first.
            if (round % 4 != 0 && i == 2 * slots) progress.ready();
            progress.begin();
            if (!publish(writer)) ::_exit(1);
            progress.end();
        }
    };
    const auto verify = [&](const kill_progress& progress, std::uint64_t round) -> std::string {
        const std::uint64_t least = version + progress.completed();
        std::vector<std::byte> out(bytes_max);
        const auto got = bench.reader().read(out);
        if (got.version != least && !(progress.in_flight() && got.version == least + 1))
            return "version " + std::to_string(got.version) + " after " + std::to_string(least) + " publishes";
        version = got.version;
        out.resize(got.bytes);
        if (version != 0 && (got.status != outcome::ok || out != object_of(version))) return "a mixed object";
        holdfast::layout::findings found;
        holdfast::layout::verify_snapshot(bench.body(), bench.geometry(), found);
        if (!found.empty()) return "verify: " + found.list()[0].what;
        if (round % 4 != 0) return {};
        copy.assign(bench.image().bytes());
        holdfast::layout::snapshot_write_core next(copy.bytes(), bench.geometry(), "copy");
        for (std::uint64_t i = 0; i < 2 * slots; ++i)
            if (!publish(next)) return "a slot is lost";
        return {};
    };
    const auto report = holdfast::test::run_kill_rounds(
        {.rounds = holdfast::test::scaled(10'000), .delay_ns_max = 20'000, .seed = seed}, worker, verify);
    EXPECT_TRUE(report.passed()) << report.text();
    RecordProperty("kills", std::to_string(report.kills));
    std::printf("%s; version %llu\n", report.text().c_str(), static_cast<unsigned long long>(version));
}

TEST_F(SnapshotKill, AKilledPinnedReadersSlotIsTakenBackWhenNeeded) {
    snapshot_writer writer = make(1, 2);
    for (std::uint64_t round = 0; round < holdfast::test::scaled(50); ++round) {
        const std::uint64_t first = writer.version() + 1;
        ASSERT_EQ(writer.publish(whole_object(first, object_bytes)).version, first);
        child_process reader([&](holdfast::test::channel& talk) -> std::string {
            snapshot_pinned_reader pinned = snapshot_pinned_reader::attach(name_.uri());
            const auto held = pinned.pin();
            if (!held || held.version() != first) return "pinned another version";
            talk.signal();
            talk.wait();  // holds until it is killed
            return "outlived its kill";
        });
        ASSERT_TRUE(reader.talk().wait());
        ASSERT_TRUE(writer.publish(whole_object(first + 1, object_bytes)));
        // Both slots are taken: the current one, and the one held by a living process.
        ASSERT_EQ(writer.publish(whole_object(first + 2, object_bytes)).status, outcome::full);
        reader.send_signal(SIGSTOP);  // stopped is not dead
        ASSERT_EQ(writer.publish(whole_object(first + 2, object_bytes)).status, outcome::full);
        EXPECT_TRUE(reader.kill().signalled);
        ASSERT_EQ(writer.publish(whole_object(first + 2, object_bytes)).version, first + 2) << "round " << round;
    }
}

TEST_F(SnapshotKill, AKilledWriterLeavesPinnedReadersTheirVersion) {
    {
        ASSERT_TRUE(make(1, 3).publish(whole_object(1, object_bytes)));
    }
    snapshot_pinned_reader pinned = snapshot_pinned_reader::attach(name_.uri());
    const auto held = pinned.pin();
    ASSERT_EQ(held.version(), 1U);
    const std::uint64_t rounds = holdfast::test::scaled(30);
    for (std::uint64_t round = 0; round < rounds; ++round) {
        child_process writer([&](holdfast::test::channel& talk) -> std::string {
            snapshot_writer mine = take_over();
            for (std::uint64_t i = 0;; ++i) {
                if (i == 2) talk.signal();
                if (!mine.publish(whole_object(7, object_bytes - i % 100)))
                    return "no slot, although one reader is all";
            }
        });
        ASSERT_TRUE(writer.talk().wait());  // two versions of its own are out, and it goes on
        const auto& end = writer.kill();
        ASSERT_TRUE(end.signalled) << end.text();
        ASSERT_TRUE(is_whole(held.bytes(), 1)) << "round " << round;
    }
    snapshot_writer next = take_over();
    const std::uint64_t version = next.version();
    EXPECT_GT(version, 2 * rounds) << "the killed ones hardly published";
    EXPECT_EQ(next.publish(whole_object(9, 100)).version, version + 1);
    EXPECT_TRUE(is_whole(held.bytes(), 1));
}

}  // namespace
