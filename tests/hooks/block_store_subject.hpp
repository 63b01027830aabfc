// SPDX-License-Identifier: Apache-2.0
// block_store_subject.hpp - random histories of a block store under store_rig.hpp: values of none to many units are
// stored, replaced and freed, claims dropped, the store taken over; the store is now empty, now full, mostly scattered.
// One process writes at a time. Of a store of many writers who takes over has another writer slot, or the dead one's
// own, finds the dead one's lock free, and dies with it in its hands.
#pragma once

#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "hooks/store_rig.hpp"
#include "support/block_many_bench.hpp"
#include "support/hash_table_image.hpp"

namespace holdfast::test {

/// The only writer there may be.
struct one_block_writer {
    using writer = block_writer;
    static constexpr std::uint64_t writer_slots = 0;
    [[nodiscard]] writer attach(const writable_blocks& view) { return writer(view); }
    [[nodiscard]] one_block_writer successor(draws&) const { return {}; }
    [[nodiscard]] outcome free_from_beside(const writable_blocks&, writer& by, std::uint64_t handle) const {
        return by.free(handle);
    }
    [[nodiscard]] static std::string leaks(const writable_blocks& view, writer&) { return test::leaks(view); }
    [[nodiscard]] static bool left_open(const writable_blocks&) { return false; }
};

/// The one that lives of many.
struct last_block_writer {
    using writer = many_block_writer;
    static constexpr std::uint64_t writer_slots = writer_roll::processes;
    /// Requires: this stays where it is as long as the writer is used.
    [[nodiscard]] writer attach(const writable_blocks& view) { return block_writer_of(view, roll, process); }
    /// Who comes when this one has died, as the locks are now.
    [[nodiscard]] last_block_writer successor(draws& random) const {
        last_block_writer next = *this;
        next.roll.die(process);
        if (!random.one_in(3)) next.process = (process + 1) % writer_roll::processes;
        next.roll.come_behind(next.process);
        return next;
    }
    /// By one that comes for this alone, while this one lives.
    [[nodiscard]] outcome free_from_beside(const writable_blocks& view, writer&, std::uint64_t handle) const {
        last_block_writer other = *this;
        other.process = (process + 1) % writer_roll::processes;
        other.roll.come_behind(other.process);
        return other.attach(view).free(handle);
    }
    [[nodiscard]] static std::string leaks(const writable_blocks& view, writer& by) { return test::leaks(view, by); }
    [[nodiscard]] static bool left_open(const writable_blocks& view) { return something_open(view); }

    writer_roll roll{1};
    unsigned process = 0;
};

template <class Process>
class block_store_subject {
 public:
    static constexpr unsigned length = 500;
    static constexpr std::uint64_t units = 20;

    explicit block_store_subject(std::uint64_t seed)
        : random_(seed),
          geometry_{units, 64, Process::writer_slots},
          bytes_(static_cast<std::size_t>(geometry_.body_bytes())),
          writer_(living_.attach(view())),
          wanted_(2 + random_.below(units)) {}

    [[nodiscard]] std::span<std::byte> image() noexcept { return bytes_.bytes(); }

    std::string next(store_rig& rig) {
        take_ = 0;
        add_.reset();
        came_ = went_ = false;
        const bool grow = units_used() < wanted_;
        const std::uint64_t what = random_.below(16);
        if (random_.one_in(40)) wanted_ = 2 + random_.below(units);
        if (what == 0) {
            rig.operate([&] { (void)writer_.prepare(random_.below(300)); },
                        [&] { return survive(rig, living_, false, false, true); });
            living_ = living_.successor(random_);
            rig.operate([&] { writer_ = living_.attach(view()); },
                        [&] { return survive(rig, living_, false, false, true); });
            return {};
        }
        if (!model_.empty() && (what < 4 || !grow)) take_ = any_handle();
        if (what < 4 || grow) add_ = block_content{++seed_, random_.below(random_.one_in(5) ? 500 : 130)};
        return change(rig, what % 4 == 0);
    }

 private:
    using writer = typename Process::writer;
    [[nodiscard]] std::uint64_t units_used() noexcept { return block_reader(view().as_const()).usage().units_used; }
    [[nodiscard]] writable_blocks view() noexcept { return {bytes_.bytes(), geometry_}; }
    [[nodiscard]] std::uint64_t any_handle() {
        auto at = model_.begin();
        std::advance(at, static_cast<std::ptrdiff_t>(random_.below(model_.size())));
        return at->first;
    }

    std::string change(store_rig& rig, bool drop_first) {
        const std::size_t dropped = random_.below(300);
        outcome status = outcome::ok;
        std::uint64_t handle = 0;
        rig.operate(
            [&] {
                if (drop_first && writer_.prepare(dropped) == outcome::ok) {
                    (void)writer_.fill([](std::span<std::byte> piece, std::uint64_t) {
                        for (std::byte& b : piece) b = std::byte{0xEE};  // plain stores
                    });
                    writer_.discard();
                }
                if (add_) {
                    const block_result result = put(writer_, *add_, take_);
                    status = result.status;
                    handle = result.handle;
                } else {
                    status = writer_.free(take_);
                }
            },
            [&] { return survive(rig, living_, came_, went_, true); });
        if (status == outcome::full) {
            if (came_ || went_) return "a refused change was seen";
            // Free units may lie apart: then each but the first holds the next run's header.
            const std::uint64_t free = units - units_used();
            const std::uint64_t sure =
                free == 0 ? 0 : free * 64 - layout::block_head_bytes - (free - 1) * layout::block_run_bytes;
            return free != 0 && add_->bytes <= sure ? "refused with room left" : "";
        }
        if (status != outcome::ok) return "an operation failed";
        if (take_ != 0) model_.erase(take_);
        if (add_) model_[handle] = *add_;
        return {};
    }

    // Compares what a reader finds with the model and the change under way.
    std::string seen(const block_reader& reader, bool& came, bool& went) const {
        std::size_t known = 0;
        came = went = false;
        for (std::uint64_t h = reader.next_value(0); h != 0; h = reader.next_value(reader.bytes().index_of(h) + 1)) {
            const auto expected = model_.find(h);
            if (expected == model_.end()) {
                if (!add_ || came || !holds(reader, h, *add_)) return "a value from nowhere";
                came = true;
                continue;
            }
            if (!holds(reader, h, expected->second)) return "another value under a handle";
            ++known;
        }
        went = take_ != 0 && !reader.contains(take_);
        if (known + (went ? 1U : 0U) != model_.size()) return "a value is lost";
        return reader.fault().get() ? "the reader latched a fault" : "";
    }

    // `dead`: who dies here. `came`, `went`: what somebody saw. `working`: the operation is under way, not a recovery
    // that died.
    std::string survive(store_rig& rig, const Process& dead, bool came, bool went, bool working) {
        const readable_blocks bytes = view().as_const();
        bool comes = false, goes = false;
        std::string why = seen(block_reader(bytes), comes, goes);
        if (!why.empty()) return "a reader: " + why;
        if ((came && !comes) || (went && !goes)) return "what was seen was taken back";
        if (goes && add_ && !comes) return "the old value went before the new one came";
        if (working) came_ = comes, went_ = goes;
        if (why = damage_of(bytes); !why.empty()) return why;
        if (why = miscounted(bytes); !why.empty()) return why;

        Process living = dead.successor(rig.random());
        std::optional<writer> next;
        const auto take_over = [&] { next.emplace(living.attach(view())); };
        rig.recover(take_over, [&] { return survive(rig, living, comes, goes, false); });
        bool came_after = false, went_after = false;
        if (why = seen(next->reader(), came_after, went_after); !why.empty()) return "recovered: " + why;
        if ((comes && !came_after) || (goes && !went_after)) return "recovery took back what a reader saw";
        if (add_ && take_ != 0 && came_after != went_after) return "recovered: neither before nor after";
        if (next->recovery().counts_rebuilt) return "recovery calls the record damaged";
        if (why = damage_of(bytes); !why.empty()) return "recovered: " + why;
        if (Process::left_open(view())) return "recovered, and something is open";
        if (rig.changes_by(take_over) != 0) return "recovery is not idempotent";
        const bool thorough = rig.random().one_in(64);
        rig.go_on([&] { why = thorough ? Process::leaks(view(), *next) : go_on(rig, living, *next); });
        return why;
    }
    // What was to go does, by another one; or the next writer frees a value. Then it claims some units, stores a value,
    // and finds all free ones.
    std::string go_on(store_rig& rig, const Process& living, writer& next) {
        const std::uint64_t free = units - units_used();
        if (next.reader().contains(take_) && rig.random().one_in(2)) {
            if (living.free_from_beside(view(), next, take_) != outcome::ok) return "a free by another one failed";
        } else if (const std::uint64_t h = next.reader().next_value(0); h != 0) {
            if (next.free(h) != outcome::ok) return "the next free failed";
        }
        const std::uint64_t used = units_used();
        if (units - used < free) return "a free lost units";
        if (next.prepare(rig.random().below(130)) == outcome::ok) {
            if (std::string why = damage_of(view().as_const()); !why.empty()) return "beside the next claim: " + why;
            if (std::string why = miscounted(view().as_const()); !why.empty()) return "beside the next claim: " + why;
        }
        const block_content what{77, used == units ? 0U : (units - used) * 56 - 40};
        if (used != units) {
            const block_result kept = put(next, what);
            if (!kept || !holds(next.reader(), kept.handle, what)) return "the next value cannot be stored";
        }
        if (std::string why = damage_of(view().as_const()); !why.empty()) return "next: " + why;
        return miscounted(view().as_const());
    }

    draws random_;
    layout::block_store_geometry geometry_;
    aligned_bytes bytes_;
    Process living_;
    writer writer_;
    std::uint64_t wanted_;  // units in use that the history steers for
    block_model model_;
    std::uint64_t seed_ = 0;
    std::uint64_t take_ = 0;  // the handle that goes
    std::optional<block_content> add_;
    bool came_ = false, went_ = false;  // as a reader saw it
};

}  // namespace holdfast::test
