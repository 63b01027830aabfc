// SPDX-License-Identifier: Apache-2.0
// Expiry by a false clock that jumps, reboots and changes namespaces; eviction that never refuses what fits the empty
// map, and lets go what was not used.
#include <gtest/gtest.h>
#include <time.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "support/map_bench.hpp"
#include "support/scale.hpp"
#include "support/seed.hpp"

namespace {

using namespace holdfast;
using namespace holdfast::test;

class HashMapExpiry : public ::testing::Test {
 protected:
    void SetUp() override {
        fake_boot_seconds = 5000;
        fake_zone = 7;
    }
    void TearDown() override {
        fake_boot_seconds = 0;
        fake_zone = 1;
    }
};

TEST_F(HashMapExpiry, AnEntryIsThereUntilItsTimeIsOver) {
    map_bench bench({});
    map_writer writer = bench.writer();
    ASSERT_TRUE(put(writer, "short", {1, 10}, {.ttl = std::chrono::seconds(10)}));
    ASSERT_TRUE(put(writer, "longer", {2, 10}, {.ttl = std::chrono::seconds(1000)}));
    ASSERT_TRUE(put(writer, "ever", {3, 10}));
    ASSERT_TRUE(put(writer, "endless", {4, 10}, {.ttl = std::chrono::seconds::max()}));
    std::vector<std::byte> out(10);
    EXPECT_EQ(bench.reader().find(as_key("short"), std::span(out)).ttl.count(), 10);
    fake_boot_seconds += 9;
    EXPECT_EQ(bench.reader().find(as_key("short"), std::span(out)).ttl.count(), 1);
    EXPECT_EQ(bench.reader().find(as_key("longer"), std::span(out)).ttl.count(), 991);
    EXPECT_EQ(bench.reader().find(as_key("ever"), std::span(out)).ttl.count(), 0);
    fake_boot_seconds += 1;
    EXPECT_EQ(difference(bench.reader(), {{"longer", {2, 10}}, {"ever", {3, 10}}, {"endless", {4, 10}}}), "");
    fake_boot_seconds += std::uint64_t{10} * 365 * 86400;
    EXPECT_EQ(difference(bench.reader(), {{"ever", {3, 10}}, {"endless", {4, 10}}}), "");
    EXPECT_EQ(bench.reader().usage().entries, 4U) << "nobody wrote since";
    EXPECT_EQ(damage_of(bench.view().as_const()), "");
}

TEST_F(HashMapExpiry, TouchGivesAnotherTimeAndASetForgetsIt) {
    map_bench bench({});
    map_writer writer = bench.writer();
    std::vector<std::byte> out(10);
    ASSERT_TRUE(put(writer, "k", {1, 10}, {.ttl = std::chrono::seconds(10), .flags = 3}));
    fake_boot_seconds += 9;
    ASSERT_TRUE(writer.touch(as_key("k"), std::chrono::seconds(50)));
    fake_boot_seconds += 20;
    const hash_map_found got = bench.reader().find(as_key("k"), std::span(out));
    EXPECT_EQ(got.ttl.count(), 30);
    EXPECT_EQ(got.flags, 3U);
    EXPECT_TRUE(holds(bench.reader(), "k", {1, 10}));
    ASSERT_TRUE(writer.touch(as_key("k"), std::chrono::seconds(0)));
    fake_boot_seconds += 1000;
    EXPECT_TRUE(holds(bench.reader(), "k", {1, 10}));
    ASSERT_TRUE(writer.touch(as_key("k"), std::chrono::seconds(5)));
    ASSERT_TRUE(put(writer, "k", {2, 10}));
    fake_boot_seconds += 1000;
    EXPECT_TRUE(holds(bench.reader(), "k", {2, 10}));
    ASSERT_TRUE(writer.touch(as_key("k"), std::chrono::seconds(5)));
    fake_boot_seconds += 5;
    EXPECT_EQ(writer.touch(as_key("k"), std::chrono::seconds(5)).status, outcome::not_found);
    EXPECT_EQ(leaks(bench.view()), "");
}

// A time that is over before it begins is not "for ever", whatever number stands for it.
TEST_F(HashMapExpiry, ATimeBelowZeroIsOverAtOnce) {
    map_bench bench({});
    map_writer writer = bench.writer();
    ASSERT_TRUE(put(writer, "k", {1, 10}, {.ttl = std::chrono::seconds(-1)}));
    EXPECT_FALSE(is_there(bench.reader(), "k"));
    ASSERT_TRUE(put(writer, "k", {2, 10}));
    ASSERT_TRUE(writer.touch(as_key("k"), std::chrono::seconds::min()));
    EXPECT_FALSE(is_there(bench.reader(), "k"));
    EXPECT_EQ(leaks(bench.view()), "");
}

// Conditions see what readers see: an entry whose time is over is not there.
TEST_F(HashMapExpiry, AnExpiredEntryIsAbsentForConditions) {
    using when = holdfast::detail::map_condition;
    map_bench bench({});
    map_writer writer = bench.writer();
    const hash_map_result old = put(writer, "k", {1, 10}, {.ttl = std::chrono::seconds(10)});
    fake_boot_seconds += 10;
    EXPECT_EQ(writer.set(as_key("k"), whole_object(2, 3), {}, {when::present}).status, outcome::not_found);
    EXPECT_EQ(writer.set(as_key("k"), whole_object(2, 3), {}, {when::same, old.handle}).status, outcome::stale);
    EXPECT_EQ(writer.fetch_add<std::uint8_t>(as_key("k"), 0, 1).status, outcome::not_found);
    EXPECT_EQ(writer.erase(as_key("k")).status, outcome::not_found);
    const hash_map_result kept = writer.set(as_key("k"), whole_object(2, 3), {}, {when::absent});
    ASSERT_TRUE(kept);
    EXPECT_EQ(kept.what, entry_change::inserted);
    EXPECT_EQ(bench.reader().usage().expired, 1U);
    EXPECT_EQ(bench.reader().usage().entries, 1U);
}

// Nothing waits for being asked for: as many other mutations as there are entries clear all that has expired.
TEST_F(HashMapExpiry, ASweepTakesOutWhatNobodyAsksFor) {
    map_bench bench({.units = 300, .capacity = 200});
    map_writer writer = bench.writer();
    for (std::uint64_t i = 0; i < 100; ++i)
        ASSERT_TRUE(put(writer, map_key(i), {i, 1}, {.ttl = std::chrono::seconds(i % 2 == 0 ? 5U : 0U)}));
    fake_boot_seconds += 5;
    for (unsigned i = 0; i < 60; ++i) ASSERT_TRUE(put(writer, "busy", {i, 1}));
    EXPECT_EQ(bench.reader().usage().entries, 51U);
    EXPECT_EQ(bench.reader().usage().expired, 50U);
    EXPECT_EQ(damage_of(bench.view().as_const()), "");
}

// A map that may not evict takes out what has expired before it refuses.
TEST_F(HashMapExpiry, AFullMapMakesRoomFromWhatHasExpired) {
    map_bench bench({.units = 40, .capacity = 70});
    map_writer writer = bench.writer();
    std::uint64_t kept = 0;
    while (put(writer, std::to_string(kept), {kept, 0}, {.ttl = std::chrono::seconds(kept % 2 == 0 ? 5U : 0U)})) ++kept;
    EXPECT_EQ(kept, 40U);
    fake_boot_seconds += 5;
    EXPECT_TRUE(put(writer, "large", {1, 500}));
    for (std::uint64_t i = 1; i < kept; i += 2) EXPECT_TRUE(holds(bench.reader(), std::to_string(i), {i, 0}));
    EXPECT_EQ(put(writer, "too much", {1, 1500}).status, outcome::full);
    for (std::uint64_t i = 1; i < kept; i += 2) EXPECT_TRUE(holds(bench.reader(), std::to_string(i), {i, 0}));
    EXPECT_EQ(leaks(bench.view()), "");
}

// The same for the table: what has expired gives its slot.
TEST_F(HashMapExpiry, AFullTableMakesRoomFromWhatHasExpired) {
    map_bench bench({.units = 4000, .capacity = 60});
    map_writer writer = bench.writer();
    std::uint64_t kept = 0;
    const auto key = [](std::uint64_t i) { return "key number " + std::to_string(i); };
    while (put(writer, key(kept), {kept, 20}, {.ttl = std::chrono::seconds(kept >= 30 ? 5U : 0U)})) ++kept;
    ASSERT_GE(kept, 60U);
    EXPECT_EQ(put(writer, "another one", {1, 1}).status, outcome::full);
    fake_boot_seconds += 5;
    for (std::uint64_t i = 0; i < 20; ++i) EXPECT_TRUE(put(writer, "new" + key(i), {i, 1})) << i;
    for (std::uint64_t i = 0; i < 30; ++i) EXPECT_TRUE(holds(bench.reader(), key(i), {i, 20}));
    EXPECT_EQ(leaks(bench.view()), "");
}

// ---- the clock

TEST_F(HashMapExpiry, TimeGoesOnOverARebootFromWhereItStood) {
    map_bench bench({});
    {
        map_writer writer = bench.writer();
        ASSERT_TRUE(put(writer, "k", {1, 10}, {.ttl = std::chrono::seconds(100)}));
        fake_boot_seconds += 60;
        ASSERT_TRUE(put(writer, "other", {2, 1}));  // notes the time
    }
    fake_boot_seconds = 3;  // the machine was started anew
    EXPECT_TRUE(is_there(bench.reader(), "k")) << "nothing expires at once";
    map_writer writer = bench.writer();
    fake_boot_seconds = 3 + 39;
    EXPECT_TRUE(is_there(bench.reader(), "k"));
    fake_boot_seconds = 3 + 40;
    EXPECT_FALSE(is_there(bench.reader(), "k")) << "nothing lives for ever";
}

TEST_F(HashMapExpiry, TimeThatPassedWithoutAWriterCounts) {
    map_bench bench({});
    {
        map_writer writer = bench.writer();
        ASSERT_TRUE(put(writer, "k", {1, 10}, {.ttl = std::chrono::seconds(100)}));
    }
    fake_boot_seconds += 101;
    EXPECT_FALSE(is_there(bench.reader(), "k"));
    const map_writer writer = bench.writer();
    EXPECT_FALSE(is_there(writer.reader(), "k"));
}

TEST_F(HashMapExpiry, TheClockNeverGoesBack) {
    map_bench bench({});
    map_writer writer = bench.writer();
    ASSERT_TRUE(put(writer, "k", {1, 10}, {.ttl = std::chrono::seconds(100)}));
    fake_boot_seconds += 100;
    ASSERT_TRUE(put(writer, "other", {2, 1}));
    fake_boot_seconds -= 90;
    EXPECT_FALSE(is_there(bench.reader(), "k"));
    ASSERT_TRUE(put(writer, "new", {3, 1}, {.ttl = std::chrono::seconds(5)}));
    EXPECT_TRUE(is_there(bench.reader(), "new"));
}

TEST_F(HashMapExpiry, AnotherTimeNamespaceNeitherHurriesNorLosesTime) {
    map_bench bench({});
    {
        map_writer writer = bench.writer();
        ASSERT_TRUE(put(writer, "k", {1, 10}, {.ttl = std::chrono::seconds(100)}));
        fake_boot_seconds += 10;
        ASSERT_TRUE(put(writer, "other", {2, 1}));
    }
    const std::uint64_t here = fake_boot_seconds;
    fake_zone = 8;
    fake_boot_seconds = 1'000'000'000;  // shifted there
    EXPECT_TRUE(is_there(bench.reader(), "k")) << "a reader there takes the time that was noted";
    {
        map_writer writer = bench.writer();
        EXPECT_TRUE(is_there(bench.reader(), "k"));
        fake_boot_seconds += 50;
        ASSERT_TRUE(put(writer, "other", {3, 1}));
        EXPECT_TRUE(is_there(bench.reader(), "k"));
        fake_zone = 7;
        fake_boot_seconds = here + 50;
        EXPECT_TRUE(is_there(bench.reader(), "k")) << "a reader here does so now";
        fake_zone = 8;
        fake_boot_seconds = 1'000'000'090;
        EXPECT_FALSE(is_there(bench.reader(), "k"));
    }
    fake_zone = 7;
    fake_boot_seconds = 20;  // a smaller number than all of before
    map_writer writer = bench.writer();
    ASSERT_TRUE(put(writer, "new", {3, 1}, {.ttl = std::chrono::seconds(5)}));
    fake_boot_seconds = 24;
    EXPECT_TRUE(is_there(bench.reader(), "new"));
    fake_boot_seconds = 25;
    EXPECT_FALSE(is_there(bench.reader(), "new"));
}

// A process without /proc: its zone is the other's, whoever writes.
TEST_F(HashMapExpiry, AZoneThatCannotBeToldIsTakenForTheSame) {
    for (const std::uint64_t writers : {std::uint64_t{7}, std::uint64_t{0}}) {
        map_bench bench({});
        fake_zone = writers;
        map_writer writer = bench.writer();
        ASSERT_TRUE(put(writer, "k", {1, 10}, {.ttl = std::chrono::seconds(10)}));
        fake_zone = 7 - writers;
        EXPECT_TRUE(is_there(bench.reader(), "k"));
        fake_boot_seconds += 9;
        EXPECT_TRUE(is_there(bench.reader(), "k"));
        fake_boot_seconds += 1;
        EXPECT_FALSE(is_there(bench.reader(), "k"));
        writer = bench.writer();
        EXPECT_FALSE(is_there(bench.reader(), "k"));
        ASSERT_TRUE(put(writer, "k", {1, 10}, {.ttl = std::chrono::seconds(10)}));
        fake_zone = 8;
        fake_boot_seconds += 1'000'000;
        EXPECT_TRUE(is_there(bench.reader(), "k")) << "one that is told, and another, has the noted time alone";
        fake_zone = 7;
        EXPECT_FALSE(is_there(bench.reader(), "k"));
    }
}

TEST_F(HashMapExpiry, TheSystemsClockIsTheOneOfBoot) {
    struct timespec boot{};
    ::clock_gettime(CLOCK_BOOTTIME, &boot);
    const std::uint64_t now = holdfast::detail::boot_seconds_of({});
    EXPECT_GE(now, static_cast<std::uint64_t>(boot.tv_sec));
    EXPECT_LE(now, static_cast<std::uint64_t>(boot.tv_sec) + 5);
    EXPECT_EQ(holdfast::detail::zone_of({}), holdfast::detail::zone_of({}));
}

// An end is a whole second: what is stored just before one is there all the same for as long as it was given.
TEST_F(HashMapExpiry, ByTheSystemsClockAnEntryLivesAsLongAsItWasGivenAndUpToASecondMore) {
    const auto boot_ns = [] {
        struct timespec boot{};
        ::clock_gettime(CLOCK_BOOTTIME, &boot);
        return static_cast<std::uint64_t>(boot.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(boot.tv_nsec);
    };
    map_bench bench({});
    const hash_map_clock clock;
    map_writer writer(bench.view(), clock, nullptr);
    const map_reader reader(bench.view().as_const(), holdfast::detail::map_time(clock));
    for (const std::uint64_t seconds : {1U, 1000U}) {
        const std::chrono::seconds ttl(seconds);
        for (const bool touched : {false, true}) {
            ASSERT_TRUE(put(writer, "k", {1, 10}));
            const std::uint64_t before = boot_ns();
            ASSERT_TRUE(touched ? writer.touch(as_key("k"), ttl) : put(writer, "k", {1, 10}, {.ttl = ttl}));
            const std::uint64_t after = boot_ns();
            std::vector<std::byte> out(10);
            const hash_map_found got = reader.find(as_key("k"), std::span(out));
            ASSERT_TRUE(got || boot_ns() - before >= seconds * 1'000'000'000);
            if (!got) continue;
            EXPECT_GE(got.ttl.count(), 1);
            EXPECT_LE(got.ttl, ttl);
            holdfast::detail::map_entry_head head;
            std::uint64_t bytes = 0;
            ASSERT_EQ(reader.head_of(got.handle, head, bytes), outcome::ok);
            EXPECT_GE(head.expires * 1'000'000'000, before + seconds * 1'000'000'000);
            EXPECT_LE(head.expires * 1'000'000'000, after + (seconds + 1) * 1'000'000'000);
        }
    }
    // Seen from behind: when it is no longer there, its time is over.
    const std::uint64_t before = boot_ns();
    ASSERT_TRUE(put(writer, "k", {1, 10}, {.ttl = std::chrono::seconds(1)}));
    while (is_there(reader, "k")) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_GE(boot_ns() - before, 1'000'000'000U);
}

// ---- eviction

TEST_F(HashMapExpiry, RandomItemsUpToTheWholeStoreAreNeverRefused) {
    seeded_random random;
    for (std::uint64_t round = 0; round < scaled(12); ++round) {
        map_bench bench({.units = 60 + random.below(200), .capacity = 1 + random.below(90), .evicting = true});
        map_writer writer = bench.writer();
        const std::uint64_t most = bench.geometry().store.value_bytes_max();
        for (std::uint64_t i = 0; i < 400; ++i) {
            const std::string key = map_key(random.below(100));
            const std::uint64_t room = most - layout::map_value_offset(key.size());
            const std::uint64_t most_now = random.below(20) == 0 ? room + 1 : 1 + room / (1 + random.below(40));
            const map_content what{
                random(),
                static_cast<std::size_t>(random.below(8) == 0 && most_now > 100 ? room : random.below(most_now))};
            const hash_map_result kept = put(writer, key, what, {.ttl = std::chrono::seconds(random.below(50))});
            ASSERT_TRUE(kept) << outcome_name(kept.status) << " at " << i << ", " << what.bytes << " bytes";
            ASSERT_TRUE(holds(bench.reader(), key, what));
            if (random.below(10) == 0) fake_boot_seconds += random.below(5);
            if (random.below(50) == 0) writer = bench.writer();
        }
        EXPECT_EQ(damage_of(bench.view().as_const()), "");
        EXPECT_EQ(miscounted(bench.view().store.as_const()), "");
        EXPECT_LE(bench.reader().usage().entries, bench.geometry().table.capacity);
        EXPECT_EQ(leaks(bench.view()), "");
    }
}

TEST_F(HashMapExpiry, WhatIsTooLargeForTheEmptyMapIsRefusedAndEvictsNothing) {
    map_bench bench({.units = 40, .capacity = 70, .evicting = true});
    map_writer writer = bench.writer();
    ASSERT_TRUE(put(writer, "k", {1, 10}));
    EXPECT_EQ(put(writer, "new", {1, 40 * 64}).status, outcome::too_large);
    EXPECT_TRUE(holds(bench.reader(), "k", {1, 10}));
    EXPECT_EQ(bench.reader().usage().evicted, 0U);
    map_bench crowded({.units = 400, .capacity = 20, .evicting = true});
    map_writer other = crowded.writer();
    for (std::uint64_t i = 0; i < 20; ++i) ASSERT_TRUE(put(other, map_key(i), {i, 0}));
    const auto most = static_cast<std::size_t>(crowded.geometry().store.value_bytes_max());
    EXPECT_EQ(other.set(as_key("new"), std::vector<std::byte>(most - 16)).status, outcome::too_large);
    EXPECT_EQ(other.set(as_key("new"), std::vector<std::byte>(most)).status, outcome::too_large);
    EXPECT_EQ(crowded.reader().usage().evicted, 0U) << "no slot is made free for it";
    EXPECT_TRUE(other.set(as_key("new"), std::vector<std::byte>(most - 24)));
}

// A value that cannot lie beside the one it follows: who states a condition is refused at once, a plain set takes out
// the old one and what else it needs, not the whole cache.
TEST_F(HashMapExpiry, WhatDoesNotFitBesideItsPredecessorLeavesTheOthersAlone) {
    using when = holdfast::detail::map_condition;
    map_bench bench({.units = 100, .capacity = 200, .evicting = true});
    map_writer writer = bench.writer();
    ASSERT_TRUE(put(writer, "large", {1, 54 * 64}));
    std::uint64_t others = 0;
    while (bench.reader().usage().units_free() != 0) ASSERT_TRUE(put(writer, std::to_string(others++), {1, 0}));
    const std::vector<std::byte> sixty = whole_object(2, 60 * 64);
    const std::uint64_t old = bench.reader().handle_under(holdfast::detail::digest_of(as_key("large"), 42));
    EXPECT_EQ(writer.set(as_key("large"), sixty, {}, {when::present}).status, outcome::full);
    EXPECT_EQ(writer.set(as_key("large"), sixty, {}, {when::same, old}).status, outcome::full);
    EXPECT_EQ(writer.touch(as_key("large"), std::chrono::seconds(10)).status, outcome::full);
    EXPECT_EQ(writer.fetch_add<std::uint8_t>(as_key("large"), 0, 1).status, outcome::full);
    EXPECT_EQ(bench.reader().usage().evicted, 0U);
    ASSERT_TRUE(writer.set(as_key("large"), sixty));
    EXPECT_TRUE(holds(bench.reader(), "large", {2, 60 * 64}));
    EXPECT_LE(bench.reader().usage().evicted, 8U);
    EXPECT_GE(bench.reader().usage().entries, others - 7);
    EXPECT_EQ(leaks(bench.view()), "");
}

// Whatever the runs of the old value: a refusal evicts nothing, and what is not refused is there.
TEST_F(HashMapExpiry, RefusedUpdatesEvictNothing) {
    using when = holdfast::detail::map_condition;
    seeded_random random;
    std::uint64_t refused = 0, kept = 0;
    for (std::uint64_t round = 0; round < 100 + scaled(500); ++round) {
        map_bench bench({.units = 60, .capacity = 200, .evicting = true});
        map_writer writer = bench.writer();
        for (std::uint64_t i = 0; i < 60; ++i) ASSERT_TRUE(put(writer, std::to_string(i), {i, 0}));
        for (std::uint64_t i = 0; i < 60; ++i)
            if (random.below(3) != 0) (void)writer.erase(as_key(std::to_string(i)));
        const map_content first{1, static_cast<std::size_t>(random.below(40 * 56))};
        if (!put(writer, "k", first)) continue;
        for (std::uint64_t i = 100; bench.reader().usage().units_free() != 0; ++i)
            ASSERT_TRUE(put(writer, std::to_string(i), {i, 0}));
        const std::uint64_t evicted = bench.reader().usage().evicted;
        const map_content next{2, static_cast<std::size_t>(random.below(60 * 60))};
        const outcome got = writer.set(as_key("k"), whole_object(2, next.bytes), {}, {when::present}).status;
        if (got == outcome::ok) {
            ++kept;
            EXPECT_TRUE(holds(bench.reader(), "k", next));
        } else {
            ++refused;
            ASSERT_EQ(got, outcome::full);
            EXPECT_EQ(bench.reader().usage().evicted, evicted);
            EXPECT_TRUE(holds(bench.reader(), "k", first));
        }
        EXPECT_EQ(damage_of(bench.view().as_const()), "");
    }
    EXPECT_GT(refused, 5U);
    EXPECT_GT(kept, 5U);
}

// A count at a place that the value does not have.
TEST_F(HashMapExpiry, ACountOutsideItsValueEvictsNothing) {
    map_bench bench({.units = 40, .capacity = 70, .evicting = true});
    map_writer writer = bench.writer();
    map_model model;
    for (std::uint64_t i = 0; i < 40; ++i) {
        ASSERT_TRUE(put(writer, std::to_string(i), {i, 9}));
        model[std::to_string(i)] = {i, 9};
    }
    ASSERT_EQ(bench.reader().usage().units_free(), 0U);
    const std::uint64_t handle = bench.reader().handle_under(bench.view().digest(as_key("7")));
    for (const std::uint64_t offset : {std::uint64_t{2}, std::uint64_t{9}, ~std::uint64_t{0}}) {
        const auto got = writer.fetch_add<std::uint64_t>(as_key("7"), offset, 1);
        EXPECT_EQ(got.status, outcome::out_of_range) << offset;
        EXPECT_EQ(got.handle, handle) << offset;
    }
    EXPECT_EQ(bench.reader().usage().evicted, 0U);
    EXPECT_EQ(difference(bench.reader(), model), "");
    EXPECT_TRUE(writer.fetch_add<std::uint64_t>(as_key("7"), 1, 1)) << "the last that it has";
    EXPECT_EQ(bench.reader().usage().evicted, 1U);
    EXPECT_EQ(leaks(bench.view()), "");
}

// Room is made from others, also where the hand stands before the very key.
TEST_F(HashMapExpiry, ASetEvictsItsOwnKeyLast) {
    for (std::uint64_t hand = 0; hand < 40; ++hand) {
        map_bench bench({.units = 40, .capacity = 70, .evicting = true});
        map_writer writer = bench.writer();
        for (std::uint64_t i = 0; i < 40 + hand; ++i) ASSERT_TRUE(put(writer, std::to_string(i), {i, 0}));
        const std::string oldest = std::to_string(hand), next = std::to_string(hand + 1);
        EXPECT_EQ(put(writer, oldest, {1000, 0}).what, entry_change::updated) << hand;
        EXPECT_TRUE(holds(bench.reader(), oldest, {1000, 0}));
        EXPECT_FALSE(is_there(bench.reader(), next));
        EXPECT_EQ(bench.reader().usage().evicted, hand + 1);
    }
}

TEST_F(HashMapExpiry, WhatIsUsedStaysAndTheOldestOfTheOthersGoes) {
    map_bench bench({.units = 40, .capacity = 70, .evicting = true});
    map_writer writer = bench.writer();
    for (std::uint64_t i = 0; i < 40; ++i) ASSERT_TRUE(put(writer, std::to_string(i), {i, 0}));
    // Two keys are asked for again and again, while new ones come.
    const auto use = [&](const std::string& key) {
        std::vector<std::byte> none;
        const hash_map_found got = writer.reader().find(as_key(key), std::span(none));
        writer.note_use(got.handle);
        return static_cast<bool>(got);
    };
    for (std::uint64_t i = 100; i < 300; ++i) {
        ASSERT_TRUE(use("3")) << i;
        ASSERT_TRUE(use("17")) << i;
        ASSERT_TRUE(put(writer, std::to_string(i), {i, 0}));
    }
    // The others are the newest, in the order of storing.
    for (std::uint64_t i = 0; i < 40; ++i)
        if (i != 3 && i != 17) {
            EXPECT_FALSE(is_there(bench.reader(), std::to_string(i)));
        }
    for (std::uint64_t i = 300 - 38; i < 300; ++i) EXPECT_TRUE(is_there(bench.reader(), std::to_string(i))) << i;
    EXPECT_EQ(bench.reader().usage().evicted, 200U);
}

// A successor goes on where the hand was: it is the oldest that goes, not what was stored last.
TEST_F(HashMapExpiry, TheOrderOfEvictionGoesOnOverARestart) {
    map_bench bench({.units = 40, .capacity = 70, .evicting = true});
    map_writer writer = bench.writer();
    for (std::uint64_t i = 0; i < 200; ++i) {
        ASSERT_TRUE(put(writer, std::to_string(i), {i, 0}));
        if (i % 7 == 0) writer = bench.writer();
        for (std::uint64_t newest = i < 39 ? 0 : i - 39; newest <= i; ++newest)
            ASSERT_TRUE(is_there(bench.reader(), std::to_string(newest))) << newest << " of " << i;
    }
    holdfast::detail::store_release<std::uint64_t>(bench.view().control(layout::map_hand_offset), ~std::uint64_t{0});
    writer = bench.writer();
    EXPECT_TRUE(put(writer, "any", {1, 0})) << "a hand that points nowhere begins anew";
}

// If everything is used, use no longer protects.
TEST_F(HashMapExpiry, AMapInWhichEverythingIsUsedStillTakesWhatIsNew) {
    map_bench bench({.units = 200, .capacity = 300, .evicting = true});
    map_writer writer = bench.writer();
    for (std::uint64_t i = 0; i < 200; ++i) ASSERT_TRUE(put(writer, std::to_string(i), {i, 0}));
    std::vector<std::byte> none;
    for (std::uint64_t i = 0; i < 200; ++i)
        writer.note_use(writer.reader().find(as_key(std::to_string(i)), std::span(none)).handle);
    ASSERT_TRUE(put(writer, "new", {1, 0}));
    EXPECT_EQ(bench.reader().usage().evicted, 1U);
}

// Neighbours go, so a large entry finds its run: it evicts about as many units as it needs.
TEST_F(HashMapExpiry, ALargeEntryEvictsAboutWhatItNeeds) {
    map_bench bench({.units = 400, .capacity = 500, .evicting = true});
    map_writer writer = bench.writer();
    for (std::uint64_t i = 0; i < 400; ++i) ASSERT_TRUE(put(writer, std::to_string(i), {i, 0}));
    ASSERT_TRUE(put(writer, "large", {1, 100 * 64}));
    EXPECT_LE(bench.reader().usage().evicted, 103U);
    block_store_verification report;
    EXPECT_EQ(damage_of(bench.view().store.as_const(), &report), "");
    EXPECT_EQ(report.scattered, 0U);
}

// A full table is cured likewise, and who wants a certain version does not see it evicted for its own sake.
TEST_F(HashMapExpiry, TheTableIsNeverFullAndConditionsHold) {
    using when = holdfast::detail::map_condition;
    map_bench bench({.units = 400, .capacity = 20, .evicting = true});
    map_writer writer = bench.writer();
    for (std::uint64_t i = 0; i < 200; ++i) {
        ASSERT_TRUE(put(writer, map_key(i), {i, 0}));
        ASSERT_LE(bench.reader().usage().entries, 20U);
    }
    map_bench tight({.units = 20, .capacity = 20, .evicting = true});
    map_writer other = tight.writer();
    const hash_map_result first = put(other, "k", {1, 300});  // 6 units
    for (std::uint64_t i = 0; i < 14; ++i) ASSERT_TRUE(put(other, std::to_string(i), {i, 0}));
    const hash_map_result second = other.set(as_key("k"), whole_object(2, 500), {}, {when::same, first.handle});
    ASSERT_TRUE(second) << outcome_name(second.status);
    EXPECT_TRUE(holds(tight.reader(), "k", {2, 500}));
    EXPECT_TRUE(other.fetch_add<std::uint8_t>(as_key("k"), 3, 0));
    const std::uint64_t evicted = tight.reader().usage().evicted;
    const hash_map_result none = other.set(as_key("k"), whole_object(3, 1200), {}, {when::present});
    EXPECT_EQ(none.status, outcome::full) << "both at once do not fit";
    EXPECT_EQ(tight.reader().usage().evicted, evicted) << "nobody goes for what is refused";
    EXPECT_TRUE(holds(tight.reader(), "k", {2, 500}));
    EXPECT_TRUE(other.set(as_key("k"), whole_object(3, 1200))) << "without a condition the old one may go first";
    EXPECT_EQ(damage_of(tight.view().as_const()), "");
}

}  // namespace
