// SPDX-License-Identifier: Apache-2.0
// Many writers of a hash map: each other's keys, conditions, who wins, dead writers, damage, and what must be refused.
#include "holdfast/hash_map/many.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "support/map_many_bench.hpp"
#include "support/process.hpp"
#include "support/scale.hpp"
#include "support/seed.hpp"
#include "support/segment_tools.hpp"
#include "support/unique_name.hpp"

namespace {

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;
using u64 = std::uint64_t;
using holdfast::detail::map_condition;
using map = hash_map<std::string_view, writers::many>;

// ---- over plain bytes: writers at one map, one operation at a time

// The parameter is the table's capacity: below 329 entries it has one stripe, so that all operations exclude each
// other.
constexpr u64 one_stripe = 120, two_stripes = 400;
class ManyMaps : public ::testing::TestWithParam<u64> {
 protected:
    ManyMaps() { EXPECT_EQ(view().table.stripe_mask != 0, GetParam() == two_stripes); }
    [[nodiscard]] writable_map view() { return {image_.bytes(), geometry_}; }
    [[nodiscard]] many_map_writer attach(unsigned process) { return map_writer_of(view(), roll_, process); }
    [[nodiscard]] std::string damage() { return damage_of(view().as_const()); }
    [[nodiscard]] std::string wrong(const map_model& model) {
        if (std::string text = difference(reader_of(view().as_const()), model); !text.empty()) return text;
        if (std::string text = miscounted(view().store.as_const()); !text.empty()) return text;
        return damage();
    }

    /// An entry of the store to which no key leads, and which no record of an operation names.
    void leave_a_stray(unsigned process, std::size_t bytes) {
        holdfast::detail::block_many_core<rolled_locks> store(view().store, process, rolled_locks(roll_, process));
        ASSERT_TRUE(put(store, block_content{2, bytes}));
    }
    [[nodiscard]] std::byte* home_stripe(std::string_view key) {
        const auto& table = view().table;
        return table.stripe(table.stripe_of(view().hash(as_key(key)).home(table.buckets)));
    }

    layout::hash_map_geometry geometry_ = small_map_of_many(96, GetParam());
    shared_image image_{static_cast<std::size_t>(geometry_.body_bytes())};
    writer_roll roll_;
};

TEST_P(ManyMaps, ZeroedBytesAreAnEmptyMap) {
    EXPECT_EQ(wrong({}), "");
    many_map_writer first = attach(0);
    EXPECT_EQ(leaks(view(), first), "");
}

TEST_P(ManyMaps, ChangeEachOthersEntries) {
    many_map_writer one = attach(0), other = attach(1);
    const hash_map_result first = put(one, "a", {1, 100});
    EXPECT_EQ(first.what, entry_change::inserted);
    EXPECT_EQ(put(other, "a", {2, 10}, {map_condition::absent}).status, outcome::exists);
    EXPECT_EQ(put(other, "b", {2, 10}, {map_condition::present}).status, outcome::not_found);
    const hash_map_result second = put(other, "a", {2, 10}, {map_condition::same, first.handle});
    EXPECT_EQ(second.what, entry_change::updated);
    const hash_map_result late = put(one, "a", {3, 10}, {map_condition::same, first.handle});
    EXPECT_EQ(late.status, outcome::stale);
    EXPECT_EQ(late.handle, second.handle);
    EXPECT_EQ(put(one, "c", {3, 10}, {map_condition::same, first.handle}).status, outcome::stale);
    EXPECT_EQ(one.erase(as_key("a"), {map_condition::same, first.handle}).status, outcome::stale);
    EXPECT_EQ(wrong({{"a", {2, 10}}}), "");
    EXPECT_TRUE(one.erase(as_key("a"), {map_condition::same, second.handle}));
    EXPECT_EQ(other.erase(as_key("a")).status, outcome::not_found);
    EXPECT_TRUE(put(other, "a", {4, 0}, {map_condition::same, 0}));
    EXPECT_EQ(wrong({{"a", {4, 0}}}), "");
    EXPECT_FALSE(something_open(view()));
    EXPECT_EQ(leaks(view(), one), "");
}

TEST_P(ManyMaps, CountsAreAddedToByAll) {
    many_map_writer one = attach(0), other = attach(1);
    EXPECT_EQ(one.fetch_add<u64>(as_key("n"), 0, 1).status, outcome::not_found);
    ASSERT_TRUE(put(one, "n", {1, 40}));
    u64 before = 0;
    std::memcpy(&before, whole_object(1, 40).data(), sizeof before);
    EXPECT_EQ(one.fetch_add<u64>(as_key("n"), 0, 5).before, before);
    const auto added = other.fetch_add<u64>(as_key("n"), 0, 7);
    EXPECT_EQ(added.before, before + 5);
    EXPECT_EQ(other.fetch_add<u64>(as_key("n"), 40, 7).status, outcome::out_of_range);
    EXPECT_EQ(wrong({{"n", {1, 40, 12}}}), "");
    EXPECT_EQ(leaks(view(), other), "");
}

// Whoever waits for the stripe may find there another size than it has claimed room for. The last time, too.
TEST_P(ManyMaps, ACountWhoseEntryGetsAnotherSizeEachTimeIsContended) {
    many_map_writer other = attach(2);
    ASSERT_TRUE(put(other, "n", {1, 40}));
    holdfast::detail::map_many_core<rolled_locks, 1> one(view(), 0, rolled_locks(roll_, 0));  // tries once
    ASSERT_TRUE(holdfast::detail::try_take_stripe(home_stripe("n"), 2));
    unsigned waits = 0;
    roll_.give_way = [&] {
        if (++waits > 1) return;
        holdfast::detail::give_back_stripe(home_stripe("n"));
        ASSERT_TRUE(put(other, "n", {3, 200}));
    };
    const auto added = one.fetch_add<u64>(as_key("n"), 0, 5);
    EXPECT_EQ(waits, 1U);
    EXPECT_EQ(added.status, outcome::contended);
    EXPECT_EQ(added.handle, 0U);
    EXPECT_EQ(wrong({{"n", {3, 200}}}), "");
    EXPECT_TRUE(one.fetch_add<u64>(as_key("n"), 0, 5));
    EXPECT_EQ(wrong({{"n", {3, 200, 5}}}), "");
    EXPECT_FALSE(something_open(view()));
}

TEST_P(ManyMaps, ACountWhoseEntryIsNotThereIsCorruptNotContended) {
    many_map_writer one = attach(0);
    const hash_map_result made = put(one, "n", {1, 40});
    {
        holdfast::detail::block_many_core<rolled_locks> store(view().store, 1, rolled_locks(roll_, 1));
        ASSERT_EQ(store.free(made.handle), outcome::ok);
    }
    EXPECT_EQ(one.fetch_add<u64>(as_key("n"), 0, 1).status, outcome::corrupt);
    EXPECT_EQ(one.fault(), errc::corrupt);
    EXPECT_TRUE(put(one, "n", {2, 10})) << "a set mends it";
    EXPECT_TRUE(one.fetch_add<u64>(as_key("n"), 0, 1));
    EXPECT_EQ(wrong({{"n", {2, 10, 1}}}), "");
}

TEST_P(ManyMaps, WhatDoesNotFitIsRefusedAndLeavesNothing) {
    many_map_writer one = attach(0);
    EXPECT_EQ(put(one, "a", {1, 64 * 97}).status, outcome::too_large);
    ASSERT_TRUE(put(one, "a", {1, 64 * 60}));
    const hash_map_result full = put(one, "a", {2, 64 * 50});
    EXPECT_EQ(full.status, outcome::full);
    EXPECT_NE(full.handle, 0U);
    EXPECT_EQ(one.fetch_add<u64>(as_key("a"), 0, 1).status, outcome::full);
    EXPECT_EQ(wrong({{"a", {1, 64 * 60}}}), "");
    EXPECT_FALSE(something_open(view()));
}

TEST_P(ManyMaps, ATableThatIsFullRefusesAndTheClaimGoes) {
    const layout::hash_map_geometry few = small_map_of_many(400, 60);
    shared_image image(static_cast<std::size_t>(few.body_bytes()));
    const writable_map bytes(image.bytes(), few);
    many_map_writer one = map_writer_of(bytes, roll_, 0);
    u64 n = 0;
    while (put(one, std::to_string(n), {n, 1})) ++n;
    EXPECT_GE(n, 60U);
    EXPECT_EQ(put(one, std::to_string(n), {n, 1}).status, outcome::full);
    EXPECT_EQ(bytes.store.units(), 400U);
    EXPECT_EQ(one.reader().usage().units_used, n);
    EXPECT_TRUE(put(one, "0", {7, 2})) << "an update needs no slot";
    EXPECT_EQ(damage_of(bytes.as_const()), "");
}

// What a writer was killed in, between the store's commit and the table's, and between the table's and the end of the
// old value: by hand, as no test can stop there.
TEST_P(ManyMaps, AnEntryThatADeadWriterLeftWithoutAKeyGoesWhenRoomIsNeeded) {
    many_map_writer one = attach(0), other = attach(1);
    ASSERT_TRUE(put(one, "kept", {1, 30}));
    const holdfast::detail::map_slots slots(view());
    {
        holdfast::detail::block_many_core<rolled_locks> store(view().store, 0, rolled_locks(roll_, 0));
        ASSERT_EQ(store.prepare(64 * 50), outcome::ok);
        holdfast::detail::map_record record;
        record.word[holdfast::detail::map_record::kind] = static_cast<u64>(entry_change::inserted);
        record.word[holdfast::detail::map_record::add] = store.pending();
        holdfast::detail::begin_operation(slots, 0, slots.selector(0) / 2 + 1, record);
        ASSERT_TRUE(store.commit());
    }
    EXPECT_EQ(damage(), "") << "an open record names it";
    EXPECT_EQ(put(other, "large", {2, 64 * 60}).status, outcome::full) << "its writer lives";
    roll_.die(0);
    EXPECT_EQ(damage(), "");
    EXPECT_TRUE(put(other, "large", {2, 64 * 60}));
    EXPECT_EQ(other.takeovers(), 1U);
    EXPECT_FALSE(something_open(view()));
    EXPECT_EQ(wrong({{"kept", {1, 30}}, {"large", {2, 64 * 60}}}), "");
}

TEST_P(ManyMaps, AnEntryThatNoRecordNamesIsFoundByVerify) {
    many_map_writer one = attach(0);
    ASSERT_TRUE(put(one, "a", {1, 30}));
    leave_a_stray(1, 100);
    EXPECT_NE(damage().find("no key leads"), std::string::npos) << damage();
}

// Three writers do anything and die between operations; a model knows what is there, and each key's handle.
TEST_P(ManyMaps, RandomHistoriesFollowAModel) {
    const u64 seed = choose_seed();
    for (u64 round = 0; round < scaled(30); ++round) {
        seeded_random random(seed + round);
        const auto below = [&](u64 n) { return random() % n; };
        const layout::hash_map_geometry g = small_map_of_many(96, GetParam(), 3);  // slots need not be a power of two
        shared_image image(static_cast<std::size_t>(g.body_bytes()));
        const writable_map bytes(image.bytes(), g);
        writer_roll roll;
        std::vector<many_map_writer> writer;
        for (unsigned p = 0; p < 3; ++p) writer.push_back(map_writer_of(bytes, roll, p));
        map_model model;
        std::map<std::string, u64> handles;
        std::set<u64> given;
        for (unsigned step = 0; step < 300; ++step) {
            const auto p = static_cast<unsigned>(below(3));
            const std::string key = map_key(below(24));
            const bool there = model.contains(key);
            const map_content what{step, static_cast<std::size_t>(below(3) == 0 ? below(1200) : below(150))};
            const u64 choice = below(10);
            hash_map_result done;
            if (choice < 6) {
                const map_condition when = choice < 2    ? map_condition{}
                                           : choice == 2 ? map_condition{map_condition::absent}
                                           : choice == 3 ? map_condition{map_condition::present}
                                           : choice == 4 ? map_condition{map_condition::same, there ? handles[key] : 0}
                                                         : map_condition{map_condition::same, there ? 0 : u64{1} << 63};
                done = put(writer[p], key, what, when);
                const outcome refused = choice == 2 && there    ? outcome::exists
                                        : choice == 3 && !there ? outcome::not_found
                                        : choice == 5           ? outcome::stale
                                                                : outcome::ok;
                if (done) {
                    ASSERT_EQ(refused, outcome::ok);
                    ASSERT_TRUE(given.insert(done.handle).second) << "a handle was given out twice";
                    ASSERT_EQ(done.what, there ? entry_change::updated : entry_change::inserted);
                    model[key] = what;
                    handles[key] = done.handle;
                } else if (done.status != outcome::full) {
                    ASSERT_EQ(done.status, refused);
                }
            } else if (choice < 8) {
                done = writer[p].erase(as_key(key));
                ASSERT_EQ(done.status, there ? outcome::ok : outcome::not_found);
                model.erase(key);
            } else if (choice == 8) {
                const auto added = writer[p].fetch_add<u64>(as_key(key), 0, 3);
                if (added) {
                    ASSERT_TRUE(there && model[key].bytes >= 8);
                    model[key].added += 3;
                    handles[key] = added.handle;
                } else {
                    ASSERT_TRUE(!there || model[key].bytes < 8 || added.status == outcome::full);
                }
            } else {
                roll.die(p);
                ASSERT_EQ(damage_of(bytes.as_const()), "");
                roll.alive[p] = true;
                writer[p] = map_writer_of(bytes, roll, p);
            }
            ASSERT_EQ(writer[p].reader().usage().entries, model.size());
            if (step % 16 == 0) {
                ASSERT_EQ(difference(reader_of(bytes.as_const()), model), "");
                ASSERT_EQ(miscounted(bytes.store.as_const()), "");
                ASSERT_EQ(damage_of(bytes.as_const()), "");
            }
        }
        for (unsigned p = 1; p < 3; ++p) roll.die(p);
        ASSERT_EQ(leaks(bytes, writer[0]), "");
    }
}

// ---- damage

class ManyMapsDamaged : public ManyMaps {
 protected:
    ManyMapsDamaged() {
        many_map_writer writer[] = {attach(0), attach(1), attach(2)};
        for (u64 n = 0; n < 12; ++n) {
            const map_content what{n, static_cast<std::size_t>(n * 15)};
            EXPECT_TRUE(put(writer[n % 3], map_key(n), what));
            model_[map_key(n)] = what;
        }
        EXPECT_TRUE(writer[2].erase(as_key(map_key(3))));
        model_.erase(map_key(3));
        for (unsigned p = 0; p < 4; ++p) roll_.die(p);
        base_.assign(image_.bytes().begin(), image_.bytes().end());
    }
    void restore() { image_.assign(base_); }
    /// Flips a bit of the record in force.
    void damage_record(unsigned slot) {
        const holdfast::detail::map_slots slots(view());
        slots.record_at(slot, slots.selector(slot) / 2)[8] ^= std::byte{4};
    }

    map_model model_;
    std::vector<std::byte> base_;
};

TEST_P(ManyMapsDamaged, EveryFlippedBitOfTheRecordsInForceIsFoundAndMended) {
    const holdfast::detail::map_slots slots(view());
    for (u64 slot = 0; slot < 3; ++slot) {
        const u64 operation = slots.selector(slot) / 2;
        const auto at = static_cast<std::size_t>(slots.record_at(slot, operation) - image_.bytes().data());
        for (std::size_t bit = 0; bit < 8 * layout::map_record_bytes; ++bit) {
            restore();
            image_.bytes()[at + bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
            ASSERT_NE(damage(), "") << "slot " << slot << ", bit " << bit;
            roll_.alive[3] = true;
            many_map_writer next = attach(3);
            ASSERT_TRUE(next.recovery().record_rebuilt) << "slot " << slot << ", bit " << bit;
            ASSERT_EQ(wrong(model_), "") << "slot " << slot << ", bit " << bit;
            roll_.die(3);
        }
    }
}

// What a damaged record may name is not lost for sure. That is no work of a writer's: it is not looked at again.
TEST_P(ManyMapsDamaged, BesideADamagedRecordVerifyOfAMapAtRestIsNotBusy) {
    roll_.alive[3] = true;
    for (const std::size_t bytes : {0U, 100U, 300U}) leave_a_stray(3, bytes);
    damage_record(0);
    hash_map_verification report;
    EXPECT_EQ(damage_of(view().as_const(), &report), "verify: the record of the last operation is damaged");
    EXPECT_EQ(report.busy, 0U);
    EXPECT_EQ(report.findings, 1U);
    (void)attach(3);
    EXPECT_EQ(wrong(model_), "");
}

// While two records are damaged nobody can tell what either of them names: who mends the last one frees it all.
TEST_P(ManyMapsDamaged, BehindTwoDamagedRecordsWhatIsLostIsFreed) {
    roll_.alive[3] = true;
    for (const std::size_t bytes : {0U, 100U, 300U}) leave_a_stray(3, bytes);
    damage_record(0);
    damage_record(2);
    many_map_writer next = attach(3);
    EXPECT_TRUE(next.recovery().record_rebuilt);
    EXPECT_FALSE(something_open(view()));
    EXPECT_EQ(wrong(model_), "");
    EXPECT_EQ(leaks(view(), next), "");
}

// The repair of a record puts a blank one in its place, frees what is lost, and completes it.
TEST_P(ManyMapsDamaged, ARepairOfARecordThatWasKilledIsDoneAgain) {
    roll_.alive[3] = true;
    leave_a_stray(3, 300);
    const holdfast::detail::map_slots slots(view());
    holdfast::detail::begin_operation(slots, 0, slots.selector(0) / 2 + 1, {});
    many_map_writer next = attach(3);
    EXPECT_TRUE(next.recovery().record_rebuilt);
    EXPECT_FALSE(something_open(view()));
    EXPECT_EQ(wrong(model_), "");
    EXPECT_EQ(leaks(view(), next), "");
}

/// Locks of dead writers, and which of them somebody has taken.
struct locks_of_the_dead {
    static constexpr unsigned looks = 1;
    std::set<std::uint32_t>* taken = nullptr;

    [[nodiscard]] bool take(std::uint32_t slot) const { return taken->insert(slot).second; }
    void give_back(std::uint32_t slot) const { EXPECT_EQ(taken->erase(slot), 1U) << slot; }
    [[nodiscard]] bool wait(std::uint32_t) const { return false; }
    [[nodiscard]] std::uint64_t pid() const { return 1; }
};

// As many slots as there may be, all of whose journals are damaged, in map and store; many entries, to half of which no
// key leads. Passes for each slot, and a look at each slot for every entry, took 45 s here.
TEST(ManyMapsLies, JournalsAreMendedInTimeByTheSizeOfTheMap) {
    constexpr u64 half = sanitized ? 20'000 : 100'000, slots = layout::writer_slots_max;
    const layout::hash_map_geometry geometry = small_map_of_many(3 * half, 2 * half, slots);
    shared_image image(static_cast<std::size_t>(geometry.body_bytes()));
    const writable_map view(image.bytes(), geometry);
    writer_roll roll;
    {
        many_map_writer writer = map_writer_of(view, roll, 0);
        for (u64 i = 0; i < half; ++i) ASSERT_TRUE(put(writer, std::to_string(i), {i, 0}));
        holdfast::detail::block_many_core<rolled_locks> store(view.store, 1, rolled_locks(roll, 1));
        for (u64 i = 0; i < half; ++i) ASSERT_TRUE(put(store, block_content{i, 0}));
    }
    const holdfast::detail::map_slots journals(view);
    const holdfast::detail::block_slots of_store(view.store);
    for (u64 slot = 0; slot < slots; ++slot) {
        for (const u64 operation : {0U, 1U}) {
            journals.record_at(slot, operation)[8] ^= std::byte{4};
            of_store.record_at(slot, operation)[8] ^= std::byte{4};
        }
    }
    std::set<std::uint32_t> taken;
    const auto begin = std::chrono::steady_clock::now();
    const holdfast::detail::map_many_core<locks_of_the_dead> next(view, 0, {&taken});
    EXPECT_LT(std::chrono::steady_clock::now() - begin, 3s);
    EXPECT_EQ(taken.size(), 0U);
    EXPECT_TRUE(next.recovery().record_rebuilt);
    EXPECT_TRUE(next.recovery().store.counts_rebuilt);
    EXPECT_FALSE(something_open(view));
    EXPECT_EQ(next.reader().usage().entries, half);
    EXPECT_EQ(holdfast::detail::count_words(view.store.as_const()).values, half);
    hash_map_verification report;
    EXPECT_NE(damage_of(view.as_const(), &report).find("rebuilt"), std::string::npos);
    EXPECT_EQ(report.findings, 1U);
}

/// Entries of the store to which no key leads, and which no record names. Returns their handles, sorted.
[[nodiscard]] std::vector<u64> leave_strays(const writable_map& view, writer_roll& roll, u64 count) {
    holdfast::detail::block_many_core<rolled_locks> store(view.store, 1, rolled_locks(roll, 1));
    std::vector<u64> handles;
    for (u64 i = 0; i < count; ++i) handles.push_back(put(store, block_content{i, 0}).handle);
    std::ranges::sort(handles);
    return handles;
}

/// The entries that verify calls unreached, sorted. Requires: it finds nothing else.
[[nodiscard]] std::vector<u64> unreached_in(const writable_map& view, hash_map_verification& report) {
    std::vector<u64> handles;
    report = holdfast::detail::verify_map(view.as_const(), [&](const hash_map_finding& f) {
        EXPECT_EQ(f.what, hash_map_damage::unreached) << describe(f.what);
        handles.push_back(f.handle);
        return true;
    });
    std::ranges::sort(handles);
    return handles;
}

// As many slots as there may be, and a store full of entries to which no key leads. A look at all slots for each of
// these took 100 us, 10 s for all of them.
TEST(ManyMapsLies, AStoreFullOfStraysIsCheckedInTimeByTheSizeOfTheMap) {
    constexpr u64 strays = sanitized ? 20'000 : 100'000;
    const layout::hash_map_geometry geometry = small_map_of_many(strays, 120, layout::writer_slots_max);
    shared_image image(static_cast<std::size_t>(geometry.body_bytes()));
    const writable_map view(image.bytes(), geometry);
    writer_roll roll;
    const std::vector<u64> left = leave_strays(view, roll, strays);
    ASSERT_EQ(reader_of(view.as_const()).usage().units_free(), 0U);
    hash_map_verification report;
    const auto begin = std::chrono::steady_clock::now();
    const std::vector<u64> told = unreached_in(view, report);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, 3s);
    EXPECT_EQ(told.size(), strays);
    EXPECT_TRUE(told == left);
    EXPECT_EQ(report.busy, 0U);
}

// However many there are, and beside keys that lead to theirs: each is told once, unless the caller wants no more.
TEST(ManyMapsLies, EachStrayIsToldOnce) {
    for (const u64 strays : {1U, 511U, 512U, 513U, 1500U}) {
        const layout::hash_map_geometry geometry = small_map_of_many(strays + 100);
        shared_image image(static_cast<std::size_t>(geometry.body_bytes()));
        const writable_map view(image.bytes(), geometry);
        writer_roll roll;
        many_map_writer writer = map_writer_of(view, roll, 0);
        for (u64 i = 0; i < 20; ++i) ASSERT_TRUE(put(writer, std::to_string(i), {i, 0}));
        const std::vector<u64> left = leave_strays(view, roll, strays);
        for (u64 i = 20; i < 40; ++i) ASSERT_TRUE(put(writer, std::to_string(i), {i, 0}));
        hash_map_verification report;
        EXPECT_TRUE(unreached_in(view, report) == left) << strays;
        EXPECT_EQ(report.findings, strays);
        EXPECT_EQ(report.entries, 40U) << strays;
        EXPECT_EQ(report.busy, 0U) << strays;
        u64 shown = 0;
        report = holdfast::detail::verify_map(view.as_const(), [&](const hash_map_finding&) { return ++shown < 3; });
        EXPECT_EQ(shown, std::min(strays, u64{3}));
        EXPECT_EQ(report.findings, shown) << strays;
    }
}

// A map's table never grows: what a stripe seems to ask for keeps nobody from its keys.
TEST_P(ManyMapsDamaged, AFlippedBitOfAStripesGrowthWordIsFoundAndKeepsNobodyOut) {
    for (u64 number = 0; number <= view().table.stripe_mask; ++number) {
        const auto at = static_cast<std::size_t>(view().table.stripe(number) - image_.bytes().data());
        for (std::size_t bit = 0; bit < 64; ++bit) {
            restore();
            roll_.alive[0] = roll_.alive[3] = true;
            many_map_writer next = attach(3);
            // Another one died with the stripe in hand.
            std::byte* const stripe = view().table.stripe(number);
            holdfast::detail::store_release<u64>(view().table.journal_at(0) + layout::journal_held_offset,
                                                 holdfast::detail::held_stripes::one(number).word);
            ASSERT_TRUE(holdfast::detail::try_take_stripe(stripe, 0));
            roll_.die(0);
            image_.bytes()[at + layout::stripe_growth_offset + bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
            ASSERT_NE(damage(), "") << "stripe " << number << ", bit " << bit;
            for (const auto& [key, what] : model_) ASSERT_TRUE(put(next, key, what)) << "bit " << bit;
            ASSERT_EQ(difference(next.reader(), model_), "") << "stripe " << number << ", bit " << bit;
            ASSERT_EQ(leaks(view(), next), "") << "stripe " << number << ", bit " << bit;
            roll_.die(3);
        }
    }
}

// Any bytes in journals, and forged records that name what stands: nothing crashes, hangs, or takes away what a key
// leads to.
TEST_P(ManyMapsDamaged, AnyBytesInJournalsLoseNoKey) {
    seeded_random random;
    const holdfast::detail::map_slots slots(view());
    const auto journals = static_cast<std::size_t>(slots.selector_at(0) - image_.bytes().data());
    const std::vector<u64> standing = handles_of(reader_of(view().as_const()).blocks());
    for (u64 round = 0; round < scaled(2000); ++round) {
        restore();
        for (u64 change = random() % 4 + 1; change != 0; --change) {
            const u64 slot = random() % 4;
            if (random() % 2 == 0) {
                holdfast::detail::map_record record;
                record.word[holdfast::detail::map_record::kind] = random() % 4;
                record.word[holdfast::detail::map_record::add] = standing[random() % standing.size()];
                record.word[holdfast::detail::map_record::take] = standing[random() % standing.size()];
                holdfast::detail::begin_operation(slots, slot, 1 + random() % 100, record);
                continue;
            }
            const u64 word = random() % 3 == 0 ? ~u64{0} : random() % 2 == 0 ? random() : random() % 64;
            const std::size_t at = journals + random() % (4 * layout::map_journal_bytes) / 8 * 8;
            std::memcpy(image_.bytes().data() + at, &word, sizeof word);
        }
        (void)damage();
        roll_.alive[3] = true;
        many_map_writer next = attach(3);
        ASSERT_EQ(difference(next.reader(), model_), "");
        ASSERT_EQ(damage(), "");
        ASSERT_TRUE(put(next, "more", {99, 50}));
        ASSERT_EQ(leaks(view(), next), "");
        roll_.die(3);
    }
}

// Any bytes anywhere: nothing crashes, hangs or leaves the body.
TEST_P(ManyMapsDamaged, AnyBytesAreReadVerifiedRecoveredAndWrittenOn) {
    seeded_random random;
    for (u64 round = 0; round < scaled(1000); ++round) {
        restore();
        for (u64 change = random() % 12 + 1; change != 0; --change) {
            const std::size_t at = random() % image_.size() / 8 * 8;
            u64 word = random();
            if (random() % 2 == 0)
                std::memcpy(&word, image_.bytes().data() + random() % image_.size() / 8 * 8, sizeof word);
            std::memcpy(image_.bytes().data() + at, &word, sizeof word);
        }
        (void)damage();
        roll_.alive[3] = true;
        many_map_writer next = map_writer_of(view(), roll_, 3);
        for (u64 n = 0; n < 16; ++n) {
            (void)put(next, map_key(n), {n, 40});
            (void)next.fetch_add<u64>(as_key(map_key(n + 1)), 0, 1);
            (void)next.erase(as_key(map_key(n + 2)));
        }
        (void)keys_of(next.reader());
        roll_.die(3);
    }
}

constexpr auto by_stripes = [](const ::testing::TestParamInfo<u64>& of) {
    return of.param == one_stripe ? "OneStripe" : "TwoStripes";
};
INSTANTIATE_TEST_SUITE_P(Tables, ManyMaps, ::testing::Values(one_stripe, two_stripes), by_stripes);
INSTANTIATE_TEST_SUITE_P(Tables, ManyMapsDamaged, ::testing::Values(one_stripe, two_stripes), by_stripes);

// ---- over segments

class HashMapOfMany : public segment_test {
 protected:
    unique_posix_name name_{"map-of-many"};
};

TEST_F(HashMapOfMany, WritersAndReadersSeeEachOther) {
    map one = map::create(name_.uri(), {.capacity = 100, .writer_slots = 2});
    map other = map::attach(name_.uri());
    EXPECT_NE(one.writer_slot(), other.writer_slot());
    EXPECT_THROW((void)map::attach(name_.uri()), error);
    const auto reader = hash_map_reader<std::string_view>::attach(name_.uri());
    const hash_map_result set = one.set("key", "value", 7);
    ASSERT_TRUE(set);
    std::string out;
    const hash_map_found found = reader.find("key", out);
    EXPECT_EQ(out, "value");
    EXPECT_EQ(found.flags, 7U);
    EXPECT_EQ(found.handle, set.handle);
    EXPECT_TRUE(other.compare_and_set("key", set.handle, "other"));
    EXPECT_EQ(one.compare_and_set("key", set.handle, "late").status, outcome::stale);
    EXPECT_EQ(one.insert("key", "late").status, outcome::exists);
    EXPECT_TRUE(one.update("key", "12345678"));
    EXPECT_TRUE(other.fetch_add<std::uint8_t>("key", 7, 1));
    EXPECT_TRUE(reader.find("key", out));
    EXPECT_EQ(out, "12345679");
    EXPECT_EQ(other.size(), 1U);
    EXPECT_TRUE(other.erase("key"));
    EXPECT_EQ(reader.usage().units_used, 0U);
    EXPECT_EQ(one.recovery().operation_finished, false);
    EXPECT_TRUE(reader.verify([](const hash_map_finding&) { return true; }).intact());
    EXPECT_THROW((void)one.recount(), error) << "there is another writer";
    {
        map gone = std::move(other);
    }
    EXPECT_EQ(one.recount(), 0U);
}

[[nodiscard]] std::string refused(const std::function<void()>& what) {
    try {
        what();
    } catch (const error& e) {
        return e.what();
    }
    return "not refused";
}

TEST_F(HashMapOfMany, WhatCannotBeSoundIsRefused) {
    using ::testing::HasSubstr;
    EXPECT_THAT(refused([&] { (void)map::create(name_.uri(), {.capacity = 9, .evict = true}); }), HasSubstr("evict"));
    EXPECT_THAT(refused([&] { (void)map::create(name_.uri(), {.capacity = 9, .registered_readers = 1}); }),
                HasSubstr("registered readers"));
    EXPECT_THAT(refused([&] { (void)map::create(name_.uri(), {.capacity = 9, .writer_slots = 0}); }),
                HasSubstr("slot"));
    {
        const map made = map::create(name_.uri(), {.capacity = 9});
    }
    using alone = hash_map<std::string_view>;
    EXPECT_THAT(refused([&] { (void)alone::attach(name_.uri()); }), HasSubstr("many writers"));
    const unique_posix_name ones("map-of-one");
    {
        const alone made = alone::create(ones.uri(), {.capacity = 9});
    }
    EXPECT_THAT(refused([&] { (void)map::attach(ones.uri()); }), HasSubstr("one writer"));
}

TEST_F(HashMapOfMany, AForkedChildOnlyReads) {
    map made = map::create(name_.uri(), {.capacity = 9});
    ASSERT_TRUE(made.set("a", "1"));
    const ended end = child_process([&] {
                          if (made.set("a", "2").status != outcome::read_only) ::_exit(1);
                          if (made.erase("a").status != outcome::read_only) ::_exit(2);
                          if (made.fetch_add<char>("a", 0, 1).status != outcome::read_only) ::_exit(3);
                          if (!made.contains("a")) ::_exit(4);
                          ::_exit(0);
                      }).wait();
    EXPECT_TRUE(end.success()) << end.text();
    EXPECT_TRUE(made.set("a", "2"));
}

}  // namespace
