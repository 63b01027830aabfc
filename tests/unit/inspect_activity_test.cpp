// SPDX-License-Identifier: Apache-2.0
// What `top` stands on: lags of readers that say how far they are, also for who may only read what they say; rates; and
// nothing made up where a writer at full speed leaves no moment to look.
#include "inspect/activity.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "holdfast/broadcast.hpp"
#include "holdfast/queue.hpp"
#include "holdfast/snapshot.hpp"
#include "support/process.hpp"
#include "support/scale.hpp"
#include "support/segment_tools.hpp"

namespace {

using namespace holdfast;
using namespace holdfast::test;
using inspect::activity;
using inspect::activity_watch;

const std::vector<std::byte> message(1000, std::byte{7});

class InspectActivity : public segment_test {
 protected:
    [[nodiscard]] std::string uri() const { return folder_.file_uri("s"); }
    [[nodiscard]] activity look() { return watch_.look_at_all({uri()}).at(0); }
    void set_mode(const char* which, mode_t mode) const { ASSERT_EQ(::chmod(folder_.file(which).c_str(), mode), 0); }

    unique_directory folder_{"activity"};
    activity_watch watch_;
};

TEST_F(InspectActivity, APinnedReaderLagsByTheVersionsThatItHasNotSeen) {
    auto objects = snapshot_writer::create(uri(), {.slot_bytes = 100, .pinned_readers = 3, .slots = 8});
    ASSERT_TRUE(objects.publish(std::span(message).first(10)));
    auto reader = objects.make_pinned_reader();
    EXPECT_EQ(look().readers.at(0).lag, 0U) << "it holds nothing";
    const auto held = reader.pin();
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(objects.publish(std::span(message).first(20)));
    const activity seen = look();
    ASSERT_EQ(seen.readers.size(), 1U);
    EXPECT_TRUE(seen.readers_known);
    EXPECT_TRUE(seen.readers[0].alive);
    EXPECT_EQ(seen.readers[0].lag, 3U);
    EXPECT_EQ(seen.operations, 4U);
    ASSERT_TRUE(seen.per_second);
    EXPECT_GT(*seen.per_second, 0);
}

// None of it takes the right to write.
TEST_F(InspectActivity, ReadersAreSeenByWhoMayReadWhatTheySayAndUnknownToOthers) {
    if (::geteuid() != 0) GTEST_SKIP() << "needs: the right to become another user";
    ASSERT_EQ(::chmod(folder_.path().c_str(), 0755), 0);
    const auto seen_by_another = [&] {
        return in_child([&] {
            if (::setgid(65534) != 0 || ::setuid(65534) != 0) return std::string("cannot become another user");
            const activity seen = look();
            if (seen.what.problem) return "a problem: " + seen.what.problem->text;
            return (seen.readers_known ? "known, " : "unknown, ") + std::to_string(seen.readers.size()) + ", " +
                   std::to_string(seen.lag_max());
        });
    };
    const auto expect = [&](const std::string& readable) {
        set_mode("s", 0644);
        EXPECT_EQ(seen_by_another().failure, "unknown, 0, 0");
        set_mode("s.peers", 0644);
        EXPECT_EQ(seen_by_another().failure, readable);
    };
    {
        auto objects = snapshot_writer::create(uri(), {.slot_bytes = 100, .pinned_readers = 3, .slots = 8});
        ASSERT_TRUE(objects.publish(std::span(message).first(10)));
        auto reader = objects.make_pinned_reader();
        const auto held = reader.pin();
        ASSERT_TRUE(objects.publish(std::span(message).first(10)));
        expect("known, 1, 1");
    }
    segment::remove(uri());
    {
        auto ring = broadcast_writer::create(uri(), {.capacity_bytes = 65536, .registered_readers = 2});
        auto reader = ring.make_reliable_reader();
        for (int i = 0; i < 5; ++i) ASSERT_TRUE(ring.publish(message));
        expect("known, 1, 5");
    }
    segment::remove(uri());
    {
        auto producer = queue_producer::create(uri(), {.capacity_bytes = 65536});
        auto consumer = producer.make_consumer();
        for (int i = 0; i < 3; ++i) ASSERT_TRUE(producer.try_push(message));
        expect("known, 1, 3");
    }
}

// The oldest messages of a small ring under a flood are gone before anybody can stand at them.
TEST_F(InspectActivity, ARingUnderAFloodIsToldAsItIsOrNotAtAll) {
    constexpr std::uint64_t capacity = 4096;
    auto ring = broadcast_writer::create(uri(), {.capacity_bytes = capacity});
    std::atomic<bool> stop{false};
    std::thread flood([&] {
        while (!stop.load(std::memory_order_relaxed)) (void)ring.publish(message);
    });
    std::uint64_t before = 0, told = 0;
    for (std::uint64_t i = 0; i < scaled(3000) || told == 0; ++i) {
        const activity seen = look();
        ASSERT_FALSE(seen.what.problem) << seen.what.problem->text;
        ASSERT_LE(seen.what.contents.size.value_or(0), capacity / message.size());
        if (!seen.operations) continue;
        EXPECT_GE(*seen.operations, before);
        before = *seen.operations;
        ++told;
    }
    stop.store(true, std::memory_order_relaxed);
    flood.join();
}

}  // namespace
