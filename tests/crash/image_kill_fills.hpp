// SPDX-License-Identifier: Apache-2.0
// image_kill_fills.hpp - tables, stores and rings that are empty, nearly full, full or whose keys collide, for
// image_kill_test.cpp; those of image_kill_subjects.hpp are about half full. An array has no such states: of it there
// are elements of one word, and such as are larger than a group, at both ends.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <functional>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "image_kill_rings.hpp"
#include "image_kill_subjects.hpp"

namespace holdfast::test::image_kill {

enum class fill { empty, nearly_full, full, colliding };

// ---- tables ------------------------------------------------------------------------------------------------------

/// The first keys whose entries have one home bucket and one overflow class in a table of that capacity.
template <class Table>
std::vector<u64> keys_of_one_bucket(u64 capacity, std::size_t count) {
    const auto table = Table::create("heap:", {.capacity = capacity, .seed = 7, .writer_slots = 3});
    using node = holdfast::detail::fixed_node<u64, session>;
    const holdfast::detail::table_view<const std::byte, node> view(table.segment().bytes(), table.geometry(), {});
    const auto parts_of = [&](u64 key) { return view.hash(bytes_of_record(key).data()); };
    const auto wanted = parts_of(0);
    std::vector<u64> keys;
    for (u64 n = 0; keys.size() < count; ++n)
        if (const auto is = parts_of(n);
            is.home(view.buckets) == wanted.home(view.buckets) && is.group() == wanted.group())
            keys.push_back(n);
    return keys;
}

template <class Table>
subject table_subject_when(const char* name, fill how) {
    const bool collide = how == fill::colliding;
    const u64 capacity = collide ? 250 : 50;
    // More than a bucket holds: the last ones lie in others, and are counted in those that they went past.
    const std::vector<u64> crowd = collide ? keys_of_one_bucket<Table>(capacity, 42) : std::vector<u64>{};
    const u64 absent = collide ? crowd[39] : 5, changed = collide ? crowd[38] : 8, erased = collide ? crowd[37] : 9;
    const u64 next = collide ? crowd[0] : 10;
    const auto change = [](const char* what, std::function<void(Table&)> operate,
                           std::function<void(contents&)> apply) {
        return operation{what, [operate](const std::string& uri) { return with(Table::attach(uri), operate); },
                         std::move(apply)};
    };
    subject made{name,
                 [=](const std::string& uri) {
                     auto table = Table::create(uri, {.capacity = capacity, .seed = 7, .writer_slots = 3});
                     contents filled;
                     const auto add = [&](u64 n) {
                         if (table.try_insert(n, session_of(n))) filled[name_of(n)] = name_of(n);
                     };
                     for (std::size_t i = 0; i + 3 < crowd.size(); ++i) add(crowd[i]);
                     for (u64 n = 0; (how == fill::nearly_full || how == fill::full) && n < 4 * capacity; ++n) add(n);
                     if (how == fill::nearly_full) {
                         require(static_cast<bool>(table.erase(absent)), "an erase");
                         filled.erase(name_of(absent));
                     }
                     return filled;
                 },
                 read_table,
                 {},
                 afterwards(change(
                     "insert_or_assign", [next](Table& t) { (void)t.insert_or_assign(next, session_of(300)); },
                     [next](contents& c) { c[name_of(next)] = "300"; }))};
    if (how != fill::full) {
        const std::vector<u64> many =
            collide ? std::vector<u64>(crowd.end() - 3, crowd.end()) : std::vector<u64>{absent, 1000, 1001};
        made.operations.push_back(insert_many<Table>(many, how == fill::nearly_full ? 1 : 3));
        made.operations.push_back(change(
            "insert", [absent](Table& t) { (void)t.try_insert(absent, session_of(absent)); },
            [absent](contents& c) { c[name_of(absent)] = name_of(absent); }));
    }
    if (how != fill::empty) {
        for (operation& more : table_changes<Table>(changed, erased)) made.operations.push_back(std::move(more));
        made.operations.push_back(change(
            "update", [changed](Table& t) { (void)t.update(changed, session_of(200)); },
            [changed](contents& c) { c[name_of(changed)] = "200"; }));
        made.operations.push_back(change(
            "erase", [erased](Table& t) { (void)t.erase(erased); },
            [erased](contents& c) { c.erase(name_of(erased)); }));
    }
    return made;
}

/// A bucket that more keys went past once than its counters count: too high since those have gone, until recount().
template <class Recounted, class Maker = Recounted>
subject overflowed_table_subject(const char* name) {
    constexpr u64 capacity = 250;
    const std::vector<u64> crowd = keys_of_one_bucket<Maker>(capacity, 47);
    return {name,
            [crowd](const std::string& uri) {
                auto table = Maker::create(uri, {.capacity = capacity, .seed = 7, .writer_slots = 3});
                contents filled;
                for (const u64 n : crowd) require(static_cast<bool>(table.try_insert(n, session_of(n))), "an insert");
                for (std::size_t i = 0; i < crowd.size(); ++i)
                    if (i < 38)
                        filled[name_of(crowd[i])] = name_of(crowd[i]);
                    else
                        require(static_cast<bool>(table.erase(crowd[i])), "an erase");
                return filled;
            },
            read_table,
            {table_operation<Recounted>(
                "recount", [](Recounted& t) { require(t.recount() != 0, "a counter that is off"); }, [](contents&) {})},
            afterwards(table_operation<Maker>(
                "insert_or_assign", [crowd](Maker& t) { (void)t.insert_or_assign(crowd[40], session_of(300)); },
                [crowd](contents& c) { c[name_of(crowd[40])] = "300"; }))};
}

/// Of places in the order of their coming: no keys collide there, but a place may have been another key's before.
enum class places { empty, nearly_full, full, used_again };

inline subject small_table_subject_when(const char* name, places how) {
    constexpr u64 capacity = 12;
    const auto by = [](const char* what, std::function<void(session_lines&)> operate,
                       std::function<void(contents&)> apply) {
        return operation{what, [operate](const std::string& uri) { return with(session_lines::attach(uri), operate); },
                         std::move(apply)};
    };
    subject made{name,
                 [how](const std::string& uri) {
                     auto table = session_lines::create(uri, {.capacity = capacity});
                     const u64 wanted = how == places::empty         ? 0
                                        : how == places::nearly_full ? capacity - 1
                                        : how == places::full        ? capacity
                                                                     : 5;
                     contents filled;
                     for (u64 n = 0; n < wanted; ++n) {
                         require(table.try_insert(n, session_of(n)) == outcome::ok, "an insert");
                         filled[name_of(n)] = name_of(n);
                     }
                     for (u64 n = 0; how == places::used_again && n < 3; ++n) {
                         require(table.erase(n) == outcome::ok, "an erase");
                         filled.erase(name_of(n));
                     }
                     return filled;
                 },
                 read_small_table,
                 {},
                 afterwards(by(
                     "insert_or_assign, and erase",
                     [](session_lines& t) {
                         (void)t.erase(100);
                         (void)t.erase(4);
                         require(t.insert_or_assign(101, session_of(101)) == outcome::ok, "an insert");
                     },
                     [](contents& c) { c.erase("100"), c.erase("4"), c["101"] = "101"; }))};
    if (how != places::full)
        made.operations.push_back(by(
            "insert", [](session_lines& t) { (void)t.try_insert(100, session_of(100)); },
            [](contents& c) { c["100"] = "100"; }));
    if (how != places::empty) {
        made.operations.push_back(by(
            "update", [](session_lines& t) { (void)t.update(3, session_of(70)); }, [](contents& c) { c["3"] = "70"; }));
        made.operations.push_back(
            by("erase", [](session_lines& t) { (void)t.erase(4); }, [](contents& c) { c.erase("4"); }));
    }
    if (how == places::used_again) made.operations.resize(1);
    return made;
}

// ---- arrays ------------------------------------------------------------------------------------------------------

using page_of_words = std::array<u64, 65>;  // more than a group has
inline u64 element_of(u64 n, const u64*) { return n * 1000 + 7; }
inline page_of_words element_of(u64 n, const page_of_words*) {
    page_of_words all{};
    for (u64 i = 0; i < all.size(); ++i) all[i] = n * 1000 + i;
    return all;
}

template <class T>
subject array_subject_of(const char* name, u64 size) {
    const auto make = [](u64 n) { return element_of(n, static_cast<const T*>(nullptr)); };
    const auto stores = [make](const char* what, u64 at, u64 n) {
        return operation{what,
                         [=](const std::string& uri) {
                             return with(array<T>::attach(uri), [=](array<T>& a) { a.store(at, make(n)); });
                         },
                         [=](contents& c) { c[name_of(at)] = name_of(n); }};
    };
    subject made{name,
                 [make, size](const std::string& uri) {
                     auto writer = array<T>::create(uri, {.size = size});
                     contents filled;
                     for (u64 i = 0; i < size; ++i) writer.store(i, make(i)), filled[name_of(i)] = name_of(i);
                     return filled;
                 },
                 [make](const std::string& uri) {
                     const auto reader = array_reader<T>::attach(uri);
                     contents found;
                     for (u64 i = 0; i < reader.size(); ++i) {
                         const T whole = reader[i];
                         u64 n = 0;
                         while (n < 100 && whole != make(n)) ++n;
                         found[name_of(i)] = n < 100 ? name_of(n) : "torn";
                     }
                     if (!reader.verify([](const array_finding&) { return true; }).intact()) found["damage"] = "array";
                     return found;
                 },
                 {stores("store the first", 0, 70), stores("store the last", size - 1, 71)},
                 afterwards(stores("store", 1, 72))};
    if constexpr (std::integral<T>)
        made.operations.push_back({"fetch_add",
                                   [](const std::string& uri) {
                                       return with(array<T>::attach(uri),
                                                   [](array<T>& a) { (void)a.fetch_add(2, 1000); });
                                   },
                                   [](contents& c) { c["2"] = "3"; }});
    if (sizeof(T) > 8)  // in order, and each by itself, of elements of one word
        made.operations.push_back({"store_range",
                                   [make](const std::string& uri) {
                                       return with(array<T>::attach(uri), [make](array<T>& a) {
                                           const T two[] = {make(80), make(81)};
                                           a.store_range(1, two);
                                       });
                                   },
                                   [](contents& c) { c["1"] = "80", c["2"] = "81"; }});
    return made;
}

// ---- stores ------------------------------------------------------------------------------------------------------

// Values of several units, then of one to the last of them.
template <class Store>
contents fill_all_blocks(Store& store) {
    contents made;
    const auto add = [&](const std::string& text) {
        const bool kept = static_cast<bool>(store.allocate(bytes_of(text)));
        if (kept) made[text] = "";
        return kept;
    };
    u64 n = 1;
    while (add(block_text(n))) ++n;
    while (add("filler " + name_of(n))) ++n;
    require(store.usage().units_free() == 0, "a full store");
    return made;
}
template <class Store>
void empty_blocks(Store& store) {
    std::vector<u64> all;
    u64 cursor = 0;
    while (const auto handle = store.next_value(cursor)) all.push_back(*handle);
    for (const u64 handle : all) require(store.free(handle) == outcome::ok, "a free");
    require(store.usage().units_used == 0, "a store that is empty again");
}

template <class Store>
subject block_subject_when(const char* name, fill how) {
    subject made{name,
                 [how](const std::string& uri) {
                     Store store = Store::create(uri, {.bytes = 3000, .unit_bytes = 64});
                     contents filled = how == fill::empty ? contents{} : fill_all_blocks(store);
                     if (how == fill::nearly_full) {
                         require(store.free(first_of(store)) == outcome::ok, "a free");
                         filled.erase(block_text(1));
                     }
                     return filled;
                 },
                 read_blocks,
                 {},
                 afterwards(block_operation<Store>(
                     "empty it, and allocate",
                     [](Store& s) {
                         empty_blocks(s);
                         require(static_cast<bool>(s.allocate(bytes_of(block_text(30)))), "a value");
                     },
                     [](contents& c) { c.clear(), c[block_text(30)] = ""; }))};
    // The one that is gone had one unit.
    if (how != fill::full)
        made.operations.push_back(block_operation<Store>(
            "allocate", [](Store& s) { (void)s.allocate(bytes_of("the last one")); },
            [](contents& c) { c["the last one"] = ""; }));
    if (how == fill::nearly_full)
        made.operations.push_back(block_operation<Store>(
            "replace", [](Store& s) { (void)s.replace(first_of(s), bytes_of("the last one")); },
            [](contents& c) { c.erase(block_text(2)), c["the last one"] = ""; }, true));
    if (how == fill::full)
        made.operations.push_back(block_operation<Store>(
            "free", [](Store& s) { (void)s.free(first_of(s)); }, [](contents& c) { c.erase(block_text(1)); }));
    return made;
}

/// Full but for its first unit and its last, and its writer stands between them: what it brings goes round the end.
inline subject block_subject_round_its_end() {
    static const std::string two_units = "of two units " + std::string(57, 'r');
    const auto come = [](contents& c) { c[two_units] = ""; };
    const auto to_the_first = [](block_store& s) {
        const block_result passed = s.allocate(bytes_of("x"));
        require(passed && s.free(passed.handle) == outcome::ok, "the first unit");
    };
    subject made = block_subject_when<block_store>("block_store_round_its_end", fill::full);
    made.make = [](const std::string& uri) {
        block_store store = block_store::create(uri, {.bytes = 3000, .unit_bytes = 64});
        contents filled = fill_all_blocks(store);
        u64 cursor = 0, last = 0;
        while (const auto handle = store.next_value(cursor)) last = *handle;
        std::vector<std::byte> bytes;
        for (const u64 handle : {first_of(store), last}) {
            require(store.read(handle, bytes) && store.free(handle) == outcome::ok, "a free");
            filled.erase(text_of_bytes(bytes));
        }
        require(store.usage().units_free() == 2, "values of one unit at both ends");
        return filled;
    };
    made.operations = {
        amid<block_store>(
            "allocate", to_the_first, [](block_store& s) { (void)s.allocate(bytes_of(two_units)); }, come),
        amid<block_store>(
            "replace", to_the_first, [](block_store& s) { (void)s.replace(first_of(s), bytes_of(two_units)); },
            [come](contents& c) { c.erase(block_text(2)), come(c); }),
        amid<block_store>(
            "prepare, write, commit", to_the_first,
            [](block_store& s) {
                (void)s.prepare(two_units.size());
                (void)s.write(0, bytes_of(two_units));
                (void)s.commit();
            },
            come),
        amid<block_store>(
            "allocate, free", to_the_first,
            [](block_store& s) { (void)s.free(s.allocate(bytes_of(two_units)).handle); }, come)};
    made.operations.back().then.emplace_back([](contents& c) { c.erase(two_units); });
    made.operations[1].both_between = true;
    return made;
}

// ---- rings -------------------------------------------------------------------------------------------------------

// The latest messages: the oldest ones go as the next come.
inline void keep_latest(contents& all) {
    constexpr std::size_t kept = 4;
    const auto number = [](const auto& entry) { return entry.first == "damage" ? ~u64{0} : std::stoull(entry.first); };
    while (all.size() > kept)
        all.erase(std::min_element(all.begin(), all.end(),
                                   [&](const auto& a, const auto& b) { return number(a) < number(b); }));
}

/// Empty, or gone round its end.
inline subject broadcast_subject_after(const char* name, u64 published) {
    const auto come = [published](std::initializer_list<const char*> texts) {
        return [published, came = std::vector<std::string>(texts.begin(), texts.end())](contents& c) {
            u64 last = published;
            while (c.contains(name_of(last + 1))) ++last;
            for (const std::string& text : came) c[name_of(++last)] = text;
            keep_latest(c);
        };
    };
    return {name,
            [published](const std::string& uri) {
                broadcast_options options;
                options.capacity_bytes = 2048;
                broadcast_writer writer = broadcast_writer::create(uri, options);
                contents made;
                for (u64 n = 0; n < published; ++n) {
                    require(static_cast<bool>(writer.publish(bytes_of(text_of(n)))), "a message");
                    made[name_of(n + 1)] = text_of(n);
                }
                keep_latest(made);
                return made;
            },
            [](const std::string& uri) {
                contents found = read_ring(uri);
                keep_latest(found);
                return found;
            },
            {by_broadcaster(
                 "publish", [](broadcast_writer& w) { (void)w.publish(bytes_of("one")); }, come({"one"})),
             by_broadcaster(
                 "batch",
                 [](broadcast_writer& w) {
                     (void)w.append(bytes_of("one"));
                     (void)w.publish(bytes_of("two"));
                 },
                 come({"one", "two"}))},
            afterwards(by_broadcaster(
                "publish", [](broadcast_writer& w) { (void)w.publish(bytes_of("next")); }, come({"next"})))};
}

/// Its writer has two messages staged; what was published before is there.
inline subject broadcast_subject_mid_batch() {
    const auto begin = [](broadcast_writer& by) {
        require(by.append(bytes_of("one")) && by.append(bytes_of("two")), "an open batch");
    };
    const auto changes = [begin](const char* name, std::function<void(broadcast_writer&)> operate,
                                 std::initializer_list<std::string> texts) {
        const auto come = [come = std::vector<std::string>(texts)](contents& c) {
            for (u64 next = 9; const std::string& text : come) c[name_of(next++)] = text;
        };
        return amid<broadcast_writer>(name, begin, std::move(operate), come);
    };
    subject made = broadcast_subject();
    made.name = "broadcast_mid_batch";
    made.operations = {changes("append to the batch", [](auto& w) { (void)w.append(bytes_of("three")); }, {}),
                       changes("commit", [](auto& w) { (void)w.commit(); }, {"one", "two"}),
                       changes("publish behind the batch", [](auto& w) { (void)w.publish(bytes_of("three")); },
                               {"one", "two", "three"}),
                       changes("claim, commit",
                               [](auto& w) {
                                   const broadcast_claim room = w.claim(100);
                                   if (!room) return;
                                   std::memset(room.bytes.data(), 'c', 60);
                                   (void)w.commit(60);
                               },
                               {"one", "two", std::string(60, 'c')}),
                       changes("discard, publish",
                               [](auto& w) {
                                   w.discard();
                                   (void)w.publish(bytes_of("three"));
                               },
                               {"three"})};
    return made;
}

}  // namespace holdfast::test::image_kill
