// SPDX-License-Identifier: Apache-2.0
// hash_map_feed_interleaving.hpp - two operations of a hash map's writer with a feed, beside two looks of one who
// follows the feed and asks the map (schedule_rig.hpp).
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "hooks/interleaving.hpp"
#include "hooks/small_map.hpp"
#include "support/hash_table_image.hpp"
#include "support/map_feed_bench.hpp"

namespace holdfast::test {

/// Map and ring in one image. The writer sets key 1 anew, or erases it, then sets key 0. The follower reads the feed to
/// its end, twice: replayed it is the map as it was at some time, no older than what was done before; and behind it the
/// map is not older than its feed. Whoever dies, the next writer tells what is untold, and the feed is the map; one
/// that comes while the follower reads does what was lost, too.
class hash_map_feed_interleaving final : public interleaving {
 public:
    explicit hash_map_feed_interleaving(bool erases)
        : erases_(erases),
          geometry_(small_map(6)),
          ring_geometry_(layout::broadcast_geometry::make(4096, 0, "bench")),
          ring_at_((static_cast<std::size_t>(geometry_.body_bytes()) + 63) / 64 * 64),
          bytes_(ring_at_ + static_cast<std::size_t>(ring_geometry_.body_bytes())),
          sink_(formatted(), ring_geometry_),
          writer_(view(), fake_clock(), &sink_),
          map_(reader_of(view().as_const())),
          follower_(ring(), ring_geometry_) {
        (void)put(writer_, name(1), content(1));
        const auto value = [](std::uint64_t n) { return whole_object(content(n).seed, content(n).bytes); };
        states_[0] = {{name(1), value(1)}};
        states_[1] = erases_ ? feed_contents{} : feed_contents{{name(1), value(2)}};
        states_[2] = states_[1];
        states_[2][name(0)] = value(3);
    }

    [[nodiscard]] std::span<std::byte> image() override { return bytes_.bytes(); }
    void attach() override {
        sink_ = plain_sink(ring(), ring_geometry_);
        writer_ = map_writer(view(), fake_clock(), &sink_);
        map_ = reader_of(view().as_const());
        follower_ = layout::broadcast_read_core(ring(), ring_geometry_);
        (void)follower_.join(broadcast_start::oldest());
        seen_.clear();
        number_ = 0;
        successor_.reset();
    }
    // What was committed is told by now; what was not is done again.
    std::string succeed() override {
        next_sink_.emplace(ring(), ring_geometry_);
        successor_.emplace(view(), fake_clock(), &*next_sink_);
        told_late_ += successor_->recovery().change_told ? 1U : 0U;
        const unsigned lost = begun(0) - 1;
        return successor_->changes() == first_ + lost ? change(*successor_, lost) : "";
    }
    std::string run(unsigned process, unsigned operation) override {
        return process == 0 ? change(writer_, operation) : follow(operation == 0 ? 1 : 0);
    }
    std::string judge(std::optional<unsigned> dead) override {
        if (map_.fault()) return "the reader latched a fault";
        plain_sink sink(ring(), ring_geometry_);
        const map_writer next(view(), fake_clock(), &sink);
        told_late_ += next.recovery().change_told ? 1U : 0U;
        feed_contents all;
        std::uint64_t number = 0;
        if (std::string why = replay_all(ring(), ring_geometry_, all, number); !why.empty()) return why;
        if (number != next.changes()) return "the feed and the map count other changes";
        if (number < first_ || number > first_ + operations) return "the feed counts changes that nobody made";
        if (all != states_[static_cast<std::size_t>(number - first_)]) return "the feed is none of the states";
        if (all != contents_of(next.reader())) return "the feed is not the map";
        if (dead != 0U && number != first_ + operations) return "an operation had no effect";
        if (successor_ && number != first_ + begun(0)) return "what was lost was not done again, or twice";
        if (dead != 1U) {
            if (std::string why = replay_rest(follower_, seen_, number_); !why.empty()) return "in the end: " + why;
            if (number_ != number || seen_ != all) return "the follower has another map in the end";
        }
        const map_writer again(view(), fake_clock(), &sink);
        if (again.recovery().operation_finished || again.recovery().change_told) return "a recovery leaves work over";
        layout::findings found;
        layout::verify_broadcast(ring(), ring_geometry_, found);
        if (!found.empty()) return "verify: " + found.list()[0].what;
        return damage_of(view().as_const());
    }
    /// How often a successor told a change.
    [[nodiscard]] std::uint64_t told_late() const noexcept { return told_late_; }

 private:
    static constexpr std::uint64_t first_ = 1;  // changes in the beginning

    static std::string name(std::uint64_t n) { return n == 0 ? "another key of two words" : "1"; }
    static constexpr map_content content(std::uint64_t n) noexcept { return {n, n == 1 ? 70U : 12U}; }
    [[nodiscard]] writable_map view() noexcept {
        return {bytes_.bytes().first(static_cast<std::size_t>(geometry_.body_bytes())), geometry_};
    }
    [[nodiscard]] std::span<std::byte> ring() noexcept { return bytes_.bytes().subspan(ring_at_); }
    [[nodiscard]] std::span<std::byte> formatted() {
        layout::broadcast_write_core::format(ring(), ring_geometry_, 1);
        return ring();
    }

    std::string change(map_writer& by, unsigned operation) const {
        if (operation == 0 && erases_) return by.erase(as_key(name(1))) ? "" : "an erase failed";
        return put(by, name(1 - operation), content(2 + operation)) ? "" : "a set failed";
    }

    // The map may be ahead of its feed, since a change is told behind its commit, but never behind it.
    std::string follow(std::uint64_t key) {
        const std::uint64_t sure = first_ + ended(0);
        if (std::string wrong = replay_rest(follower_, seen_, number_); !wrong.empty()) return wrong;
        if (number_ < sure) return "a change is not told: " + std::to_string(number_) + " of " + std::to_string(sure);
        const std::uint64_t told = number_ - first_;
        if (told > begun(0)) return "a change is told that nobody made";
        if (seen_ != states_[static_cast<std::size_t>(told)]) return "the feed is not the map as it was";
        std::vector<std::byte> value(100);
        hash_map_found got;
        return look_at_writer(
            [&] {
                got = map_.find(as_key(name(key)), std::span(value));
                value.resize(static_cast<std::size_t>(got.count));
            },
            [&](unsigned state) {
                const auto entry = states_[state].find(name(key));
                const bool there = entry != states_[state].end();
                return state >= told && (there ? got && entry->second == value : got.status == outcome::not_found);
            },
            "the map is older than its feed, or newer than its time");
    }

    bool erases_;
    layout::hash_map_geometry geometry_;
    layout::broadcast_geometry ring_geometry_;
    std::size_t ring_at_;
    aligned_bytes bytes_;
    plain_sink sink_;
    map_writer writer_;
    std::optional<plain_sink> next_sink_;
    std::optional<map_writer> successor_;
    map_reader map_;
    layout::broadcast_read_core follower_;
    std::array<feed_contents, operations + 1> states_;
    feed_contents seen_;  // by the follower
    std::uint64_t number_ = 0;
    std::uint64_t told_late_ = 0;
};

}  // namespace holdfast::test
