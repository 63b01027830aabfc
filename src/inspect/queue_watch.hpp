// SPDX-License-Identifier: Apache-2.0
// queue_watch.hpp - looks at the messages of a queue one after the other without taking part: nothing is stored,
// neither side notices, and what the consumer takes first is missed and counted.
//
// Synchronisation (W1, W2, R2 of queue_write.hpp and queue_read.hpp)
//   The producer stores into the bytes of a message only after R2 has shown it a head behind that message. So a copy is
//   believed if the head, loaded behind it and an acquire fence, has not passed it: whoever met a byte of the next lap
//   would meet the head that allowed it. (The producer's payload stores are plain, so this rests on the order in which
//   stores become visible on x86-64 and ARMv8, where no processor sees an effect before its cause.)
// (I1) Numbers count messages from 1 since the queue was made: the consumer's ledger says how many lie before its head,
//      and the watch counts on from there. Overtaken, it goes on at the head: missed = number there - number here.
// (I2) A walk ends one ring behind the head, whatever the words say: both are bounded by the private geometry.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "holdfast/detail/shared_copy.hpp"
#include "holdfast/outcome.hpp"
#include "holdfast/queue/place.hpp"

namespace holdfast::inspect {

/// A message that was looked at, or why there is none.
struct watched {
    outcome status = outcome::empty;  ///< ok; empty; lapped (count: taken by the consumer before it was seen); corrupt
    std::uint16_t type = 0;
    std::uint64_t count = 0;
    std::uint64_t sequence = 0;  ///< ok: the message's number, from 1; lapped: the next one's
};

class queue_watch {
 public:
    /// Starts at the oldest message. Requires: `geometry` validated against body.size(), both outlive this.
    queue_watch(std::span<const std::byte> body, const layout::queue_geometry& geometry,
                const layout::queue_side& consumer) noexcept
        : producer_(reinterpret_cast<const layout::queue_side*>(body.data() + layout::queue_producer_offset)),
          consumer_(&consumer),
          ring_(body.data() + layout::queue_ring_offset),
          geometry_(geometry) {
        (void)jump();
    }

    /// Copies the next message into `out`. Allocates at most the longest message that the ring can hold.
    [[nodiscard]] watched next(std::vector<std::byte>& out) {
        if (!placed_) {
            if (!jump()) return {outcome::corrupt};
            placed_ = true;
        }
        return geometry_.form == layout::queue_form::bytes ? next_record(out) : next_element(out);
    }

    /// Passes over what is there now, so that next() gives what comes from now on. False when damage was met.
    [[nodiscard]] bool skip_to_end() { return skip_below(~std::uint64_t{0}); }
    /// The same for messages of a smaller number only.
    [[nodiscard]] bool skip_below(std::uint64_t number) {
        for (std::uint64_t steps = 0; steps <= geometry_.capacity && sequence_ < number && !overtaken_for_long();
             ++steps) {
            const watched seen = next(passed_);
            if (seen.status == outcome::corrupt) return false;
            if (seen.status == outcome::empty) return true;
        }
        return true;  // a producer that works as fast: far enough
    }
    [[nodiscard]] std::uint64_t sequence() const noexcept { return sequence_; }
    /// Whether the consumer has overtaken each look for a second: it is as fast, or its side lies, by which a walk
    /// would go on for ever, each time with a copy of up to the ring.
    [[nodiscard]] bool overtaken_for_long() const noexcept {
        return overtaken_ && std::chrono::steady_clock::now() - overtaken_since_ > std::chrono::seconds(1);
    }

 private:
    /// Whether the bytes of a message at `place` that were read before this call belong to it.
    [[nodiscard]] bool untouched(std::uint64_t place) const noexcept {
        // Keeps the copy's loads above the look at the head; pairs with the producer's R2 as the top of this file says.
        std::atomic_thread_fence(std::memory_order_acquire);
        return consumer_->position.load(std::memory_order_relaxed) <= place;  // relaxed: behind the fence
    }

    /// Goes to the consumer's head. False when no counts belong to it.
    [[nodiscard]] bool jump() noexcept {
        const queue_side_stats head = detail::stats_of(*consumer_, geometry_);
        if (!head.counted ||
            (geometry_.form == layout::queue_form::bytes && head.position % layout::ring_word_bytes != 0))
            return false;
        place_ = head.position;
        sequence_ = head.messages + 1;
        placed_ = true;
        return true;
    }
    [[nodiscard]] watched overtaken() noexcept {
        const std::uint64_t expected = sequence_;
        // The same number: the head has passed a skip.
        if (!jump() || sequence_ < expected) return {outcome::corrupt, 0, 0, expected};
        if (!std::exchange(overtaken_, true)) overtaken_since_ = std::chrono::steady_clock::now();
        return {outcome::lapped, 0, sequence_ - expected, sequence_};
    }

    [[nodiscard]] layout::ring_word word_at(std::uint64_t place) const noexcept {
        const auto& word =
            *reinterpret_cast<const std::atomic<std::uint64_t>*>(ring_ + (place & (geometry_.capacity - 1)));
        // R1, pairs with W1: the payload is as new as its word.
        return layout::ring_decode(word.load(std::memory_order_acquire), layout::ring_room(place, geometry_.capacity));
    }

    [[nodiscard]] watched next_record(std::vector<std::byte>& out) {
        layout::ring_word found = word_at(place_);
        std::uint64_t skipped = 0;
        if (found.kind == layout::ring_word_kind::skip) {
            skipped = found.bytes;
            found = word_at(place_ + skipped);
        }
        const bool message = found.kind == layout::ring_word_kind::message;
        const std::uint64_t at = place_ + skipped;
        // Bounded by the end of the ring (ring_decode).
        if (message) {
            out.resize(static_cast<std::size_t>(found.length));
            detail::copy_from_shared(out.data(), ring_ + (at & (geometry_.capacity - 1)) + layout::ring_word_bytes,
                                     out.size());
        }
        if (!untouched(place_)) return overtaken();
        if (found.kind == layout::ring_word_kind::not_ready && skipped == 0) return {outcome::empty, 0, 0, sequence_};
        // A skip is published with the record behind it; the head is at or before place_, see untouched().
        const std::uint64_t end = at + found.bytes + layout::ring_word_bytes;
        if (!message ||
            end - consumer_->position.load(std::memory_order_relaxed) > geometry_.capacity) {  // relaxed: I2
            if (!untouched(place_)) return overtaken();
            return {outcome::corrupt, 0, 0, sequence_};
        }
        place_ = at + found.bytes;
        overtaken_ = false;
        return {outcome::ok, found.type, 0, sequence_++};
    }

    [[nodiscard]] watched next_element(std::vector<std::byte>& out) {
        // R1, pairs with W1: the elements before the tail are whole.
        const std::uint64_t tail = producer_->position.load(std::memory_order_acquire);
        const bool there = tail > place_;
        if (there) {
            out.resize(static_cast<std::size_t>(geometry_.stride));
            detail::copy_from_shared(out.data(), ring_ + (place_ & (geometry_.capacity - 1)) * geometry_.stride,
                                     out.size());
        }
        if (!untouched(place_)) return overtaken();
        // The tail was loaded before the head, and heads only grow.
        if (tail < place_ || tail - place_ > geometry_.capacity) return {outcome::corrupt, 0, 0, sequence_};
        if (!there) return {outcome::empty, 0, 0, sequence_};
        ++place_;
        overtaken_ = false;
        return {outcome::ok, 0, 0, sequence_++};
    }

    const layout::queue_side* producer_;
    const layout::queue_side* consumer_;
    const std::byte* ring_;
    layout::queue_geometry geometry_;
    std::uint64_t place_ = 0;
    std::uint64_t sequence_ = 1;
    bool placed_ = false;
    bool overtaken_ = false;  // by each look since a message was seen
    std::chrono::steady_clock::time_point overtaken_since_{};
    std::vector<std::byte> passed_;
};

}  // namespace holdfast::inspect
