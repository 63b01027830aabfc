// SPDX-License-Identifier: Apache-2.0
// lying_consumer.hpp - the consumer's side of a queue in the hands of somebody who stores lies there.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <stop_token>
#include <thread>

#include "holdfast/peers.hpp"
#include "holdfast/queue.hpp"

namespace holdfast::test {

/// Moves on for ever, by a whole ring each time, and says that it has taken nothing: whoever looks at a message that is
/// long enough finds the head in front of it, and goes there. It ends by itself, so that who follows it for ever is
/// found out late rather than never.
class lying_consumer {
 public:
    static constexpr std::chrono::seconds lies_for{30};

    /// Returns when it has begun.
    explicit lying_consumer(const queue_producer& queue)
        : table_(peers::open(queue.segment())),
          side_(*reinterpret_cast<layout::queue_side*>(table_.slot(layout::queue_consumer_slot).data())),
          thread_([this, ring = queue.capacity_bytes()](const std::stop_token& enough) { lie(ring, enough); }) {
        while (side_.position.load(std::memory_order_relaxed) == 0)  // relaxed: a look
            std::this_thread::yield();
    }

 private:
    void lie(std::uint64_t ring, const std::stop_token& enough) {
        const auto end = std::chrono::steady_clock::now() + lies_for;
        for (std::uint64_t n = 1; !enough.stop_requested() && std::chrono::steady_clock::now() < end; ++n) {
            // Release, as a consumer's: the counts of a position are there before it.
            side_.ledgers[n % 2].position.store(n * ring, std::memory_order_release);
            side_.position.store(n * ring, std::memory_order_release);
            // Time for a look at both, without which nobody believes it.
            for (unsigned spins = 0; spins < 1000; ++spins) std::atomic_signal_fence(std::memory_order_seq_cst);
        }
    }

    peers table_;
    layout::queue_side& side_;
    std::jthread thread_;  // ends before what it uses goes
};

}  // namespace holdfast::test
