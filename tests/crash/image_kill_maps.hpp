// SPDX-License-Identifier: Apache-2.0
// image_kill_maps.hpp - hash maps of one writer and of many in named segments in the states at both ends, and of keys
// that collide, with the operations in which image_kill_test.cpp kills their writer.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "image_kill_fills.hpp"
#include "image_kill_many.hpp"
#include "support/map_bench.hpp"

namespace holdfast::test::image_kill {

template <class Map>
inline constexpr bool of_one_writer = std::is_same_v<Map, text_map>;

template <class Map>
Map create_map(const std::string& uri, u64 capacity, u64 units) {
    hash_map_options options = map_options(64 * units);
    options.capacity = capacity;
    if constexpr (of_one_writer<Map>) {
        return Map::create(uri, options, golden::services_at(golden::made_at));
    } else {
        options.writer_slots = 3;
        return Map::create(uri, options);
    }
}
template <class Map>
Map attach_map(const std::string& uri) {
    if constexpr (of_one_writer<Map>)
        return Map::attach(uri, {}, golden::services_at(golden::gone_on_at));
    else
        return Map::attach(uri);
}
template <class Map>
operation map_change(const char* name, std::function<void(Map&)> operate, std::function<void(contents&)> apply) {
    return {name, [operate](const std::string& uri) { return with(attach_map<Map>(uri), operate); }, std::move(apply)};
}
template <class Map>
u64 handle_of(const Map& map, const std::string& key) {
    std::string value;
    return map.find(key, value).handle;
}

/// The first keys whose entries have one home bucket and one overflow class in a map of that capacity.
template <class Map>
std::vector<std::string> map_keys_of_one_bucket(u64 capacity, std::size_t count) {
    const Map map = create_map<Map>("heap:", capacity, 10);
    const readable_map view(map.segment().bytes(), holdfast::detail::hash_map_geometry_of(map.segment()));
    const auto parts_of = [&](const std::string& key) { return view.table.hash(view.digest(as_key(key)).bytes()); };
    const auto wanted = parts_of("0");
    std::vector<std::string> keys;
    for (u64 n = 0; keys.size() < count; ++n)
        if (const auto is = parts_of(name_of(n));
            is.home(view.table.buckets) == wanted.home(view.table.buckets) && is.group() == wanted.group())
            keys.push_back(name_of(n));
    return keys;
}

inline std::string short_value(u64 n) { return "value " + name_of(n); }  // one unit, with its key

/// What needs no room, of a key that is there.
template <class Map>
std::vector<operation> map_erasures(const std::string& key) {
    const auto goes = [key](contents& c) { c.erase(key); };
    return {map_change<Map>(
                "erase", [key](Map& m) { (void)m.erase(key); }, goes),
            map_change<Map>(
                "compare_and_erase", [key](Map& m) { (void)m.compare_and_erase(key, handle_of(m, key)); }, goes)};
}
/// What needs a unit for the new value beside the old one.
template <class Map>
std::vector<operation> map_updates(const std::string& key) {
    const auto becomes = [key](const std::string& value) { return [=](contents& c) { c[key] = value; }; };
    std::vector<operation> all{
        map_change<Map>(
            "update", [key](Map& m) { (void)m.update(key, "updated"); }, becomes("updated")),
        map_change<Map>(
            "set", [key](Map& m) { (void)m.set(key, "set"); }, becomes("set")),
        map_change<Map>(
            "compare_and_set", [key](Map& m) { (void)m.compare_and_set(key, handle_of(m, key), "swapped"); },
            becomes("swapped")),
        map_change<Map>(
            "fetch_add", [key](Map& m) { (void)m.template fetch_add<char>(key, 0, 1); },
            [key](contents& c) { ++c[key][0]; })};
    if constexpr (of_one_writer<Map>)
        all.push_back(map_change<text_map>(
            "touch", [key](text_map& m) { (void)m.touch(key, std::chrono::seconds(90)); },
            [key](contents& c) { c[key].append(" for 90"); }));
    return all;
}
template <class Map>
std::vector<operation> map_inserts(const std::string& key) {
    const auto comes = [key](contents& c) { c[key] = "new"; };
    return {map_change<Map>(
                "insert", [key](Map& m) { (void)m.insert(key, "new"); }, comes),
            map_change<Map>("set of a new one", [key](Map& m) { (void)m.set(key, "new"); }, comes)};
}
template <class Map>
afterwards erase_and_set(const std::string& key) {
    return afterwards(map_change<Map>(
        "erase, and set",
        [key](Map& m) {
            (void)m.erase(key);
            require(static_cast<bool>(m.set(key, "next")), "a set");
        },
        [key](contents& c) { c[key] = "next"; }));
}

template <class Map>
subject map_subject_when(const char* name, fill how) {
    const bool collide = how == fill::colliding;
    const u64 capacity = collide ? 250 : 30, units = collide ? 60 : 20;
    // More than a bucket holds: the last ones lie in others, and are counted in those that they went past.
    const auto crowd = collide ? map_keys_of_one_bucket<Map>(capacity, 40) : std::vector<std::string>{};
    const auto key = [crowd](u64 n) { return crowd.empty() ? name_of(n) : crowd[n]; };
    const u64 entries = how == fill::empty ? 0 : collide ? 39 : how == fill::full ? units : units - 1;
    subject made{name,
                 [=](const std::string& uri) {
                     Map map = create_map<Map>(uri, capacity, units);
                     contents filled;
                     for (u64 n = 0; n < entries; ++n) {
                         require(static_cast<bool>(map.insert(key(n), short_value(n))), "an insert");
                         filled[key(n)] = short_value(n);
                     }
                     const auto usage = map.usage();
                     require(collide || how == fill::empty || usage.units_used == entries, "a unit an entry");
                     require(how != fill::full || usage.units_used == usage.units, "a full map");
                     return filled;
                 },
                 read_map,
                 {},
                 erase_and_set<Map>(key(0))};
    const auto add = [&](std::vector<operation> more) {
        for (operation& one : more) made.operations.push_back(std::move(one));
    };
    if (how != fill::full) add(map_inserts<Map>(collide ? crowd[39] : "new"));
    if (how == fill::nearly_full || collide) add(map_updates<Map>(key(entries - 1)));
    if (how != fill::empty) add(map_erasures<Map>(key(entries - 2)));
    return made;
}

/// A bucket that more keys went past once than its counters count: too high since those have gone, until recount().
template <class Map>
subject overflowed_map_subject(const char* name) {
    constexpr u64 capacity = 250;
    const auto crowd = map_keys_of_one_bucket<Map>(capacity, 47);
    return {name,
            [crowd](const std::string& uri) {
                Map map = create_map<Map>(uri, capacity, 60);
                contents filled;
                for (const std::string& key : crowd) require(static_cast<bool>(map.insert(key, "value")), "an insert");
                for (std::size_t i = 0; i < crowd.size(); ++i)
                    if (i < 38)
                        filled[crowd[i]] = "value";
                    else
                        require(static_cast<bool>(map.erase(crowd[i])), "an erase");
                return filled;
            },
            read_map,
            {map_change<Map>(
                "recount", [](Map& m) { require(m.recount() != 0, "a counter that is off"); }, [](contents&) {})},
            erase_and_set<Map>(crowd[0])};
}

}  // namespace holdfast::test::image_kill
