// SPDX-License-Identifier: Apache-2.0
// Many writers of a hash table at full speed, killed at random.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "holdfast/hash_table/many.hpp"
#include "support/hash_table_model.hpp"
#include "support/kill_rig.hpp"
#include "support/scale.hpp"
#include "support/segment_tools.hpp"
#include "support/table_answer.hpp"
#include "support/takeover_waits.hpp"

namespace {

using namespace holdfast;
using namespace holdfast::test;
using u64 = std::uint64_t;

// Writers without a pause between operations, each killed by its own timer, so that the others go on beside what it
// left. They add to a few counts, and insert and erase entries of a table that is nearly full, so that many operations
// take two stripes. Where they grow and shrink it, whoever leads dies as the others do, and they end what it began.
class HashTableManyKill : public segment_test {
 protected:
    using table = hash_table<u64, std::array<u64, 7>, writers::many>;
    static constexpr u64 counted = 8, churned = 1990, capacity = 2000, writers_max = 3;
    struct planned {
        bool adds, erases;
        u64 key;
    };
    static std::array<u64, 7> stamped(u64 key, u64 stamp) { return stamped_value<wide_shape>(key, stamp); }
    static planned plan(u64 seed, u64 writer, u64 round, u64 i) {
        const u64 random = random_at(seed + writer, round, i);
        const bool adds = random % 4 == 0;
        return {adds, random % 2 == 0, adds ? (random >> 8) % counted : counted + (random >> 8) % churned};
    }
    /// One of the rounds, and whether its writers grow and shrink the table.
    struct one_round {
        u64 seed, number;
        bool grows;
    };

    // What one writer does until it is killed. Exit codes tell which answer was wrong.
    static void operate(table& mine, takeover_watch watch, kill_progress& progress, u64 writer, const one_round& of) {
        for (u64 i = 0;; ++i) {
            if (of.grows) grow_now_and_then(mine, random_at(of.seed + writer, ~of.number, i), i);
            const planned op = plan(of.seed, writer, of.number, i);
            watch.begin();
            progress.begin();
            table_answer status;
            if (op.adds)
                status = mine.modify(op.key, [&](auto& value) { value = stamped(op.key, value[0] + 1); });
            else if (op.erases)
                status = mine.erase(op.key);
            else
                status = mine.insert_or_assign(op.key, stamped(op.key, i + 2));
            if (status.refused()) ::_exit(9);
            progress.end();
            watch.end(mine.takeovers());
        }
    }
    // Unless it knows of one, which it may have to end for a dead leader. Another may have begun one meanwhile.
    static void grow_now_and_then(table& mine, u64 random, u64 i) {
        if (mine.growth_failure() && mine.growth_failure()->reason() == errc::corrupt) ::_exit(7);
        if (i % 500 != 0 || mine.growing()) return;
        try {
            mine.grow(capacity + 100 + random % (2 * capacity));
        } catch (const error& refused) {
            if (refused.reason() != errc::contended) ::_exit(8);
        }
    }
    static std::string damage_of(const auto& in) {
        std::string text;
        const auto seen = in.verify([&](const hash_table_finding& f) {
            text += std::string(describe(f.what)) + " at slot " + std::to_string(f.slot) + "; ";
            return text.size() < 1000;
        });
        return seen.busy == 0 ? text : text + "busy";
    }
    // What is there must be what the writers did, but for what each was in; the counts are then noted.
    static std::string compare(const table& in, std::span<const kill_progress> progress, u64 seed, u64 round,
                               std::array<u64, counted>& counts) {
        std::array<u64, counted> least = counts, most{};
        for (u64 w = 0; w < progress.size(); ++w) {
            for (u64 i = 0; i < progress[w].completed(); ++i)
                if (const planned op = plan(seed, w, round, i); op.adds) ++least[op.key];
            if (!progress[w].in_flight()) continue;
            if (const planned op = plan(seed, w, round, progress[w].completed()); op.adds) ++most[op.key];
        }
        for (u64 key = 0; key < counted; ++key) {
            const auto value = in.find(key);
            if (!value || !stamp_of<wide_shape>(key, *value)) return "a count is lost or torn";
            counts[key] = (*value)[0] - 1;
            if (counts[key] < least[key] || counts[key] > least[key] + most[key])
                return "count " + std::to_string(key) + " is " + std::to_string(counts[key]) + ", not " +
                       std::to_string(least[key]);
        }
        u64 entries = counted;
        for (u64 key = counted; key < counted + churned; ++key) {
            const auto value = in.find(key);
            entries += value ? 1 : 0;
            if (value && !stamp_of<wide_shape>(key, *value)) return "a torn or foreign value";
        }
        if (in.size() != entries)
            return "the size is " + std::to_string(in.size()) + ", entries are " + std::to_string(entries);
        return {};
    }

    /// All writers of a round, until each was killed. Returns: how one ended otherwise.
    static std::string kill_all(const std::string& uri, takeover_waits& told, std::span<kill_progress> progress,
                                const one_round& of) {
        const takeover_waits::round meanwhile(told);
        std::vector<child_process> writers;
        for (u64 w = 0; w < progress.size(); ++w) {
            // One goes early, and what it held is free once it is gone: the others then have time to meet it.
            const u64 longest = of.number % progress.size() == w ? 500'000 : 5'000'000;
            progress[w].reset(random_at(of.seed, of.number, w) % (longest * slowness));
            writers.emplace_back([&, w] {
                const bool dies_attaching = of.number % 8 == w, outlives = takeover_watch::outlives(of.number, w);
                if (dies_attaching) progress[w].ready();
                table mine = table::attach(uri);
                if (!dies_attaching && !outlives) progress[w].ready();
                mine.set_patience(std::chrono::seconds(60));
                operate(mine, {told, outlives}, progress[w], w, of);
            });
        }
        std::string failure;
        for (child_process& writer : writers)
            if (const ended& end = writer.wait(); !end.signalled || end.signal != SIGKILL) failure = end.text();
        return failure;
    }
    /// What kills found: another generation than the kills before, and a growth that nobody leads any more.
    struct growths {
        u64 generations = 0, left = 0, last = 0;
        void look(const table& in) {
            const u64 now = in.place_of(0).value_or(hash_table_place{}).generation;
            generations += now != last ? 1 : 0;
            last = now;
            left += in.growing() ? 1 : 0;
        }
    };

    void run(u64 count, u64 rounds, std::uint32_t slots, bool grows = false) {
        const u64 seed = choose_seed();
        SCOPED_TRACE("repeat with HOLDFAST_TEST_SEED=" + std::to_string(seed));
        const unique_posix_name name("many-kill");
        {
            table made = table::create(name.uri(), {.capacity = capacity, .writer_slots = slots});
            for (u64 key = 0; key < counted; ++key) (void)made.try_insert(key, stamped(key, 1));
            for (u64 key = counted; key < counted + churned; ++key) (void)made.try_insert(key, stamped(key, 1));
        }
        std::array<u64, counted> counts{};
        shared_image pages(sizeof(takeover_waits));
        auto* const told = new (pages.bytes().data()) takeover_waits;
        u64 operations = 0, in_flight = 0, settled = 0;
        growths grown;
        std::array<kill_progress, writers_max> each;
        const std::span<kill_progress> progress(each.data(), count);
        std::string failure;
        u64 round = 0;
        // Who waits for a growth's end waits for no dead one alone: then the waits tell nothing.
        for (; (grows ? round < rounds : told->another(round, rounds)) && failure.empty(); ++round) {
            failure = kill_all(name.uri(), *told, progress, {seed, round, grows});
            if (!failure.empty()) break;
            // In turn: a look at what lies there, or the next writer at once.
            if (round % 4 == 0) failure = damage_of(hash_table_reader<u64, std::array<u64, 7>>::attach(name.uri()));
            const table next = table::attach(name.uri());
            settled += next.recovery().operation_settled ? 1 : 0;
            grown.look(next);
            if (failure.empty() && round % 4 <= 1) failure = damage_of(next);
            if (failure.empty()) failure = compare(next, progress, seed, round, counts);
            for (const kill_progress& one : progress) {
                operations += one.completed();
                in_flight += one.in_flight() ? 1 : 0;
            }
            if (!failure.empty()) failure = "round " + std::to_string(round) + ": " + failure;
        }
        EXPECT_EQ(failure, "");
        EXPECT_GT(in_flight, 0U);
        const u64 takeovers = told->takeovers();
        EXPECT_TRUE(sanitized || takeovers + settled > 0);
        RecordProperty("kills", std::to_string(count * round));
        std::printf(
            "%llu kills, %llu inside an operation, %llu operations; %llu takeovers at work, %llu at attaching\n",
            static_cast<unsigned long long>(count * round), static_cast<unsigned long long>(in_flight),
            static_cast<unsigned long long>(operations), static_cast<unsigned long long>(takeovers),
            static_cast<unsigned long long>(settled));
        if (grows) return judge(grown, round, name);
        EXPECT_EQ(grown.generations, 1U);
        told->judge();
    }
    static void judge(const growths& grown, u64 rounds, const unique_posix_name& name) {
        std::printf("%llu rounds of kills found another generation, %llu a growth without a leader\n",
                    static_cast<unsigned long long>(grown.generations), static_cast<unsigned long long>(grown.left));
        EXPECT_GT(grown.generations, rounds / 10);
        EXPECT_TRUE(sanitized || grown.left > 0) << "no leader died in a growth, or others ended each";
        table last = table::attach(name.uri());
        while (last.advance()) {
        }
        EXPECT_FALSE(last.growth_failure().has_value()) << last.growth_failure()->what();
        EXPECT_EQ(damage_of(last), "");
        EXPECT_EQ(name.entries().size(), 2U) << "left behind";
    }
};

TEST_F(HashTableManyKill, TwoAtFullSpeedLoseNothingButWhatTheyWereIn) { run(2, scaled(700), 4); }
TEST_F(HashTableManyKill, ThreeAtFullSpeed) { run(3, scaled(400), 3); }
TEST_F(HashTableManyKill, ThreeThatGrowAndShrinkItAtFullSpeed) { run(3, scaled(250), 4, true); }

}  // namespace
