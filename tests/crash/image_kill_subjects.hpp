// SPDX-License-Identifier: Apache-2.0
// image_kill_subjects.hpp - arrays, tables, maps and stores in named segments, with the operations in which
// image_kill_test.cpp kills their writer, and what a reader finds before and after each. The other containers are in
// image_kill_rings.hpp, image_kill_objects.hpp and image_kill_metrics.hpp.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "golden/subjects.hpp"
#include "holdfast/holdfast.hpp"

namespace holdfast::test::image_kill {

using golden::bytes_of;
using golden::require;
using golden::session;
using golden::session_of;
using golden::text_of;
using u64 = std::uint64_t;

/// What a container holds, as a reader finds it; "damage" is the name of what verify() finds.
using contents = std::map<std::string, std::string>;

struct operation {
    const char* name = "";
    /// Attaches as the writer, and returns what it then does.
    std::function<std::function<void()>(const std::string& uri)> start;
    std::function<void(contents&)> apply;
    /// A reader may meet both what it replaces and what it brings, until the next writer comes.
    bool both_between = false;
    /// So many other entries may go to make room, one by one.
    u64 evicted_max = 0;
    /// What it does after `apply`, one by one: a death leaves the first so many of all.
    std::vector<std::function<void(contents&)>> then{};
};

/// What is done behind a death, and not stepped itself: scripts/lint_stepped.py tells the two apart by this name.
struct afterwards : operation {
    explicit afterwards(operation what) : operation(std::move(what)) {}
};

struct subject {
    const char* name;
    std::function<contents(const std::string& uri)> make;
    std::function<contents(const std::string& uri)> read;
    std::vector<operation> operations;
    afterwards next;
    bool reading_takes = false;  // what was read is gone
    /// Segments beside this one in which its writer stores, by their files, once an operation is about to begin.
    std::function<std::vector<std::string>(const std::string& uri)> stores_also{};
    /// Where names lead, of an operation that changes them.
    std::function<std::string(const std::string& uri)> names{};
    /// Counts who finished what a dead one was in, where others do.
    std::shared_ptr<u64> repairs{};
    friend std::ostream& operator<<(std::ostream& out, const subject& s) { return out << s.name; }
};

template <class Handle, class Operate>
std::function<void()> with(Handle handle, Operate operate) {
    return [shared = std::make_shared<Handle>(std::move(handle)), operate] { operate(*shared); };
}

inline std::string name_of(u64 n) { return std::to_string(n); }
inline std::string text_of_bytes(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
/// Its number, and what was added to its visits.
inline std::string text_of_session(const session& s) {
    const u64 n = s.user / 1000;
    if (s.user % 1000 != 7 || s.flags != ~static_cast<std::uint32_t>(n) || s.visits < n) return "torn";
    return s.visits == n ? name_of(n) : name_of(n) + " + " + name_of(s.visits - n);
}
template <class T>
std::span<const std::byte> bytes_of_record(const T& record) {
    return std::as_bytes(std::span(&record, 1));
}
template <class Findings>
inline void add_damage(contents& to, const Findings& found) {
    if (!found.empty()) to["damage"] = found.list()[0].what;
}

// ---- stores ------------------------------------------------------------------------------------------------------

using wide_array = array<session>;

inline subject array_subject() {
    constexpr u64 size = 12;
    return {"array",
            [](const std::string& uri) {
                auto writer = wide_array::create(uri, {.size = size});
                contents made;
                for (u64 i = 0; i < size; ++i) writer.store(i, session_of(i)), made[name_of(i)] = name_of(i);
                return made;
            },
            [](const std::string& uri) {
                const auto reader = array_reader<session>::attach(uri);
                contents found;
                for (u64 i = 0; i < reader.size(); ++i) found[name_of(i)] = text_of_session(reader[i]);
                if (!reader.verify([](const array_finding&) { return true; }).intact()) found["damage"] = "array";
                return found;
            },
            {{"store",
              [](const std::string& uri) {
                  return with(wide_array::attach(uri), [](wide_array& a) { a.store(3, session_of(70)); });
              },
              [](contents& c) { c["3"] = "70"; }},
             {"store_range",
              [](const std::string& uri) {
                  return with(wide_array::attach(uri), [](wide_array& a) {
                      const session three[] = {session_of(80), session_of(81), session_of(82)};
                      a.store_range(4, three);
                  });
              },
              [](contents& c) { c["4"] = "80", c["5"] = "81", c["6"] = "82"; }},
             {"fill",
              [](const std::string& uri) {
                  return with(wide_array::attach(uri), [](wide_array& a) { a.fill(session_of(33)); });
              },
              [](contents& c) {
                  for (auto& [index, value] : c) value = "33";  // one group, and so one record
              }},
             {"modify",
              [](const std::string& uri) {
                  return with(wide_array::attach(uri),
                              [](wide_array& a) { a.modify(3, [](session& s) { s = session_of(72); }); });
              },
              [](contents& c) { c["3"] = "72"; }},
             {"store, by its bytes",
              [](const std::string& uri) {
                  return with(dynamic_array::attach(uri),
                              [](dynamic_array& a) { a.store(3, bytes_of_record(session_of(73))); });
              },
              [](contents& c) { c["3"] = "73"; }},
             {"store_range, by its bytes",
              [](const std::string& uri) {
                  return with(dynamic_array::attach(uri), [](dynamic_array& a) {
                      const session two[] = {session_of(83), session_of(84)};
                      a.store_range(4, 2, bytes_of_record(two));
                  });
              },
              [](contents& c) { c["4"] = "83", c["5"] = "84"; }}},
            afterwards({"store",
                        [](const std::string& uri) {
                            return with(wide_array::attach(uri), [](wide_array& a) { a.store(5, session_of(90)); });
                        },
                        [](contents& c) { c["5"] = "90"; }})};
}

using session_lines = small_table<u64, session>;

inline contents read_small_table(const std::string& uri) {
    auto table = small_table_reader<u64, session>::attach(uri);
    contents found, visited;
    require(table.visit([&](u64 key, const session& s) { visited[name_of(key)] = text_of_session(s); }) == outcome::ok,
            "a visit");
    for (u64 key = 0; key < 150; ++key)
        if (const auto by_key = table.find(key)) found[name_of(key)] = text_of_session(*by_key);
    if (found != visited) found["damage"] = "found by key and by visit are two things";
    if (!table.verify([](const small_table_finding&) { return true; }).intact()) found["damage"] = "table";
    return found;
}

inline subject small_table_subject() {
    const auto operate_by = [](const char* name, auto operate, auto apply) {
        return operation{name, [operate](const std::string& uri) { return with(session_lines::attach(uri), operate); },
                         apply};
    };
    return {
        "small_table",
        [](const std::string& uri) {
            auto table = session_lines::create(uri, {.capacity = 12});
            contents made;
            for (u64 n = 0; n < 8; ++n) {
                require(table.try_insert(n, session_of(n)) == outcome::ok, "an insert");
                made[name_of(n)] = name_of(n);
            }
            return made;
        },
        read_small_table,
        {operate_by(
             "insert", [](session_lines& t) { (void)t.try_insert(100, session_of(100)); },
             [](contents& c) { c["100"] = "100"; }),
         operate_by(
             "update", [](session_lines& t) { (void)t.update(3, session_of(70)); }, [](contents& c) { c["3"] = "70"; }),
         operate_by(
             "modify", [](session_lines& t) { (void)t.modify(3, [](session& s) { s = session_of(71); }); },
             [](contents& c) { c["3"] = "71"; }),
         operate_by(
             "insert_or_assign", [](session_lines& t) { (void)t.insert_or_assign(4, session_of(72)); },
             [](contents& c) { c["4"] = "72"; }),
         operate_by(
             "erase", [](session_lines& t) { (void)t.erase(2); }, [](contents& c) { c.erase("2"); })},
        afterwards(operate_by("erase", [](session_lines& t) { (void)t.erase(5); }, [](contents& c) { c.erase("5"); }))};
}

using session_table = hash_table<u64, session>;

template <class Table>
using attach_to_table = std::function<Table(const std::string& uri)>;
template <class Table>
Table attach_at_rest(const std::string& uri) {
    return Table::attach(uri);
}
template <class Table>
operation table_operation(const char* name, std::function<void(Table&)> operate, std::function<void(contents&)> apply,
                          const attach_to_table<Table>& attach = attach_at_rest<Table>) {
    return {name, [=](const std::string& uri) { return with(attach(uri), operate); }, std::move(apply)};
}
template <class Table>
contents fill_table(Table& table, u64 entries) {
    contents made;
    for (u64 n = 0; n < entries; ++n) {
        require(static_cast<bool>(table.try_insert(n, session_of(n))), "an insert");
        made[name_of(n)] = name_of(n);
    }
    return made;
}
inline contents read_table(const std::string& uri) {
    const auto table = hash_table_reader<u64, session>::attach(uri);
    contents found;
    for (const auto& entry : table) {
        const auto by_key = table.find(entry.key);
        found[name_of(entry.key)] = by_key ? text_of_session(*by_key) : "not found by its key";
    }
    if (!table.verify([](const hash_table_finding&) { return true; }).intact()) found["damage"] = "table";
    return found;
}
/// Inserts those keys at once, of which the first so many have room.
template <class Changing>
operation insert_many(const std::vector<u64>& keys, std::size_t fit,
                      const attach_to_table<Changing>& attach = attach_at_rest<Changing>) {
    const auto adds = [keys](std::size_t i) { return [n = keys[i]](contents& c) { c[name_of(n)] = name_of(n); }; };
    operation made = table_operation<Changing>(
        "try_insert_many",
        [keys, fit](Changing& t) {
            std::vector<session> values;
            for (const u64 n : keys) values.push_back(session_of(n));
            require(t.try_insert_many(keys, values) == fit, "as many inserts as there is room for");
        },
        adds(0), attach);
    for (std::size_t i = 1; i < fit; ++i) made.then.emplace_back(adds(i));
    return made;
}
/// What looks at an entry first.
template <class Changing>
std::vector<operation> table_changes(u64 changed, u64 erased,
                                     const attach_to_table<Changing>& attach = attach_at_rest<Changing>) {
    const auto becomes = [changed](u64 n) { return [=](contents& c) { c[name_of(changed)] = name_of(n); }; };
    const auto goes = [erased](contents& c) { c.erase(name_of(erased)); };
    return {
        table_operation<Changing>(
            "modify", [=](Changing& t) { (void)t.modify(changed, [](session& s) { s = session_of(201); }); },
            becomes(201), attach),
        table_operation<Changing>(
            "compare_and_set",
            [=](Changing& t) { (void)t.compare_and_set(changed, session_of(changed), session_of(202)); }, becomes(202),
            attach),
        table_operation<Changing>(
            "compare_and_erase", [=](Changing& t) { (void)t.compare_and_erase(erased, session_of(erased)); }, goes,
            attach),
        table_operation<Changing>(
            "erase_if", [=](Changing& t) { (void)t.erase_if(erased, [](const session& s) { return s.user != 0; }); },
            goes, attach)};
}
template <class Table>
std::vector<operation> table_operations() {
    std::vector<operation> all{
        table_operation<Table>(
            "try_insert", [](Table& t) { (void)t.try_insert(100, session_of(100)); },
            [](contents& c) { c["100"] = "100"; }),
        table_operation<Table>(
            "update", [](Table& t) { (void)t.update(8, session_of(200)); }, [](contents& c) { c["8"] = "200"; }),
        table_operation<Table>(
            "erase", [](Table& t) { (void)t.erase(9); }, [](contents& c) { c.erase("9"); }),
        table_operation<Table>(
            "insert_or_assign", [](Table& t) { (void)t.insert_or_assign(101, session_of(101)); },
            [](contents& c) { c["101"] = "101"; }),
        insert_many<Table>({102, 103, 104}, 3)};
    for (operation& more : table_changes<Table>(8, 10)) all.push_back(std::move(more));
    return all;
}

inline subject table_subject() {
    return {"hash_table",
            [](const std::string& uri) {
                auto table = session_table::create(uri, {.capacity = 50, .seed = 7});
                return fill_table(table, 25);
            },
            read_table, table_operations<session_table>(),
            afterwards(table_operation<session_table>(
                "insert_or_assign", [](session_table& t) { (void)t.insert_or_assign(8, session_of(300)); },
                [](contents& c) { c["8"] = "300"; }))};
}

// The same by keys and values as bytes, whose sizes are known when it runs.
inline subject dynamic_table_subject() {
    using table = dynamic_hash_table;
    const auto key = [](u64 n) { return [n](contents& c) { c[name_of(n)] = name_of(n); }; };
    subject made = table_subject();
    made.name = "hash_table_by_bytes";
    made.operations = {
        table_operation<table>(
            "try_insert",
            [](dynamic_hash_table& t) {
                (void)t.try_insert(bytes_of_record(u64{100}), bytes_of_record(session_of(100)));
            },
            key(100)),
        table_operation<table>(
            "insert_or_assign",
            [](dynamic_hash_table& t) {
                (void)t.insert_or_assign(bytes_of_record(u64{101}), bytes_of_record(session_of(101)));
            },
            key(101)),
        table_operation<table>(
            "update",
            [](dynamic_hash_table& t) { (void)t.update(bytes_of_record(u64{8}), bytes_of_record(session_of(200))); },
            [](contents& c) { c["8"] = "200"; }),
        table_operation<table>(
            "erase", [](dynamic_hash_table& t) { (void)t.erase(bytes_of_record(u64{9})); },
            [](contents& c) { c.erase("9"); }),
        table_operation<table>(
            "modify",
            [](dynamic_hash_table& t) {
                session value;
                (void)t.modify(bytes_of_record(u64{8}), std::as_writable_bytes(std::span(&value, 1)), [&] {
                    value = session_of(201);
                    return true;
                });
            },
            [](contents& c) { c["8"] = "201"; }),
        table_operation<table>(
            "erase_if",
            [](dynamic_hash_table& t) {
                session value;
                (void)t.erase_if(bytes_of_record(u64{9}), std::as_writable_bytes(std::span(&value, 1)),
                                 [&] { return value.visits == 9; });
            },
            [](contents& c) { c.erase("9"); })};
    return made;
}

using text_map = golden::text_map;

inline operation map_operation(const char* name, std::function<void(text_map&)> operate,
                               std::function<void(contents&)> apply, u64 evicted_max = 0) {
    return {name,
            [operate](const std::string& uri) {
                return with(text_map::attach(uri, {}, golden::services_at(golden::gone_on_at)), operate);
            },
            std::move(apply), false, evicted_max};
}
inline operation map_set(const char* name, const std::string& key, const std::string& value, u64 evicted_max = 0) {
    return map_operation(
        name, [key, value](text_map& m) { (void)m.set(key, value); }, [key, value](contents& c) { c[key] = value; },
        evicted_max);
}
// As a reader 50 seconds later finds it: what was over by then is not there.
inline contents read_map(const std::string& uri) {
    const auto map = golden::text_map_reader::attach(uri, {}, golden::services_at(golden::gone_on_at).clock);
    contents found;
    u64 cursor = 0, met = 0;
    std::string value;
    for (hash_map_entry entry; map.next_entry(cursor, entry) == outcome::ok && met < 100; ++met) {
        const std::string key = text_of_bytes(entry.key);
        const hash_map_found by_key = map.find(key, value);
        if (by_key.ttl.count() != 0) value.append(" for ").append(std::to_string(by_key.ttl.count()));
        const bool same = by_key && std::string_view(value).starts_with(text_of_bytes(entry.value));
        found[key] = same ? value : "not found by its key";
    }
    const auto usage = map.usage();
    if (usage.status != outcome::ok || usage.units_used > usage.units) found["damage"] = "counts";
    if (!map.verify([](const hash_map_finding&) { return true; }).intact()) found["damage"] = "map";
    return found;
}
inline hash_map_options map_options(u64 bytes) {
    hash_map_options options;
    options.capacity = 30;
    options.bytes = bytes;
    options.unit_bytes = 64;
    options.seed = 7;
    return options;
}

/// Half of what map_options() has room for.
template <class Map>
contents half_filled(Map& map) {
    contents made;
    for (u64 n = 1; n <= 15; ++n) {
        require(static_cast<bool>(map.insert(golden::key_of(n), golden::value_of(n))), "an insert");
        made[golden::key_of(n)] = golden::value_of(n);
    }
    return made;
}

inline subject map_subject() {
    const std::string counted = golden::key_of(7);
    const auto compare_and_set = [counted](const std::string& uri) {
        text_map map = text_map::attach(uri, {}, golden::services_at(golden::gone_on_at));
        std::string value;
        const u64 seen = map.find(counted, value).handle;
        return with(std::move(map),
                    [counted, seen](text_map& m) { (void)m.compare_and_set(counted, seen, "swapped"); });
    };
    return {"hash_map",
            [](const std::string& uri) {
                text_map map = text_map::create(uri, map_options(4000), golden::services_at(golden::made_at));
                return half_filled(map);
            },
            read_map,
            {map_set("insert", "new", std::string(70, 'v')),  // of two units
             map_set("update", golden::key_of(6), golden::value_of(2)),
             map_operation(
                 "erase", [](text_map& m) { (void)m.erase(golden::key_of(12)); },
                 [](contents& c) { c.erase(golden::key_of(12)); }),
             {"compare_and_set", compare_and_set, [counted](contents& c) { c[counted] = "swapped"; }},
             map_operation(
                 "fetch_add", [counted](text_map& m) { (void)m.fetch_add<char>(counted, 0, 1); },
                 [counted](contents& c) { ++c[counted][0]; }),
             map_operation(
                 "touch", [counted](text_map& m) { (void)m.touch(counted, std::chrono::seconds(90)); },
                 [counted](contents& c) { c[counted].append(" for 90"); })},
            afterwards(map_set("set", golden::key_of(6), "next"))};
}

// Full, and of entries that are over or may be evicted: whoever comes needs the room of others.
inline subject crowded_map_subject(const char* name, bool evict) {
    constexpr u64 entries = 10;
    const auto text = [](u64 n) { return name_of(n) + std::string(60, 'x'); };
    return {
        name,
        [evict, text](const std::string& uri) {
            hash_map_options options = map_options(1300);
            options.evict = evict;
            text_map map = text_map::create(uri, options, golden::services_at(golden::made_at));
            contents made;
            bool room = true;
            for (u64 n = 0; room && n < entries; ++n) {
                const bool over = !evict && n % 3 == 0;
                hash_map_entry_options how;
                how.ttl = std::chrono::seconds(over ? 10 : 0);
                room = map.insert(name_of(n), text(n), how).status == outcome::ok;
                if (room && !over) made[name_of(n)] = text(n);
            }
            return evict ? read_map(uri) : made;
        },
        read_map,
        {map_set("set", "new", std::string(70, 'v'), evict ? 3 : 0)},
        afterwards(map_operation("erase", [](text_map& m) { (void)m.erase("8"); }, [](contents& c) { c.erase("8"); }))};
}

// Values differ, so that each stands for its handle; the first one's handle is known before.
inline std::string block_text(u64 n) { return name_of(n) + " " + std::string(n * 17 % 200, 'x'); }
template <class Store>
u64 first_of(const Store& store) {
    u64 cursor = 0;
    return store.next_value(cursor).value_or(0);
}
template <class Store>
operation block_operation(const char* name, void (*operate)(Store&), void (*apply)(contents&), bool both = false) {
    return {name, [operate](const std::string& uri) { return with(Store::attach(uri), operate); }, apply, both};
}
template <class Store>
contents fill_blocks(Store& store) {
    contents made;
    for (u64 n = 1; n <= 8; ++n) {
        require(static_cast<bool>(store.allocate(bytes_of(block_text(n)))), "a value");
        made[block_text(n)] = "";
    }
    return made;
}
inline contents read_blocks(const std::string& uri) {
    const auto reader = block_store_reader::attach(uri);
    contents found;
    u64 cursor = 0;
    std::vector<std::byte> bytes;
    while (const auto handle = reader.next_value(cursor)) {
        const bool whole = static_cast<bool>(reader.read(*handle, bytes));
        found[whole ? text_of_bytes(bytes) : "unreadable"] = "";
    }
    const auto usage = reader.usage();
    if (usage.units_used > usage.units) found["damage"] = "counts";
    if (!reader.verify([](const block_finding&) { return true; }).intact()) found["damage"] = "store";
    return found;
}
template <class Store>
std::vector<operation> block_operations() {
    return {block_operation<Store>(
                "allocate", [](Store& s) { (void)s.allocate(bytes_of(block_text(20))); },
                [](contents& c) { c[block_text(20)] = ""; }),
            block_operation<Store>(
                "free", [](Store& s) { (void)s.free(first_of(s)); }, [](contents& c) { c.erase(block_text(1)); }),
            block_operation<Store>(
                "replace", [](Store& s) { (void)s.replace(first_of(s), bytes_of(block_text(21))); },
                [](contents& c) { c.erase(block_text(1)), c[block_text(21)] = ""; }, true),
            block_operation<Store>(
                "prepare, fill, discard, prepare, write, commit",
                [](Store& s) {
                    (void)s.prepare(200);
                    (void)s.fill([](std::span<std::byte> piece, u64) { std::memset(piece.data(), 'f', piece.size()); });
                    s.discard();
                    const std::string text = block_text(22);
                    (void)s.prepare(text.size());
                    (void)s.write(0, bytes_of(text));
                    (void)s.commit(first_of(s));
                },
                [](contents& c) { c.erase(block_text(1)), c[block_text(22)] = ""; }, true)};
}

inline subject block_subject() {
    return {"block_store",
            [](const std::string& uri) {
                block_store store = block_store::create(uri, {.bytes = 3000, .unit_bytes = 64});
                return fill_blocks(store);
            },
            read_blocks, block_operations<block_store>(),
            afterwards(block_operation<block_store>(
                "allocate", [](block_store& s) { (void)s.allocate(bytes_of(block_text(30))); },
                [](contents& c) { c[block_text(30)] = ""; }))};
}

}  // namespace holdfast::test::image_kill
