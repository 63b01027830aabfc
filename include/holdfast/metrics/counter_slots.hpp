// SPDX-License-Identifier: Apache-2.0
// counter_slots.hpp - counters over plain bytes: the handle of one counter, and the walk that finds, registers and
// lists.
//
// What lies in the bytes and why no lock is needed: layout/counter_set_layout.hpp (I1 to I3).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "holdfast/error.hpp"
#include "holdfast/layout/counter_set_layout.hpp"
#include "holdfast/metrics/metric_name.hpp"

namespace holdfast {

/// A handle to one counter; as small as a pointer, valid as long as the set it came from.
class counter {
 public:
    counter() noexcept = default;
    explicit counter(std::atomic<std::uint64_t>& value) noexcept : value_(&value) {}

    /// Whether the handle leads to a counter; the others must not be called where it does not.
    [[nodiscard]] explicit operator bool() const noexcept { return value_ != nullptr; }

    /// Adds, wrapping at 2^64. Threads: any, from any process. Cost: one atomic addition.
    void add(std::uint64_t amount = 1) const noexcept {
        value_->fetch_add(amount, std::memory_order_relaxed);  // a count orders nothing else
    }

    /// Makes the value `value`: for gauges (a pid, a size), where the last writer is right.
    void set(std::uint64_t value) const noexcept {
        value_->store(value, std::memory_order_relaxed);  // one word that orders nothing else
    }

    [[nodiscard]] std::uint64_t value() const noexcept {
        return value_->load(std::memory_order_relaxed);  // one word that orders nothing else
    }

 private:
    std::atomic<std::uint64_t>* value_ = nullptr;
};

/// What a walk over a set met beside whole counters.
struct counter_walk {
    std::size_t counters = 0;  ///< shown
    std::size_t unfinished =
        0;  ///< being registered at this moment, or left by a killed process until it is asked for again
    std::size_t damaged = 0;  ///< bytes that are no name; not shown
};

namespace detail {

/// The operations of both kinds of handle, over the bytes of a set.
class counter_slots {
 public:
    counter_slots() = default;

    /// Throws: geometry_mismatch where `capacity` slots do not fit.
    counter_slots(std::span<std::byte> body, std::uint64_t capacity, std::string_view uri) {
        if (capacity == 0 || capacity > layout::counter_capacity_max ||
            body.size() / sizeof(layout::counter_slot) < capacity)
            throw error(errc::geometry_mismatch, std::string(uri),
                        "the header promises more counters than the segment has room for; restore or recreate it");
        slots_ = {reinterpret_cast<layout::counter_slot*>(body.data()), static_cast<std::size_t>(capacity)};
    }

    /// The slot of a name, registering it where `words` has none; null when every slot is another name's.
    [[nodiscard]] layout::counter_slot* install(const layout::counter_name_words& words) const noexcept {
        for (layout::counter_slot& slot : slots_)
            if (layout::install_counter_name(slot, words)) return &slot;
        return nullptr;
    }

    /// The slot of a name that is there and complete; never writes.
    [[nodiscard]] const layout::counter_slot* find(const layout::counter_name_words& words) const noexcept {
        for (const layout::counter_slot& slot : slots_) {
            // Relaxed: words settle once (I1); behind an empty slot there is nothing (I2).
            std::uint64_t seen = slot.words[0].load(std::memory_order_relaxed);
            if (seen == 0) return nullptr;
            std::size_t i = 0;
            while (seen == words[i]) {
                if (++i == words.size() || words[i] == 0) return &slot;
                seen = slot.words[i].load(std::memory_order_relaxed);  // as above
            }
        }
        return nullptr;
    }

    template <class Visit>
    counter_walk for_each(Visit&& visit) const {
        counter_walk walk;
        for (const layout::counter_slot& slot : slots_) {
            const layout::counter_name name(slot);
            if (name.state() == layout::counter_slot_state::empty) break;
            if (name.state() == layout::counter_slot_state::unfinished) {
                ++walk.unfinished;
            } else if (name.state() == layout::counter_slot_state::damaged || !valid_metric_family(name.family()) ||
                       !valid_metric_labels(name.labels())) {
                ++walk.damaged;
            } else {
                ++walk.counters;
                // Relaxed: each value stands for itself; a walk is no snapshot of all of them.
                visit(name.family(), name.labels(), slot.value.load(std::memory_order_relaxed));
            }
        }
        return walk;
    }

    [[nodiscard]] std::size_t capacity() const noexcept { return slots_.size(); }

 private:
    std::span<layout::counter_slot> slots_;
};

}  // namespace detail

}  // namespace holdfast
