// SPDX-License-Identifier: Apache-2.0
// trace_state.hpp - a number for the state that two deterministic processes have reached, taken from what they did.
//
// A process is in the state that the values it has read lead to; a word holds what the last store to it, by a process
// in such a state, put there. So each process has a number made of its accesses in order, each with the word, the value
// found there and the number of the store that put it there; the number of a store is that of its process behind it.
// A store counts as a look at the word, too: it may be an update, or leave bytes as they were.
// Two schedules give the same numbers when they differ only in the order of accesses that do not conflict, or in none;
// both processes are then in the same state, and the shared bytes are the same. Different traces give different numbers
// but for an accident of 64 bits: one in 10^7 for a million states.
//
// What processes know of each other beside the shared bytes is one more word, which each look and change stores to.
//
// Source: happens-before fingerprints: Musuvathi, Qadeer, Partial-order reduction for context-bounded state
// exploration, MSR-TR-2007-12.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace holdfast::test {

/// A number for two in this order.
[[nodiscard]] constexpr std::uint64_t number_of(std::uint64_t a, std::uint64_t b) noexcept {
    std::uint64_t x = (a ^ 0x9E3779B97F4A7C15U) * 0xBF58476D1CE4E5B9U + b;
    x = (x ^ (x >> 32)) * 0x94D049BB133111EBU;
    return x ^ (x >> 29);
}

class trace_state {
 public:
    explicit trace_state(std::size_t words) : stores_(words + 1) { begin(); }

    void begin() noexcept {
        std::fill(stores_.begin(), stores_.end(), 0);
        processes_ = {1, 2};
    }
    /// In front of an access of a word that holds `value`.
    void access(unsigned process, std::uint32_t word, bool stores, std::uint64_t value) noexcept {
        std::uint64_t& own = processes_[process];
        own = number_of(number_of(number_of(own, 2 * word + (stores ? 1U : 0U)), stores_[word]), value);
        if (stores) stores_[word] = own;
    }
    /// What both know beside the words.
    void meet(unsigned process) noexcept { access(process, static_cast<std::uint32_t>(stores_.size() - 1), true, 0); }
    /// Anything else that a process does or is told.
    void note(unsigned process, std::uint64_t what) noexcept {
        processes_[process] = number_of(processes_[process], what);
    }
    /// Of both processes and all words.
    [[nodiscard]] std::uint64_t number() const noexcept { return number_of(processes_[0], processes_[1]); }

 private:
    std::vector<std::uint64_t> stores_;  // the last of each word
    std::array<std::uint64_t, 2> processes_{};
};

}  // namespace holdfast::test
