// SPDX-License-Identifier: Apache-2.0
// hash_map_feed_subject.hpp - random histories of a hash map whose changes are told to a ring, under store_rig.hpp. Map
// and ring are one image. That the map itself survives is hash_map_subject.hpp's; here each change is told once, in
// order, by whoever made it or by who comes behind his death, and the feed is the map.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "hooks/small_map.hpp"
#include "hooks/store_rig.hpp"
#include "support/hash_table_image.hpp"
#include "support/map_bench.hpp"
#include "support/map_feed_bench.hpp"

namespace holdfast::test {

/// What was told from the first change on, to one who has read so far.
struct feed_follower {
    layout::broadcast_read_core ring;
    feed_contents seen;
    std::uint64_t number = 0;

    /// Reads on to the end. Returns: what is wrong.
    [[nodiscard]] std::string follow() { return replay_rest(ring, seen, number); }
};

class hash_map_feed_subject {
 public:
    static constexpr unsigned length = 40;
    /// Changes that a successor told, in all histories.
    static inline std::uint64_t told_late = 0;

    explicit hash_map_feed_subject(std::uint64_t seed)
        : random_(seed),
          evicting_(random_.one_in(2)),
          expiring_(random_.one_in(3)),
          geometry_(small_map(12 + random_.below(20), evicting_)),
          ring_geometry_(layout::broadcast_geometry::make(8192, 0, "bench")),
          ring_at_((static_cast<std::size_t>(geometry_.body_bytes()) + 63) / 64 * 64),
          bytes_(ring_at_ + static_cast<std::size_t>(ring_geometry_.body_bytes())) {
        layout::broadcast_write_core::format(ring(), ring_geometry_, 1);
        writer_.emplace(*this);
        follower_.ring = layout::broadcast_read_core(ring(), ring_geometry_);
        (void)follower_.ring.join(broadcast_start::oldest());
        const std::uint64_t keys = 4 + random_.below(8);
        for (std::uint64_t i = 0; i < keys; ++i) keys_.push_back(map_key(i));
    }

    [[nodiscard]] std::span<std::byte> image() noexcept { return bytes_.bytes(); }

    std::string next(store_rig& rig) {
        if (expiring_ && random_.one_in(20)) pass_time();
        const std::string& key = keys_[random_.below(keys_.size())];
        const map_content content{++stamp_, 8 + random_.below(90)};
        const std::chrono::seconds ttl(expiring_ && random_.one_in(2) ? 10 : 0);
        const std::uint64_t what = random_.below(12);
        hash_map_result done;
        rig.operate(
            [&] {
                if (what < 6)
                    done = put(writer_->map, key, content, {.ttl = ttl});
                else if (what < 7)
                    done = writer_->map.touch(as_key(key), ttl);
                else if (what < 10)
                    (void)writer_->map.erase(as_key(key));
                else if (what < 11)
                    (void)writer_->map.fetch_add<std::uint64_t>(as_key(key), 0, 1);
                else
                    writer_.emplace(*this);
            },
            [&] { return survive(rig, follower_.number); });
        if (what < 7 && done) live_from_now_on(key, ttl.count() != 0);
        if (std::string wrong = follower_.follow(); !wrong.empty()) return wrong;
        return is_told(follower_, writer_->map);
    }

 private:
    /// Who holds both, and tells the map's changes to the ring.
    struct told_writer {
        explicit told_writer(hash_map_feed_subject& of)
            : sink(of.ring(), of.ring_geometry_), map(of.view(), fake_clock(), &sink) {}
        told_writer(const told_writer&) = delete;
        told_writer& operator=(const told_writer&) = delete;
        plain_sink sink;
        map_writer map;
    };

    [[nodiscard]] writable_map view() noexcept {
        return {bytes_.bytes().first(static_cast<std::size_t>(geometry_.body_bytes())), geometry_};
    }
    [[nodiscard]] std::span<std::byte> ring() noexcept { return bytes_.bytes().subspan(ring_at_); }
    void live_from_now_on(const std::string& key, bool for_a_time) {
        over_.erase(key);
        mortal_.erase(key);
        if (for_a_time) mortal_.insert(key);
    }
    // What had a time to live is over from now on, and told so once a writer meets it.
    void pass_time() {
        fake_boot_seconds += 100;
        over_.merge(mortal_);
        mortal_.clear();
    }

    // The feed has every entry of the map, and beside these none but such as are over.
    [[nodiscard]] std::string is_told(const feed_follower& by, const map_writer& map) const {
        if (by.number != map.changes())
            return "told are " + std::to_string(by.number) + " of " + std::to_string(map.changes()) + " changes";
        const feed_contents now = contents_of(map.reader());
        for (const auto& [key, value] : now)
            if (const auto told = by.seen.find(key); told == by.seen.end() || told->second != value)
                return "the feed does not have the entry of key " + key.substr(0, 12);
        for (const auto& entry : by.seen)
            if (!now.contains(entry.first) && !over_.contains(entry.first))
                return "the feed has key " + entry.first.substr(0, 12) + ", which is gone";
        return {};
    }

    // `told`: how many changes somebody was told before this death.
    std::string survive(store_rig& rig, std::uint64_t told) {
        feed_follower before = follower_;
        std::string why = before.follow();
        if (!why.empty()) return why;
        if (before.number < told) return "a change was told, and is not any more";
        if (why = ring_damage(); !why.empty()) return why;

        std::optional<told_writer> next;
        rig.recover([&] { next.emplace(*this); }, [&] { return survive(rig, before.number); });
        const hash_map_recovery& done = next->map.recovery();
        told_late += done.change_told ? 1U : 0U;
        if (done.record_rebuilt) return "recovery calls a record damaged";
        feed_follower after = before;
        if (why = after.follow(); !why.empty()) return "recovered: " + why;
        if (after.number != before.number + (done.change_told ? 1 : 0)) return "recovery told something else";
        if (why = is_told(after, next->map); !why.empty()) return "recovered: " + why;
        rig.go_on([&] { why = go_on(after, *next); });
        return why;
    }
    // Another successor finds nothing to tell, and what it does is told.
    std::string go_on(feed_follower& by, told_writer& first) {
        (void)first.map.erase(as_key(keys_[0]));
        told_writer second(*this);
        if (second.map.recovery().operation_finished) return "a recovery leaves work over";
        (void)put(second.map, "fresh", {77, 20});
        if (std::string why = by.follow(); !why.empty()) return "gone on: " + why;
        if (std::string why = is_told(by, second.map); !why.empty()) return "gone on: " + why;
        return ring_damage();
    }
    [[nodiscard]] std::string ring_damage() {
        layout::findings found;
        layout::verify_broadcast(ring(), ring_geometry_, found);
        return found.empty() ? "" : "verify of the ring: " + found.list()[0].what;
    }

    draws random_;
    bool evicting_, expiring_;
    layout::hash_map_geometry geometry_;
    layout::broadcast_geometry ring_geometry_;
    std::size_t ring_at_;
    aligned_bytes bytes_;
    std::optional<told_writer> writer_;
    feed_follower follower_;
    std::vector<std::string> keys_;
    std::set<std::string> mortal_, over_;  // keys of entries that have a time to live, and whose time is over
    std::uint64_t stamp_ = 0;
};

}  // namespace holdfast::test
