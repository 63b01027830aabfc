// SPDX-License-Identifier: Apache-2.0
// image_kill_subjects.hpp - every container in a named segment, with the operations in which image_kill_test.cpp kills
// its writer, and what a reader finds before and after each.
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
#include "support/process.hpp"
#include "support/single_step.hpp"

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
    /// Which of its images are left with a death, where they are many.
    image_choice part{};
};

struct subject {
    const char* name;
    std::function<contents(const std::string& uri)> make;
    std::function<contents(const std::string& uri)> read;
    std::vector<operation> operations;
    operation next;
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
inline std::string text_of_session(const session& s) {
    const bool whole = s.user % 1000 == 7 && s.visits == s.user / 1000 && s.flags == ~s.visits;
    return whole ? name_of(s.user / 1000) : "torn";
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
              },
              false,
              0,
              {5, 1}}},
            {"store",
             [](const std::string& uri) {
                 return with(wide_array::attach(uri), [](wide_array& a) { a.store(5, session_of(90)); });
             },
             [](contents& c) { c["5"] = "90"; }}};
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
             "erase", [](session_lines& t) { (void)t.erase(2); }, [](contents& c) { c.erase("2"); })},
        operate_by("erase", [](session_lines& t) { (void)t.erase(5); }, [](contents& c) { c.erase("5"); })};
}

using session_table = hash_table<u64, session>;

template <class Table>
operation table_operation(const char* name, void (*operate)(Table&), void (*apply)(contents&)) {
    return {name, [operate](const std::string& uri) { return with(Table::attach(uri), operate); }, apply};
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
template <class Table>
std::vector<operation> table_operations() {
    return {table_operation<Table>(
                "insert", [](Table& t) { (void)t.try_insert(100, session_of(100)); },
                [](contents& c) { c["100"] = "100"; }),
            table_operation<Table>(
                "update", [](Table& t) { (void)t.update(8, session_of(200)); }, [](contents& c) { c["8"] = "200"; }),
            table_operation<Table>(
                "erase", [](Table& t) { (void)t.erase(9); }, [](contents& c) { c.erase("9"); }),
            table_operation<Table>(
                "compare_and_erase", [](Table& t) { (void)t.compare_and_erase(10, session_of(10)); },
                [](contents& c) { c.erase("10"); })};
}

inline subject table_subject() {
    return {"hash_table",
            [](const std::string& uri) {
                auto table = session_table::create(uri, {.capacity = 50, .seed = 7});
                return fill_table(table, 25);
            },
            read_table, table_operations<session_table>(),
            table_operation<session_table>(
                "insert_or_assign", [](session_table& t) { (void)t.insert_or_assign(8, session_of(300)); },
                [](contents& c) { c["8"] = "300"; })};
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
            map_set("set", golden::key_of(6), "next")};
}

// Full, and of entries that are over or may be evicted: whoever comes needs the room of others.
inline subject crowded_map_subject(const char* name, bool evict) {
    constexpr u64 entries = 10;
    const auto text = [](u64 n) { return name_of(n) + std::string(60, 'x'); };
    return {name,
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
            map_operation("erase", [](text_map& m) { (void)m.erase("8"); }, [](contents& c) { c.erase("8"); })};
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
                [](contents& c) { c.erase(block_text(1)), c[block_text(21)] = ""; }, true)};
}

inline subject block_subject() {
    return {"block_store",
            [](const std::string& uri) {
                block_store store = block_store::create(uri, {.bytes = 3000, .unit_bytes = 64});
                return fill_blocks(store);
            },
            read_blocks, block_operations<block_store>(),
            block_operation<block_store>(
                "allocate", [](block_store& s) { (void)s.allocate(bytes_of(block_text(30))); },
                [](contents& c) { c[block_text(30)] = ""; })};
}

// ---- rings -------------------------------------------------------------------------------------------------------

template <class Consumer, class Text>
contents take_all(const std::string& uri, Text text) {
    contents found;
    const auto seen = queue_observer::attach(uri).verify();
    Consumer consumer = Consumer::attach(uri);
    while (const auto got = consumer.front()) {
        found[name_of(consumer.stats().messages)] = text(got);
        require(consumer.pop(), "a pop");
    }
    add_damage(found, seen.found);
    return found;
}
inline contents take_messages(const std::string& uri) {
    return take_all<queue_consumer>(uri, [](const queue_message& m) { return text_of_bytes(m.bytes); });
}
inline contents take_records(const std::string& uri) {
    return take_all<queue<session>::consumer>(uri, [](const auto& e) { return text_of_session(e.value); });
}

// Messages by number: one that a killed consumer had not released comes again under the number it had. Of a ring of 512
// bytes; with `popped` beyond a few the next messages go round its end.
inline subject queue_subject(const char* name, u64 popped) {
    const u64 pushed = popped + 5;
    const auto by_producer = [](const char* what, auto operate, auto apply) {
        return operation{what, [operate](const std::string& uri) { return with(queue_producer::attach(uri), operate); },
                         apply};
    };
    const auto put = [](queue_producer& p, u64 from, u64 to) {
        for (u64 n = from; n < to; ++n) (void)p.try_push(bytes_of(text_of(n)));
    };
    return {name,
            [put, popped, pushed](const std::string& uri) {
                queue_options options;
                options.capacity_bytes = 512;
                queue_producer producer = queue_producer::create(uri, options);
                queue_consumer consumer = queue_consumer::attach(uri);
                contents made;
                for (u64 n = 0; n < popped; ++n) {
                    put(producer, n, n + 1);
                    require(consumer.front() && consumer.pop(), "a pop");
                }
                put(producer, popped, pushed);
                for (u64 n = popped; n < pushed; ++n) made[name_of(n)] = text_of(n);
                return made;
            },
            take_messages,
            {by_producer(
                 "push", [put, pushed](queue_producer& p) { put(p, pushed, pushed + 1); },
                 [pushed](contents& c) { c[name_of(pushed)] = text_of(pushed); }),
             by_producer(
                 "batch",
                 [put, pushed](queue_producer& p) {
                     (void)p.begin_batch();
                     put(p, pushed, pushed + 2);
                     (void)p.commit_batch();
                 },
                 [pushed](contents& c) {
                     for (u64 n = pushed; n < pushed + 2; ++n) c[name_of(n)] = text_of(n);
                 }),
             by_producer(
                 "claim",
                 [](queue_producer& p) {
                     const queue_claim room = p.try_claim(100);
                     if (!room) return;
                     std::memset(room.bytes.data(), 'c', 60);
                     (void)p.commit(60);
                 },
                 [pushed](contents& c) { c[name_of(pushed)] = std::string(60, 'c'); }),
             {"pop",
              [](const std::string& uri) {
                  return with(queue_consumer::attach(uri), [](queue_consumer& c) { (void)c.front(), (void)c.pop(); });
              },
              [popped](contents& c) { c.erase(name_of(popped)); }}},
            {"push",
             [](const std::string& uri) {
                 return with(queue_producer::attach(uri), [](queue_producer& p) {
                     (void)p.try_push(bytes_of("number " + name_of(p.stats().messages)));
                 });
             },
             {}},
            true};
}

inline subject record_queue_subject() {
    using producer_of = queue<session>::producer;
    using consumer_of = queue<session>::consumer;
    return {"queue_of_records",
            [](const std::string& uri) {
                auto producer = producer_of::create(uri, {.capacity = 8});
                auto consumer = consumer_of::attach(uri);
                contents made;
                for (u64 n = 0; n < 7; ++n) {
                    require(static_cast<bool>(producer.try_push(session_of(n))), "a push");
                    if (n < 3) require(consumer.front() && consumer.pop(), "a pop");
                    if (n >= 3) made[name_of(n)] = name_of(n);
                }
                return made;
            },
            take_records,
            {{"push",
              [](const std::string& uri) {
                  return with(producer_of::attach(uri), [](producer_of& p) {
                      const session three[] = {session_of(7), session_of(8), session_of(9)};  // round the end
                      (void)p.try_push(three);
                  });
              },
              [](contents& c) {
                  for (const char* n : {"7", "8", "9"}) c[n] = n;
              }},
             {"claim",
              [](const std::string& uri) {
                  return with(producer_of::attach(uri), [](producer_of& p) {
                      const auto room = p.try_claim();
                      if (!room) return;
                      *room.value = session_of(7);
                      (void)p.commit();
                  });
              },
              [](contents& c) { c["7"] = "7"; }},
             {"pop",
              [](const std::string& uri) {
                  return with(consumer_of::attach(uri), [](consumer_of& c) { (void)c.front(), (void)c.pop(); });
              },
              [](contents& c) { c.erase("3"); }}},
            {"push",
             [](const std::string& uri) {
                 return with(producer_of::attach(uri),
                             [](producer_of& p) { (void)p.try_push(session_of(p.stats().messages)); });
             },
             {}},
            true};
}

inline operation by_broadcaster(const char* name, std::function<void(broadcast_writer&)> operate,
                                std::function<void(contents&)> apply) {
    return {name, [operate](const std::string& uri) { return with(broadcast_writer::attach(uri), operate); },
            std::move(apply)};
}
inline contents read_ring(const std::string& uri) {
    broadcast_reader reader = broadcast_reader::attach(uri);
    contents found;
    std::vector<std::byte> bytes;
    while (const auto got = reader.read(bytes)) found[name_of(got.sequence)] = text_of_bytes(bytes);
    add_damage(found, reader.verify());
    return found;
}
inline contents make_ring(const std::string& uri, std::uint32_t readers) {
    broadcast_options options;
    options.capacity_bytes = 2048;
    options.registered_readers = readers;
    broadcast_writer writer = broadcast_writer::create(uri, options);
    contents made;
    for (u64 n = 0; n < 8; ++n) {
        require(static_cast<bool>(writer.publish(bytes_of(text_of(n)))), "a message");
        made[name_of(n + 1)] = text_of(n);
    }
    return made;
}

/// Of rings whose oldest messages go.
inline contents newest(const contents& all) {
    u64 last = 0;
    for (const auto& [number, text] : all)
        last = std::max(last, number == "damage" ? ~u64{0} : static_cast<u64>(std::stoull(number)));
    return contents{{"newest", name_of(last)}};
}

inline subject broadcast_subject() {
    return {"broadcast",
            [](const std::string& uri) { return make_ring(uri, 0); },
            read_ring,
            {by_broadcaster(
                 "publish", [](broadcast_writer& w) { (void)w.publish(bytes_of("one")); },
                 [](contents& c) { c["9"] = "one"; }),
             by_broadcaster(
                 "batch",
                 [](broadcast_writer& w) {
                     (void)w.append(bytes_of("one"));
                     (void)w.publish(bytes_of("two"));
                 },
                 [](contents& c) { c["9"] = "one", c["10"] = "two"; }),
             by_broadcaster(
                 "claim",
                 [](broadcast_writer& w) {
                     const broadcast_claim room = w.claim(100);
                     if (!room) return;
                     std::memset(room.bytes.data(), 'c', 60);
                     (void)w.commit(60);
                 },
                 [](contents& c) { c["9"] = std::string(60, 'c'); })},
            by_broadcaster(
                "publish", [](broadcast_writer& w) { (void)w.publish(bytes_of("next")); },
                [](contents& c) { c[name_of(c.size() + 1)] = "next"; })};
}

// Readers that block the writer register, move and leave; the next writer goes round the ring past who died of it, and
// all places are free.
inline subject registered_broadcast_subject() {
    const auto nothing = [](contents&) {};
    const auto by_reader = [nothing](const char* name, auto operate) {
        return operation{name,
                         [operate](const std::string& uri) {
                             auto reader = std::make_shared<std::optional<broadcast_reliable_reader>>();
                             reader->emplace(broadcast_reliable_reader::attach(uri));
                             return [reader, operate] { operate(*reader); };
                         },
                         nothing};
    };
    using maybe_reader = std::optional<broadcast_reliable_reader>;
    return {"broadcast_registered",
            [](const std::string& uri) { return newest(make_ring(uri, 2)); },
            [](const std::string& uri) { return newest(read_ring(uri)); },
            {{"register",
              [](const std::string& uri) {
                  auto memory = std::make_shared<const segment>(segment::attach(uri, access::read_only));
                  return [memory] { (void)broadcast_reliable_reader(memory); };
              },
              nothing},
             by_reader("move",
                       [](maybe_reader& r) {
                           std::byte message[100];
                           (void)r->read(message), (void)r->read(message);
                       }),
             by_reader("leave", [](maybe_reader& r) { r.reset(); })},
            {"publish",
             [](const std::string& uri) {
                 return with(broadcast_writer::attach(uri), [uri](broadcast_writer& w) {
                     for (u64 n = 0; n < 100; ++n)
                         require(static_cast<bool>(w.publish(bytes_of(text_of(n)))), "a message");
                     const auto one = broadcast_reliable_reader::attach(uri),
                                other = broadcast_reliable_reader::attach(uri);
                 });
             },
             [](contents& c) { c["newest"] = "108"; }}};
}

// ---- whole objects -----------------------------------------------------------------------------------------------

inline operation publish_object(u64 n) {
    return {"publish",
            [n](const std::string& uri) {
                return with(snapshot_writer::attach(uri),
                            [n](snapshot_writer& w) { (void)w.publish(bytes_of(std::string(30 * n, 'a'))); });
            },
            [n](contents& c) { c["object"] = std::string(30 * n, 'a'); }};
}
inline contents make_snapshot(const std::string& uri, std::uint32_t readers) {
    snapshot_options options;
    options.slot_bytes = 300;
    options.slots = 3 + readers;
    options.pinned_readers = readers;
    snapshot_writer writer = snapshot_writer::create(uri, options);
    for (u64 n = 1; n < 5; ++n) require(static_cast<bool>(writer.publish(bytes_of(std::string(n, 'b')))), "a publish");
    return contents{{"object", "bbbb"}};
}
inline contents read_snapshot(const std::string& uri) {
    snapshot_reader reader = snapshot_reader::attach(uri);
    std::vector<std::byte> bytes;
    contents found;
    if (reader.read(bytes)) found["object"] = text_of_bytes(bytes);
    add_damage(found, reader.verify());
    return found;
}

inline subject snapshot_subject() {
    return {"snapshot",
            [](const std::string& uri) { return make_snapshot(uri, 0); },
            read_snapshot,
            {publish_object(4),
             {"prepare and commit",
              [](const std::string& uri) {
                  return with(snapshot_writer::attach(uri), [](snapshot_writer& w) {
                      const auto room = w.prepare(200);
                      if (!room) return;
                      std::memset(room.bytes.data(), 'c', 60);
                      (void)w.commit(60);
                  });
              },
              [](contents& c) { c["object"] = std::string(60, 'c'); }}},
            publish_object(7)};
}

// One reader keeps the object pinned while the writer publishes into every slot there is; another was killed as it did.
inline subject pinned_snapshot_subject() {
    struct pinned {
        snapshot_pinned_reader reader;
        snapshot_view view;
        explicit pinned(const std::string& uri) : reader(snapshot_pinned_reader::attach(uri)), view(reader.pin()) {
            require(static_cast<bool>(view), "a pin");
        }
    };
    const auto living = std::make_shared<std::unique_ptr<pinned>>();
    return {"snapshot_pinned",
            [living](const std::string& uri) {
                contents made = make_snapshot(uri, 2);
                child_process dead([&](channel& parent) {
                    const pinned last(uri);
                    parent.signal();
                    parent.wait();
                });
                require(dead.talk().wait(), "a reader that dies");
                (void)dead.kill();
                *living = std::make_unique<pinned>(uri);
                return made;
            },
            [living](const std::string& uri) {
                contents found = read_snapshot(uri);
                if (text_of_bytes((*living)->view.bytes()) != "bbbb") found["damage"] = "what is pinned has changed";
                return found;
            },
            {publish_object(4),
             {"pin",
              [](const std::string& uri) {
                  return with(snapshot_pinned_reader::attach(uri), [](snapshot_pinned_reader& r) { (void)r.pin(); });
              },
              [](contents&) {}}},
            {"publish",
             [](const std::string& uri) {
                 return with(snapshot_writer::attach(uri), [](snapshot_writer& w) {
                     for (u64 n = 1; n <= 10; ++n)
                         require(static_cast<bool>(w.publish(bytes_of(std::string(30 * n, 'a')))), "a publish");
                 });
             },
             [](contents& c) { c["object"] = std::string(300, 'a'); }}};
}

inline subject index_subject() {
    const auto fill = [](golden::span_index_builder& builder, u64 n) {
        golden::fill_index(builder, static_cast<std::uint32_t>(n), static_cast<std::uint32_t>(100 * n));
    };
    const auto holds = [](contents& c, u64 records) {
        c.clear();
        for (u64 n = 0; n < records; ++n) c[name_of(n * 10)] = name_of(100 * records + n);
    };
    const auto publish = [fill, holds](u64 n) {
        return operation{"publish",
                         [fill, n](const std::string& uri) {
                             auto builder = std::make_shared<golden::span_index_builder>();
                             fill(*builder, n);
                             return with(golden::span_index_publisher::attach(uri),
                                         [builder](auto& publisher) { (void)publisher.publish(*builder); });
                         },
                         [holds, n](contents& c) { holds(c, n); }};
    };
    return {"published_index",
            [fill, holds](const std::string& uri) {
                auto publisher = golden::span_index_publisher::create(uri, {.records_max = 10, .slots = 3});
                golden::span_index_builder builder;
                fill(builder, 6);
                require(static_cast<bool>(publisher.publish(builder)), "a publish");
                contents made;
                holds(made, 6);
                return made;
            },
            [](const std::string& uri) {
                golden::span_index_reader reader = golden::span_index_reader::attach(uri);
                contents found;
                (void)reader.read([&](const golden::span_index_reader::view& index) {
                    found.clear();
                    for (const auto& entry : index) found[name_of(entry.key)] = name_of(entry.value.country);
                });
                add_damage(found, verify_sorted_index(reader.segment()));
                return found;
            },
            {publish(4)},
            publish(5)};
}

}  // namespace holdfast::test::image_kill
