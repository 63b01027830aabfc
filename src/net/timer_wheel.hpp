// SPDX-License-Identifier: Apache-2.0
// timer_wheel.hpp - one deadline for each of many connections; moving a deadline later costs one store.
//
//   slot = (deadline / resolution) mod slots; each slot is a doubly linked list through the nodes' 32-bit indices
// (I1) A node hangs in at most one slot, no later than its deadline asks for (or a whole turn of the wheel ahead).
// (I2) A deadline moved later leaves the node where it is: it is looked at once too early and hung up anew. A
//      keep-alive connection therefore touches no list per request.
// (I3) Nothing expires before its deadline; it expires at most one resolution after it, when advance() is called by
//      then.
// (I4) No node hangs before `earliest_`, so that advance() and next_ms() look at no slot while that lies ahead.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "place_table.hpp"

namespace holdfast::net {

class timer_wheel {
 public:
    static constexpr std::uint64_t resolution_ms = 8;
    static constexpr std::size_t slots = 4096;  // 33 s a turn

    explicit timer_wheel(std::uint64_t now_ms) : tick_(now_ms / resolution_ms) { heads_.fill(none); }

    /// Makes room for nodes 0..count-1.
    void grow(std::size_t count) { nodes_.grow(count); }

    /// Sets the node's deadline, replacing the one it had.
    void arm(std::uint32_t index, std::uint64_t deadline_ms) noexcept {
        node& n = nodes_[index];
        n.deadline_ms = deadline_ms;
        const std::uint64_t tick = tick_of(deadline_ms);
        if (n.linked && tick >= n.tick) return;
        if (n.linked) unlink(index);
        link(index, tick);
    }

    void disarm(std::uint32_t index) noexcept {
        if (nodes_[index].linked) unlink(index);
    }

    /// Calls expired(index) for each node whose deadline has passed; the node is disarmed by then and may be armed
    /// again.
    template <class Expired>
    void advance(std::uint64_t now_ms, Expired&& expired) {
        const std::uint64_t now_tick = now_ms / resolution_ms;
        if (now_tick < earliest_) {
            tick_ = now_tick;
            return;
        }
        // After a long silence one turn has visited every slot.
        const std::uint64_t first = now_tick - std::min<std::uint64_t>(now_tick - tick_, slots - 1);
        for (std::uint64_t tick = first; tick <= now_tick; ++tick) {
            tick_ = tick;
            const std::size_t slot = tick % slots;
            // Cut off first: what is hung up anew while we walk must not be walked over again.
            due_.clear();
            for (std::uint32_t i = heads_[slot]; i != none; i = nodes_[i].next) due_.push_back(i);
            for (const std::uint32_t i : due_) {
                node& n = nodes_[i];
                if (!n.linked || n.tick % slots != slot || n.tick > now_tick) continue;
                unlink(i);
                if (n.deadline_ms <= now_ms)
                    expired(i);
                else
                    link(i, tick_of(n.deadline_ms));
            }
        }
        tick_ = now_tick;
        earliest_ = first_used();
    }

    /// Milliseconds until advance() has something to look at, or once less where a node was disarmed; -1 when nothing
    /// is armed.
    [[nodiscard]] int next_ms(std::uint64_t now_ms) const noexcept {
        if (count_ == 0) return -1;
        const std::uint64_t due_ms = earliest_ * resolution_ms;
        return due_ms <= now_ms ? 0 : static_cast<int>(due_ms - now_ms);
    }

 private:
    static constexpr std::uint32_t none = UINT32_MAX;
    static constexpr std::size_t words = slots / 64;
    static constexpr std::uint64_t never = UINT64_MAX;

    struct node {
        std::uint64_t deadline_ms = 0;
        std::uint64_t tick = 0;  // where it hangs
        std::uint32_t previous = none;
        std::uint32_t next = none;
        bool linked = false;
    };

    // Rounded up, so that a visit at that tick finds the deadline passed; at most a turn ahead.
    [[nodiscard]] std::uint64_t tick_of(std::uint64_t deadline_ms) const noexcept {
        const std::uint64_t tick = (deadline_ms + resolution_ms - 1) / resolution_ms;
        return std::clamp(tick, tick_ + 1, tick_ + slots - 1);
    }

    // The tick of the first slot from tick_ on that is used; `never` without one.
    [[nodiscard]] std::uint64_t first_used() const noexcept {
        if (count_ == 0) return never;
        const std::size_t from = tick_ % slots;
        for (std::size_t step = 0; step <= words; ++step) {
            const std::size_t word = (from / 64 + step) % words;
            std::uint64_t bits = used_[word];
            if (step == 0) bits &= ~std::uint64_t{0} << (from % 64);
            if (step == words) bits &= ~(~std::uint64_t{0} << (from % 64));
            if (bits == 0) continue;
            const std::size_t slot = word * 64 + static_cast<std::size_t>(std::countr_zero(bits));
            return tick_ + (slot + slots - from) % slots;
        }
        return never;
    }

    void link(std::uint32_t index, std::uint64_t tick) noexcept {
        node& n = nodes_[index];
        const std::size_t slot = tick % slots;
        n.tick = tick;
        n.previous = none;
        n.next = heads_[slot];
        n.linked = true;
        if (n.next != none) nodes_[n.next].previous = index;
        heads_[slot] = index;
        used_[slot / 64] |= std::uint64_t{1} << (slot % 64);
        earliest_ = count_++ == 0 ? tick : std::min(earliest_, tick);
    }

    void unlink(std::uint32_t index) noexcept {
        node& n = nodes_[index];
        const std::size_t slot = n.tick % slots;
        if (n.previous != none)
            nodes_[n.previous].next = n.next;
        else
            heads_[slot] = n.next;
        if (n.next != none) nodes_[n.next].previous = n.previous;
        if (heads_[slot] == none) used_[slot / 64] &= ~(std::uint64_t{1} << (slot % 64));
        n.linked = false;
        --count_;
    }

    std::uint64_t tick_;              // everything due up to here has expired
    std::uint64_t earliest_ = never;  // (I4)
    std::size_t count_ = 0;
    place_table<node> nodes_;
    std::vector<std::uint32_t> due_;
    std::array<std::uint32_t, slots> heads_{};
    std::array<std::uint64_t, words> used_{};
};

}  // namespace holdfast::net
