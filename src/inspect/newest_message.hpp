// SPDX-License-Identifier: Apache-2.0
// newest_message.hpp - where a look at messages ends that is not to run after their writer.
#pragma once

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

/// The number of a queue's newest message now, or a greater one where that cannot be told: of a producer that died, the
/// last may be published and not counted. `next`: the number of the oldest one that waits.
[[nodiscard]] inline std::uint64_t newest_message(const queue_observer& of, std::uint64_t next) {
    const queue_side_stats put = of.producer();
    if (put.counted && of.producer_alive() == true) return put.messages;
    return next - 1 + of.geometry().capacity;  // bytes or elements: no queue holds more messages
}

}  // namespace holdfast::inspect
