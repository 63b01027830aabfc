// SPDX-License-Identifier: Apache-2.0
// queue_write.hpp - the producer of a queue of bytes, over plain bytes. One producer; who that is, the lease has
// settled.
//
// A transaction is one message or a batch: records from `start`, the published tail, to `cursor`. Its stores, and what
// a death right after each leaves
//   1 payloads, and words of all records but the first   behind a word that is 0: nobody looks there      before
//   2 zero word at `cursor`                              in free space: the word that will end the walk   before
//   3 the other ledger: counts, then its position (W5)   counts for a position that is not true yet       before
//   4 word of the first record (W1)                      published, all of it                             after
//   5 position = cursor (W3)                             the same; the walk has nothing left to do        after
//   6 bell + 1, and the system call that wakes           a consumer that slept on looks by itself soon    after
// Step 4 is the only commit point. recover() walks from the stored position while words are not 0, at most to the end
// of the one transaction that step 5 missed, and does step 5; run twice it does what it does once. A message or batch
// is thus delivered whole or not at all, and an open claim of a dead producer is simply free space.
//
// Synchronisation (R in queue_read.hpp unless said)
//   W1 first word    release   R1 word at the head      acquire   the consumer sees all of the transaction, and the 0
//                                                                 behind it
//   fence (long_copy.hpp)      of payloads that went past the caches, before W1: its release does not cover them
//   W3 position      release   observers' loads         acquire   what lies before it
//   R2 consumer's position  acquire  (here)  W2         release   the consumer is done with what we overwrite
//   fence seq_cst, then consumer.waiting (here)   W4 waiting seq_cst, then R1   Dekker: we see the sleeper or it sees
//   W1
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
#include "holdfast/detail/shared_copy.hpp"
#include "holdfast/layout/queue_layout.hpp"
#include "holdfast/outcome.hpp"

namespace holdfast {

/// Room for a message, to be filled in place. Valid until commit, discard or the next claim.
struct queue_claim {
    outcome status = outcome::ok;
    std::uint64_t count = 0;  ///< too_large: the largest possible
    std::span<std::byte> bytes{};
    [[nodiscard]] explicit operator bool() const noexcept { return status == outcome::ok; }
};

}  // namespace holdfast

namespace holdfast::layout {

class queue_write_core {
 public:
    queue_write_core() = default;

    /// Takes over the body: freshly zeroed, or left by a producer that died at any instruction.
    /// Requires: `geometry` validated against body.size(), form bytes; body aligned to 64 bytes; no other producer;
    /// `consumer` outlives this. Throws: error(corrupt) when the positions break an invariant no crash can break.
    queue_write_core(std::span<std::byte> body, const queue_geometry& geometry, const queue_side& consumer,
                     const std::string& subject)
        : side_(reinterpret_cast<queue_side*>(body.data() + queue_producer_offset)),
          consumer_(&consumer),
          ring_(body.data() + queue_ring_offset),
          capacity_(geometry.capacity),
          long_copies_(geometry.rings) {
        recover(subject);
    }

    /// Room for a message of up to `length` bytes; drops an earlier claim.
    [[nodiscard]] queue_claim try_claim(std::uint64_t length) noexcept {
        const place found = place_for(length);
        if (found.status != outcome::ok) return {found.status, found.count, {}};
        claim_ = open_claim{cursor_ + found.skip, found.skip, length};
        return {outcome::ok, 0, {at(claim_->position) + ring_word_bytes, static_cast<std::size_t>(length)}};
    }

    /// Publishes the first `length` bytes of the claim, or adds them to the open batch.
    result commit(std::uint64_t length, std::uint16_t type) noexcept {
        if (!claim_ || length > claim_->length) return {outcome::not_claimed, 0};
        put_words(claim_->skip, length, type);
        claim_.reset();
        return pass(length);
    }
    /// A claim, a copy and the commit in one. Returns: as try_claim; ok and the message's bytes.
    ///
    /// A processor has few of the lines that the consumer has read on their way at once, and each store that goes
    /// elsewhere takes the place of one: so the copy is no call, and nothing is stored that can stay in a register
    /// (docs/design/0014-queue.md).
    result append(std::span<const std::byte> message, std::uint16_t type) noexcept {
        const place found = place_for(message.size());
        if (found.status != outcome::ok) return {found.status, found.count};
        std::byte* const payload = at(cursor_ + found.skip) + ring_word_bytes;
        if (message.size() >= holdfast::detail::long_copier::least_bytes) [[unlikely]]
            long_copies_.copy(payload, message.data(), message.size());
        else
            holdfast::detail::copy_to_own(payload, message.data(), message.size());
        put_words(found.skip, message.size(), type);
        return pass(message.size());
    }
    /// Drops the claim; a batch keeps what was committed to it.
    void discard() noexcept { claim_.reset(); }

    /// From here on commits add to a transaction that commit_batch() publishes as one. False when one is open already.
    bool begin_batch() noexcept {
        if (batch_) return false;
        discard();
        batch_ = true;
        return true;
    }
    /// Returns: ok and the messages published; not_claimed without a batch.
    result commit_batch() noexcept {
        if (!batch_) return {outcome::not_claimed, 0};
        discard();
        batch_ = false;
        const std::uint64_t messages = open_.messages;
        if (messages != 0) publish();
        return {outcome::ok, messages};
    }
    /// Drops the batch: nothing of it was visible.
    void discard_batch() noexcept {
        discard();
        long_copies_.fence();  // whoever uses the space next may be another thread
        batch_ = false;
        cursor_ = start_;
        open_ = {};
    }
    [[nodiscard]] bool in_batch() const noexcept { return batch_; }

    /// Whether the consumer sleeps and is to be woken. Cost: a full fence and a load of a line that seldom changes.
    [[nodiscard]] bool sleeper() const noexcept {
        // Dekker with W4: our W1 is visible before we look. Weaker: both sides could miss each other, and the consumer
        // would sleep on until its next look by itself.
        std::atomic_thread_fence(std::memory_order_seq_cst);
        return consumer_->waiting.load(std::memory_order_relaxed) != 0;  // relaxed: behind the fence
    }

    /// The head that the consumer must reach before a claim of `length` can succeed (Requires: it can), with an eighth
    /// of the ring free: waking for every single record would cost a system call each. 0 when there is room already.
    [[nodiscard]] std::uint64_t head_needed(std::uint64_t length) noexcept {
        const std::uint64_t end = extent_of(length).end;
        if (make_room(end) != outcome::full) return 0;
        const std::uint64_t least = end + ring_word_bytes - capacity_;
        const std::uint64_t eighth = start_ > capacity_ - capacity_ / 8 ? start_ - (capacity_ - capacity_ / 8) : 0;
        return least > eighth ? least : eighth;
    }

    /// Whether a claim of `length` can ever succeed; false also for what is too long for the rest of an open batch.
    [[nodiscard]] bool can_fit(std::uint64_t length) const noexcept {
        return length <= ring_message_max(capacity_) && extent_of(length).end + ring_word_bytes - start_ <= capacity_;
    }
    /// The longest message that can: outside a batch the ring's own limit.
    [[nodiscard]] std::uint64_t longest() const noexcept {
        const std::uint64_t limit = ring_message_max(capacity_);
        if (cursor_ == start_) return limit;
        const std::uint64_t left = capacity_ - ring_word_bytes - (cursor_ - start_);
        const std::uint64_t room = ring_room(cursor_, capacity_);
        const std::uint64_t here = left < room ? left : room;
        const std::uint64_t there = left > room ? left - room : 0;
        const std::uint64_t most = here > there ? here : there;
        return most < ring_word_bytes ? 0 : most - ring_word_bytes < limit ? most - ring_word_bytes : limit;
    }

    [[nodiscard]] std::uint64_t tail() const noexcept { return start_; }
    [[nodiscard]] std::uint64_t capacity() const noexcept { return capacity_; }
    [[nodiscard]] const queue_counts& counts() const noexcept { return counter_.counts(); }
    [[nodiscard]] queue_side& side() const noexcept { return *side_; }
    [[nodiscard]] const queue_side& consumer() const noexcept { return *consumer_; }
    [[nodiscard]] std::optional<errc> fault() const noexcept { return fault_.get(); }
    /// How long messages are copied. Requires: no open batch.
    [[nodiscard]] holdfast::detail::long_copier& long_copies() noexcept { return long_copies_; }

 private:
    struct open_claim {
        std::uint64_t position;
        std::uint64_t skip;  // bytes skipped before it
        std::uint64_t length;
    };

    struct extent {
        std::uint64_t skip;  // bytes to the end of the ring, where the record does not fit before it
        std::uint64_t end;   // position behind the record
    };
    [[nodiscard]] extent extent_of(std::uint64_t length) const noexcept {
        const std::uint64_t record = ring_record_bytes(length);
        const std::uint64_t room = ring_room(cursor_, capacity_);
        const std::uint64_t skip = room < record ? room : 0;
        return {skip, cursor_ + skip + record};
    }

    struct place {
        outcome status = outcome::ok;
        std::uint64_t count = 0;  // too_large: as try_claim
        std::uint64_t skip = 0;   // bytes to the end of the ring, where the record does not fit before it
    };
    /// Room for a record of that many bytes behind the cursor. An earlier claim is dropped.
    [[nodiscard]] place place_for(std::uint64_t length) noexcept {
        discard();
        if (!can_fit(length)) [[unlikely]]
            return {outcome::too_large, longest()};
        const auto [skip, end] = extent_of(length);
        const outcome room = make_room(end);
        if (room == outcome::full) add_one(side_->refused);
        return {room, 0, skip};
    }

    // Any position masked lies in the ring, whatever a peer does.
    [[nodiscard]] std::byte* at(std::uint64_t position) const noexcept { return ring_ + (position & (capacity_ - 1)); }
    [[nodiscard]] std::atomic<std::uint64_t>& word(std::uint64_t position) const noexcept {
        return *reinterpret_cast<std::atomic<std::uint64_t>*>(at(position));
    }
    /// The words of a record behind the cursor, which goes behind it.
    void put_words(std::uint64_t skip, std::uint64_t length, std::uint16_t type) noexcept {
        if (skip != 0) put(cursor_, ring_skip_word(skip));
        put(cursor_ + skip, ring_message_word(length, type));
        cursor_ += skip + ring_record_bytes(length);
    }
    /// Counts a message in front of the cursor, and publishes it unless it is one of a batch.
    result pass(std::uint64_t length) noexcept {
        ++open_.messages;
        open_.bytes += length;
        if (!batch_) publish();
        return {outcome::ok, length};
    }
    // The first word of the transaction waits for W1.
    void put(std::uint64_t position, std::uint64_t value) noexcept {
        if (position == start_)
            first_ = value;
        else
            word(position).store(value, std::memory_order_relaxed);  // relaxed: published by W1
    }

    void publish() noexcept {
        long_copies_.fence();  // before W1, whose release does not cover stores past the caches
        // Relaxed: published by W1. It is in space that make_room() found free.
        word(cursor_).store(0, std::memory_order_relaxed);
        counter_.announce(*side_, cursor_, open_);
        // W1, pairs with R1. Weaker would let the consumer find the word before payloads, words and the 0 behind them.
        word(start_).store(first_, std::memory_order_release);
        // W3, pairs with the observers' acquire. A successor starts its walk here.
        side_->position.store(cursor_, std::memory_order_release);
        start_ = cursor_;
        open_ = {};
    }

    /// Whether the space up to `end` and the word behind it are free.
    [[nodiscard]] outcome make_room(std::uint64_t end) noexcept {
        if (end + ring_word_bytes - head_seen_ <= capacity_) return outcome::ok;
        // R2, pairs with W2. Weaker would let us overwrite bytes that the consumer is still reading.
        const std::uint64_t head = consumer_->position.load(std::memory_order_acquire);
        // (I2, I4) and heads only grow. A head that breaks this is not followed: we neither overwrite nor wait for it.
        if (head < head_seen_ || head > start_ || head % ring_word_bytes != 0) {
            fault_.set(errc::corrupt);
            return outcome::corrupt;
        }
        head_seen_ = head;
        return end + ring_word_bytes - head_seen_ <= capacity_ ? outcome::ok : outcome::full;
    }

    void recover(const std::string& subject) {
        const auto damaged = [&](const std::string& what) {
            throw error(errc::corrupt, subject,
                        what + "; no crash does this: restore the segment from a copy, or remove and recreate it");
        };
        // Acquire on both: the predecessor may still be a thread of this process, in tests; between processes the lease
        // orders its stores before ours. Pairs with W3 and with W2.
        start_ = side_->position.load(std::memory_order_acquire);
        const std::uint64_t stored = start_;
        head_seen_ = consumer_->position.load(std::memory_order_acquire);
        if (stored % ring_word_bytes != 0 || head_seen_ % ring_word_bytes != 0)
            damaged("a position of the queue is not a multiple of 8");
        for (;;) {
            // Acquire, pairs with W1 of the predecessor.
            const std::uint64_t value = word(start_).load(std::memory_order_acquire);
            const ring_word found = ring_decode(value, ring_room(start_, capacity_));
            if (found.kind == ring_word_kind::not_ready) break;
            if (found.kind == ring_word_kind::corrupt || start_ + found.bytes - stored > capacity_ - ring_word_bytes)
                damaged(holdfast::detail::concat("the queue's record at position ", start_, " is none"));
            start_ += found.bytes;
        }
        if (head_seen_ > start_ || start_ - head_seen_ > capacity_ - ring_word_bytes)
            damaged(holdfast::detail::concat("the queue's head ", head_seen_, " and tail ", start_, " contradict"));
        const auto counter = queue_counter::at(*side_, start_);
        if (!counter) damaged(holdfast::detail::concat("no counts belong to the queue's tail ", start_));
        // The position was true before the last transaction, so the other ledger has it (I3).
        if (start_ != stored && !queue_counter::at(*side_, stored))
            damaged(holdfast::detail::concat("no counts belong to the queue's stored tail ", stored));
        counter_ = *counter;
        cursor_ = start_;
        // W3, pairs with the observers' acquire, in place of the predecessor.
        if (start_ != stored) side_->position.store(start_, std::memory_order_release);
        // Relaxed: of a predecessor that sleeps no more; a consumer that reads it late rings once for nobody.
        side_->waiting.store(0, std::memory_order_relaxed);
    }

    queue_side* side_ = nullptr;
    const queue_side* consumer_ = nullptr;
    std::byte* ring_ = nullptr;
    std::uint64_t capacity_ = 0;
    std::uint64_t start_ = 0;      // the published tail
    std::uint64_t cursor_ = 0;     // where the next record goes; start_ unless a batch is open
    std::uint64_t head_seen_ = 0;  // the consumer's head when last looked at
    std::uint64_t first_ = 0;      // the word that publishes the open transaction
    queue_counts open_;            // what the open transaction adds
    queue_counter counter_;
    std::optional<open_claim> claim_;
    bool batch_ = false;
    holdfast::detail::fault_latch fault_;
    holdfast::detail::long_copier long_copies_;
};

}  // namespace holdfast::layout
