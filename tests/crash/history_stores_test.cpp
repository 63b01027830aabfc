// SPDX-License-Identifier: Apache-2.0
// Hash tables, small tables, hash maps, arrays, block stores and metrics under real load, their processes killed and
// stopped at random: every recorded history could have come from operations that happened at single instants, each of a
// killed process at most once and before its successor went on.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "holdfast/array.hpp"
#include "holdfast/block_store.hpp"
#include "holdfast/block_store/many.hpp"
#include "holdfast/hash_table.hpp"
#include "holdfast/hash_table/growing.hpp"
#include "holdfast/metrics/counter_set.hpp"
#include "holdfast/metrics/latency_histogram.hpp"
#include "holdfast/small_table.hpp"
#include "support/history_test.hpp"
#include "support/map_history.hpp"

namespace {

using namespace holdfast;
using namespace holdfast::test;
using u64 = std::uint64_t;

/// A value of several words that shows whether it is whole. Stamp 0 is none.
using wide = std::array<u64, 7>;
wide wide_of(u64 stamp) {
    wide value{};
    for (u64 i = 0; i < value.size() && stamp != 0; ++i) value[i] = i == 0 ? stamp : random_at(stamp, 1, i);
    return value;
}
std::optional<u64> stamp_of(const wide& value) {
    return value == wide_of(value[0]) ? std::optional(value[0]) : std::nullopt;
}
u64 stamp_for(const history_worker& me, u64 i) { return (me.life() << 24) + i + 1; }

// ---- hash_table --------------------------------------------------------------------------------------------------

enum : std::uint32_t { put_kind, erase_kind, find_kind };

struct entry_model {
    using state = u64;  // stamp; 0: no entry
    static bool apply(state& s, const operation& op) {
        switch (op.kind) {
            case put_kind: s = op.given; return true;
            case erase_kind: {
                const bool was_there = s != 0;
                s = 0;
                return op.killed || op.answer == (was_there ? 1 : 0);
            }
            default: return op.killed || op.answer == s;
        }
    }
};

constexpr u64 keys = 12;

/// A table of keys: how it is made, written and asked.
struct kind_of_hash_table {
    using table = hash_table<u64, wide>;
    using reader = hash_table_reader<u64, wide>;
    static bool put(table& in, u64 key, const wide& value) {
        return static_cast<bool>(in.insert_or_assign(key, value));
    }
    static bool erase(table& in, u64 key) { return static_cast<bool>(in.erase(key)); }
    static outcome find(const reader& in, u64 key, wide& value) {
        const auto found = in.find(key);
        if (found) value = *found;
        return found ? outcome::ok : in.clear_contended() ? outcome::contended : outcome::not_found;
    }
};
/// One that grows or shrinks nearly all the time, under readers that follow. What a killed growth did is nothing.
struct kind_of_growing_table {
    using table = growing_hash_table<u64, wide>;
    using reader = growing_hash_table_reader<u64, wide>;
    static constexpr bool grows = true;
    static bool put(table& in, u64 key, const wide& value) {
        if (!in.growing() && value[0] % 8 == 0) in.grow(keys + value[1] % (50 * keys));
        return static_cast<bool>(in.insert_or_assign(key, value)) && !in.growth_failure();
    }
    static bool erase(table& in, u64 key) { return static_cast<bool>(in.erase(key)); }
    static outcome find(reader& in, u64 key, wide& value) {
        const auto found = in.find(key);
        if (found) value = *found;
        return found ? outcome::ok : in.clear_contended() ? outcome::contended : outcome::not_found;
    }
};
struct kind_of_small_table {
    using table = small_table<u64, wide>;
    using reader = small_table_reader<u64, wide>;
    static bool put(table& in, u64 key, const wide& value) { return in.insert_or_assign(key, value) == outcome::ok; }
    static bool erase(table& in, u64 key) { return in.erase(key) == outcome::ok; }
    static outcome find(reader& in, u64 key, wide& value) { return in.find(key, value); }
};

template <class Kind>
std::string write_table(const std::string& uri, const attach_options& how, history_worker& me) {
    me.mortal();
    auto writer = Kind::table::attach(uri, how);
    me.attached();
    for (u64 i = 0; me.go_on(); ++i) {
        const u64 key = me.below(keys);
        const bool erase = me.below(3) == 0;
        me.log().call(erase ? erase_kind : put_kind, key, erase ? 0 : stamp_for(me, i));
        if (erase) {
            me.log().done(Kind::erase(writer, key) ? 1 : 0);
        } else {
            if (!Kind::put(writer, key, wide_of(stamp_for(me, i)))) return "a put was refused";
            me.log().done(0);
        }
    }
    return {};
}
template <class Kind>
std::string read_table(const std::string& uri, history_worker& me) {
    me.mortal();
    auto reader = Kind::reader::attach(uri);
    me.attached();
    while (me.go_on()) {
        const u64 key = me.below(keys);
        wide value{};
        me.log().call(find_kind, key, 0);
        const outcome got = Kind::find(reader, key, value);
        if (got == outcome::contended) {
            me.log().cancel();
            continue;
        }
        const auto stamp = got == outcome::ok ? stamp_of(value) : std::optional<u64>(0);
        if (!stamp) return "a torn value under key " + std::to_string(key);
        me.log().done(*stamp);
        if (reader.fault()) return "the reader latched a fault";
    }
    return {};
}

class TableHistory : public history_test {
 protected:
    template <class Kind>
    void check_table(unsigned rounds) {
        using table = typename Kind::table;
        u64 first = 0, moves = 0;  // its capacity, and how often there was another in the end
        check_rounds(
            rounds,
            [&](const std::string& uri) {
                first = table::create(uri, {.capacity = keys}).capacity();
                const auto write = [uri](history_worker& me) { return write_table<Kind>(uri, patient(), me); };
                const auto read = [uri](history_worker& me) { return read_table<Kind>(uri, me); };
                return std::vector<history_role>{{write, true}, {read, true}, {read}, {read}};
            },
            [&](const std::string& uri) { moves += table::attach(uri, patient()).capacity() != first ? 1 : 0; },
            [](const history_run& run) { return check_by_key<entry_model>(run.all()); });
        constexpr bool grows = requires { Kind::grows; };
        EXPECT_EQ(moves != 0, grows) << moves << " moves";
    }
};
class HashTableHistory : public TableHistory {};

TEST_F(HashTableHistory, IsLinearizable) { check_table<kind_of_hash_table>(8); }
TEST_F(HashTableHistory, OfATableThatGrowsIsLinearizable) { check_table<kind_of_growing_table>(6); }

class SmallTableHistory : public TableHistory {};

TEST_F(SmallTableHistory, IsLinearizable) { check_table<kind_of_small_table>(4); }

// ---- array -------------------------------------------------------------------------------------------------------

enum : std::uint32_t { store_kind, load_kind };

struct cell_model {
    using state = u64;
    static bool apply(state& s, const operation& op) {
        if (op.kind == load_kind) return op.killed || op.answer == s;
        s = op.given;
        return true;
    }
};

class ArrayHistory : public history_test {};

// Elements 0 to 7 by themselves; 8 to 27, in two groups, always all together, as one object.
constexpr u64 singles = 8, range = 20;

TEST_F(ArrayHistory, ElementsAndRangesAreLinearizable) {
    const auto load_range = [](const auto& from) -> std::optional<u64> {
        std::array<wide, range> values;
        from.load_range(singles, values);
        const auto first = stamp_of(values[0]);
        for (const wide& v : values)
            if (stamp_of(v) != first) return std::nullopt;
        return first;
    };
    check_rounds(
        8,
        [&](const std::string& uri) {
            (void)array<wide>::create(uri, {.size = singles + range});
            const auto write = [uri](history_worker& me) -> std::string {
                me.mortal();
                auto writer = array<wide>::attach(uri, patient());
                me.attached();
                for (u64 i = 0; me.go_on(); ++i) {
                    const u64 at = me.below(singles + 2), stamp = stamp_for(me, i);
                    me.log().call(store_kind, std::min(at, singles), stamp);
                    if (at < singles) {
                        writer.store(at, wide_of(stamp));
                    } else {
                        std::array<wide, range> values;
                        values.fill(wide_of(stamp));
                        writer.store_range(singles, values);
                    }
                    me.log().done(0);
                }
                return {};
            };
            const auto read = [uri, load_range](history_worker& me) -> std::string {
                me.mortal();
                const auto reader = array_reader<wide>::attach(uri);
                me.attached();
                while (me.go_on()) {
                    const u64 at = me.below(singles + 2);
                    me.log().call(load_kind, std::min(at, singles), 0);
                    try {
                        const auto stamp = at < singles ? stamp_of(reader[at]) : load_range(reader);
                        if (!stamp) return "element " + std::to_string(at) + " is torn, or the range is mixed";
                        me.log().done(*stamp);
                    } catch (const error& refused) {
                        if (refused.reason() != errc::contended) throw;
                        me.log().cancel();
                    }
                }
                return {};
            };
            return std::vector<history_role>{{write, true}, {read, true}, {read}, {read}};
        },
        [](const std::string& uri) { (void)array<wide>::attach(uri, patient()); },
        [](const history_run& run) { return check_by_key<cell_model>(run.all()); });
}

// ---- block_store -------------------------------------------------------------------------------------------------

enum : std::uint32_t { allocate_kind, free_kind, fetch_kind };

struct block_slot_model {
    static constexpr u64 freed = ~u64{0};
    using state = u64;  // under a handle: 0 before it is given out, then the value's stamp, then `freed`
    static bool apply(state& s, const operation& op) {
        switch (op.kind) {
            case allocate_kind:
                if (s != 0) return false;  // a handle is given out once
                s = op.given;
                return true;
            case free_kind: {
                const bool was_there = s != 0 && s != freed;
                if (!was_there) return !op.killed && op.answer == 0;
                s = freed;
                return op.killed || op.answer == 1;
            }
            default: return op.killed || op.answer == (s == freed ? 0 : s);
        }
    }
};

constexpr u64 places = 16;

class BlockStoreHistory : public history_test {
 protected:
    // Values of one to five units that show whether they are whole.
    static std::vector<std::byte> bytes_of(u64 stamp) {
        std::vector<std::byte> value(sizeof(wide) + stamp % 5 * 64);
        const wide first = wide_of(stamp);
        std::memcpy(value.data(), &first, sizeof first);
        for (std::size_t i = sizeof first; i < value.size(); ++i) value[i] = static_cast<std::byte>(stamp + i);
        return value;
    }
    static std::optional<u64> stamp_in(const std::vector<std::byte>& value) {
        wide first;
        if (value.size() < sizeof first) return std::nullopt;
        std::memcpy(&first, value.data(), sizeof first);
        const auto stamp = stamp_of(first);
        return stamp && value == bytes_of(*stamp) ? stamp : std::nullopt;
    }
    static std::string read(history_worker& me, const std::string& uri, const std::atomic<u64>* handles, u64 count) {
        me.mortal();
        const block_store_reader reader = block_store_reader::attach(uri);
        me.attached();
        std::vector<std::byte> out;
        while (me.go_on()) {
            const u64 handle = handles[me.below(count)].load();
            if (handle == 0) continue;
            me.log().call(fetch_kind, handle, 0);
            const result got = reader.read(handle, out);
            if (got.status == outcome::stale) {
                me.log().done(0);
                continue;
            }
            if (!got) return "a read answers " + std::string(outcome_name(got.status));
            const auto stamp = stamp_in(out);
            if (!stamp) return "a torn value";
            me.log().done(*stamp);
        }
        return {};
    }
    static history_report judge(const history_run& run) {
        history all = run.all();
        // An allocation that never came to a handle is nobody's; the successor has freed what there was of it.
        std::erase_if(all, [](const operation& op) { return op.kind == allocate_kind && op.killed; });
        // A kill in a replacement may free the old value after it happened; its handle is still in the table.
        return check_by_key<block_slot_model>(all);
    }
};

// The handles lie where all roles see them. A value whose allocation was killed is known to nobody: the successor frees
// what is under no handle of the table. A replacement is an allocation and a freeing at once.
TEST_F(BlockStoreHistory, ValuesAreLinearizable) {
    shared_image page(4096);
    auto* const handles = reinterpret_cast<std::atomic<u64>*>(page.bytes().data());
    check_rounds(
        8,
        [&](const std::string& uri) {
            for (u64 p = 0; p < places; ++p) handles[p].store(0);
            (void)block_store::create(uri, {.bytes = 40'000, .unit_bytes = 64});
            const auto write = [uri, handles](history_worker& me) -> std::string {
                me.mortal();
                block_store store = block_store::attach(uri, patient());
                me.attached();
                u64 cursor = 0;
                while (const auto stray = store.next_value(cursor))
                    if (std::none_of(handles, handles + places, [&](auto& h) { return h.load() == *stray; }))
                        if (store.free(*stray) != outcome::ok) return "a stray value cannot be freed";
                for (u64 i = 0; me.go_on(); ++i) {
                    std::atomic<u64>& place = handles[me.below(places)];
                    const u64 former = place.load(), stamp = stamp_for(me, i), choice = me.below(3);
                    if (former == 0) {
                        me.log().call(allocate_kind, 0, stamp);
                        const block_result kept = store.allocate(bytes_of(stamp));
                        if (!kept) return "an allocation was refused";
                        me.log().done(1, kept.handle);
                        place.store(kept.handle);
                    } else if (choice != 0 || !store.contains(former)) {
                        me.log().call(free_kind, former, 0);
                        me.log().done(store.free(former) == outcome::ok ? 1 : 0);
                        if (choice == 2) continue;  // others may go on asking for it
                        place.store(0);
                    } else {
                        me.log().call(free_kind, former, 0);
                        const u64 called = me.log().called();
                        const block_result kept = store.replace(former, bytes_of(stamp));
                        if (!kept) return "a replacement was refused";
                        me.log().done(1);
                        me.log().also({called, me.log().last_returned(), allocate_kind, false, kept.handle, stamp, 1});
                        place.store(kept.handle);
                    }
                }
                return {};
            };
            const auto look = [uri, handles](history_worker& me) { return read(me, uri, handles, places); };
            return std::vector<history_role>{{write, true}, {look, true}, {look}, {look}};
        },
        [](const std::string& uri) { (void)block_store::attach(uri, patient()); }, judge);
}

// The same of three writers, which free and replace each other's values. Each notes what it is about to give up, and
// what only it knows: who comes behind it gives up the one, so that nothing of it happens later, and frees the other.
class ManyBlocksHistory : public BlockStoreHistory {
 protected:
    using store = basic_block_store<writers::many>;
    static constexpr u64 writers_at_once = 3;
    struct note {
        std::atomic<u64> leaving{0}, unknown{0};
    };
    static constexpr u64 contested = 3;  // few, so that they are often at one value
    struct page {
        std::array<std::atomic<u64>, contested> handles{};
        std::array<note, writers_at_once> notes{};
    };

    static std::string write(history_worker& me, const std::string& uri, page& all, u64 role) {
        me.mortal();
        store blocks = store::attach(uri, patient());
        blocks.set_patience(std::chrono::seconds(60));
        note& mine = all.notes[role];
        (void)blocks.free(mine.leaving.load());
        (void)blocks.free(mine.unknown.load());
        me.attached();
        for (u64 i = 0; me.go_on(); ++i) {
            std::atomic<u64>& place = all.handles[me.below(contested)];
            const u64 former = place.load(), choice = me.below(3);
            const bool frees = former != 0 && (choice != 0 || !blocks.contains(former));
            if (std::string wrong = frees
                                        ? free(me, blocks, mine, former)
                                        : store_anew(me, blocks, mine, place, former, (role << 56) + stamp_for(me, i));
                !wrong.empty())
                return wrong;
            u64 known = former;  // in two of three cases others may go on asking for it
            if (frees && choice != 2) (void)place.compare_exchange_strong(known, 0);
        }
        return {};
    }
    static std::string free(history_worker& me, store& blocks, note& mine, u64 handle) {
        me.log().call(free_kind, handle, 0);
        mine.leaving.store(handle);  // behind the call: what a successor does by it is this call's
        const outcome done = blocks.free(handle);
        if (done != outcome::ok && done != outcome::stale) return "a free answers " + std::string(outcome_name(done));
        me.log().done(done == outcome::ok ? 1 : 0);
        mine.leaving.store(0);
        return {};
    }
    // A value that goes to a place, instead of the one under `former` if that is not 0.
    static std::string store_anew(history_worker& me, store& blocks, note& mine, std::atomic<u64>& place, u64 former,
                                  u64 stamp) {
        const auto value = bytes_of(stamp);
        if (blocks.prepare(value.size()) != outcome::ok) return "an allocation was refused";
        const u64 handle = blocks.pending();
        if (blocks.write(0, value) != outcome::ok) return "a claim is not there any more";
        mine.unknown.store(handle);
        me.log().call(former == 0 ? allocate_kind : free_kind, former, former == 0 ? stamp : 0);
        mine.leaving.store(former);
        const u64 called = me.log().called();
        const block_result kept = blocks.commit(former);
        if (!kept && kept.status != outcome::stale) return "a commit answers " + std::string(outcome_name(kept.status));
        if (!kept) {
            blocks.discard();
            me.log().done(0);
        } else if (former == 0) {
            me.log().done(1, handle);
        } else {
            me.log().done(1);
            me.log().also({called, me.log().last_returned(), allocate_kind, false, handle, stamp, 1});
        }
        mine.leaving.store(0);
        mine.unknown.store(0);
        if (!kept) return {};
        const u64 displaced = place.exchange(handle);
        return displaced == 0 || displaced == former ? "" : free(me, blocks, mine, displaced);
    }
};

TEST_F(ManyBlocksHistory, ValuesOfThreeWritersAreLinearizable) {
    shared_image bytes(sizeof(page));
    page* shared = nullptr;
    std::string damage;
    check_rounds(
        8,
        [&](const std::string& uri) {
            shared = new (bytes.bytes().data()) page;
            (void)store::create(uri, {.bytes = 80'000, .unit_bytes = 64, .writer_slots = 8});
            const auto look = [uri, shared](history_worker& me) {
                return read(me, uri, shared->handles.data(), contested);
            };
            std::vector<history_role> roles{{look, true}, {look}};
            for (u64 role = 0; role < writers_at_once; ++role)
                roles.push_back(
                    {[uri, shared, role](history_worker& me) { return write(me, uri, *shared, role); }, true});
            return roles;
        },
        [&](const std::string& uri) {
            const store last = store::attach(uri, patient());
            const auto seen = last.verify([&](const block_finding& f) {
                damage += std::string(describe(f.what)) + "; ";
                return true;
            });
            if (seen.busy) damage += "busy; ";
        },
        judge);
    EXPECT_EQ(damage, "");
}

// ---- hash_map ----------------------------------------------------------------------------------------------------

class HashMapHistory : public history_test {
 protected:
    template <writers Policy = writers::one>
    void check(const map_load& load) {
        const map_history<Policy> in(load);
        std::string damage;
        check_rounds(
            8,
            [&](const std::string& uri) {
                in.make(uri);
                return in.roles(uri);
            },
            [&](const std::string& uri) {
                const auto last = map_history<Policy>::attach(uri);
                const auto seen = last.verify([&](const hash_map_finding& f) {
                    damage += std::string(describe(f.what)) + "; ";
                    return true;
                });
                if (seen.busy != 0) damage += "busy; ";
            },
            [&](const history_run& run) { return in.judge(run); });
        EXPECT_EQ(damage, "");
    }
};

TEST_F(HashMapHistory, EveryOperationIsLinearizable) { check({.made = {.capacity = 12, .bytes = 20'000}}); }

TEST_F(HashMapHistory, EveryOperationOfThreeOfManyWritersIsLinearizable) {
    check<writers::many>({.made = {.capacity = 12, .bytes = 40'000, .writer_slots = 8}});
}

TEST_F(HashMapHistory, WhatExpiresIsThereInItsTimeAndNotBehindIt) {
    check({.made = {.capacity = 12, .bytes = 20'000}, .expiring = true});
}

// Room for some ten entries of sixteen keys.
TEST_F(HashMapHistory, WhatIsEvictedStaysAwayAndTheRestIsLinearizable) {
    check({.keys = 16, .made = {.capacity = 16, .bytes = 2'048, .evict = true, .registered_readers = 4}});
}

// The model's own teeth: what no map may answer.
TEST(HashMapHistoryTeeth, WhatNoOrderExplainsIsFound) {
    using map = map_key_model;
    constexpr u64 first = map_content_of::make(1), second = map_content_of::make(2), brief = map_content_of::make(3, 2);
    const auto explained = [](history all, bool evicting = false) {
        for (std::size_t i = 0; i < all.size(); ++i) all[i].called = 2 * i + 1, all[i].returned = 2 * i + 2;
        return check_history<map>(all, {.evicting = evicting}).ok();
    };
    const operation stored{.kind = map::set, .given = first, .answer = 8, .found = 1};
    const operation again{.kind = map::set, .given = second, .answer = 9, .found = 1};
    const operation living{.kind = map::set, .given = brief, .answer = 8, .found = 1};
    const operation killed{.kind = map::fetch_add, .killed = true};
    const auto swapped = [](u64 expected, u64 done) {
        return operation{
            .kind = map::compare_and_set, .given = second, .answer = 10, .expected = expected, .found = done};
    };
    const auto found = [](u64 handle, u64 content) {
        return operation{.kind = map::find, .answer = handle, .found = content};
    };
    const auto second_of = [](u64 at) { return operation{.kind = map::tick, .given = at}; };
    EXPECT_TRUE(explained({stored, again, swapped(9, 1), found(10, second)}));
    EXPECT_FALSE(explained({stored, again, swapped(8, 1)})) << "a condition that did not hold";
    EXPECT_FALSE(explained({stored, again, found(8, first)})) << "an old value";
    EXPECT_TRUE(explained({stored, killed, found(9, first + 1)}));
    EXPECT_TRUE(explained({stored, killed, found(8, first)}));
    EXPECT_FALSE(explained({stored, killed, found(9, first + 2)})) << "an addition that was done twice";
    EXPECT_FALSE(explained({stored, killed, found(8, first), found(9, first + 1)})) << "done behind its successor";
    EXPECT_FALSE(explained({stored, found(0, 0)})) << "a key that is lost";
    EXPECT_TRUE(explained({stored, found(0, 0)}, true));
    EXPECT_FALSE(explained({stored, found(0, 0), found(8, first)}, true)) << "an evicted entry that came back";
    EXPECT_TRUE(explained({living, second_of(1), found(8, brief), second_of(2), found(0, 0)}));
    EXPECT_FALSE(explained({living, second_of(1), found(0, 0)})) << "gone before its time";
    EXPECT_FALSE(explained({living, second_of(2), found(8, brief)})) << "there behind its time";
    EXPECT_NE(handle_given_twice({stored, living}), "");
}

// ---- metrics -----------------------------------------------------------------------------------------------------

enum : std::uint32_t { add_kind, sum_kind };

struct counter_model {
    using state = u64;
    static bool apply(state& s, const operation& op) {
        if (op.kind == sum_kind) return op.killed || op.answer == s;
        s += op.given;
        return true;
    }
};

class MetricsHistory : public history_test {};

constexpr const char* names[] = {"a_total", "b_total"};

TEST_F(MetricsHistory, CountersOfManyWritersAreLinearizable) {
    check_rounds(
        8,
        [&](const std::string& uri) {
            (void)counter_set::create(uri, {.capacity = 4});
            const auto write = [uri](history_worker& me) -> std::string {
                me.mortal();
                const counter_set set = counter_set::attach(uri);
                counter mine[] = {set.get(names[0]), set.get(names[1])};
                me.attached();
                while (me.go_on()) {
                    const u64 key = me.below(2);
                    me.log().call(add_kind, key, 1);
                    mine[key].add(1);
                    me.log().done(0);
                }
                return {};
            };
            const auto read = [uri](history_worker& me) -> std::string {
                const counter_set_reader reader = counter_set_reader::attach(uri);
                me.attached();
                while (me.go_on()) {
                    const u64 key = me.below(2);
                    me.log().call(sum_kind, key, 0);
                    me.log().done(reader.value(names[key]).value_or(0));
                }
                return {};
            };
            return std::vector<history_role>{{write, true}, {write, true}, {write, true}, {read}};
        },
        [](const std::string&) {}, [](const history_run& run) { return check_by_key<counter_model>(run.all()); });
}

// A merged histogram is no single instant of all shards; it holds whatever had returned when it was asked for, nothing
// that had not been called when it answered, and never less than an earlier one.
history_report check_totals(const history& adds, history reads) {
    history_report report;
    report.operations = adds.size() + reads.size();
    std::vector<u64> called, returned;
    for (const operation& op : adds) {
        called.push_back(op.called);
        if (!op.killed) returned.push_back(op.returned);
        report.killed += op.killed ? 1 : 0;
    }
    std::sort(called.begin(), called.end());
    std::sort(returned.begin(), returned.end());
    u64 before = 0;
    for (const operation& op : reads) {  // of one reader: in order
        const auto least =
            static_cast<u64>(std::lower_bound(returned.begin(), returned.end(), op.called) - returned.begin());
        const auto most =
            static_cast<u64>(std::upper_bound(called.begin(), called.end(), op.returned) - called.begin());
        if (op.killed) continue;
        if (op.answer < std::max(least, before) || op.answer > most)
            report.violation = "a total outside [" + std::to_string(std::max(least, before)) + ", " +
                               std::to_string(most) + "]: " + op.text();
        before = op.answer;
    }
    return report;
}

TEST_F(MetricsHistory, TotalsOfHistogramsLieBetweenWhatWasRecordedAndWhatWasBegun) {
    check_rounds(
        8,
        [&](const std::string& uri) {
            (void)latency_histogram::create(uri, {.shards = 2});
            const auto write = [uri](history_worker& me) -> std::string {
                me.mortal();
                const latency_histogram histogram = latency_histogram::attach(uri);
                latency_recorder recorder = histogram.make_recorder();
                me.attached();
                while (me.go_on()) {
                    me.log().call(add_kind, 0, 1);
                    recorder.record(100 + me.below(1000));
                    me.log().done(0);
                }
                return {};
            };
            const auto read = [uri](history_worker& me) -> std::string {
                const latency_histogram_reader reader = latency_histogram_reader::attach(uri);
                me.attached();
                while (me.go_on()) {
                    me.log().call(sum_kind, 0, 0);
                    me.log().done(reader.merged().total());
                }
                return {};
            };
            return std::vector<history_role>{{write, true}, {write, true}, {write, true}, {read}};
        },
        [](const std::string&) {}, [](const history_run& run) { return check_totals(run.of(0, 3), run.of_role[3]); });
}

// ---- the rig -----------------------------------------------------------------------------------------------------

struct exact_counter_model {
    using state = u64;
    static bool apply(state& s, const operation& op) {
        ++s;
        return op.killed || op.answer == s;
    }
};

// The rig's own teeth: two processes that add to a word by load and store lose additions, and that is seen.
TEST(HistoryRig, FindsAnObjectThatLosesAdditions) {
    shared_image page(4096);
    auto* const word = new (page.bytes().data()) std::atomic<u64>(0);
    const auto add = [word](history_worker& me) -> std::string {
        me.mortal();
        me.attached();
        while (me.go_on()) {
            me.log().call(add_kind, 0, 1);
            const u64 next = word->load() + 1;
            if (me.below(4) == 0) ::sched_yield();
            word->store(next);
            me.log().done(next);
        }
        return {};
    };
    const history_run run = run_roles({{add, true}, {add, true}}, 100 * slowness, choose_seed(), [] {});
    EXPECT_EQ(run.failure, "");
    EXPECT_FALSE(check_history<exact_counter_model>(run.all()).ok());
}

}  // namespace
