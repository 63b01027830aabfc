// SPDX-License-Identifier: Apache-2.0
// broadcast_gate.hpp - the writer's side of registered readers: who holds it up, since when, and who no longer may.
//
// Protocol and invariants: broadcast_slots.hpp. What is counted here lies in the body, one line a slot, and is the
// writer's alone to store; patience is measured on this process's own monotonic clock and begins anew with a new
// writer.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "holdfast/layout/broadcast_slots.hpp"

namespace holdfast::layout {

/// The clocks a writer reads: Unix time at each stride, monotonic time only while it is held up.
struct broadcast_clocks {
    std::uint64_t (*unix_ns)() noexcept;
    std::uint64_t (*monotonic_ns)() noexcept;
};

class broadcast_gate {
 public:
    broadcast_gate() = default;
    broadcast_gate(std::byte* body, const broadcast_geometry& geometry, const broadcast_clocks& clocks)
        : body_(body),
          geometry_(geometry),
          clocks_(clocks),
          blocked_since_(geometry.readers, 0),
          blocked_by_(geometry.readers, 0) {}

    /// Whether the horizon may be raised to `target` (I2 of broadcast_slots.hpp). Asks the operating system about a
    /// reader only if it is in the way; takes back what the dead and the evicted held.
    /// Cost: one line for each slot.
    template <broadcast_slots Slots>
    [[nodiscard]] bool admits(std::uint64_t target, std::uint64_t horizon, std::uint64_t tail, Slots& slots) {
        bool free = true;
        const std::uint32_t count = slots.size() < geometry_.readers ? slots.size() : geometry_.readers;
        for (std::uint32_t i = 0; i < count; ++i) {
            broadcast_slot& slot = slots.slot(i);
            // R4, pairs with W6 (Dekker with W1) and with W7 (the reader's loads precede our stores).
            const std::uint64_t held = slot.held.load(std::memory_order_seq_cst);
            if (held != 0) note_registration(i, slot);
            if (!in_the_way(held, target, horizon, tail)) {
                // One that stands where it stood when it was in the way is so again at the next longer message.
                if (held != blocked_by_[i]) settle(i);
            } else if (slots.seize(i)) {
                // Dead, and under its lock nobody can join at the same place with the same word. A death in here
                // frees the lock.
                take_back(i, slot, held, control().reclaimed);
                slots.give_back(i);
            } else if (out_of_patience(i, slot, held) && take_back(i, slot, held, control().evicted)) {
                // Relaxed, as everything in the report: for people.
                report(i).evicted.store(1, std::memory_order_relaxed);
            } else {
                free = false;
            }
        }
        return free;
    }

 private:
    [[nodiscard]] broadcast_control& control() noexcept { return *reinterpret_cast<broadcast_control*>(body_); }
    [[nodiscard]] broadcast_report& report(std::uint32_t slot) noexcept {
        return *reinterpret_cast<broadcast_report*>(body_ + broadcast_geometry::report_offset(slot));
    }
    // Ours alone to write, so a load and a store will do; relaxed, nothing hangs on it.
    static void add(std::atomic<std::uint64_t>& counter, std::uint64_t more) noexcept {
        counter.store(counter.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
    }

    [[nodiscard]] bool in_the_way(std::uint64_t held, std::uint64_t target, std::uint64_t horizon,
                                  std::uint64_t tail) const noexcept {
        const std::uint64_t policy = broadcast_held_policy(held), position = broadcast_held_position(held);
        const bool holds = policy == static_cast<std::uint64_t>(broadcast_policy::block) ||
                           policy == static_cast<std::uint64_t>(broadcast_policy::evict);
        return holds && position <= tail && horizon - position <= geometry_.capacity &&
               target - position > geometry_.capacity;
    }
    /// A reader that was not there before has a clean record.
    void note_registration(std::uint32_t index, broadcast_slot& slot) noexcept {
        // Relaxed: stored before `held`, and for people only.
        const std::uint64_t registered = slot.registered_ns.load(std::memory_order_relaxed);
        broadcast_report& about = report(index);
        if (about.registered_ns.load(std::memory_order_relaxed) == registered) return;
        about.blocked_ns.store(0, std::memory_order_relaxed);
        about.blocked.store(0, std::memory_order_relaxed);
        about.evicted.store(0, std::memory_order_relaxed);
        about.registered_ns.store(registered, std::memory_order_relaxed);
        blocked_since_[index] = 0;
    }
    /// The reader is not in the way (any more), or stands elsewhere.
    void settle(std::uint32_t index) noexcept {
        if (blocked_since_[index] == 0) return;
        add(report(index).blocked_ns, clocks_.monotonic_ns() - blocked_since_[index]);
        blocked_since_[index] = 0;
    }
    [[nodiscard]] bool out_of_patience(std::uint32_t index, const broadcast_slot& slot, std::uint64_t held) noexcept {
        if (blocked_since_[index] == 0) add(report(index).blocked, 1);
        // It has moved, though not far enough for this message: patience counts from here on.
        if (held != blocked_by_[index]) settle(index);
        const std::uint64_t now = clocks_.monotonic_ns();
        if (blocked_since_[index] == 0) {
            blocked_since_[index] = now == 0 ? 1 : now;
            blocked_by_[index] = held;
        }
        // Relaxed: stored before `held`, which R4 acquired.
        const std::uint64_t patience = slot.patience_ns.load(std::memory_order_relaxed);
        return broadcast_held_policy(held) == static_cast<std::uint64_t>(broadcast_policy::evict) &&
               now - blocked_since_[index] >= patience;
    }
    /// Clears the word unless its reader has moved meanwhile, which the next scan will see. Returns: whether it did.
    bool take_back(std::uint32_t index, broadcast_slot& slot, std::uint64_t held,
                   std::atomic<std::uint64_t>& counter) noexcept {
        // Acquire-release: the reader's loads precede our stores; relaxed on failure, nothing is concluded but "not
        // yet".
        if (!slot.held.compare_exchange_strong(held, 0, std::memory_order_acq_rel, std::memory_order_relaxed))
            return false;
        settle(index);
        add(counter, 1);
        return true;
    }

    std::byte* body_ = nullptr;
    broadcast_geometry geometry_{};
    broadcast_clocks clocks_{};
    std::vector<std::uint64_t> blocked_since_;  // monotonic; 0: not in the way
    std::vector<std::uint64_t> blocked_by_;     // the word it holds since then
};

}  // namespace holdfast::layout
