// SPDX-License-Identifier: Apache-2.0
// image_kill_feed.hpp - a hash map in a named segment and the ring in another one that its changes are told to, with
// the operations in which image_kill_test.cpp kills the writer of both. The ring is part of the image.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "holdfast/hash_map/feed.hpp"
#include "image_kill_subjects.hpp"
#include "support/map_feed_bench.hpp"

namespace holdfast::test::image_kill {

inline std::string ring_of(const std::string& uri) { return uri + "-changes"; }

/// The writer of a map and of the ring.
struct told_map {
    hash_map_feed feed;
    text_map map;
    explicit told_map(const std::string& uri)
        : feed(broadcast_writer::attach(ring_of(uri))), map(text_map::attach(uri, {}, services(feed))) {}

    static hash_map_services services(hash_map_feed& feed) {
        hash_map_services with_feed = golden::services_at(golden::gone_on_at);
        with_feed.feed = &feed;
        return with_feed;
    }
};

/// The map as the ring tells it, from its first change on, and how many there were.
struct told_contents {
    contents all;
    u64 changes = 0;
    std::string wrong;

    explicit told_contents(const std::string& uri) {
        broadcast_reader reader = broadcast_reader::attach(ring_of(uri));
        feed_contents seen;
        std::vector<std::byte> message;
        while (const auto got = reader.read(message)) {
            wrong = replay(seen, changes, message, got.type);
            if (!wrong.empty()) return;
        }
        if (!reader.verify().empty()) wrong = "the ring is damaged";
        for (const auto& [key, value] : seen) all[key] = text_of_bytes(value);
    }
};

/// In how many keys two of them differ.
inline u64 differences(const contents& a, const contents& b) {
    u64 found = 0;
    for (const auto& [key, value] : a) {
        const auto other = b.find(key);
        found += other == b.end() || other->second != value ? 1U : 0U;
    }
    for (const auto& entry : b) found += a.contains(entry.first) ? 0U : 1U;
    return found;
}

inline subject told_map_subject() {
    const auto repairs = std::make_shared<u64>(0);
    const auto changes = [](const char* name, std::function<void(text_map&)> operate,
                            std::function<void(contents&)> apply) {
        return operation{name,
                         [operate](const std::string& uri) {
                             auto writer = std::make_shared<told_map>(uri);
                             return [writer, operate] { operate(writer->map); };
                         },
                         std::move(apply)};
    };
    const auto require_told = [](const std::string& uri, const told_map& by) {
        const told_contents told(uri);
        require(told.wrong.empty() && told.changes == by.map.changes(), "a feed that counts what the map does");
        require(differences(told.all, read_map(uri)) == 0, "a feed that is the map");
        require(by.feed.untold() == 0, "a feed without a gap");
    };
    subject made{"hash_map_feed",
                 [](const std::string& uri) {
                     hash_map_options options = map_options(4000);
                     (void)broadcast_writer::create(ring_of(uri), {.capacity_bytes = 8192});
                     (void)text_map::create(uri, options, golden::services_at(golden::made_at));
                     told_map writer(uri);
                     contents filled;
                     for (u64 n = 1; n <= 6; ++n) {
                         require(static_cast<bool>(writer.map.insert(golden::key_of(n), golden::value_of(n))),
                                 "an insert");
                         filled[golden::key_of(n)] = golden::value_of(n);
                     }
                     return filled;
                 },
                 // The feed is the map, or one change behind it until the next writer comes.
                 [](const std::string& uri) {
                     contents found = read_map(uri);
                     const told_contents told(uri);
                     if (!told.wrong.empty())
                         found["damage"] = told.wrong;
                     else if (differences(told.all, found) > 1)
                         found["damage"] = "the feed is another map";
                     return found;
                 },
                 {changes(
                      "erase", [](text_map& m) { (void)m.erase(golden::key_of(5)); },
                      [](contents& c) { c.erase(golden::key_of(5)); }),
                  changes(
                      "insert", [](text_map& m) { (void)m.insert("new", std::string(70, 'v')); },
                      [](contents& c) { c["new"] = std::string(70, 'v'); }),
                  changes(
                      "update", [](text_map& m) { (void)m.update(golden::key_of(6), golden::value_of(2)); },
                      [](contents& c) { c[golden::key_of(6)] = golden::value_of(2); }),
                  changes(
                      "fetch_add", [](text_map& m) { (void)m.fetch_add<char>(golden::key_of(2), 0, 1); },
                      [](contents& c) { ++c[golden::key_of(2)][0]; })},
                 afterwards({"set",
                             [repairs, require_told](const std::string& uri) {
                                 auto writer = std::make_shared<told_map>(uri);
                                 *repairs += writer->map.recovery().change_told ? 1U : 0U;
                                 require_told(uri, *writer);
                                 return [writer, require_told, uri] {
                                     require(static_cast<bool>(writer->map.set(golden::key_of(3), "next")), "a set");
                                     require_told(uri, *writer);
                                 };
                             },
                             [](contents& c) { c[golden::key_of(3)] = "next"; }})};
    made.stores_also = [](const std::string& uri) {
        return std::vector<std::string>{ring_of(uri).substr(uri.find(':') + 1)};
    };
    made.repairs = repairs;
    return made;
}

}  // namespace holdfast::test::image_kill
