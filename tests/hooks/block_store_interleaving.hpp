// SPDX-License-Identifier: Apache-2.0
// block_store_interleaving.hpp - a block store's writer beside a reader of values that are replaced and freed, and
// whose units are used again (schedule_rig.hpp).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "hooks/interleaving.hpp"
#include "support/block_bench.hpp"
#include "support/hash_table_image.hpp"

namespace holdfast::test {

/// A full store of 8 units with two values, one of several units. The writer replaces or frees one, then stores another
/// in its place; the reader reads the one that goes, and asks for usage, a full check, or the other one.
class block_store_interleaving final : public interleaving {
 public:
    enum class asks { same, other, usage, verify, scan };

    block_store_interleaving(bool replaces, asks second)
        : replaces_(replaces), second_(second), bytes_(static_cast<std::size_t>(geometry_.body_bytes())) {
        attach();
        stays_ = put(writer_, value_of(1)).handle;
        goes_ = put(writer_, value_of(2)).handle;
    }

    [[nodiscard]] std::span<std::byte> image() override { return bytes_.bytes(); }
    void attach() override {
        writer_ = block_writer(view());
        reader_ = block_reader(view().as_const());
        successor_.reset();
        came_ = {};
    }
    // The units that were given back are used at once.
    std::string succeed() override {
        successor_.emplace(view());
        if (successor_->recovery().counts_rebuilt) return "recovery calls the record damaged";
        if (replaces_ || successor_->reader().contains(goes_)) return {};
        const block_result done = put(*successor_, value_of(4));
        return done ? "" : "the successor's value was refused";
    }
    std::string run(unsigned process, unsigned operation) override {
        if (process == 0) return write(operation);
        if (operation == 0) return read(goes_, 2, true);
        switch (second_) {
            case asks::same: return read(goes_, 2, true);
            case asks::other: return read(stays_, 1, false);
            case asks::usage: return used();
            case asks::scan: return scanned();
            case asks::verify: break;
        }
        return damage_beside_writers(view().as_const());
    }
    std::string judge(std::optional<unsigned> dead) override {
        if (reader_.fault().get()) return "the reader latched a fault";
        if (std::string why = damage_of(view().as_const()); !why.empty()) return why;
        if (std::string why = miscounted(view().as_const()); !why.empty()) return why;
        const block_writer next(view());
        if (next.recovery().counts_rebuilt) return "recovery calls the record damaged";
        if (std::string why = damage_of(view().as_const()); !why.empty()) return "recovered: " + why;
        if (!holds(next.reader(), stays_, value_of(1))) return "the other value is lost";
        if (ended(0) >= 1 && next.reader().contains(goes_)) return "the value did not go";
        for (unsigned i = 0; i < operations; ++i)
            if (came_[i] != 0 && ended(0) > i && (i != 0 || replaces_) &&
                !holds(next.reader(), came_[i], value_of(3 + i)))
                return "a value did not come";
        if (replaces_ && dead == 0U && begun(0) == 1 && next.values() != 2) return "neither before nor after";
        return leaks(view());
    }

 private:
    [[nodiscard]] writable_blocks view() noexcept { return {bytes_.bytes(), geometry_}; }
    // 1 stays, 2 goes, 3 replaces it, 4 takes the units.
    static constexpr block_content value_of(std::uint64_t seed) noexcept {
        return {seed, seed == 1 ? 40U : seed == 2 ? 150U : 30U};
    }
    std::string write(unsigned operation) {
        if (operation == 0 && !replaces_) return writer_.free(goes_) == outcome::ok ? "" : "a free failed";
        const block_result done = put(writer_, value_of(3 + operation), operation == 0 ? goes_ : 0);
        came_[operation] = done.handle;
        return done ? "" : "a value was refused";
    }
    // All of the value while it is there, and stale afterwards; never before it went.
    std::string read(std::uint64_t handle, std::uint64_t seed, bool goes) {
        std::array<std::byte, 200> out;
        const bool gone = goes && ended(0) >= 1;
        const result got = reader_.read(handle, out);
        const bool going = goes && begun(0) >= 1;
        if (got.status == outcome::stale) return going ? "" : "a value that stands is called stale";
        if (got.status != outcome::ok) return "a reader met damage";
        if (gone) return "a value that is gone was read";
        const auto bytes = static_cast<std::size_t>(got.count);
        return bytes == value_of(seed).bytes && is_whole(std::span(out).first(bytes), seed) ? "" : "a mixed value";
    }
    std::string used() const {
        const block_store_usage usage = reader_.usage();
        return !usage || (usage.values >= 1 && usage.values <= 3 && usage.units_used <= 8) ? ""
                                                                                           : "usage beside a writer";
    }

    // Each value once, the one that stays among them.
    std::string scanned() {
        std::array<std::uint64_t, 8> met{};
        std::size_t count = 0;
        for (std::uint64_t from = 0, handle = 0; (handle = reader_.next_value(from)) != 0;
             from = reader_.bytes().index_of(handle) + 1) {
            if (count == met.size()) return "a scan has no end";
            met[count++] = handle;
        }
        const auto times = [&](std::uint64_t handle) { return std::count(met.begin(), met.begin() + count, handle); };
        if (times(stays_) != 1) return "a scan does not meet the value that stays, or twice";
        for (std::size_t i = 0; i < count; ++i)
            if (times(met[i]) != 1) return "a scan met a value twice";
        return {};
    }

    bool replaces_;
    asks second_;
    layout::block_store_geometry geometry_{8, 64};
    aligned_bytes bytes_;
    block_writer writer_;
    std::optional<block_writer> successor_;
    block_reader reader_;
    std::uint64_t stays_ = 0, goes_ = 0;
    std::array<std::uint64_t, operations> came_{};
};

}  // namespace holdfast::test
