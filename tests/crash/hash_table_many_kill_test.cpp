// SPDX-License-Identifier: Apache-2.0
// Many writers of a hash table at full speed, each killed by its own timer, so that the others go on beside what it
// left. Attacked: "no key twice, none lost, counts exact", "at most the operation it was in".
//
// All writers add to a few counts. Of the other keys each has some of its own, so that it knows what each of its
// operations has to answer, and the parent knows after the kills what each key must have: what its writer's last
// operation left, or, of the one in flight, what was there before. The keys are chosen by their hashes to be at home in
// one half of the buckets, which has no room for all of them: many entries overflow, and take two stripes. Where the
// writers grow and shrink the table, whoever leads dies as the others do, and they end what it began.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <map>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "holdfast/hash_table/many.hpp"
#include "support/hash_table_homes.hpp"
#include "support/hash_table_model.hpp"
#include "support/kill_rig.hpp"
#include "support/scale.hpp"
#include "support/segment_tools.hpp"
#include "support/share.hpp"
#include "support/table_answer.hpp"
#include "support/takeover_waits.hpp"

namespace {

using namespace holdfast;
using namespace holdfast::test;
using u64 = std::uint64_t;
using value = std::array<u64, 7>;
using table = hash_table<u64, value, writers::many>;
using homes = hash_table_homes<u64, value>;

// Keys by number: counts first, then those that come and go.
constexpr u64 counted = 8, churned = 1990, capacity = 2000, writers_max = 3;
/// What each key has, by its number: the stamp of its value; 0: it is not there. A count's goes up by one each time.
using stamps = std::array<u64, counted + churned>;

struct planned {
    enum kind { add, erase, insert, assign, update } what = add;
    u64 number = 0;
    u64 stamp = 0;  // different for each operation
};

/// One of the rounds, with so many writers, and whether they grow and shrink the table.
struct one_round {
    u64 seed, number, writers;
    bool grows;
};

/// Operation i of a writer: known to it and to the parent.
planned plan(const one_round& of, u64 writer, u64 i) {
    using enum planned::kind;
    static constexpr planned::kind kinds[16] = {add,    add,    add,    add,    erase,  erase,  erase,  assign,
                                                assign, assign, assign, assign, insert, insert, update, update};
    const u64 random = random_at(of.seed + writer, of.number, i);
    const planned::kind what = kinds[random % 16];
    const u64 any = random >> 8;
    const u64 number = what == add ? any % counted : counted + writer + of.writers * (any % (churned / of.writers));
    return {what, number, (of.number << 24) + i + 2};
}

u64 stamp_after(u64 before, const planned& op) {
    switch (op.what) {
        case planned::add: return before + 1;
        case planned::erase: return 0;
        case planned::insert: return before == 0 ? op.stamp : before;
        case planned::assign: return op.stamp;
        case planned::update: break;
    }
    return before == 0 ? 0 : op.stamp;
}
table_answer right_answer(u64 before, const planned& op) {
    const bool there = before != 0;
    switch (op.what) {
        case planned::add: return table_answer::updated;
        case planned::erase: return there ? table_answer::erased : table_answer::not_found;
        case planned::insert: return there ? table_answer::exists : table_answer::inserted;
        case planned::assign: return there ? table_answer::updated : table_answer::inserted;
        case planned::update: break;
    }
    return there ? table_answer::updated : table_answer::not_found;
}

/// The keys, by number.
class key_list {
 public:
    explicit key_list(const table& of) {
        const homes where(of);
        for (u64 key = 0; keys_.size() < counted + churned; ++key)
            if (key < counted || where.is_in_first_half(key)) {
                numbers_[key] = keys_.size();
                keys_.push_back(key);
            }
    }
    [[nodiscard]] u64 operator[](u64 number) const { return keys_[number]; }
    [[nodiscard]] std::optional<u64> number_of(u64 key) const {
        const auto at = numbers_.find(key);
        return at == numbers_.end() ? std::nullopt : std::optional(at->second);
    }

 private:
    std::vector<u64> keys_;
    std::map<u64, u64> numbers_;
};

table_answer apply(table& to, const planned& op, u64 key, const value& given) {
    switch (op.what) {
        case planned::add: return to.modify(key, [&](value& v) { v = stamped_value<wide_shape>(key, v[0] + 1); });
        case planned::erase: return to.erase(key);
        case planned::insert: return to.try_insert(key, given);
        case planned::assign: return to.insert_or_assign(key, given);
        case planned::update: break;
    }
    return to.update(key, given);
}

/// What must be there, as the parent knows it.
class ledger {
 public:
    explicit ledger(const key_list& keys) : keys_(keys) { now_.fill(1); }

    [[nodiscard]] const stamps& now() const noexcept { return now_; }
    /// All writers of the round are dead.
    void follow(const one_round& round, std::span<const kill_progress> progress) {
        for (u64 w = 0; w < progress.size(); ++w) {
            for (u64 i = 0; i < progress[w].completed(); ++i) follow(plan(round, w, i));
            if (progress[w].in_flight()) open_.push_back(plan(round, w, progress[w].completed()));
        }
    }
    /// Looks for each key. What an operation in flight is seen to have done is done from then on.
    std::string look(const auto& in) {
        for (u64 number = 0; number < now_.size(); ++number) {
            const u64 key = keys_[number];
            const std::optional<value> found = in.find(key);
            const std::optional<u64> stamp = found ? stamp_of<wide_shape>(key, *found) : 0;
            if (!stamp) return name_of(number) + " has a torn value, or another key's";
            if (!is_explained(number, *stamp))
                return name_of(number) +
                       (*stamp == 0 ? " is lost" : " has the value of operation " + std::to_string(*stamp)) +
                       ", not of " + std::to_string(now_[number]);
        }
        return {};
    }
    /// What the last look did not find to be done never will be. Then the table must hold this, all of it, and nothing
    /// else.
    std::string compare_all(const table& in) {
        open_.clear();
        const homes where(in);
        stamps found{};
        u64 entries = 0;
        for (const auto& entry : in) {
            const auto number = keys_.number_of(entry.key);
            if (!number) return "key " + std::to_string(entry.key) + " is from nowhere";
            if (found[*number] != 0) return name_of(*number) + " is there twice";
            found[*number] = stamp_of<wide_shape>(entry.key, entry.value).value_or(~u64{0});
            ++entries;
            overflowed_ += where.overflowed(entry.key, entry.slot) ? 1 : 0;
            crossing_ += where.crosses(entry.key, entry.slot) ? 1 : 0;
        }
        for (u64 number = 0; number < now_.size(); ++number)
            if (found[number] != now_[number])
                return name_of(number) + " lies there with stamp " + std::to_string(found[number]) + ", not " +
                       std::to_string(now_[number]);
        if (in.size() != entries)
            return "the size is " + std::to_string(in.size()) + ", entries are " + std::to_string(entries);
        return in.fault() ? "a fault was latched" : "";
    }
    /// Entries that were not at home when they were compared, and of these, in buckets of another stripe.
    [[nodiscard]] u64 overflowed() const noexcept { return overflowed_; }
    [[nodiscard]] u64 crossing() const noexcept { return crossing_; }

 private:
    void follow(const planned& op) { now_[op.number] = stamp_after(now_[op.number], op); }
    // By what is known, and so many operations in flight as it takes. Of one key there may be several only if it is a
    // count.
    bool is_explained(u64 number, u64 stamp) {
        while (now_[number] != stamp) {
            const auto at = std::ranges::find(open_, number, &planned::number);
            if (at == open_.end()) return false;
            follow(*at);
            open_.erase(at);
        }
        return true;
    }
    [[nodiscard]] std::string name_of(u64 number) const {
        return (number < counted ? "count " : "key ") + std::to_string(keys_[number]);
    }

    const key_list& keys_;
    stamps now_{};
    std::vector<planned> open_;
    u64 overflowed_ = 0, crossing_ = 0;
};

class HashTableManyKill : public segment_test {
 protected:
    // What one writer does until it is killed. Returns: what was wrong.
    static std::string operate(table& mine, takeover_watch watch, kill_progress& progress, u64 writer,
                               const one_round& of, const key_list& keys, stamps now) {
        for (u64 i = 0;; ++i) {
            if (of.grows)
                if (std::string why = grow_now_and_then(mine, random_at(of.seed + writer, ~of.number, i), i);
                    !why.empty())
                    return why;
            const planned op = plan(of, writer, i);
            const value given = stamped_value<wide_shape>(keys[op.number], op.stamp);
            watch.begin();
            progress.begin();
            const table_answer answer = apply(mine, op, keys[op.number], given);
            progress.end();
            watch.end(mine.takeovers());
            if (const table_answer right = right_answer(now[op.number], op); answer != right)
                return "operation " + std::to_string(op.what) + " of key " + std::to_string(keys[op.number]) +
                       " answered " + std::to_string(answer.number()) + ", not " + std::to_string(right.number());
            now[op.number] = stamp_after(now[op.number], op);
        }
    }
    // Unless it knows of one, which it may have to end for a dead leader. Another may have begun one meanwhile.
    static std::string grow_now_and_then(table& mine, u64 random, u64 i) {
        if (mine.growth_failure() && mine.growth_failure()->reason() == errc::corrupt)
            return mine.growth_failure()->what();
        if (i % 500 != 0 || mine.growing()) return {};
        try {
            mine.grow(capacity + 100 + random % (2 * capacity));
        } catch (const error& refused) {
            if (refused.reason() != errc::contended) return refused.what();
        }
        return {};
    }
    static std::string damage_of(const auto& in) {
        std::string text;
        const auto seen = in.verify([&](const hash_table_finding& f) {
            text += std::string(describe(f.what)) + " at slot " + std::to_string(f.slot) + "; ";
            return text.size() < 1000;
        });
        return seen.busy == 0 ? text : text + "busy";
    }

    /// All writers of a round, until each was killed. Returns: how one ended otherwise.
    static std::string kill_all(const std::string& uri, takeover_waits& told, std::span<kill_progress> progress,
                                const one_round& of, const key_list& keys, const stamps& now) {
        const takeover_waits::round meanwhile(told);
        std::vector<child_process> writers;
        for (u64 w = 0; w < progress.size(); ++w) {
            // One goes early, and what it held is free once it is gone: the others then have time to meet it.
            const u64 longest = of.number % progress.size() == w ? 500'000 : 5'000'000;
            progress[w].reset(random_at(of.seed, of.number, w) % (longest * slowness));
            writers.emplace_back([&, w]() -> std::string {
                const bool dies_attaching = of.number % 8 == w, outlives = takeover_watch::outlives(of.number, w);
                if (dies_attaching) progress[w].ready();
                table mine = table::attach(uri);
                if (!dies_attaching && !outlives) progress[w].ready();
                mine.set_patience(std::chrono::seconds(60));
                return operate(mine, {told, outlives}, progress[w], w, of, keys, now);
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
    struct sums {
        u64 rounds = 0, operations = 0, in_flight = 0, in_two = 0, settled = 0;
        growths grown;
    };

    /// What the dead left. In turn: a look at what lies there, or the next writer at once.
    static std::string judge_round(const std::string& uri, const one_round& round, ledger& book, sums& all) {
        {
            const auto reader = hash_table_reader<u64, value>::attach(uri);
            all.in_two += homes(reader).owners_of_two();
            if (round.number % 2 == 0)
                if (std::string why = book.look(reader); !why.empty()) return "to a reader " + why;
            if (round.number % 4 == 0)
                if (std::string why = damage_of(reader); !why.empty()) return "as it was left: " + why;
        }
        const table next = table::attach(uri);
        all.settled += next.recovery().operation_settled ? 1 : 0;
        all.grown.look(next);
        if (homes(next).owned_stripes() != 0) return "a dead writer's stripe was not given back";
        if (round.number % 4 <= 1)
            if (std::string why = damage_of(next); !why.empty()) return why;
        if (std::string why = book.look(next); !why.empty()) return why;
        return book.compare_all(next);
    }

    void run(u64 count, u64 rounds, std::uint32_t slots, bool grows = false) {
        const u64 seed = choose_seed();
        SCOPED_TRACE("repeat with HOLDFAST_TEST_SEED=" + std::to_string(seed));
        const unique_posix_name name("many-kill");
        const key_list keys = [&] {
            table made = table::create(name.uri(), {.capacity = capacity, .seed = seed, .writer_slots = slots});
            key_list chosen(made);
            for (u64 n = 0; n < counted + churned; ++n)
                EXPECT_EQ(table_answer(made.try_insert(chosen[n], stamped_value<wide_shape>(chosen[n], 1))),
                          table_answer::inserted);
            return chosen;
        }();
        ledger book(keys);
        shared_image pages(sizeof(takeover_waits));
        auto* const told = new (pages.bytes().data()) takeover_waits;
        std::array<kill_progress, writers_max> each;
        const std::span<kill_progress> progress(each.data(), count);
        sums all;
        std::string failure;
        // Who waits for a growth's end waits for no dead one alone: then the waits tell nothing.
        while ((grows ? all.rounds < rounds : told->another(all.rounds, rounds)) && failure.empty()) {
            const one_round round{seed, all.rounds, count, grows};
            failure = kill_all(name.uri(), *told, progress, round, keys, book.now());
            if (failure.empty()) {
                book.follow(round, progress);
                failure = judge_round(name.uri(), round, book, all);
            }
            for (const kill_progress& one : progress) {
                all.operations += one.completed();
                all.in_flight += one.in_flight() ? 1 : 0;
            }
            if (!failure.empty()) failure = "round " + std::to_string(round.number) + ": " + failure;
            ++all.rounds;
        }
        EXPECT_EQ(failure, "");
        judge_sums(all, count, book, told->takeovers());
        if (grows) return judge_growths(all, book, name);
        EXPECT_EQ(all.grown.generations, 1U);
        EXPECT_GT(book.crossing(), 100 * all.rounds) << "too few entries overflow to other stripes";
        EXPECT_TRUE(sanitized || all.in_two > 0) << "nobody was killed with two stripes";
        told->judge();
    }
    static void judge_sums(const sums& all, u64 count, const ledger& book, u64 takeovers) {
        EXPECT_GT(all.in_flight, 0U);
        EXPECT_TRUE(sanitized || takeovers + all.settled > 0);
        RecordProperty("kills", std::to_string(count * all.rounds));
        std::printf(
            "%llu kills, %llu inside an operation, %llu of them with two stripes, %llu operations; %llu takeovers at "
            "work, %llu at attaching; of the entries then %llu lay outside of their homes, %llu in another stripe\n",
            static_cast<unsigned long long>(count * all.rounds), static_cast<unsigned long long>(all.in_flight),
            static_cast<unsigned long long>(all.in_two), static_cast<unsigned long long>(all.operations),
            static_cast<unsigned long long>(takeovers), static_cast<unsigned long long>(all.settled),
            static_cast<unsigned long long>(book.overflowed() / all.rounds),
            static_cast<unsigned long long>(book.crossing() / all.rounds));
    }
    static void judge_growths(const sums& all, ledger& book, const unique_posix_name& name) {
        std::printf("%llu rounds of kills found another generation, %llu a growth without a leader\n",
                    static_cast<unsigned long long>(all.grown.generations),
                    static_cast<unsigned long long>(all.grown.left));
        EXPECT_GT(all.grown.generations, all.rounds / 10);
        EXPECT_TRUE(sanitized || all.grown.left > 0) << "no leader died in a growth, or others ended each";
        table last = table::attach(name.uri());
        while (last.advance()) {
        }
        EXPECT_FALSE(last.growth_failure().has_value()) << last.growth_failure()->what();
        EXPECT_EQ(damage_of(last), "");
        EXPECT_EQ(book.look(last), "");
        EXPECT_EQ(book.compare_all(last), "");
        EXPECT_EQ(name.entries().size(), 2U) << "left behind";
    }
};

TEST_F(HashTableManyKill, TwoAtFullSpeedLoseNothingButWhatTheyWereIn) { run(2, scaled(share_of(2100)), 4); }
TEST_F(HashTableManyKill, ThreeAtFullSpeed) { run(3, scaled(share_of(1300)), 3); }
TEST_F(HashTableManyKill, ThreeThatGrowAndShrinkItAtFullSpeed) { run(3, scaled(share_of(750)), 4, true); }

}  // namespace
