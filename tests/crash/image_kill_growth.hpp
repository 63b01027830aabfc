// SPDX-License-Identifier: Apache-2.0
// image_kill_growth.hpp - hash tables in named segments that grow, of one writer and of many, with the steps in which
// image_kill_test.cpp kills the writer that moves the entries. The next generation is part of the image, and so is
// where the names lead. (hash_table_grow_test.cpp kills it at each system call.)
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "holdfast/hash_table/growing.hpp"
#include "image_kill_many.hpp"
#include "support/single_step.hpp"

namespace holdfast::test::image_kill {

inline constexpr u64 small_capacity = 50;  // three buckets, one stripe
inline constexpr u64 large_capacity = 120, next_capacity = 200;
inline constexpr u64 striped_capacity = 450;  // two stripes

/// A table's way from one capacity to another.
struct growth_way {
    u64 from = small_capacity, to = large_capacity;
    u64 seed = 7;  // with which the first bucket has an entry

    [[nodiscard]] layout::hash_table_geometry geometry(u64 writer_slots) const {
        return layout::plan_hash_table({.capacity = from,
                                        .key_bytes = sizeof(u64),
                                        .value_bytes = sizeof(session),
                                        .value_alignment = alignof(session),
                                        .seed = seed,
                                        .writer_slots = writer_slots});
    }
    /// How many steps of one writer come before the one that takes the name: reserve, look at each region's checksum,
    /// carry each bucket.
    [[nodiscard]] u64 steps() const { return 1 + geometry(0).regions() + geometry(0).buckets; }
    /// And of many: announce, open the stripes, then as above.
    [[nodiscard]] u64 steps_of_many() const { return steps() + 1; }
};

/// A table that will grow, and a reader that follows it.
class growth_place {
 public:
    using follower = growing_hash_table_reader<u64, session>;

    void begin(const std::string& uri) {
        struct stat now{};
        require(::stat(path_of(uri).c_str(), &now) == 0, "a look at the table's file");
        first_ = now.st_ino;
        follower_.emplace(follower::attach(uri));
    }
    /// In the writer's process, once the next generation is there: it has no name yet, or a hidden one. So has any file
    /// that was made and named later, by who opened it first: the lease that a writer has from the table's creation,
    /// which this process may have inherited. A lease is empty.
    void find_next(const std::string& uri) {
        const auto folder = std::filesystem::canonical(std::filesystem::path(path_of(uri)).parent_path());
        for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
            std::error_code gone;
            const std::filesystem::path target = std::filesystem::read_symlink(entry.path(), gone);
            const std::string name = target.filename().string();
            if (gone || target.parent_path() != folder || !(name.starts_with("#") || name.starts_with("."))) continue;
            struct stat its{};
            if (::stat(entry.path().c_str(), &its) != 0 || its.st_ino == first_ ||
                its.st_size < static_cast<off_t>(header_bytes))
                continue;
            const std::string found = "/proc/" + std::to_string(::getpid()) + "/fd/" + entry.path().filename().string();
            std::memcpy(next_.bytes().data(), found.c_str(), found.size() + 1);
            return;
        }
        require(false, "the next generation's file");
    }
    /// For the parent: where find_next() found it.
    [[nodiscard]] std::vector<std::string> next() const {
        return {reinterpret_cast<const char*>(next_.bytes().data())};
    }
    [[nodiscard]] std::string names(const std::string& uri) const {
        struct stat now{};
        const bool there = ::stat(path_of(uri).c_str(), &now) == 0;
        return std::string(!there                 ? "nothing"
                           : now.st_ino == first_ ? "first"
                                                  : "next") +
               (is_announced(uri) ? ", announced" : "");
    }
    [[nodiscard]] static bool is_announced(const std::string& uri) {
        return ::access((path_of(uri) + ".growing").c_str(), F_OK) == 0;
    }
    /// By a reader that comes now, which the one that follows must agree with.
    [[nodiscard]] contents read(const std::string& uri) {
        contents found = read_table(uri);
        for (u64 n = 0; n < 150; ++n) {
            const auto followed = follower_->find(n);
            const auto fresh = found.find(name_of(n));
            const bool same =
                followed ? fresh != found.end() && fresh->second == text_of_session(*followed) : fresh == found.end();
            if (!same) found["damage"] = "a reader that follows finds another entry " + name_of(n);
        }
        // The size is counted behind the entry's own store (hash_table/mutate.hpp, I4 and E1 before S1): between the
        // two it is not how many a scan finds, and the same to every reader.
        const auto fresh = hash_table_reader<u64, session>::attach(uri);
        if (follower_->capacity() != fresh.capacity() || follower_->size() != fresh.size())
            found["damage"] = "a reader that follows has not come along";
        found["capacity"] = name_of(fresh.capacity());
        return found;
    }

 private:
    [[nodiscard]] static std::string path_of(const std::string& uri) { return uri.substr(uri.find(':') + 1); }

    ino_t first_ = 0;
    std::optional<follower> follower_;
    shared_image next_{4096};
};

/// To the end of what there is, and then once more.
template <class Table>
void grow_again(Table& table, const std::string& uri) {
    while (table.advance()) {
    }
    require(!table.growth_failure(), "the end of a growth that was begun");
    require(!growth_place::is_announced(uri), "a name that nobody left behind");
    table.grow(next_capacity);
    while (table.advance()) {
    }
    require(!table.growth_failure() && table.capacity() == next_capacity, "another growth");
    u64 entries = 0;
    for ([[maybe_unused]] const auto& entry : table) ++entries;
    require(table.size() == entries, "a size that is right again");
    require(!growth_place::is_announced(uri), "a name that nobody left behind");
}

/// A writer that has done so many steps of a growth.
template <class Growing>
attach_to_table<Growing> amid_growth(const std::shared_ptr<growth_place>& place, u64 steps, growth_way way = {}) {
    return [place, steps, way](const std::string& uri) {
        Growing table = Growing::attach(uri);
        table.grow(way.to);
        place->find_next(uri);
        (void)table.advance(steps);
        require(table.capacity() == way.from, "a growth under way");
        if constexpr (requires { table.growing(); }) require(table.growing(), "a growth under way");
        return table;
    };
}
/// The step behind so many others.
template <class Growing>
operation growth_step(const char* name, const std::shared_ptr<growth_place>& place, u64 steps, growth_way way = {}) {
    return table_operation<Growing>(
        name,
        [way](Growing& t) {
            (void)t.advance();
            require(t.capacity() == way.from, "a step before the last");
        },
        [](contents&) {}, amid_growth<Growing>(place, steps, way));
}
inline std::function<void(contents&)> has_moved(growth_way way) {
    return [way](contents& c) { c["capacity"] = name_of(way.to); };
}
/// The last step.
template <class Growing>
operation growth_end(const char* name, const std::shared_ptr<growth_place>& place, u64 steps, growth_way way = {}) {
    return table_operation<Growing>(
        name,
        [way](Growing& t) {
            (void)t.advance();
            require(t.capacity() == way.to, "the last step");
        },
        has_moved(way), amid_growth<Growing>(place, steps, way));
}

// ---- of one writer -----------------------------------------------------------------------------------------------

using growing_sessions = growing_hash_table<u64, session>;

// The steps: reserve, look at a region's checksum, carry the first bucket, the second, the third, take the name.
inline subject growing_table_subject() {
    // Few, and those of them that lie in the bucket that is carried first: one that is there, and one that is not.
    constexpr u64 entries = 7;
    struct first_bucket {
        u64 there = 0, absent = 100;
        first_bucket() {
            auto table = session_table::create("heap:", {.capacity = small_capacity, .seed = 7});
            (void)fill_table(table, entries);
            const auto lies_there = [&](u64 n) {
                const auto slot = table.slot_of(n);
                return slot && static_cast<u64>(*slot) < layout::tags_per_line;
            };
            while (!lies_there(there)) require(++there < entries, "an entry of the first bucket");
            for (;; ++absent) {
                (void)table.try_insert(absent, session_of(absent));
                if (lies_there(absent)) break;
                (void)table.erase(absent);
            }
        }
    };
    const auto keys = std::make_shared<first_bucket>();
    const auto place = std::make_shared<growth_place>();
    const auto attach = amid_growth<growing_sessions>(place, 3);
    const auto changes = [&](const char* name, std::function<void(growing_sessions&)> operate,
                             std::function<void(contents&)> apply) {
        return table_operation<growing_sessions>(name, std::move(operate), std::move(apply), attach);
    };
    subject made{
        "hash_table_growing",
        [place](const std::string& uri) {
            auto table = session_table::create(uri, {.capacity = small_capacity, .seed = 7});
            contents filled = fill_table(table, entries);
            filled["capacity"] = name_of(small_capacity);
            place->begin(uri);
            return filled;
        },
        [place](const std::string& uri) { return place->read(uri); },
        {growth_step<growing_sessions>("carry a bucket", place, 2),
         changes(
             "insert what is carried",
             [keys](growing_sessions& t) { (void)t.try_insert(keys->absent, session_of(101)); },
             [keys](contents& c) { c[name_of(keys->absent)] = "101"; }),
         changes(
             "update what is carried", [keys](growing_sessions& t) { (void)t.update(keys->there, session_of(102)); },
             [keys](contents& c) { c[name_of(keys->there)] = "102"; }),
         changes(
             "insert or assign what is carried",
             [keys](growing_sessions& t) { (void)t.insert_or_assign(keys->there, session_of(103)); },
             [keys](contents& c) { c[name_of(keys->there)] = "103"; }),
         changes(
             "erase what is carried", [keys](growing_sessions& t) { (void)t.erase(keys->there); },
             [keys](contents& c) { c.erase(name_of(keys->there)); }),
         growth_end<growing_sessions>("take the name", place, growth_way{}.steps())},
        afterwards({"grow again",
                    [](const std::string& uri) {
                        return with(growing_sessions::attach(uri), [uri](growing_sessions& t) {
                            grow_again(t, uri);
                            require(static_cast<bool>(t.insert_or_assign(2, session_of(300))), "an insert or update");
                        });
                    },
                    [](contents& c) { c["2"] = "300", c["capacity"] = name_of(next_capacity); }})};
    for (operation& more : table_changes<growing_sessions>(keys->there, keys->there, attach))
        made.operations.push_back(std::move(more));
    operation inserts = insert_many<growing_sessions>({keys->absent, 130, 131}, 3, attach);
    inserts.then.emplace_back(has_moved({}));  // each insert does a step of the growth
    made.operations.push_back(std::move(inserts));
    made.stores_also = [place](const std::string&) { return place->next(); };
    made.names = [place](const std::string& uri) { return place->names(uri); };
    return made;
}

// ---- of many writers ---------------------------------------------------------------------------------------------

// The steps: announce, open the stripes, look at a region's checksum, carry the first bucket, the second, and so on,
// close and take the name.
inline std::vector<operation> growth_steps_of_many(const std::shared_ptr<growth_place>& place, growth_way way) {
    const auto step = [&](const char* what, u64 steps) { return growth_step<many_sessions>(what, place, steps, way); };
    const auto stop = [&](const char* what, u64 steps) {
        return table_operation<many_sessions>(
            what,
            [way](many_sessions& t) {
                t.stop_growing();
                require(!t.growing() && t.capacity() == way.from, "a growth given up");
            },
            [](contents&) {}, amid_growth<many_sessions>(place, steps, way));
    };
    return {step("announce", 0),
            step("open", 1),
            step("carry a bucket", 3),
            growth_step<dynamic_hash_table>("carry a bucket by its bytes", place, 3, way),
            table_operation<many_sessions>(
                "update while it grows", [](many_sessions& t) { (void)t.update(3, session_of(103)); },
                [](contents& c) { c["3"] = "103"; }, amid_growth<many_sessions>(place, 4, way)),
            stop("stop when it is announced", 1),
            stop("stop when the stripes are open", 2),
            stop("stop amid carrying", 4),
            growth_end<many_sessions>("close and take the name", place, way.steps_of_many(), way)};
}

// Whoever goes on changes other keys than the dead one, then ends what was begun and grows the table once more.
// before_that(one who was attached all the time), as the dead one left it.
inline subject growing_many_subject(
    const char* name, goes_first who, growth_way way, const std::shared_ptr<growth_place>& place,
    std::vector<operation> operations,
    std::function<void(const many_sessions&)> before_that = [](const many_sessions&) {}) {
    constexpr u64 entries = 7;
    const auto both = std::make_shared<beside_the_dead<many_sessions>>();
    const auto ends_it = [](many_sessions& first, many_sessions& second, const std::string& uri) {
        grow_again(first, uri);
        require(static_cast<bool>(second.insert_or_assign(2, session_of(300))), "an update");
    };
    const auto who_lives = [both, ends_it, before_that](const std::string& uri) {
        before_that(*both->living);
        for (const u64 n : {0U, 1U, 4U, 5U, 6U})
            require(static_cast<bool>(both->living->update(n, session_of(n))), "an update beside the dead");
        return [both, ends_it, uri] {
            many_sessions newcomer = many_sessions::attach(uri);
            ends_it(*both->living, newcomer, uri);
        };
    };
    const auto newcomer = [both, ends_it, before_that](const std::string& uri) {
        before_that(*both->living);
        return with(many_sessions::attach(uri),
                    [both, ends_it, uri](many_sessions& first) { ends_it(first, *both->living, uri); });
    };
    subject made{
        name,
        [place, both, way](const std::string& uri) {
            both->living.emplace(
                many_sessions::create(uri, {.capacity = way.from, .seed = way.seed, .writer_slots = 3}));
            contents filled = fill_table(*both->living, entries);
            filled["capacity"] = name_of(way.from);
            place->begin(uri);
            return filled;
        },
        [place](const std::string& uri) { return place->read(uri); }, std::move(operations),
        afterwards({"grow again", {}, [](contents& c) { c["2"] = "300", c["capacity"] = name_of(next_capacity); }})};
    if (who == goes_first::who_lives)
        made.next.start = who_lives;
    else
        made.next.start = newcomer;
    made.stores_also = [place](const std::string&) { return place->next(); };
    made.names = [place](const std::string& uri) { return place->names(uri); };
    return made;
}
inline subject growing_many_subject(const char* name, goes_first who, growth_way way = {}) {
    const auto place = std::make_shared<growth_place>();
    return growing_many_subject(name, who, way, place, growth_steps_of_many(place, way));
}

/// A leader dies that has asked some of the stripes and not the others, to mirror or to close; deaths that did so are
/// counted for each of both.
inline subject half_asked_subject(const char* name, goes_first who, growth_way way) {
    const auto place = std::make_shared<growth_place>();
    const auto half_asked = std::make_shared<u64>(0);
    const layout::hash_table_geometry g = way.geometry(3);
    require(g.stripes > 1, "several stripes");
    const auto count = [half_asked, g](const many_sessions& living) {
        const auto asked = [&](u64 stripe) {
            const std::byte* const body = living.segment().bytes().data();
            return holdfast::detail::growth_of(body + g.stripes_offset + stripe * layout::stripe_bytes).what();
        };
        for (u64 stripe = 1; stripe < g.stripes; ++stripe)
            if (asked(stripe) != asked(stripe - 1)) ++*half_asked;
    };
    subject made =
        growing_many_subject(name, who, way, place,
                             {growth_step<many_sessions>("open", place, 1, way),
                              growth_end<many_sessions>("close and take the name", place, way.steps_of_many(), way)},
                             count);
    made.repairs = half_asked;
    return made;
}

}  // namespace holdfast::test::image_kill
