// SPDX-License-Identifier: Apache-2.0
// Many writers of a hash table and readers beside them, killed and stopped at random: what they saw must have an order.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "holdfast/hash_table/growing.hpp"
#include "holdfast/hash_table/many.hpp"
#include "support/hash_table_many_image.hpp"
#include "support/history_test.hpp"
#include "support/table_answer.hpp"

namespace {

using namespace holdfast;
using namespace holdfast::test;
using u64 = std::uint64_t;

constexpr u64 keys = 24;

class HashTableManyHistory : public history_test {
 protected:
    using table = hash_table<u64, std::array<u64, 7>, writers::many>;
    using counts = hash_table<u64, u64, writers::many>;

    // A new life begins when what the last one was killed in is over: a waiter may just be repairing it, so each key's
    // stripe is gone through once.
    template <class Table, class Value>
    static std::string settle(Table& writer, const Value& impossible) {
        writer.set_patience(std::chrono::seconds(60));
        for (u64 key = 0; key < keys; ++key)
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
    template <class Table>
    static std::string end_of(const std::string& uri, u64 entries_max) {
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
        for (u64 key = 0; key < keys; ++key) entries += last.contains(key) ? 1 : 0;
        if (last.size() != entries || seen.entries != entries || entries > entries_max)
            text += "size " + std::to_string(last.size()) + ", entries " + std::to_string(seen.entries) + ", found " +
                    std::to_string(entries);
        return text;
    }
};

std::array<u64, 7> whole(u64 stamp) {
    std::array<u64, 7> value{};
    for (u64 i = 0; i < value.size() && stamp != 0; ++i) value[i] = i == 0 ? stamp : random_at(stamp, 1, i);
    return value;
}
std::optional<u64> stamp_in_whole(const std::array<u64, 7>& value) {
    return value == whole(value[0]) ? std::optional(value[0]) : std::nullopt;
}

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
                    constexpr auto kind = [](table_operation what) { return static_cast<std::uint32_t>(what); };
                    for (u64 i = 0; me.go_on(); ++i) {
                        const u64 key = me.below(keys), stamp = (role << 56) + (me.life() << 24) + i + 2;
                        if (grows && !writer.growing() && me.below(32) == 0) begin_growth(writer, me.below(60 * keys));
                        const u64 what = me.below(10);
                        table_answer status;
                        if (what >= 8) {  // only as long as it has the value that was seen
                            const auto seen = writer.find(key);
                            if (!seen) continue;
                            const auto expected = stamp_in_whole(*seen);
                            if (!expected) return "a torn value was to be taken out";
                            me.log().call(table_key_model::take, key, 0, *expected);
                            status = writer.compare_and_erase(key, *seen);
                            if (status == table_answer::stale) {
                                me.log().done(status.number());
                                continue;
                            }
                        } else if (what < 3) {
                            me.log().call(kind(table_operation::insert_or_assign), key, stamp);
                            status = writer.insert_or_assign(key, whole(stamp));
                        } else if (what < 4) {
                            me.log().call(kind(table_operation::try_insert), key, stamp);
                            status = writer.try_insert(key, whole(stamp));
                        } else if (what < 6) {
                            me.log().call(kind(table_operation::erase), key, 0);
                            status = writer.erase(key);
                        } else {
                            me.log().call(table_key_model::swap, key, stamp);
                            std::optional<u64> before = 0;
                            status = writer.modify(key, [&](std::array<u64, 7>& value) {
                                before = stamp_in_whole(value);
                                value = whole(stamp);
                            });
                            if (!before) return "a torn value was to be changed";
                            me.log().done(*before);
                            if (status == table_answer::updated || status == table_answer::not_found) continue;
                        }
                        if (status.refused()) return "an operation was refused with status " + status.text();
                        if (writer.growth_failure() && writer.growth_failure()->reason() == errc::corrupt)
                            return writer.growth_failure()->what();
                        me.log().done(status.number());
                    }
                    return {};
                };
            };
            const auto read = [uri](history_worker& me) -> std::string {
                me.mortal();
                auto reader = growing_hash_table_reader<u64, std::array<u64, 7>>::attach(uri);
                me.attached();
                while (me.go_on()) {
                    const u64 key = me.below(keys);
                    me.log().call(table_key_model::look, key, 0);
                    const auto found = reader.find(key);
                    if (!found && reader.clear_contended()) {
                        me.log().cancel();
                        continue;
                    }
                    const auto stamp = found ? stamp_in_whole(*found) : std::optional<u64>(0);
                    if (!stamp) return "a torn value under key " + std::to_string(key);
                    me.log().done(*stamp);
                    if (reader.fault()) return "the reader latched a fault";
                }
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
