// SPDX-License-Identifier: Apache-2.0
// Many writers of a hash table and readers beside them, killed and stopped at random: what they saw must have an order.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <new>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "holdfast/hash_table/growing.hpp"
#include "holdfast/hash_table/many.hpp"
#include "support/hash_table_homes.hpp"
#include "support/hash_table_many_image.hpp"
#include "support/history_test.hpp"
#include "support/table_answer.hpp"

namespace {

using namespace holdfast;
using namespace holdfast::test;
using u64 = std::uint64_t;

constexpr u64 keys = 24;

std::array<u64, 7> whole(u64 stamp) {
    std::array<u64, 7> value{};
    for (u64 i = 0; i < value.size() && stamp != 0; ++i) value[i] = i == 0 ? stamp : random_at(stamp, 1, i);
    return value;
}
std::optional<u64> stamp_in_whole(const std::array<u64, 7>& value) {
    return value == whole(value[0]) ? std::optional(value[0]) : std::nullopt;
}

// Where inserts went, of all writers.
struct insert_counts {
    std::atomic<u64> inserted, overflowed, crossing, beyond_first_pair, full;
};
// What a writer tells of where its inserts went, if anything; then the table may also be full.
struct insert_watch {
    using homes = hash_table_homes<u64, std::array<u64, 7>>;
    std::optional<homes> where;
    insert_counts* told = nullptr;

    void inserted(u64 key, hash_table_slot at) const {
        if (told == nullptr) return;
        auto pairs = where->pairs(key);
        pairs.next();
        const u64 bucket = homes::bucket_of(at);
        told->overflowed += where->overflowed(key, at) ? 1 : 0;
        told->crossing += where->crosses(key, at) ? 1 : 0;
        told->beyond_first_pair +=
            where->overflowed(key, at) && bucket != pairs.first() && bucket != pairs.second() ? 1 : 0;
        ++told->inserted;  // last: it may be killed before
    }
    [[nodiscard]] bool full() const {
        if (told != nullptr) ++told->full;
        return told != nullptr;
    }
};

class HashTableManyHistory : public history_test {
 protected:
    using table = hash_table<u64, std::array<u64, 7>, writers::many>;
    using follower = growing_hash_table_reader<u64, std::array<u64, 7>>;
    using counts = hash_table<u64, u64, writers::many>;

    [[nodiscard]] static std::vector<u64> first_keys() {
        std::vector<u64> first(keys);
        std::iota(first.begin(), first.end(), u64{0});
        return first;
    }
    // A new life begins when what the last one was killed in is over: a waiter may just be repairing it, so each key's
    // stripe is gone through once.
    template <class Table, class Value>
    static std::string settle(Table& writer, const Value& impossible, const std::vector<u64>& all = first_keys()) {
        writer.set_patience(std::chrono::seconds(60));
        for (const u64 key : all)
            if (writer.compare_and_set(key, impossible, impossible) == table_answer::contended)
                return "a stripe was not free for a minute";
        return {};
    }
    // Another may have begun one, and a stopped one may be in the way.
    static void begin_growth(table& writer, u64 more) {
        try {
            writer.grow(10 * keys + more);
        } catch (const error& refused) {
            if (refused.reason() != errc::contended) throw;
        }
    }
    // Any change of a key, as the log has it.
    static std::string change(table& writer, history_worker& me, u64 key, u64 stamp, const insert_watch& watch = {}) {
        constexpr auto kind = [](table_operation what) { return static_cast<std::uint32_t>(what); };
        const u64 what = me.below(10);
        hash_table_result done;
        if (what >= 8) {  // only as long as it has the value that was seen
            const auto seen = writer.find(key);
            if (!seen) return {};
            const auto expected = stamp_in_whole(*seen);
            if (!expected) return "a torn value was to be taken out";
            me.log().call(table_key_model::take, key, 0, *expected);
            done = writer.compare_and_erase(key, *seen);
        } else if (what < 3) {
            me.log().call(kind(table_operation::insert_or_assign), key, stamp);
            done = writer.insert_or_assign(key, whole(stamp));
        } else if (what < 4) {
            me.log().call(kind(table_operation::try_insert), key, stamp);
            done = writer.try_insert(key, whole(stamp));
        } else if (what < 6) {
            me.log().call(kind(table_operation::erase), key, 0);
            done = writer.erase(key);
        } else {
            me.log().call(table_key_model::swap, key, stamp);
            std::optional<u64> before = 0;
            done = writer.modify(key, [&](std::array<u64, 7>& value) {
                before = stamp_in_whole(value);
                value = whole(stamp);
            });
            if (!before) return "a torn value was to be changed";
            if (!table_answer(done).refused()) me.log().done(*before);
        }
        const table_answer answer = done;
        const bool may_be = answer == table_answer::stale ? what >= 8 : answer == table_answer::full && watch.full();
        if (answer.refused() && !may_be) return "an operation was refused with status " + answer.text();
        if (writer.growth_failure() && writer.growth_failure()->reason() == errc::corrupt)
            return writer.growth_failure()->what();
        if (done.what == entry_change::inserted) watch.inserted(key, *done.slot);
        if (what < 6 || what >= 8) me.log().done(answer.number());
        return {};
    }
    // A find, as the log has it.
    static std::string look(follower& reader, history_worker& me, u64 key) {
        me.log().call(table_key_model::look, key, 0);
        const auto found = reader.find(key);
        if (!found && reader.clear_contended()) {
            me.log().cancel();
            return {};
        }
        const auto stamp = found ? stamp_in_whole(*found) : std::optional<u64>(0);
        if (!stamp) return "a torn value under key " + std::to_string(key);
        me.log().done(*stamp);
        return reader.fault() ? "the reader latched a fault" : "";
    }
    static u64 stamp_of_writer(u64 role, const history_worker& me, u64 i) {
        return (role << 56) + (me.life() << 24) + i + 2;
    }
    template <class Table>
    static std::string end_of(const std::string& uri, u64 entries_max, const std::vector<u64>& all = first_keys()) {
        Table last = Table::attach(uri, patient());
        std::string text;
        while (last.advance()) {
        }
        if (last.growth_failure()) text += last.growth_failure()->what();
        const hash_table_verification seen = last.verify([&](const hash_table_finding& f) {
            text += std::string(describe(f.what)) + "; ";
            return true;
        });
        if (seen.busy != 0) text += "busy; ";
        if (seen.operation_open || seen.update_armed) text += "something is open; ";
        u64 entries = 0;
        for (const u64 key : all) entries += last.contains(key) ? 1 : 0;
        if (last.size() != entries || seen.entries != entries || entries > entries_max)
            text += "size " + std::to_string(last.size()) + ", entries " + std::to_string(seen.entries) + ", found " +
                    std::to_string(entries);
        return text;
    }
};

// Whether what writers and readers record of one key has an order, also where any writer may make the table grow or
// shrink at any time.
class HashTableManyOrder : public HashTableManyHistory, public ::testing::WithParamInterface<bool> {};

TEST_P(HashTableManyOrder, IsLinearizable) {
    const bool grows = GetParam();
    std::string wrong_in_the_end;
    u64 first = 0, moves = 0;  // its capacity, and how often there was another in the end
    check_rounds(
        8,
        [&](const std::string& uri) {
            first = table::create(uri, {.capacity = grows ? 20 * keys : keys, .writer_slots = 8}).capacity();
            const auto write_as = [uri, grows](u64 role) {
                return [uri, role, grows](history_worker& me) -> std::string {
                    me.mortal();
                    table writer = table::attach(uri, patient());
                    if (std::string why = settle(writer, whole(1)); !why.empty()) return why;
                    me.attached();
                    for (u64 i = 0; me.go_on(); ++i) {
                        const u64 key = me.below(keys);
                        if (grows && !writer.growing() && me.below(32) == 0) begin_growth(writer, me.below(60 * keys));
                        if (std::string why = change(writer, me, key, stamp_of_writer(role, me, i)); !why.empty())
                            return why;
                    }
                    return {};
                };
            };
            const auto read = [uri](history_worker& me) -> std::string {
                me.mortal();
                auto reader = follower::attach(uri);
                me.attached();
                while (me.go_on())
                    if (std::string why = look(reader, me, me.below(keys)); !why.empty()) return why;
                return {};
            };
            return std::vector<history_role>{
                {write_as(1), true}, {write_as(2), true}, {write_as(3)}, {read, true}, {read}};
        },
        [&](const std::string& uri) {
            wrong_in_the_end += end_of<table>(uri, keys);
            moves += table::attach(uri, patient()).capacity() != first ? 1 : 0;
        },
        [](const history_run& run) { return check_by_key<table_key_model>(run.all()); });
    EXPECT_EQ(wrong_in_the_end, "");
    EXPECT_EQ(moves != 0, grows) << moves << " moves";
}
INSTANTIATE_TEST_SUITE_P(Tables, HashTableManyOrder, ::testing::Values(false, true),
                         [](const auto& made) { return made.param ? "that_grow" : "that_stay"; });

// A table of 61 buckets in four stripes. Most are full of entries that nobody touches, all at home; in each fifth there
// is one place left, for more keys under test than these. They are at home in full buckets, and where they first come
// to a place it is in another stripe: each insert overflows, and whoever changes one needs two stripes, and meets
// others in both, who want the last place.
struct overflowing_stage {
    static constexpr u64 capacity = 1500, keys_wanted = 20;
    using table = hash_table<u64, std::array<u64, 7>, writers::many>;
    using follower = growing_hash_table_reader<u64, std::array<u64, 7>>;
    std::vector<u64> fillers, wanted;

    explicit overflowing_stage(table& made) {
        const insert_watch::homes where(made);
        std::vector<u64> room(where.buckets());
        u64 left = 0;
        for (u64 bucket = 0; bucket < room.size(); ++bucket)
            left += room[bucket] = layout::tags_per_line - (is_open(bucket) ? 1 : 0);
        for (u64 key = 0; left != 0 || wanted.size() < keys_wanted; ++key) {
            u64& here = room[where.home(key)];
            if (here != 0 && made.try_insert(key, whole(stamp_of_filler(key)))) {
                fillers.push_back(key);
                --here, --left;
            } else if (wanted.size() < keys_wanted && !is_open(where.home(key)) && leaves_its_stripe(where, key)) {
                wanted.push_back(key);
            }
        }
    }
    static u64 stamp_of_filler(u64 key) { return key + 1; }
    [[nodiscard]] std::vector<u64> all() const {
        std::vector<u64> together = fillers;
        together.insert(together.end(), wanted.begin(), wanted.end());
        return together;
    }
    static std::string check_filler(follower& in, u64 key) {
        const auto found = in.find(key);
        if (!found && in.clear_contended()) return {};
        if (!found) return "key " + std::to_string(key) + ", which nobody touches, is missing";
        return *found == whole(stamp_of_filler(key)) ? "" : "key " + std::to_string(key) + " has another value";
    }

 private:
    static bool is_open(u64 bucket) { return bucket % 5 == 2; }
    static bool leaves_its_stripe(const insert_watch::homes& where, u64 key) {
        auto pairs = where.pairs(key);
        do {
            pairs.next();
        } while (!is_open(pairs.first()) && !is_open(pairs.second()));
        const auto is_elsewhere = [&](u64 bucket) {
            return !is_open(bucket) || where.stripe_of(bucket) != where.stripe_of(where.home(key));
        };
        return is_elsewhere(pairs.first()) && is_elsewhere(pairs.second());
    }
};

// Where an insert may find no room, which says that the key is not there.
struct crowded_key_model : table_key_model {
    static bool apply(state& s, const operation& op) {
        const bool inserts = op.kind == static_cast<std::uint32_t>(table_operation::try_insert) ||
                             op.kind == static_cast<std::uint32_t>(table_operation::insert_or_assign);
        if (inserts && !op.killed && op.answer == table_answer::full.number()) return s == 0;
        return table_key_model::apply(s, op);
    }
};

TEST_F(HashTableManyHistory, KeysThatOverflowIntoOtherStripesAreLinearizable) {
    std::string wrong_in_the_end;
    shared_image page(4096);
    auto* const told = new (page.bytes().data()) insert_counts{};
    std::optional<overflowing_stage> stage;
    check_rounds(
        8,
        [&](const std::string& uri) {
            table made = table::create(uri, {.capacity = overflowing_stage::capacity, .writer_slots = 8});
            stage.emplace(made);
            const auto of = stage->wanted;
            const auto write_as = [uri, told, of](u64 role) {
                return [uri, told, of, role](history_worker& me) -> std::string {
                    me.mortal();
                    table writer = table::attach(uri, patient());
                    if (std::string why = settle(writer, whole(1), of); !why.empty()) return why;
                    me.attached();
                    const insert_watch watch{insert_watch::homes(writer), told};
                    for (u64 i = 0; me.go_on(); ++i)
                        if (std::string why =
                                change(writer, me, of[me.below(of.size())], stamp_of_writer(role, me, i), watch);
                            !why.empty())
                            return why;
                    return {};
                };
            };
            const auto read = [uri, on = *stage](history_worker& me) -> std::string {
                me.mortal();
                auto reader = follower::attach(uri);
                me.attached();
                while (me.go_on()) {
                    std::string why = look(reader, me, on.wanted[me.below(on.wanted.size())]);
                    if (why.empty()) why = on.check_filler(reader, on.fillers[me.below(on.fillers.size())]);
                    if (!why.empty()) return why;
                }
                return {};
            };
            return std::vector<history_role>{
                {write_as(1), true}, {write_as(2), true}, {write_as(3), true}, {read, true}, {read}};
        },
        [&](const std::string& uri) {
            wrong_in_the_end += end_of<table>(uri, stage->fillers.size() + stage->wanted.size(), stage->all());
            const auto still = hash_table_reader<u64, std::array<u64, 7>>::attach(uri);
            if (insert_watch::homes(still).owned_stripes() != 0)
                wrong_in_the_end += "a dead writer's stripe was not given back";
            auto reader = follower::attach(uri);
            for (const u64 key : stage->fillers) wrong_in_the_end += stage->check_filler(reader, key);
        },
        [](const history_run& run) { return check_by_key<crowded_key_model>(run.all()); });
    EXPECT_EQ(wrong_in_the_end, "");
    EXPECT_GT(told->inserted, 0U);
    EXPECT_GE(told->overflowed, told->inserted) << "an insert found room at home";
    EXPECT_GT(10 * told->crossing, 7 * told->inserted) << "too few inserts took two stripes";
    EXPECT_GT(told->beyond_first_pair, told->inserted / 10);
    EXPECT_GT(told->full, 0U);
    std::printf(
        "%llu inserts, %llu overflowed, %llu into another stripe, %llu beyond the first pair; %llu times full\n",
        static_cast<unsigned long long>(told->inserted), static_cast<unsigned long long>(told->overflowed),
        static_cast<unsigned long long>(told->crossing), static_cast<unsigned long long>(told->beyond_first_pair),
        static_cast<unsigned long long>(told->full));
}

struct count_model {
    using state = u64;
    static bool apply(state& s, const operation& op) {
        if (op.kind == table_key_model::look) return op.killed || op.answer == s;
        const bool right = op.killed || op.answer == s;
        s += op.given;
        return right;
    }
};

// Counts that are added to, and entries that come and go beside them, in words of one store each.
TEST_F(HashTableManyHistory, CountsAreExact) {
    std::string wrong_in_the_end;
    check_rounds(
        6,
        [&](const std::string& uri) {
            counts made = counts::create(uri, {.capacity = keys, .writer_slots = 8});
            for (u64 key = 0; key < keys / 2; ++key) (void)made.try_insert(key, 0);
            const auto add = [uri](history_worker& me) -> std::string {
                me.mortal();
                counts writer = counts::attach(uri, patient());
                if (std::string why = settle(writer, ~u64{0}); !why.empty()) return why;
                me.attached();
                while (me.go_on()) {
                    const u64 key = me.below(keys / 2), amount = 1 + me.below(100);
                    (void)writer.insert_or_assign(key + keys / 2, amount);
                    me.log().call(table_key_model::swap, key, amount);
                    const auto before = writer.fetch_add(key, amount);
                    if (!before) return "a count is lost";
                    me.log().done(*before);
                    (void)writer.erase(key + keys / 2);
                }
                return {};
            };
            const auto read = [uri](history_worker& me) -> std::string {
                const auto reader = hash_table_reader<u64, u64>::attach(uri);
                while (me.go_on()) {
                    const u64 key = me.below(keys / 2);
                    me.log().call(table_key_model::look, key, 0);
                    const auto found = reader.find(key);
                    if (!found) return "a count is lost";
                    me.log().done(*found);
                }
                return {};
            };
            return std::vector<history_role>{{add, true}, {add, true}, {read}};
        },
        [&](const std::string& uri) { wrong_in_the_end += end_of<counts>(uri, keys); },
        [](const history_run& run) { return check_by_key<count_model>(run.all()); });
    EXPECT_EQ(wrong_in_the_end, "");
}

struct two_counts {
    u64 hits, name, misses;
};
u64 name_of_key(u64 key) { return (key + 1) * 0x9e3779b97f4a7c15U; }

// Three writers add to members of the same values, which are stored whole by each: none takes back what another added
// beside it, and nobody touches the member between.
TEST_F(HashTableManyHistory, CountsInMembersAreExact) {
    using members = hash_table<u64, two_counts, writers::many>;
    static constexpr u64 counted = 6;
    std::string wrong_in_the_end;
    check_rounds(
        4,
        [&](const std::string& uri) {
            members made = members::create(uri, {.capacity = keys, .writer_slots = 8});
            for (u64 key = 0; key < counted; ++key) (void)made.try_insert(key, {0, name_of_key(key), 0});
            const auto add = [uri](history_worker& me) -> std::string {
                me.mortal();
                members writer = members::attach(uri, patient());
                if (std::string why = settle(writer, two_counts{~u64{0}, 0, 0}); !why.empty()) return why;
                me.attached();
                while (me.go_on()) {
                    const u64 key = me.below(counted), amount = 1 + me.below(100);
                    const bool hit = me.below(2) == 0;
                    me.log().call(table_key_model::swap, hit ? key : keys + key, amount);
                    const auto before = writer.fetch_add(key, hit ? &two_counts::hits : &two_counts::misses, amount);
                    if (!before) return "a count is lost";
                    me.log().done(*before);
                }
                return {};
            };
            const auto read = [uri](history_worker& me) -> std::string {
                const auto reader = hash_table_reader<u64, two_counts>::attach(uri);
                while (me.go_on()) {
                    const u64 key = me.below(counted);
                    const bool hit = me.below(2) == 0;
                    me.log().call(table_key_model::look, hit ? key : keys + key, 0);
                    const auto found = reader.find(key);
                    if (!found) return "a count is lost";
                    if (found->name != name_of_key(key)) return "another member moved";
                    me.log().done(hit ? found->hits : found->misses);
                }
                return {};
            };
            return std::vector<history_role>{{add, true}, {add, true}, {add}, {read}};
        },
        [&](const std::string& uri) { wrong_in_the_end += end_of<members>(uri, counted); },
        [](const history_run& run) { return check_by_key<count_model>(run.all()); });
    EXPECT_EQ(wrong_in_the_end, "");
}

}  // namespace
