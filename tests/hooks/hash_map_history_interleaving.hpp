// SPDX-License-Identifier: Apache-2.0
// hash_map_history_interleaving.hpp - any two operations of a hash map's writer beside two of a reader, or of the
// writer's successor (schedule_rig.hpp). What they did is recorded, and there must be an order of instants that
// explains it (support/map_key_model.hpp).
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "hooks/interleaving.hpp"
#include "hooks/small_map.hpp"
#include "support/hash_table_image.hpp"
#include "support/linearizability.hpp"
#include "support/map_bench.hpp"
#include "support/map_key_model.hpp"

namespace holdfast::test {

/// An operation of a script. The handle of a condition is the last that a reader of the process was answered, at first
/// that of key 1.
struct map_act {
    std::uint32_t kind = map_key_model::find;
    std::uint64_t key = 1;
    bool succeeds = false;     // waits for the other process's end or death, and takes over
    bool passes_time = false;  // the next second comes when somebody reads the clock
    std::uint64_t ttl_s = 0;   // of what is stored
};
inline constexpr std::uint32_t map_scan = 100;  // a kind of its own: finds every key that a pass meets

class hash_map_history_interleaving final : public interleaving {
 public:
    using model = map_key_model;
    using script = std::array<std::array<map_act, operations>, 2>;

    /// In the beginning all keys but 0 are there, and fill a map that evicts. `ttl_s`: how long key 1 lives.
    explicit hash_map_history_interleaving(const script& acts, bool evicting = false, std::uint64_t ttl_s = 0)
        : acts_(acts),
          evicting_(evicting),
          geometry_(small_map(evicting ? 4 : 8, evicting)),
          bytes_(static_cast<std::size_t>(geometry_.body_bytes())),
          writer_(start()) {
        for (std::uint64_t key = 1; key < keys; ++key) {
            const std::uint64_t content = content_of(key, key == 1 ? 4 : 1, key == 1 ? ttl_s : 0);
            const std::size_t call = begin({.kind = model::set, .key = key, .given = content});
            end(call, store(writer_, key, content, {}).handle, 1);
        }
        beginning_ = done_;
    }

    [[nodiscard]] std::span<std::byte> image() override { return bytes_.bytes(); }
    void attach() override {
        second_ = 0;
        passes_ = false;
        witness_.clear();
        writer_ = start();
        successor_.reset();
        reader_ = reader();
        done_ = beginning_;
        ticks_ = 2 * done_.size();
        known_ = done_.front().answer;
    }
    // What was lost is tried once more, whatever became of it, with another value.
    std::string succeed() override {
        successor_.emplace(start());
        end_of_the_dead();
        const unsigned lost = begun(0) - 1;
        return change(*successor_, acts_[0][lost], content_of(20 + lost, 1, acts_[0][lost].ttl_s));
    }
    std::string run(unsigned process, unsigned operation) override {
        const map_act& act = acts_[process][operation];
        passes_ = passes_ || act.passes_time;
        if (act.kind == map_scan) return scan();
        if (act.kind == model::find) return find(reader_, act.key);
        if (act.succeeds) take_over();
        return change(act.succeeds ? *successor_ : writer_, act,
                      content_of(10 + operations * process + operation, 1, act.ttl_s));
    }
    std::string judge(std::optional<unsigned> dead) override {
        if (reader_.fault()) return "the reader latched a fault";
        if (!witness_.empty()) return witness_;
        std::string why = damage_of(view().as_const());
        if (!why.empty()) return why;
        if (why = miscounted(view().store.as_const()); !why.empty()) return why;
        passes_ = false;
        const map_writer next = start();
        end_of_the_dead();
        const map_reader now = reader();
        std::uint64_t there = 0;
        for (std::uint64_t key = 0; key < keys; ++key) {
            if (why = find(now, key); !why.empty()) return why;
            there += done_.back().answer != 0 ? 1U : 0U;
        }
        ++histories_;
        if (why = check_by_key<model>(done_, {.evicting = evicting_}).violation; !why.empty()) return why;
        if (why = handle_given_twice(done_); !why.empty()) return why;
        evicted_ += now.usage().evicted;
        // Nothing is erased there; a death may have left an eviction uncounted.
        if (evicting_ && !dead && there + now.usage().evicted < keys) return "a key went that was not evicted";
        return leaks(view());
    }
    /// How many histories were explained; and in them, how often something was evicted, and a condition held or not.
    [[nodiscard]] std::uint64_t histories() const noexcept { return histories_; }
    [[nodiscard]] std::uint64_t evicted() const noexcept { return evicted_; }
    [[nodiscard]] std::uint64_t held() const noexcept { return held_; }
    [[nodiscard]] std::uint64_t refused() const noexcept { return refused_; }

 private:
    static constexpr std::uint64_t keys = 3;

    static std::string name(std::uint64_t key) { return key == 1 ? "1" : std::to_string(key) + " is a key of words"; }
    // The value has `more` words beside the first.
    static constexpr std::uint64_t content_of(std::uint64_t number, std::uint64_t more, std::uint64_t ttl_s) noexcept {
        return map_content_of::make(30 * number + more, ttl_s);
    }
    [[nodiscard]] writable_map view() noexcept { return {bytes_.bytes(), geometry_}; }
    [[nodiscard]] map_writer start() {
        telling_ = this;
        return map_writer(view(), clock(), nullptr);
    }
    [[nodiscard]] map_reader reader() noexcept {
        return map_reader(view().as_const(), holdfast::detail::map_time(clock()));
    }

    // Each second of the clock is an operation of each key. Just before it comes, somebody else finds key 1.
    static hash_map_clock clock() {
        return {[]() noexcept { return telling_->tell_second(); }, []() noexcept { return std::uint64_t{1}; }};
    }
    std::uint64_t tell_second() {
        meet();
        if (!passes_) return second_;
        passes_ = false;
        witness_ = find(reader(), 1);
        ++second_;
        for (std::uint64_t key = 0; key < keys; ++key)
            end(begin({.kind = model::tick, .key = key, .given = second_}), 0, 0);
        return second_;
    }

    // An operation is killed until it has ended.
    std::size_t begin(operation op) {
        meet();
        op.called = ++ticks_;
        op.killed = true;
        op.time = second_;
        done_.push_back(op);
        return done_.size() - 1;
    }
    void end(std::size_t call, std::uint64_t answer, std::uint64_t found) {
        meet();
        operation& op = done_[call];
        op.returned = ++ticks_;
        op.killed = false;
        op.answer = answer;
        op.found = found;
    }
    // What was killed has happened by now, or never will.
    void end_of_the_dead() {
        ++ticks_;
        for (operation& op : done_)
            if (op.killed && op.returned == 0) op.returned = ticks_;
    }

    void take_over() {
        while (give_way()) {
        }
        successor_.emplace(start());
        end_of_the_dead();
    }
    static hash_map_result store(map_writer& writer, std::uint64_t key, std::uint64_t content,
                                 const holdfast::detail::map_condition& when) {
        return writer.set(as_key(name(key)), map_content_of::bytes(content),
                          {.ttl = std::chrono::seconds(map_content_of::ttl_s(content))}, when);
    }
    std::string change(map_writer& writer, const map_act& act, std::uint64_t content) {
        using when = holdfast::detail::map_condition;
        const std::string key = name(act.key);
        const bool expects = act.kind == model::compare_and_set || act.kind == model::compare_and_erase;
        const when expected{when::same, known_};
        const std::size_t call = begin({.kind = act.kind,
                                        .key = act.key,
                                        .given = act.kind == model::touch ? act.ttl_s : content,
                                        .expected = expects ? known_ : 0});
        hash_map_result did;
        switch (act.kind) {
            case model::set: did = store(writer, act.key, content, {}); break;
            case model::insert: did = store(writer, act.key, content, {when::absent}); break;
            case model::update: did = store(writer, act.key, content, {when::present}); break;
            case model::compare_and_set: did = store(writer, act.key, content, expected); break;
            case model::erase: did = writer.erase(as_key(key)); break;
            case model::compare_and_erase: did = writer.erase(as_key(key), expected); break;
            case model::touch: did = writer.touch(as_key(key), std::chrono::seconds(act.ttl_s)); break;
            default: {
                const auto added = writer.fetch_add<std::uint64_t>(as_key(key), 0, 1);
                if (added.status != outcome::ok && added.status != outcome::not_found) return "an addition failed";
                end(call, added.handle, added.before);
                return {};
            }
        }
        const bool done = did.status == outcome::ok;
        if (!done && did.status != outcome::not_found && did.status != outcome::exists && did.status != outcome::stale)
            return "an operation failed";
        end(call, did.handle, done ? 1 : 0);
        ++(done ? held_ : refused_);
        return {};
    }

    std::string find(const map_reader& by, std::uint64_t key) {
        std::array<std::byte, 300> out;
        const std::size_t call = begin({.kind = model::find, .key = key});
        const hash_map_found got = by.find(as_key(name(key)), std::span<std::byte>(out));
        if (got.status == outcome::not_found) {
            end(call, 0, 0);
            return {};
        }
        return found(call, got.status, got.handle, std::span(out).first(static_cast<std::size_t>(got.count)));
    }
    std::string found(std::size_t call, outcome status, std::uint64_t handle, std::span<const std::byte> value) {
        if (status != outcome::ok) return "a read answers " + std::string(outcome_name(status));
        const auto content = map_content_of::in(value);
        if (!content) return "a reader got a mix";
        end(call, handle, *content);
        known_ = handle;
        return {};
    }
    // A key that the pass did not meet was not there at some time in it.
    std::string scan() {
        std::array<bool, keys> met{};
        hash_map_entry entry;
        const std::uint64_t begun = ticks_ + 1;
        for (std::uint64_t cursor = 0;;) {
            const std::size_t call = begin({.kind = model::find});
            const outcome got = reader_.next_entry(cursor, entry);
            std::uint64_t key = 0;
            const std::string_view text(reinterpret_cast<const char*>(entry.key.data()), entry.key.size());
            while (got == outcome::ok && key < keys && name(key) != text) ++key;
            if (key == keys) return "a key from nowhere";
            done_[call].key = key;
            if (got == outcome::empty) {
                done_[call].returned = ++ticks_;  // nothing was asked
                break;
            }
            met[key] = true;
            if (std::string why = found(call, got, entry.handle, entry.value); !why.empty()) return why;
        }
        for (std::uint64_t key = 0; key < keys; ++key) {
            if (met[key]) continue;
            const std::size_t call = begin({.kind = model::find, .key = key});
            done_[call].called = begun;
            end(call, 0, 0);
        }
        return {};
    }

    static inline hash_map_history_interleaving* telling_ = nullptr;

    script acts_;
    bool evicting_;
    layout::hash_map_geometry geometry_;
    aligned_bytes bytes_;
    std::uint64_t second_ = 0;
    bool passes_ = false;
    std::string witness_;  // what it found wrong
    history beginning_, done_;
    std::uint64_t ticks_ = 0;  // of the only clock of the history: what began and ended
    std::uint64_t known_ = 0;  // a handle that was answered
    map_writer writer_;
    std::optional<map_writer> successor_;
    map_reader reader_;
    std::uint64_t histories_ = 0, evicted_ = 0, held_ = 0, refused_ = 0;
};

}  // namespace holdfast::test
