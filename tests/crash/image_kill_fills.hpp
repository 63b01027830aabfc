// SPDX-License-Identifier: Apache-2.0
// image_kill_fills.hpp - tables, stores and rings that are empty, nearly full, full or whose keys collide, for
// image_kill_test.cpp; those of image_kill_subjects.hpp are about half full. (An array has no such states.)
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "image_kill_subjects.hpp"

namespace holdfast::test::image_kill {

enum class fill { empty, nearly_full, full, colliding };

// ---- tables ------------------------------------------------------------------------------------------------------

/// The first keys whose entries have one home bucket in a table of that capacity.
inline std::vector<u64> keys_of_one_bucket(u64 capacity, std::size_t count) {
    auto table = session_table::create("heap:", {.capacity = capacity, .seed = 7});
    std::vector<u64> keys;
    u64 home = 0;
    for (u64 n = 0; keys.size() < count; ++n) {
        const auto alone = table.try_insert(n, session_of(n));  // in an empty table: at home
        require(alone && alone.slot, "an insert");
        const u64 bucket = static_cast<u64>(*alone.slot) / layout::tags_per_line;
        if (keys.empty()) home = bucket;
        if (bucket == home) keys.push_back(n);
        require(static_cast<bool>(table.erase(n)), "an erase");
    }
    return keys;
}

inline subject table_subject_when(const char* name, fill how) {
    const bool collide = how == fill::colliding;
    const u64 capacity = collide ? 250 : 50;
    // More than a bucket holds: the last ones lie in others, and are counted in those that they went past.
    const std::vector<u64> crowd = collide ? keys_of_one_bucket(capacity, 40) : std::vector<u64>{};
    const u64 absent = collide ? crowd[39] : 5, changed = collide ? crowd[38] : 8, erased = collide ? crowd[37] : 9;
    const u64 next = collide ? crowd[0] : 10;
    const auto change = [](const char* what, std::function<void(session_table&)> operate,
                           std::function<void(contents&)> apply) {
        return operation{what, [operate](const std::string& uri) { return with(session_table::attach(uri), operate); },
                         std::move(apply)};
    };
    subject made{name,
                 [=](const std::string& uri) {
                     auto table = session_table::create(uri, {.capacity = capacity, .seed = 7});
                     contents filled;
                     const auto add = [&](u64 n) {
                         if (table.try_insert(n, session_of(n))) filled[name_of(n)] = name_of(n);
                     };
                     for (std::size_t i = 0; i + 1 < crowd.size(); ++i) add(crowd[i]);
                     for (u64 n = 0; (how == fill::nearly_full || how == fill::full) && n < 4 * capacity; ++n) add(n);
                     if (how == fill::nearly_full) {
                         require(static_cast<bool>(table.erase(absent)), "an erase");
                         filled.erase(name_of(absent));
                     }
                     return filled;
                 },
                 read_table,
                 {},
                 change(
                     "insert_or_assign", [next](session_table& t) { (void)t.insert_or_assign(next, session_of(300)); },
                     [next](contents& c) { c[name_of(next)] = "300"; })};
    if (how != fill::full)
        made.operations.push_back(change(
            "insert", [absent](session_table& t) { (void)t.try_insert(absent, session_of(absent)); },
            [absent](contents& c) { c[name_of(absent)] = name_of(absent); }));
    if (how != fill::empty) {
        made.operations.push_back(change(
            "update", [changed](session_table& t) { (void)t.update(changed, session_of(200)); },
            [changed](contents& c) { c[name_of(changed)] = "200"; }));
        made.operations.push_back(change(
            "erase", [erased](session_table& t) { (void)t.erase(erased); },
            [erased](contents& c) { c.erase(name_of(erased)); }));
    }
    return made;
}

// ---- stores ------------------------------------------------------------------------------------------------------

// Values of several units, then of one to the last of them.
inline contents fill_all_blocks(block_store& store) {
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
inline void empty_blocks(block_store& store) {
    std::vector<u64> all;
    u64 cursor = 0;
    while (const auto handle = store.next_value(cursor)) all.push_back(*handle);
    for (const u64 handle : all) require(store.free(handle) == outcome::ok, "a free");
    require(store.usage().units_used == 0, "a store that is empty again");
}

inline subject block_subject_when(const char* name, fill how) {
    subject made{name,
                 [how](const std::string& uri) {
                     block_store store = block_store::create(uri, {.bytes = 3000, .unit_bytes = 64});
                     contents filled = how == fill::empty ? contents{} : fill_all_blocks(store);
                     if (how == fill::nearly_full) {
                         require(store.free(first_of(store)) == outcome::ok, "a free");
                         filled.erase(block_text(1));
                     }
                     return filled;
                 },
                 read_blocks,
                 {},
                 block_operation<block_store>(
                     "empty it, and allocate",
                     [](block_store& s) {
                         empty_blocks(s);
                         require(static_cast<bool>(s.allocate(bytes_of(block_text(30)))), "a value");
                     },
                     [](contents& c) { c.clear(), c[block_text(30)] = ""; })};
    // The one that is gone had one unit.
    if (how != fill::full)
        made.operations.push_back(block_operation<block_store>(
            "allocate", [](block_store& s) { (void)s.allocate(bytes_of("the last one")); },
            [](contents& c) { c["the last one"] = ""; }));
    if (how == fill::nearly_full)
        made.operations.push_back(block_operation<block_store>(
            "replace", [](block_store& s) { (void)s.replace(first_of(s), bytes_of("the last one")); },
            [](contents& c) { c.erase(block_text(2)), c["the last one"] = ""; }, true));
    if (how == fill::full)
        made.operations.push_back(block_operation<block_store>(
            "free", [](block_store& s) { (void)s.free(first_of(s)); }, [](contents& c) { c.erase(block_text(1)); }));
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
            by_broadcaster("publish", [](broadcast_writer& w) { (void)w.publish(bytes_of("next")); }, come({"next"}))};
}

}  // namespace holdfast::test::image_kill
