// SPDX-License-Identifier: Apache-2.0
// newest_message.hpp - where a look at messages ends that is not to run after their writer.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>

#include "holdfast/broadcast/reader.hpp"
#include "holdfast/queue/observer.hpp"

namespace holdfast::inspect {

/// The number of a ring's newest message now; 0: there is none yet. Throws: corrupt; contended where its writer outran
/// every look for a second.
[[nodiscard]] inline std::uint64_t newest_message(const std::shared_ptr<const segment>& of) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(1);
    do {
        const broadcast_reader latest(of, broadcast_start::latest());
        if (latest.joined().status != outcome::lapped) return latest.sequence() - 1;
    } while (std::chrono::steady_clock::now() < end);
    throw error(errc::contended, of->uri(), "its writer left no quiet moment; try again when it rests");
}

/// The number of a queue's newest message now, or a greater one where that cannot be told: the last transaction may be
/// published and not counted yet, of a producer that died or is stopped. `next`: the number of the oldest one that
/// waits.
[[nodiscard]] inline std::uint64_t newest_message(const queue_observer& of, std::uint64_t next) {
    const std::uint64_t most = next - 1 + of.geometry().capacity;  // bytes or elements: no queue holds more messages
    const queue_side_stats put = of.producer();
    if (!put.counted || of.producer_alive() != true) return most;
    if (of.geometry().form == layout::queue_form::elements) return put.messages;
    std::uint64_t newest = put.messages;
    // What is announced is published next, and then only told by the position.
    const auto& side =
        *reinterpret_cast<const layout::queue_side*>(of.segment().bytes().data() + layout::queue_producer_offset);
    for (const layout::queue_ledger& announced : side.ledgers)
        if (announced.position.load(std::memory_order_acquire) > put.position)  // pairs with W5 in announce()
            newest = std::max(newest, announced.messages.load(std::memory_order_relaxed));  // relaxed: behind W5
    return std::min(newest, most);
}

}  // namespace holdfast::inspect
