// SPDX-License-Identifier: Apache-2.0
// hash_map_subject.hpp - random histories of a hash map under store_rig.hpp: sets, erases, touches and additions,
// values that expire, evictions, refusals and takeovers, in stores of few units.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "hooks/store_rig.hpp"
#include "support/hash_table_image.hpp"
#include "support/map_bench.hpp"

namespace holdfast::test {

class hash_map_subject {
 public:
    static constexpr unsigned length = 400;

    explicit hash_map_subject(std::uint64_t seed)
        : random_(seed),
          evicting_(random_.one_in(3)),
          expiring_(random_.one_in(3)),
          geometry_(layout::plan_hash_map({.capacity = 70,
                                           .bytes = (12 + random_.below(20)) * 64,
                                           .entry_bytes = 0,
                                           .unit_bytes = 64,
                                           .evicting = evicting_,
                                           .seed = 42})),
          bytes_(static_cast<std::size_t>(geometry_.body_bytes())),
          writer_(start()),
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
        const std::uint64_t what = random_.below(16), ttl_s = expiring_ && random_.one_in(2) ? 10 : 0;
        const auto key = as_key(keys_[open_]);
        if (what < 9) {
            after_ = map_content{++seed_, random_.below(random_.one_in(5) ? 400 : 90)};
            const auto value = whole_object(after_->seed, after_->bytes);
            die(rig, [&] { status = writer_.set(key, value, {.ttl = std::chrono::seconds(ttl_s)}).status; });
        } else if (what < 13) {
            after_.reset();
            die(rig, [&] { status = writer_.erase(key).status; });
        } else if (what == 13) {
            die(rig, [&] { status = writer_.touch(key, std::chrono::seconds(ttl_s)).status; });
        } else if (what == 14 && before_ && before_->bytes >= 8) {
            die(rig, [&] { status = writer_.fetch_add<std::uint64_t>(key, 0, 0).status; });
        } else {
            die(rig, [&] { writer_ = start(); });
        }
        return settle(status, what, ttl_s);
    }

 private:
    struct entry {
        std::optional<map_content> content;
        bool expires = false;
    };
    // What a reader finds: whether the key under way is as after the operation, and which others went.
    struct found {
        bool before = false, after = false;
        std::uint64_t gone = 0;
    };

    [[nodiscard]] writable_map view() noexcept { return {bytes_.bytes(), geometry_}; }
    [[nodiscard]] map_writer start() { return map_writer(view(), fake_clock(), nullptr); }
    // What had a time to live is not there from now on.
    void pass_time() {
        fake_boot_seconds += 100;
        for (entry& each : model_)
            if (each.expires) each = {};
    }

    template <class Run>
    void die(store_rig& rig, Run&& run) {
        rig.operate(run, [&] { return survive(rig, nullptr); });
    }
    std::string settle(outcome status, std::uint64_t what, std::uint64_t ttl_s) {
        for (std::size_t i = 0; i < model_.size(); ++i)
            if ((gone_ >> i & 1U) != 0) model_[i] = {};
        const bool done = status == outcome::ok;
        if (!done && status != outcome::not_found && status != outcome::full) return "an operation failed";
        // A touch or an addition needs room beside the very value.
        if (status == outcome::full && evicting_ && what < 9) return "a map that evicts refused a set";
        const std::optional<map_content> now = done ? after_ : before_;
        if (now ? !holds(writer_.reader(), keys_[open_], *now)
                : is_there(writer_.reader(), keys_[open_]) && !(evicting_ && !done))
            return "the operation did not do what it said";
        const bool changes_time = done && (what < 9 || what == 13);
        model_[open_] = {now, now && (changes_time ? ttl_s != 0 : model_[open_].expires)};
        return {};
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

    // `seen`: what somebody saw before this death; nullptr while the operation itself is under way.
    std::string survive(store_rig& rig, const found* seen) {
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

        std::optional<map_writer> next;
        rig.recover([&] { next.emplace(start()); }, [&] { return survive(rig, &now); });
        if (next->recovery().record_rebuilt || next->recovery().store.counts_rebuilt)
            return "recovery calls a record damaged";
        if (why = look(reader_of(bytes), then); !why.empty()) return "recovered: " + why;
        if (then.after != now.after || then.gone != now.gone)
            return "recovery took back what a reader saw, or did more";
        hash_map_verification report;
        if (why = damage_of(bytes, &report); !why.empty()) return "recovered: " + why;
        if (report.operation_open || report.store.values != report.entries) return "recovered: something is left over";
        if (rig.changes_by([&] { next.emplace(start()); }) != 0) return "recovery is not idempotent";
        const bool thorough = rig.random().one_in(64);
        rig.go_on([&] { why = thorough ? leaks(view()) : go_on(*next); });
        return why;
    }
    // The next writer erases the key under way and sets another.
    std::string go_on(map_writer& next) {
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
    map_writer writer_;
    std::vector<entry> model_;
    std::vector<std::string> keys_;
    std::uint64_t seed_ = 0;
    std::size_t open_ = 0;                       // the key under way
    std::optional<map_content> before_, after_;  // its value
    bool committed_ = false;                     // somebody saw it done
    std::uint64_t gone_ = 0;                     // others that somebody saw evicted
};

}  // namespace holdfast::test
