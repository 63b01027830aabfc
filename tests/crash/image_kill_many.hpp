// SPDX-License-Identifier: Apache-2.0
// image_kill_many.hpp - containers of many writers in named segments, with the operations in which image_kill_test.cpp
// kills one writer while another one lives.
//
// Either the one that lives goes on first: it meets what the dead one held, finishes that, and goes
// on where the dead one was; a newcomer, which gets the dead one's slot, then finds all as it is. Or the newcomer is
// first: it recovers as it attaches, and both go on.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "golden/image_file.hpp"
#include "image_kill_subjects.hpp"

namespace holdfast::test::image_kill {

enum class goes_first { who_lives, newcomer };

/// The writer that lives, in this process, and how often the dead one's work was finished.
template <class Writer>
struct beside_the_dead {
    std::optional<Writer> living;
    std::shared_ptr<u64> repairs = std::make_shared<u64>(0);

    /// A newcomer, once it has recovered. Its report does not name all that it did: behind an erase or a free it only
    /// takes traces away. So it is judged by what has changed.
    [[nodiscard]] Writer attach(const std::string& uri) {
        const image_bytes left = body_of(uri);
        Writer newcomer = Writer::attach(uri);
        const bool changed = body_of(uri) != left;
        require(changed || !found_something(newcomer.recovery()), "a change where one is reported");
        if (changed) ++*repairs;
        return newcomer;
    }
    /// The living one needs all that the dead one may have held.
    void meet(void (*operate)(Writer&)) {
        const u64 before = living->takeovers();
        operate(*living);
        *repairs += living->takeovers() - before;
    }

 private:
    // But for who holds the writer slots.
    static image_bytes body_of(const std::string& uri) {
        image_bytes all = read_file(uri.substr(uri.find(':') + 1));
        forget_owner(all);
        std::fill(all.begin(), all.begin() + header_bytes, std::byte{0});
        return all;
    }
    static bool found_something(const hash_table_recovery& done) {
        require(!done.journal_rejected, "the journal of a mere death");
        return done.update_replayed || done.operation_settled || done.stripes_given_back;
    }
    static bool found_something(const block_store_recovery& done) {
        require(!done.counts_rebuilt, "the record of a mere death");
        return done.replacement_finished || done.claims_dropped;
    }
    static bool found_something(const hash_map_recovery& done) {
        require(!done.record_rebuilt, "the record of a mere death");
        const bool in_table = found_something(done.table), in_store = found_something(done.store);
        return done.operation_finished || in_table || in_store;
    }
};

/// What a subject of many writers is made of, and what is done behind a death.
template <class Writer>
struct many_parts {
    Writer (*create)(const std::string& uri);
    contents (*fill)(Writer&);
    contents (*read)(const std::string& uri);
    std::vector<operation> operations;
    void (*meet)(Writer&);                      // changes nothing in the end
    void (*go_on)(Writer& one, Writer& other);  // one where the dead one was
    std::function<void(contents&)> apply;
};

template <class Writer>
subject subject_of_many(const char* name, goes_first who, const many_parts<Writer>& parts) {
    const auto both = std::make_shared<beside_the_dead<Writer>>();
    const auto who_lives = [both, parts](const std::string& uri) {
        both->meet(parts.meet);
        return [both, parts, uri] {
            Writer newcomer = both->attach(uri);
            parts.go_on(*both->living, newcomer);
        };
    };
    const auto newcomer = [both, parts](const std::string& uri) {
        return with(both->attach(uri), [both, parts](Writer& first) { parts.go_on(first, *both->living); });
    };
    subject made{name,
                 [both, parts](const std::string& uri) {
                     both->living.emplace(parts.create(uri));
                     return parts.fill(*both->living);
                 },
                 parts.read, parts.operations, afterwards({"go on", {}, parts.apply})};
    if (who == goes_first::who_lives)
        made.next.start = who_lives;
    else
        made.next.start = newcomer;
    made.repairs = both->repairs;
    return made;
}

// ---- a table -----------------------------------------------------------------------------------------------------

using golden::many_sessions;

inline void update_beside_the_dead(many_sessions& table) {
    require(static_cast<bool>(table.update(5, session_of(5))), "an update beside the dead");
}
inline std::vector<operation> many_table_operations() {
    std::vector<operation> all = table_operations<many_sessions>();
    all.push_back(table_operation<many_sessions>(
        "fetch_add", [](many_sessions& t) { (void)t.fetch_add(8, &session::visits, 2); },
        [](contents& c) { c["8"] = "8 + 2"; }));
    return all;
}

// Of one stripe: whatever the living one changes, it needs what the dead one held.
inline subject many_table_subject(const char* name, goes_first who) {
    return subject_of_many<many_sessions>(
        name, who,
        {[](const std::string& uri) {
             return many_sessions::create(uri, {.capacity = 50, .seed = 7, .writer_slots = 3});
         },
         [](many_sessions& t) { return fill_table(t, 25); }, read_table, many_table_operations(),
         update_beside_the_dead,
         [](many_sessions& one, many_sessions& other) {
             require(static_cast<bool>(one.insert_or_assign(8, session_of(300))), "an update");
             require(static_cast<bool>(other.insert_or_assign(9, session_of(301))), "an insert or update");
         },
         [](contents& c) { c["8"] = "300", c["9"] = "301"; }});
}

// ---- a store -----------------------------------------------------------------------------------------------------

using golden::many_blocks;

// Every free unit is wanted: with it what the dead one had claimed, and the rest of what it was in.
inline void take_all_room(many_blocks& store) {
    std::vector<u64> fillers;
    while (const block_result kept = store.allocate(bytes_of("filler"))) fillers.push_back(kept.handle);
    for (const u64 filler : fillers) require(store.free(filler) == outcome::ok, "a free");
    require(fillers.size() == store.usage().units_free(), "a unit that is free and cannot be had");
}

inline subject many_blocks_subject(const char* name, goes_first who) {
    return subject_of_many<many_blocks>(
        name, who,
        {[](const std::string& uri) {
             return many_blocks::create(uri, {.bytes = 3000, .unit_bytes = 64, .writer_slots = 3});
         },
         fill_blocks<many_blocks>, read_blocks, block_operations<many_blocks>(), take_all_room,
         [](many_blocks& one, many_blocks& other) {
             require(static_cast<bool>(one.allocate(bytes_of(block_text(30)))), "a value");
             require(static_cast<bool>(other.allocate(bytes_of(block_text(31)))), "a value");
             take_all_room(other);
         },
         [](contents& c) { c[block_text(30)] = "", c[block_text(31)] = ""; }});
}

// ---- a map -------------------------------------------------------------------------------------------------------

using golden::many_texts;

// The stripe of all keys, and then all the room.
inline void need_all_of(many_texts& map) {
    require(static_cast<bool>(map.update(golden::key_of(3), golden::value_of(3))), "an update beside the dead");
    const std::string filler(500, 'f');
    u64 fillers = 0;
    while (map.insert(name_of(fillers), filler)) ++fillers;
    require(fillers > 0, "room");
    while (fillers > 0) require(static_cast<bool>(map.erase(name_of(--fillers))), "an erase");
}

inline subject many_map_subject(const char* name, goes_first who) {
    const auto changes = [](const char* what, void (*operate)(many_texts&), void (*apply)(contents&)) {
        return operation{what, [operate](const std::string& uri) { return with(many_texts::attach(uri), operate); },
                         apply};
    };
    return subject_of_many<many_texts>(
        name, who,
        {[](const std::string& uri) {
             hash_map_options options = map_options(4000);
             options.writer_slots = 3;
             return many_texts::create(uri, options);
         },
         half_filled<many_texts>,
         read_map,
         {changes(
              "insert", [](many_texts& m) { (void)m.insert("new", std::string(70, 'v')); },
              [](contents& c) { c["new"] = std::string(70, 'v'); }),
          changes(
              "update", [](many_texts& m) { (void)m.update(golden::key_of(6), golden::value_of(2)); },
              [](contents& c) { c[golden::key_of(6)] = golden::value_of(2); }),
          changes(
              "fetch_add", [](many_texts& m) { (void)m.fetch_add<char>(golden::key_of(7), 0, 1); },
              [](contents& c) { ++c[golden::key_of(7)][0]; }),
          changes(
              "erase", [](many_texts& m) { (void)m.erase(golden::key_of(12)); },
              [](contents& c) { c.erase(golden::key_of(12)); })},
         need_all_of,
         [](many_texts& one, many_texts& other) {
             require(static_cast<bool>(one.set(golden::key_of(6), "next")), "a set");
             require(static_cast<bool>(other.set("new", "last")), "a set");
             need_all_of(other);
         },
         [](contents& c) { c[golden::key_of(6)] = "next", c["new"] = "last"; }});
}

}  // namespace holdfast::test::image_kill
