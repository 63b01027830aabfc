// SPDX-License-Identifier: Apache-2.0
// queue_verify.hpp - what is damaged in a queue, looked at from outside, also while both sides work.
//
// Nothing between head and tail is ever overwritten, so as long as the head stays the same every word walked over is
// final: what is wrong there is damage, not work in progress. If the head moves meanwhile the walk is begun again.
// The counts of the two sides differ by exactly what the walk found: a changed length shows even where it moves no
// record. Payloads have no checksum; a changed payload or type is not noticed.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "holdfast/detail/concat.hpp"
#include "holdfast/layout/finding.hpp"
#include "holdfast/layout/queue_layout.hpp"

namespace holdfast::layout {

/// The result of a look.
struct queue_verification {
    findings found;
    std::uint64_t messages = 0;  ///< between head and tail
    bool unsettled = false;  ///< a transaction is published but not entered as position: a producer works or died there
    bool busy = false;       ///< the sides moved too fast to be compared: look again when they rest
};

namespace detail {

/// One look at a queue of bytes. Requires: as verify_queue.
class queue_walk {
 public:
    queue_walk(std::span<const std::byte> body, const queue_geometry& geometry, const queue_side* consumer) noexcept
        : producer_(*reinterpret_cast<const queue_side*>(body.data() + queue_producer_offset)),
          consumer_(consumer),
          ring_(body.data() + queue_ring_offset),
          capacity_(geometry.capacity) {}

    /// Returns: false when the sides moved meanwhile and the look means nothing.
    [[nodiscard]] bool run(queue_verification& out) {
        // Acquire on all: pairs with W2, W3 and W1, so that what lies before each position is seen.
        const std::uint64_t tail = producer_.position.load(std::memory_order_acquire);
        const std::uint64_t head = consumer_ != nullptr ? consumer_->position.load(std::memory_order_acquire) : tail;
        const auto head_counts = consumer_ != nullptr ? queue_counter::at(*consumer_, head) : std::nullopt;
        queue_verification now;
        const bool sane = positions(head, tail, now.found);
        std::uint64_t end = tail;
        if (sane) end = walk(head, tail, now);
        auto tail_counts = queue_counter::at(producer_, end);
        if (end != tail && !queue_counter::at(producer_, tail)) tail_counts.reset();  // (I3)
        // Keeps the counts in front of the positions; pairs with the fence in announce().
        std::atomic_thread_fence(std::memory_order_acquire);
        // Acquire, as above: what the walk loaded came before these.
        const bool quiet = producer_.position.load(std::memory_order_acquire) == tail &&
                           (consumer_ == nullptr || consumer_->position.load(std::memory_order_acquire) == head);
        if (!quiet) return false;
        now.unsettled = end != tail;
        if (sane && now.found.empty()) compare(head_counts, tail_counts, now);
        out = std::move(now);
        return true;
    }

 private:
    [[nodiscard]] bool positions(std::uint64_t head, std::uint64_t tail, findings& found) const {
        const std::uint64_t apart = tail > head ? tail - head : head - tail;
        if (tail % ring_word_bytes != 0)
            found.add(queue_producer_offset, holdfast::detail::concat("tail ", tail, " is not a multiple of 8"));
        if (head % ring_word_bytes != 0)
            found.add(queue_consumer_offset, holdfast::detail::concat("head ", head, " is not a multiple of 8"));
        if (apart > capacity_ - ring_word_bytes)
            found.add(queue_consumer_offset,
                      holdfast::detail::concat("head ", head, " and tail ", tail, " contradict"));
        return found.empty();
    }

    /// From the lower of the two to the first word that is not ready. Bounded by the ring. Returns: the true tail.
    std::uint64_t walk(std::uint64_t head, std::uint64_t tail, queue_verification& now) {
        const std::uint64_t begin = head < tail ? head : tail;
        bool met_head = begin == head;
        std::uint64_t at = begin;
        for (;;) {
            met_head |= at == head;
            const std::uint64_t offset = queue_ring_offset + (at & (capacity_ - 1));
            const auto& word = *reinterpret_cast<const std::atomic<std::uint64_t>*>(ring_ + (at & (capacity_ - 1)));
            // R1, pairs with W1: the words behind the first of a transaction.
            const ring_word record = ring_decode(word.load(std::memory_order_acquire), ring_room(at, capacity_));
            if (record.kind == ring_word_kind::not_ready) break;
            if (record.kind == ring_word_kind::corrupt || at + record.bytes - begin > capacity_ - ring_word_bytes) {
                now.found.add(offset, holdfast::detail::concat("the record at position ", at, " is none"));
                return tail;
            }
            if (record.kind == ring_word_kind::message && at >= head) {
                ++now.messages;
                bytes_ += record.length;
            }
            at += record.bytes;
        }
        if (!met_head)
            now.found.add(queue_consumer_offset,
                          holdfast::detail::concat("head ", head, " is not where a record begins"));
        if (at < tail)
            now.found.add(queue_ring_offset + (at & (capacity_ - 1)),
                          holdfast::detail::concat("the records end at position ", at, ", the tail is ", tail));
        return at;
    }

    void compare(const std::optional<queue_counter>& head, const std::optional<queue_counter>& tail,
                 queue_verification& now) const {
        if (!tail) now.found.add(queue_producer_offset + offsetof(queue_side, ledgers), "no counts belong to the tail");
        if (consumer_ == nullptr) return;
        if (!head) now.found.add(queue_consumer_offset + offsetof(queue_side, ledgers), "no counts belong to the head");
        if (!head || !tail) return;
        const std::uint64_t messages = tail->counts().messages - head->counts().messages;
        const std::uint64_t bytes = tail->counts().bytes - head->counts().bytes;
        if (messages != now.messages || bytes != bytes_)
            now.found.add(queue_ring_offset,
                          holdfast::detail::concat("the ring holds ", now.messages, " messages of ", bytes_,
                                                   " bytes, the sides' counts say ", messages, " of ", bytes));
    }

    const queue_side& producer_;
    const queue_side* consumer_;
    const std::byte* ring_;
    std::uint64_t capacity_;
    std::uint64_t bytes_ = 0;  // of payload in the records met
};

}  // namespace detail

/// Looks at a queue. Reads only; any bytes are safe; both sides may be at work meanwhile.
/// Requires: `geometry` validated against body.size(); body aligned to 64 bytes. `consumer`: its side, or null when it
/// cannot be seen; then only the producer's is checked. Cost: one load a message, a few times over when busy.
[[nodiscard]] inline queue_verification verify_queue(std::span<const std::byte> body, const queue_geometry& geometry,
                                                     const queue_side* consumer) {
    queue_verification out;
    if (geometry.form == queue_form::elements) {
        const auto& producer = *reinterpret_cast<const queue_side*>(body.data() + queue_producer_offset);
        if (consumer == nullptr) return out;
        // Acquire, pairs with W2 and W1; the head first: what it has passed, the tail had passed before.
        const std::uint64_t head = consumer->position.load(std::memory_order_acquire);
        const std::uint64_t tail = producer.position.load(std::memory_order_acquire);
        const std::uint64_t again = consumer->position.load(std::memory_order_acquire);
        out.messages = tail - head;
        if (head > tail || (tail - head > geometry.capacity && again == head))
            out.found.add(queue_consumer_offset,
                          holdfast::detail::concat("head ", head, " and tail ", tail, " contradict"));
        return out;
    }
    constexpr unsigned tries = 64;
    for (unsigned i = 0; i < tries; ++i)
        if (detail::queue_walk(body, geometry, consumer).run(out)) return out;
    out.busy = true;
    return out;
}

}  // namespace holdfast::layout
