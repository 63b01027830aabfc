// SPDX-License-Identifier: Apache-2.0
// queue_elements.hpp - both sides of a queue of elements of one size, over plain bytes: a ring by index.
//
// The producer's stores, and what a death right after each leaves
//   1 elements behind the tail          free slots: nobody looks there            before
//   2 tail = tail + n (W1)              published, all n of them                  after
// The consumer's
//   1 head = head + n (W2)              released: the producer may overwrite      released
// Each is the only commit point of its side; there is nothing to recover. Counts are the positions themselves, so the
// ledgers stay unused.
//
// Synchronisation
//   W1 tail  release   R1 tail in the consumer  acquire   the elements are whole
//   fence (long_copy.hpp), of elements that went past the caches, before W1: its release does not cover them
//   W2 head  release   R2 head in the producer  acquire   the consumer is done with the slots
// Each side keeps the last position it saw of the other and looks again only when that says full or empty.
// Source: cached peer positions: Lee, Bu, Chandranmenon, MCRingBuffer, ANCS 2009, doi:10.1145/1882486.1882508.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "holdfast/detail/concat.hpp"
#include "holdfast/detail/fault_latch.hpp"
#include "holdfast/detail/long_copy.hpp"
#include "holdfast/detail/reader_slip.hpp"
#include "holdfast/layout/queue_layout.hpp"
#include "holdfast/outcome.hpp"

namespace holdfast::layout {

/// (I2) for positions of elements, as either side finds them. Throws: error(corrupt).
inline void require_queue_positions(std::uint64_t head, std::uint64_t tail, std::uint64_t capacity,
                                    const std::string& subject) {
    if (head > tail || tail - head > capacity)
        throw error(errc::corrupt, subject,
                    holdfast::detail::concat("the queue's head ", head, " and tail ", tail,
                                             " contradict; no crash does this: restore the segment and its peers file, "
                                             "or recreate the queue"));
}

class queue_element_write_core {
 public:
    queue_element_write_core() = default;

    /// Requires: `geometry` validated against body.size(), form elements; no other producer; `consumer` outlives this.
    /// Throws: error(corrupt).
    queue_element_write_core(std::span<std::byte> body, const queue_geometry& geometry, const queue_side& consumer,
                             const std::string& subject)
        : side_(reinterpret_cast<queue_side*>(body.data() + queue_producer_offset)),
          consumer_(&consumer),
          ring_(body.data() + queue_ring_offset),
          capacity_(geometry.capacity),
          stride_(geometry.stride),
          long_copies_(geometry.rings) {
        // Acquire, pairs with W1 and W2 of threads of this process (in tests).
        tail_ = side_->position.load(std::memory_order_acquire);
        head_seen_ = consumer_->position.load(std::memory_order_acquire);
        require_queue_positions(head_seen_, tail_, capacity_, subject);
        // Relaxed: of a predecessor that sleeps no more.
        side_->waiting.store(0, std::memory_order_relaxed);
    }

    /// Whether `count` slots are free. Requires: count <= capacity().
    [[nodiscard]] outcome room(std::uint64_t count) noexcept {
        if (tail_ + count - head_seen_ <= capacity_) return outcome::ok;
        // R2, pairs with W2. Weaker would let us overwrite elements that the consumer is still reading.
        const std::uint64_t head = consumer_->position.load(std::memory_order_acquire);
        if (head < head_seen_ || head > tail_) {  // (I2); heads only grow
            fault_.set(errc::corrupt);
            return outcome::corrupt;
        }
        head_seen_ = head;
        return tail_ + count - head_seen_ <= capacity_ ? outcome::ok : outcome::full;
    }
    /// Slots that are free as far as is known without looking; after room() said ok, at least what it was asked for.
    [[nodiscard]] std::uint64_t free_seen() const noexcept { return capacity_ - (tail_ - head_seen_); }
    /// Slots from the tail to the end of the ring.
    [[nodiscard]] std::uint64_t contiguous() const noexcept { return capacity_ - (tail_ & (capacity_ - 1)); }
    /// The slot `ahead` behind the tail. Requires: ahead < free_seen().
    [[nodiscard]] std::byte* slot(std::uint64_t ahead) const noexcept {
        return ring_ + ((tail_ + ahead) & (capacity_ - 1)) * stride_;
    }
    /// Publishes the next `count` slots at once. Requires: they are free.
    void publish(std::uint64_t count) noexcept {
        long_copies_.fence();  // before W1, whose release does not cover stores past the caches
        tail_ += count;
        // W1, pairs with R1. Weaker would let the consumer see the tail before the elements.
        side_->position.store(tail_, std::memory_order_release);
    }
    /// As in queue_write_core.
    [[nodiscard]] bool sleeper() const noexcept {
        std::atomic_thread_fence(std::memory_order_seq_cst);             // Dekker with the consumer's W4
        return consumer_->waiting.load(std::memory_order_relaxed) != 0;  // relaxed: behind the fence
    }
    /// The head at which `count` slots and an eighth of the ring are free; 0 when the slots are.
    [[nodiscard]] std::uint64_t head_needed(std::uint64_t count) noexcept {
        if (room(count) != outcome::full) return 0;
        const std::uint64_t free = count > capacity_ / 8 ? count : capacity_ / 8;
        return tail_ + free - capacity_;
    }

    [[nodiscard]] std::uint64_t tail() const noexcept { return tail_; }
    [[nodiscard]] std::uint64_t capacity() const noexcept { return capacity_; }
    [[nodiscard]] std::uint64_t stride() const noexcept { return stride_; }
    [[nodiscard]] queue_side& side() const noexcept { return *side_; }
    [[nodiscard]] const queue_side& consumer() const noexcept { return *consumer_; }
    [[nodiscard]] std::optional<errc> fault() const noexcept { return fault_.get(); }
    /// How long runs of elements are copied into slots. Requires: all that was copied is published.
    [[nodiscard]] holdfast::detail::long_copier& long_copies() noexcept { return long_copies_; }

 private:
    queue_side* side_ = nullptr;
    const queue_side* consumer_ = nullptr;
    std::byte* ring_ = nullptr;
    std::uint64_t capacity_ = 0;
    std::uint64_t stride_ = 0;
    std::uint64_t tail_ = 0;
    std::uint64_t head_seen_ = 0;
    holdfast::detail::fault_latch fault_;
    holdfast::detail::long_copier long_copies_;
};

class queue_element_read_core {
 public:
    queue_element_read_core() = default;

    /// Requires: `geometry` validated against body.size(), form elements; no other consumer; `own` outlives this.
    /// Throws: error(corrupt).
    queue_element_read_core(std::span<const std::byte> body, const queue_geometry& geometry, queue_side& own,
                            const std::string& subject)
        : side_(&own),
          producer_(reinterpret_cast<const queue_side*>(body.data() + queue_producer_offset)),
          ring_(body.data() + queue_ring_offset),
          capacity_(geometry.capacity),
          stride_(geometry.stride),
          slip_(geometry.ring_bytes()) {
        // Acquire, pairs with W2 and W1 of threads of this process (in tests).
        released_ = side_->position.load(std::memory_order_acquire);
        tail_seen_ = producer_->position.load(std::memory_order_acquire);
        require_queue_positions(released_, tail_seen_, capacity_, subject);
        cursor_ = released_;
        // Relaxed: of a predecessor that sleeps no more.
        side_->waiting.store(0, std::memory_order_relaxed);
    }

    /// Elements that can be looked at: `wanted` or fewer; looks at the producer's line only when it knows of fewer.
    [[nodiscard]] result ready(std::uint64_t wanted) noexcept {
        if (tail_seen_ - cursor_ < wanted) {
            if (tail_seen_ == cursor_) slip_.before_look(wanted);
            // R1, pairs with W1. Weaker would let elements be read before they are whole.
            const std::uint64_t tail = producer_->position.load(std::memory_order_acquire);
            if (tail < tail_seen_ || tail - released_ > capacity_) {  // (I2); tails only grow
                fault_.set(errc::corrupt);
                return {outcome::corrupt, 0};
            }
            tail_seen_ = tail;
            slip_.found(tail - cursor_, wanted);
        }
        const std::uint64_t there = tail_seen_ - cursor_;
        if (there == 0) return {outcome::empty, 0};
        return {outcome::ok, there < wanted ? there : wanted};
    }
    /// The slot `ahead` behind the cursor. Requires: ahead < what ready() said.
    [[nodiscard]] const std::byte* slot(std::uint64_t ahead) const noexcept {
        return ring_ + ((cursor_ + ahead) & (capacity_ - 1)) * stride_;
    }
    /// Slots from the cursor to the end of the ring.
    [[nodiscard]] std::uint64_t contiguous() const noexcept { return capacity_ - (cursor_ & (capacity_ - 1)); }
    /// Passes `count` elements. Requires: ready() said that many.
    void pass(std::uint64_t count) noexcept { cursor_ += count; }
    /// Gives everything passed back to the producer. Returns: whether there was anything.
    bool release() noexcept {
        if (cursor_ == released_) return false;
        // W2, pairs with R2: our reads come before. Weaker would let the producer overwrite the slots first.
        side_->position.store(cursor_, std::memory_order_release);
        released_ = cursor_;
        return true;
    }
    [[nodiscard]] bool pending() const noexcept { return cursor_ != released_; }
    /// As in queue_read_core.
    [[nodiscard]] bool sleeper() const noexcept {
        std::atomic_thread_fence(std::memory_order_seq_cst);  // Dekker with the producer's W4
        const std::uint64_t needed = producer_->waiting.load(std::memory_order_relaxed);  // relaxed: behind the fence
        return needed != 0 && released_ >= needed;
    }

    [[nodiscard]] std::uint64_t head() const noexcept { return released_; }
    /// The number of the element to be looked at next.
    [[nodiscard]] std::uint64_t cursor() const noexcept { return cursor_; }
    [[nodiscard]] std::uint64_t capacity() const noexcept { return capacity_; }
    [[nodiscard]] std::uint64_t stride() const noexcept { return stride_; }
    [[nodiscard]] queue_side& side() const noexcept { return *side_; }
    [[nodiscard]] const queue_side& producer() const noexcept { return *producer_; }
    [[nodiscard]] std::optional<errc> fault() const noexcept { return fault_.get(); }

 private:
    queue_side* side_ = nullptr;
    const queue_side* producer_ = nullptr;
    const std::byte* ring_ = nullptr;
    std::uint64_t capacity_ = 0;
    std::uint64_t stride_ = 0;
    std::uint64_t released_ = 0;   // the stored head
    std::uint64_t cursor_ = 0;     // what is looked at next
    std::uint64_t tail_seen_ = 0;  // the producer's tail when last looked at
    holdfast::detail::reader_slip slip_;
    holdfast::detail::fault_latch fault_;
};

}  // namespace holdfast::layout
