// SPDX-License-Identifier: Apache-2.0
// map_history.hpp - roles for histories of a hash map (history_rig.hpp): a writer that does every operation there is,
// or three of many, readers that find or scan, a clock that goes on. What they do is judged by map_key_model.hpp.
#pragma once

#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/hash_map.hpp"
#include "holdfast/hash_map/many.hpp"
#include "support/history_rig.hpp"
#include "support/map_key_model.hpp"

namespace holdfast::test {

/// How a map is used.
struct map_load {
    std::uint64_t keys = 12;
    hash_map_options made{};
    bool expiring = false;  // entries live for some seconds of the shared clock, or for ever
};

/// What all processes of a round share beside the map.
struct map_load_page {
    std::atomic<std::uint64_t> second{0};
    std::atomic<std::uint64_t> handles[64]{};  // by key: one that a reader was answered last
};
inline map_load_page* shared_load_page = nullptr;  // of this process; a clock is a function without an object

/// Two keys of three are longer than a word.
[[nodiscard]] inline std::string load_key(std::uint64_t i) { return std::to_string(i) + std::string(i % 3 * 12, 'k'); }

/// Of many writers nothing expires or is evicted, and there is nothing to touch.
template <writers Policy = writers::one>
class map_history {
 public:
    using model = map_key_model;
    using map = hash_map<std::string_view, Policy>;
    static constexpr bool many = Policy == writers::many;
    using map_reader = hash_map_reader<std::string_view>;
    using registered_reader = hash_map_registered_reader<std::string_view>;

    explicit map_history(const map_load& load) : load_(load), page_(4096) {
        shared_load_page = new (page_.bytes().data()) map_load_page;
    }

    void make(const std::string& uri) const {
        new (shared_load_page) map_load_page;
        if constexpr (many)
            (void)map::create(uri, load_.made);
        else
            (void)map::create(uri, load_.made, services());
    }
    [[nodiscard]] static map attach(const std::string& uri) {
        attach_options patient;
        patient.lease_timeout = std::chrono::seconds(10);
        if constexpr (many) {
            map writer = map::attach(uri, patient);
            writer.set_patience(std::chrono::seconds(60));
            return writer;
        } else {
            return map::attach(uri, patient, services());
        }
    }

    /// A writer that is killed, or three of them, readers that find and scan, a clock.
    [[nodiscard]] std::vector<history_role> roles(const std::string& uri) const {
        std::vector<history_role> all = {
            {[this, uri](history_worker& me) { return write(me, uri, 0); }, true},
            {[this, uri](history_worker& me) {
                 return load_.made.registered_readers != 0 ? read<registered_reader>(me, uri)
                                                           : read<map_reader>(me, uri);
             },
             true},
            {[this, uri](history_worker& me) { return read<map_reader>(me, uri); }},
            {[this, uri](history_worker& me) { return scan(me, uri); }},
        };
        for (std::uint64_t other = 1; many && other < 3; ++other)
            all.push_back({[this, uri, other](history_worker& me) { return write(me, uri, other); }, true});
        if (load_.expiring) all.push_back({[](history_worker& me) { return tell_time(me); }});
        return all;
    }
    /// Whether what all did could be.
    [[nodiscard]] history_report judge(const history_run& run) const {
        history all = run.all();
        const history ticks = load_.expiring ? run.of_role.back() : history();
        for (operation tick : ticks)
            for (tick.key = 1; tick.key < load_.keys; ++tick.key) all.push_back(tick);  // of key 0 it is one already
        history_report report = check_by_key<model>(all, {.evicting = load_.made.evict});
        if (report.ok()) report.violation = handle_given_twice(all);
        return report;
    }

 private:
    static hash_map_services services() {
        // Acquire: the second that another process told is known to all who hear of it by the map.
        return {.clock = {[]() noexcept { return shared_load_page->second.load(std::memory_order_acquire); },
                          []() noexcept { return std::uint64_t{1}; }}};
    }
    [[nodiscard]] static std::uint64_t second() { return shared_load_page->second.load(); }

    // `role`: which of the writers.
    std::string write(history_worker& me, const std::string& uri, std::uint64_t role) const {
        me.mortal();
        map writer = attach(uri);
        me.attached();
        for (std::uint64_t i = 0; me.go_on(); ++i)
            if (std::string wrong = change(me, writer, (role << 34) + (me.life() << 16) + i + 1); !wrong.empty())
                return wrong;
        return {};
    }
    // One operation. The handle of a condition is one that a reader was answered, which may be another's by now.
    std::string change(history_worker& me, map& writer, std::uint64_t number) const {
        const std::uint64_t key = me.below(load_.keys), ttl_s = load_.expiring ? me.below(4) : 0;
        const std::uint64_t content = map_content_of::make(number, ttl_s);
        const std::string name = load_key(key);
        const std::vector<std::byte> value = map_content_of::bytes(content);
        const std::uint64_t known = me.below(8) == 0 ? 0 : shared_load_page->handles[key].load();
        auto what = static_cast<typename model::kind>(me.below(model::find));
        if (many && what == model::touch) what = model::set;
        const bool expects = what == model::compare_and_set || what == model::compare_and_erase;
        if (what == model::compare_and_erase && known == 0) return {};
        history_log& log = me.log();
        log.call(what, key, what == model::touch ? ttl_s : content, expects ? known : 0, second());
        hash_map_result did;
        const auto how = how_of(ttl_s);
        switch (what) {
            case model::set: did = writer.set(name, value, how); break;
            case model::insert: did = writer.insert(name, value, how); break;
            case model::update: did = writer.update(name, value, how); break;
            case model::compare_and_set: did = writer.compare_and_set(name, known, value, how); break;
            case model::erase: did = writer.erase(name); break;
            case model::compare_and_erase: did = writer.compare_and_erase(name, known); break;
            case model::touch:
                if constexpr (!many) did = writer.touch(name, std::chrono::seconds(ttl_s));
                break;
            default: {
                const auto added = writer.template fetch_add<std::uint64_t>(name, 0, 1);
                if (added.status == outcome::full && load_.made.evict) {
                    log.cancel();
                    return {};
                }
                if (added.status != outcome::ok && added.status != outcome::not_found)
                    return "an addition answers " + std::string(outcome_name(added.status));
                log.done_and_found(added.status == outcome::ok ? added.handle : 0, added.before);
                return {};
            }
        }
        switch (did.status) {
            case outcome::ok: log.done_and_found(did.handle, 1); return {};
            case outcome::not_found: log.done(0); return {};
            case outcome::exists:
            case outcome::stale: log.done(did.handle); return {};
            case outcome::full:
                if (!load_.made.evict || what == model::set || what == model::insert)
                    return "refused, though there is room";
                log.cancel();
                return {};
            default: return "operation " + std::to_string(what) + " answers " + std::string(outcome_name(did.status));
        }
    }

    static auto how_of(std::uint64_t ttl_s) {
        if constexpr (many)
            return std::uint32_t{0};  // its flags
        else
            return hash_map_entry_options{.ttl = std::chrono::seconds(ttl_s)};
    }

    template <class Reader>
    std::string read(history_worker& me, const std::string& uri) const {
        me.mortal();
        const Reader reader = Reader::attach(uri, {}, services().clock);
        me.attached();
        std::vector<std::byte> value;
        while (me.go_on()) {
            const std::uint64_t key = me.below(load_.keys);
            me.log().call(model::find, key, 0);
            const hash_map_found got = reader.find(load_key(key), value);
            if (std::string wrong = answer(me, key, got.status, got.handle, value); !wrong.empty()) return wrong;
        }
        return reader.fault() ? "the reader latched a fault" : "";
    }
    static std::string answer(history_worker& me, std::uint64_t key, outcome status, std::uint64_t handle,
                              const std::vector<std::byte>& value) {
        if (status == outcome::contended) {
            me.log().cancel();
        } else if (status == outcome::not_found) {
            me.log().done(0, key);
        } else if (status != outcome::ok) {
            return "a read answers " + std::string(outcome_name(status));
        } else {
            const auto content = map_content_of::in(value);
            if (!content) return "key " + std::to_string(key) + " has a torn value";
            me.log().done_and_found(handle, *content, key);
            // Behind the answer's record: who expects this handle was answered it, whoever is killed.
            shared_load_page->handles[key].store(handle);
        }
        return {};
    }
    // A key that a whole pass did not meet was not there at some time in it.
    std::string scan(history_worker& me, const std::string& uri) const {
        const map_reader reader = map_reader::attach(uri, {}, services().clock);
        me.attached();
        hash_map_entry entry;
        std::vector<bool> met;
        std::uint64_t cursor = 0, begun = 0;
        bool whole = false;
        while (me.go_on()) {
            me.log().call(model::find, 0, 0);
            if (cursor == 0) {
                begun = me.log().called();
                met.assign(load_.keys, false);
                whole = true;
            }
            const outcome got = reader.next_entry(cursor, entry);
            if (got == outcome::empty) {
                me.log().cancel();
                for (std::uint64_t key = 0; key < load_.keys && whole && me.log().room(); ++key) {
                    if (met[key]) continue;
                    me.log().call(model::find, key, 0);
                    me.log().called_at(begun);
                    me.log().done(0);
                }
                cursor = 0;
                continue;
            }
            whole = whole && got == outcome::ok;
            std::uint64_t key = 0;
            const std::string_view name(reinterpret_cast<const char*>(entry.key.data()), entry.key.size());
            while (got == outcome::ok && key < load_.keys && load_key(key) != name) ++key;
            if (key == load_.keys) return "a key from nowhere";
            if (std::string wrong = answer(me, key, got, entry.handle, entry.value); !wrong.empty()) return wrong;
            if (got == outcome::ok) met[key] = true;
        }
        return reader.fault() ? "the scan latched a fault" : "";
    }
    static std::string tell_time(history_worker& me) {
        me.attached();
        while (me.go_on()) {
            const struct timespec pause{0, 300'000};  // paces the clock; nothing waits for anything by it
            ::nanosleep(&pause, nullptr);
            const std::uint64_t next = second() + 1;
            me.log().call(model::tick, 0, next);
            shared_load_page->second.store(next);
            me.log().done(0);
        }
        return {};
    }

    map_load load_;
    shared_image page_;
};

}  // namespace holdfast::test
