// SPDX-License-Identifier: Apache-2.0
// queue_read.hpp - the consumer of a queue of bytes, over plain bytes. One consumer; who that is, its claim has
// settled.
//
// The consumer looks at records in place, moves its private cursor over them, and releases what lies behind the cursor.
// The stores of a release, and what a death right after each leaves
//   1 the other ledger: counts, then its position (W5)   counts for a position that is not true yet   not released
//   2 position = cursor (W2)                             released: the producer may overwrite         released
//   3 bell + 1, and the system call that wakes           a producer that slept on looks by itself soon
// Step 2 is the only commit point. A successor begins at the stored position: what was looked at but not released is
// delivered once more, what was released is not. Recovery stores nothing but the flag of a sleeper that is no more.
//
// Synchronisation: R1 and W2 pair with W1 and R2 of queue_write.hpp. W4, waiting = 1, seq_cst, is the sleeper's half of
// the Dekker there.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "holdfast/detail/concat.hpp"
#include "holdfast/detail/fault_latch.hpp"
#include "holdfast/layout/queue_layout.hpp"
#include "holdfast/outcome.hpp"

namespace holdfast {

/// A message in place, or why there is none.
struct queue_message {
    outcome status = outcome::empty;
    std::uint16_t type = 0;              ///< the producer's own number
    std::uint64_t count = 0;             ///< too_small: bytes needed
    std::span<const std::byte> bytes{};  ///< in the ring until it is released, or in the caller's buffer
    [[nodiscard]] explicit operator bool() const noexcept { return status == outcome::ok; }
};

}  // namespace holdfast

namespace holdfast::layout {

class queue_read_core {
 public:
    queue_read_core() = default;

    /// Takes over the consumer's side: freshly zeroed, or left by a consumer that died at any instruction.
    /// Requires: `geometry` validated against body.size(), form bytes; body aligned to 64 bytes; no other consumer;
    /// `own` outlives this. Throws: error(corrupt) when the positions break an invariant no crash can break.
    queue_read_core(std::span<const std::byte> body, const queue_geometry& geometry, queue_side& own,
                    const std::string& subject)
        : side_(&own),
          producer_(reinterpret_cast<const queue_side*>(body.data() + queue_producer_offset)),
          ring_(body.data() + queue_ring_offset),
          capacity_(geometry.capacity) {
        recover(subject);
    }

    /// The oldest message that next() has not passed, in place until release(). Cost: one acquire load.
    [[nodiscard]] queue_message front() noexcept {
        ring_word found = look();
        if (found.kind == ring_word_kind::skip) {
            cursor_ += found.bytes;
            found = look();
            // The record behind a skip was published with it.
            if (found.kind != ring_word_kind::message) return damaged();
        }
        if (found.kind == ring_word_kind::not_ready) return {};
        // (I2) Without it a ring scribbled full of messages would never end.
        if (found.kind == ring_word_kind::corrupt || cursor_ + found.bytes + ring_word_bytes - released_ > capacity_)
            return damaged();
        if (cursor_ + found.bytes > plausible_ && !plausible(cursor_ + found.bytes)) return damaged();
        record_ = found.bytes;
        length_ = found.length;
        return {outcome::ok,
                found.type,
                0,
                {ring_ + (cursor_ & (capacity_ - 1)) + ring_word_bytes, static_cast<std::size_t>(found.length)}};
    }

    /// Passes the message that front() gave. False when it gave none.
    bool next() noexcept {
        if (record_ == 0) return false;
        cursor_ += record_;
        record_ = 0;
        ++passed_.messages;
        passed_.bytes += length_;
        return true;
    }

    /// Gives everything passed back to the producer.
    /// Returns: whether there was anything. Cost: a few stores.
    bool release() noexcept {
        if (passed_.messages == 0) return false;
        counter_.announce(*side_, cursor_, passed_);
        // W2, pairs with R2: our reads of these bytes come before. Weaker would let the producer overwrite them first.
        side_->position.store(cursor_, std::memory_order_release);
        released_ = cursor_;
        passed_ = {};
        return true;
    }
    /// Whether something was passed and not released.
    [[nodiscard]] bool pending() const noexcept { return passed_.messages != 0; }

    /// Whether the producer sleeps and the head it waits for is reached. Cost: a full fence and a load of a line that
    /// seldom changes.
    [[nodiscard]] bool sleeper() const noexcept {
        // Dekker with the producer's W4: our W2 is visible before we look.
        std::atomic_thread_fence(std::memory_order_seq_cst);
        const std::uint64_t needed = producer_->waiting.load(std::memory_order_relaxed);  // relaxed: behind the fence
        return needed != 0 && released_ >= needed;
    }

    [[nodiscard]] std::uint64_t head() const noexcept { return released_; }
    /// Where the message that front() gave lies.
    [[nodiscard]] std::uint64_t cursor() const noexcept { return cursor_; }
    [[nodiscard]] std::uint64_t capacity() const noexcept { return capacity_; }
    [[nodiscard]] const queue_counts& counts() const noexcept { return counter_.counts(); }
    [[nodiscard]] queue_side& side() const noexcept { return *side_; }
    [[nodiscard]] const queue_side& producer() const noexcept { return *producer_; }
    [[nodiscard]] std::optional<errc> fault() const noexcept { return fault_.get(); }

 private:
    // Any position masked lies in the ring, whatever a peer does.
    [[nodiscard]] ring_word look() const noexcept {
        const auto& word = *reinterpret_cast<const std::atomic<std::uint64_t>*>(ring_ + (cursor_ & (capacity_ - 1)));
        // R1, pairs with W1. Weaker would let payload bytes be read before the word that vouches for them.
        return ring_decode(word.load(std::memory_order_acquire), ring_room(cursor_, capacity_));
    }
    /// Whether the producer can have come that far: the stored tail is one transaction behind at most. Asked once a
    /// lap, so that a damaged word cannot have us go round over the messages of former laps for ever.
    bool plausible(std::uint64_t end) noexcept {
        plausible_ = producer_->position.load(std::memory_order_acquire) + capacity_;  // pairs with W3
        return end <= plausible_;
    }
    queue_message damaged() noexcept {
        record_ = 0;
        fault_.set(errc::corrupt);
        return {outcome::corrupt, 0, 0, {}};
    }

    void recover(const std::string& subject) {
        const auto refuse = [&](const std::string& what) {
            throw error(errc::corrupt, subject,
                        what + "; no crash does this: restore the segment and its peers file, or recreate the queue");
        };
        // Acquire, pairs with W2 of a predecessor that is a thread of this process (in tests), and with W3.
        released_ = side_->position.load(std::memory_order_acquire);
        const std::uint64_t tail = producer_->position.load(std::memory_order_acquire);
        if (released_ % ring_word_bytes != 0) refuse("the queue's head is not a multiple of 8");
        // A producer that died before W3 stands one transaction behind its true tail, and we may have read that.
        const std::uint64_t apart = tail > released_ ? tail - released_ : released_ - tail;
        if (apart > capacity_ - ring_word_bytes)
            refuse(holdfast::detail::concat("the queue's head ", released_, " and tail ", tail, " contradict"));
        const auto counter = queue_counter::at(*side_, released_);
        if (!counter) refuse(holdfast::detail::concat("no counts belong to the queue's head ", released_));
        counter_ = *counter;
        cursor_ = released_;
        plausible_ = tail + capacity_;
        // Relaxed: of a predecessor that sleeps no more; a producer that reads it late rings once for nobody.
        side_->waiting.store(0, std::memory_order_relaxed);
    }

    queue_side* side_ = nullptr;
    const queue_side* producer_ = nullptr;
    const std::byte* ring_ = nullptr;
    std::uint64_t capacity_ = 0;
    std::uint64_t released_ = 0;   // the stored head
    std::uint64_t cursor_ = 0;     // where the next record is looked for
    std::uint64_t plausible_ = 0;  // no record ends behind this
    std::uint64_t record_ = 0;     // bytes of the record that front() gave; 0 = none
    std::uint64_t length_ = 0;     // of its payload
    queue_counts passed_;          // behind the cursor, not released
    queue_counter counter_;
    holdfast::detail::fault_latch fault_;
};

}  // namespace holdfast::layout
