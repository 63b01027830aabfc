// SPDX-License-Identifier: Apache-2.0
// paced.hpp - a writer on the far side that does one thing so many times a second while the near side reads.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

#include "workload/far_side.hpp"

namespace holdfast::workload {

/// On the far side: does it at that pace until there is another order. What was missed while its core was away is not
/// made up for. Requires: hz > 0.
template <class Operation>
void do_at_pace(const far_side& far, std::uint64_t hz, Operation&& one) {
    using clock = std::chrono::steady_clock;
    const std::chrono::nanoseconds period(1'000'000'000 / hz);
    for (auto next = clock::now(); !far.interrupted(); next += period) {
        one();
        next = std::max(next, clock::now() - period);
        while (clock::now() < next + period && !far.interrupted()) {
        }
    }
}

/// On the near side: gives the order, and comes back when the far side's progress has moved, so that nothing is read
/// beside a writer that is not there yet. Throws: as far_side::require_other.
inline void begin_and_see(far_side& far, const far_order& order) {
    // Relaxed, both: only that it changes matters.
    const std::uint64_t before = far.progress().load(std::memory_order_relaxed);
    far.begin(order);
    for (patience wait(far); far.progress().load(std::memory_order_relaxed) == before;) wait();
}

/// An adapter of a store that keeps every version as long as a reader looks at an older one says how many bytes more it
/// may take below /dev/shm while the reader's core is away: A::grows_beside.
template <class A>
[[nodiscard]] constexpr std::uint64_t bytes_grown_beside() {
    if constexpr (requires { A::grows_beside; })
        return A::grows_beside;
    else
        return 0;
}

}  // namespace holdfast::workload
