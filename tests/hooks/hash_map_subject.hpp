// SPDX-License-Identifier: Apache-2.0
// hash_map_subject.hpp - random histories of a hash map under store_rig.hpp: sets and erases with every condition,
// whether it holds or not, touches and additions, values that expire, evictions, refusals and takeovers, in stores of
// few units. One process writes at a time. Of a map of many writers, in which nothing expires or is evicted, who takes
// over has another writer slot, or the dead one's own, finds the dead one's lock free, and dies with it in its hands;
// or it was attached all the time, and meets what the dead one left when it needs it.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "hooks/small_map.hpp"
#include "hooks/store_rig.hpp"
#include "support/block_many_bench.hpp"
#include "support/hash_table_image.hpp"
#include "support/map_bench.hpp"
#include "support/map_many_bench.hpp"

namespace holdfast::test {

/// The only writer there may be.
struct one_map_writer {
    using writer = map_writer;
    static constexpr bool many = false;
    static layout::hash_map_geometry geometry(draws& random, bool evicting) {
        return small_map(12 + random.below(20), evicting);
    }
    [[nodiscard]] writer attach(const writable_map& view) { return writer(view, fake_clock(), nullptr); }
    [[nodiscard]] one_map_writer successor(draws&) const { return {}; }
    static hash_map_result set(writer& by, std::span<const std::byte> key, std::span<const std::byte> value,
                               std::uint64_t ttl_s, const holdfast::detail::map_condition& when) {
        return by.set(key, value, {.ttl = std::chrono::seconds(ttl_s)}, when);
    }
    [[nodiscard]] static std::string leaks(const writable_map& view, writer&) { return test::leaks(view); }
    [[nodiscard]] static bool left_open(const writable_map&) { return false; }
};

/// The one that lives of many. Every second map has two stripes.
struct last_map_writer {
    using writer = many_map_writer;
    static constexpr bool many = true;
    static layout::hash_map_geometry geometry(draws& random, bool) {
        const std::uint64_t capacity = random.one_in(2) ? 400 : 60;
        return small_map_of_many(12 + random.below(20), capacity);
    }
    /// Requires: this stays where it is as long as the writer is used.
    [[nodiscard]] writer attach(const writable_map& view) { return map_writer_of(view, roll, process); }
    /// Who comes when this one has died, as the locks are now: now and then in its own slot.
    [[nodiscard]] last_map_writer successor(draws& random) const {
        last_map_writer next = random.one_in(3) ? *this : beside();
        next.roll.die(process);
        next.roll.come_behind(next.process);
        return next;
    }
    /// Who is there while this one lives.
    [[nodiscard]] last_map_writer beside() const {
        last_map_writer other = *this;
        other.process = (process + 1) % writer_roll::processes;
        other.roll.alive[other.process] = true;
        return other;
    }
    static hash_map_result set(writer& by, std::span<const std::byte> key, std::span<const std::byte> value,
                               std::uint64_t, const holdfast::detail::map_condition& when) {
        return by.set(key, value, 0, when);
    }
    [[nodiscard]] static std::string leaks(const writable_map& view, writer& by) { return test::leaks(view, by); }
    [[nodiscard]] static bool left_open(const writable_map& view) { return something_open(view); }

    writer_roll roll{1};
    unsigned process = 0;
};

template <class Process = one_map_writer>
class hash_map_subject {
 public:
    static constexpr unsigned length = 400;

    explicit hash_map_subject(std::uint64_t seed)
        : random_(seed),
          evicting_(!Process::many && random_.one_in(3)),
          expiring_(!Process::many && random_.one_in(3)),
          geometry_(Process::geometry(random_, evicting_)),
          bytes_(static_cast<std::size_t>(geometry_.body_bytes())),
          writer_(living_.attach(view())),
          model_(4 + random_.below(8)) {
        for (std::uint64_t i = 0; i < model_.size(); ++i) keys_.push_back(map_key(i));
    }

    [[nodiscard]] std::span<std::byte> image() noexcept { return bytes_.bytes(); }

    std::string next(store_rig& rig) {
        if (expiring_ && random_.one_in(20)) pass_time();
        open_ = random_.below(keys_.size());
        before_ = after_ = model_[open_].content;
        committed_ = false;
        gone_ = 0;
        outcome status = outcome::ok;
        const act what = draw();
        const std::uint64_t ttl_s = expiring_ && random_.one_in(2) ? 10 : 0;
        const auto key = as_key(keys_[open_]);
        const map_condition when = condition_of(what);
        const bool holds = condition_holds(what, when);
        switch (what) {
            case act::set:
            case act::insert:
            case act::update:
            case act::compare_and_set: {
                const map_content next{++seed_, random_.below(random_.one_in(5) ? 400 : 90)};
                if (holds) after_ = next;
                const auto value = whole_object(next.seed, next.bytes);
                die(rig, [&] { status = Process::set(writer_, key, value, ttl_s, when).status; });
                break;
            }
            case act::erase:
            case act::compare_and_erase:
                if (holds) after_.reset();
                die(rig, [&] { status = writer_.erase(key, when).status; });
                break;
            case act::touch:
                if constexpr (!Process::many)
                    die(rig, [&] { status = writer_.touch(key, std::chrono::seconds(ttl_s)).status; });
                break;
            case act::add:
                if (holds) ++after_->added;
                die(rig, [&] { status = writer_.template fetch_add<std::uint64_t>(key, 0, 1).status; });
                break;
            case act::take_over:
                living_ = living_.successor(random_);
                die(rig, [&] { writer_ = living_.attach(view()); });
                return settle(outcome::ok, what, ttl_s, true);
        }
        return settle(status, what, ttl_s, holds);
    }

 private:
    using map_condition = holdfast::detail::map_condition;
    enum class act { set, insert, update, compare_and_set, erase, compare_and_erase, touch, add, take_over };

    struct entry {
        std::optional<map_content> content;
        bool expires = false;
    };
    // What a reader finds: whether the key under way is as after the operation, and which others went.
    struct found {
        bool before = false, after = false;
        std::uint64_t gone = 0;
    };

    [[nodiscard]] act draw() noexcept {
        static constexpr std::pair<act, std::uint64_t> shares[] = {
            {act::set, 6},   {act::insert, 2}, {act::update, 1}, {act::compare_and_set, 3}, {act::compare_and_erase, 2},
            {act::erase, 3}, {act::touch, 1},  {act::add, 2}};
        std::uint64_t drawn = random_.below(21);
        for (const auto& [what, share] : shares) {
            if (drawn < share) {
                // Only a value with a word in it can be added to; of many writers nobody has anything to touch.
                if (what == act::add && before_ && before_->bytes < 8) return Process::many ? act::set : act::touch;
                return Process::many && what == act::touch ? act::set : what;
            }
            drawn -= share;
        }
        return act::take_over;
    }
    // For a handle: the key's own, one of none, or one that is no longer anybody's.
    [[nodiscard]] map_condition condition_of(act what) noexcept {
        switch (what) {
            case act::insert: return {map_condition::absent};
            case act::update: return {map_condition::present};
            case act::compare_and_set:
            case act::compare_and_erase: {
                const std::uint64_t now = handle_now();
                if (random_.one_in(4)) return {map_condition::same, old_};
                old_ = now != 0 && random_.one_in(4) ? now : old_;
                return {map_condition::same, what == act::compare_and_set && random_.one_in(6) ? 0 : now};
            }
            default: return {};
        }
    }
    [[nodiscard]] std::uint64_t handle_now() const noexcept {
        return writer_.reader().handle_under(holdfast::detail::digest_of(as_key(keys_[open_]), 42));
    }
    [[nodiscard]] bool condition_holds(act what, const map_condition& when) const noexcept {
        switch (what) {
            case act::set:
            case act::take_over: return true;
            case act::insert: return !before_;
            case act::compare_and_set: return when.handle == (before_ ? handle_now() : 0);
            case act::compare_and_erase: return before_ && when.handle == handle_now();
            default: return before_.has_value();
        }
    }
    using writer = typename Process::writer;
    [[nodiscard]] writable_map view() noexcept { return {bytes_.bytes(), geometry_}; }
    // What had a time to live is not there from now on.
    void pass_time() {
        fake_boot_seconds += 100;
        for (entry& each : model_)
            if (each.expires) each = {};
    }

    template <class Run>
    void die(store_rig& rig, Run&& run) {
        rig.operate(run, [&] { return survive(rig, living_, nullptr); });
    }
    std::string settle(outcome status, act what, std::uint64_t ttl_s, bool holds) {
        for (std::size_t i = 0; i < model_.size(); ++i)
            if ((gone_ >> i & 1U) != 0) model_[i] = {};
        const bool done = status == outcome::ok;
        if (done && !holds) return "a condition held that does not";
        if (!done && status != outcome::full && (holds || status != refusal_of(what))) return "an operation failed";
        // Who states a condition on an entry, a touch or an addition needs room beside it.
        if (status == outcome::full && evicting_ && (what == act::set || what == act::insert))
            return "a map that evicts refused a set";
        const std::optional<map_content> now = done ? after_ : before_;
        if (now ? !test::holds(writer_.reader(), keys_[open_], *now)
                : is_there(writer_.reader(), keys_[open_]) && !(evicting_ && !done))
            return "the operation did not do what it said";
        const bool changes_time = done && what <= act::touch;
        model_[open_] = {now, now && (changes_time ? ttl_s != 0 : model_[open_].expires)};
        return {};
    }
    // What it answers where its condition does not hold.
    [[nodiscard]] outcome refusal_of(act what) const noexcept {
        switch (what) {
            case act::insert: return outcome::exists;
            case act::compare_and_set: return outcome::stale;
            case act::compare_and_erase: return before_ ? outcome::stale : outcome::not_found;
            default: return outcome::not_found;
        }
    }

    std::string look(const map_reader& reader, found& state) const {
        for (std::size_t i = 0; i < model_.size(); ++i) {
            if (i == open_) continue;
            if (model_[i].content ? holds(reader, keys_[i], *model_[i].content) : !is_there(reader, keys_[i])) continue;
            if (!evicting_ || is_there(reader, keys_[i])) return "key " + keys_[i] + " is lost, or has another value";
            state.gone |= std::uint64_t{1} << i;
        }
        const bool there = is_there(reader, keys_[open_]);
        const auto is = [&](const std::optional<map_content>& content) {
            return content ? there && holds(reader, keys_[open_], *content) : !there;
        };
        state.before = is(before_);
        state.after = is(after_);
        // To make room for its new value, its old one may be evicted first.
        if (!state.before && !state.after && !(evicting_ && !there)) return "neither before nor after";
        return reader.fault() ? "the reader latched a fault" : "";
    }

    // `dead`: who dies here. `seen`: what somebody saw before this death; nullptr while the operation itself is under
    // way.
    std::string survive(store_rig& rig, const Process& dead, const found* seen) {
        const readable_map bytes = view().as_const();
        found now, then;
        std::string why = look(reader_of(bytes), now);
        if (!why.empty()) return "a reader: " + why;
        if (seen != nullptr && (seen->after != now.after || seen->gone != now.gone))
            return "a recovery that died changed it";
        if (seen == nullptr) {
            if ((committed_ && !now.after) || (gone_ & ~now.gone) != 0) return "what was seen was taken back";
            committed_ = now.after && !now.before;
            gone_ = now.gone;
        }
        if (why = damage_of(bytes); !why.empty()) return why;
        if (why = miscounted(view().store.as_const()); !why.empty()) return why;

        if constexpr (Process::many)
            if (rig.random().one_in(3)) return met(rig, dead);
        Process living = dead.successor(rig.random());
        std::optional<writer> next;
        const auto take_over = [&] { next.emplace(living.attach(view())); };
        rig.recover(take_over, [&] { return survive(rig, living, &now); });
        if (next->recovery().record_rebuilt || next->recovery().store.counts_rebuilt)
            return "recovery calls a record damaged";
        if (why = look(reader_of(bytes), then); !why.empty()) return "recovered: " + why;
        if (then.after != now.after || then.gone != now.gone)
            return "recovery took back what a reader saw, or did more";
        hash_map_verification report;
        if (why = damage_of(bytes, &report); !why.empty()) return "recovered: " + why;
        if (report.operation_open || report.store.values != report.entries) return "recovered: something is left over";
        if (Process::left_open(view())) return "recovered, and something is open";
        if (rig.changes_by(take_over) != 0) return "recovery is not idempotent";
        const bool thorough = rig.random().one_in(64);
        rig.go_on([&] { why = thorough ? Process::leaks(view(), *next) : go_on(*next); });
        return why;
    }
    // Who was there before goes on, and meets what the dead one left; then one comes that finds the rest.
    std::string met(store_rig& rig, const Process& dead) {
        std::string why;
        const bool thorough = rig.random().one_in(64);
        rig.go_on([&] {
            Process by = dead.beside();
            writer second = by.attach(view());
            by.roll.die(dead.process);
            why = go_on(second);
            if (why.empty() && thorough) why = Process::leaks(view(), second);
            if (why.empty()) why = claimed_again(view().store, by.roll, dead.process);
            if (!why.empty()) return;
            Process last = by.successor(rig.random());
            const writer third = last.attach(view());
            if (third.recovery().record_rebuilt || third.recovery().table.journal_rejected)
                why = "recovery calls damaged what a mere death left";
            if (Process::left_open(view())) why = "something is open in the end";
            if (handles_of(third.reader().blocks()).size() != keys_of(third.reader()).size())
                why = "an entry has no key in the end";
        });
        return why.empty() ? why : "who met it: " + why;
    }
    // The next writer erases the key under way and sets another.
    std::string go_on(writer& next) {
        const outcome erased = next.erase(as_key(keys_[open_])).status;
        if (erased != outcome::ok && erased != outcome::not_found) return "the next erase failed";
        const map_content what{77, 20};
        const hash_map_result kept = put(next, "fresh", what);
        if (!kept && (kept.status != outcome::full || evicting_)) return "the next set failed";
        if (kept && !holds(next.reader(), "fresh", what)) return "the next value is not read";
        return damage_of(view().as_const());
    }

    draws random_;
    bool evicting_, expiring_;
    layout::hash_map_geometry geometry_;
    aligned_bytes bytes_;
    Process living_;
    writer writer_;
    std::vector<entry> model_;
    std::vector<std::string> keys_;
    std::uint64_t seed_ = 0;
    std::uint64_t old_ = ~std::uint64_t{0} << 20;  // a handle that some key had
    std::size_t open_ = 0;                         // the key under way
    std::optional<map_content> before_, after_;    // its value
    bool committed_ = false;                       // somebody saw it done
    std::uint64_t gone_ = 0;                       // others that somebody saw evicted
};

}  // namespace holdfast::test
