// SPDX-License-Identifier: Apache-2.0
// writer_presence.hpp - how those who have slots in NAME.peers know that the segment's writer lives.
//
// Beside the lease a writer holds a slot of NAME.peers that means nothing else: who waits for it may ask about that
// slot, but perhaps not open the lease. It takes the slot last: its lease is locked before the segment has a name, and
// a successor's before it looks for the slot. So a slot that is held says yes, and one that is free says nothing until
// the lease has been asked, too. memfd: and anon: segments have no name to find the lease by: there the slot alone
// tells. A creator has it before there is a descriptor to pass; a successor is known once it has it.
#pragma once

#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>

#include "holdfast/detail/spans.hpp"
#include "holdfast/peers.hpp"
#include "holdfast/segment.hpp"

namespace holdfast::detail {

/// Takes a slot within the time given to a dying holder. Returns: false when somebody goes on holding it.
[[nodiscard]] inline bool hold_within(peers& table, std::uint32_t slot, std::uint64_t timeout_ns) noexcept {
    const std::uint64_t begin = monotonic_ns();
    for (long pause_ns = 50'000;; pause_ns = pause_ns < 1'000'000 ? pause_ns * 2 : pause_ns) {
        if (table.hold(slot)) return true;
        if (monotonic_ns() - begin >= timeout_ns) return false;
        const struct timespec pause{0, pause_ns};
        ::nanosleep(&pause, nullptr);
    }
}

inline constexpr std::chrono::nanoseconds presence_patience_max = std::chrono::seconds(1);

/// Takes the writer's slot. Requires: the lease is ours. So whoever holds the slot is about to vanish, within a
/// fraction of a millisecond, or hostile: that one could keep us for as long as we look, and all it gets is a stale
/// answer to whoever asks once we are gone. Where the lease says as well that we live, we therefore look no longer than
/// `patience` (20 ms at least), which is what the caller gives a dying holder of the lease, if it gives any. A slot
/// that was not had is not tried for again: from then on the lease alone says that we live, and who cannot ask that
/// takes us for gone.
inline void show_presence(const segment& of, peers& table, std::uint32_t slot,
                          std::chrono::nanoseconds patience) noexcept {
    constexpr std::chrono::nanoseconds least = std::chrono::milliseconds(20);
    const bool short_of_it = of.name().named() && patience > patience.zero();
    const std::chrono::nanoseconds most =
        short_of_it ? std::clamp(patience, least, presence_patience_max) : presence_patience_max;
    (void)hold_within(table, slot, ns_of(most));
}

/// Whether a living process other than this handle's may write `of`, as far as its slot and its lease tell.
/// Cost: a system call; where the slot is free, what lease_state_of() costs, and one more.
[[nodiscard]] inline bool writer_lives(const segment& of, const peers& table, std::uint32_t slot) noexcept {
    if (table.alive(slot)) return true;
    // A reader on its writer's own mapping keeps the lease: the writer took the slot before it made that reader.
    if (of.lease_descriptor() >= 0) return false;
    try {
        // The lease of another segment that has the name by now says nothing.
        return lease_state_of(of.name()) == lease_state::held && !of.replaced();
    } catch (const std::exception&) {  // no memory for a path: not known
        return true;
    }
}

}  // namespace holdfast::detail
