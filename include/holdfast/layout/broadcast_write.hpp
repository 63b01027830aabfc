// SPDX-License-Identifier: Apache-2.0
// broadcast_write.hpp - publishing into a broadcast ring's plain bytes. One writer; who that is, the caller has settled
// (lease).
//
// A publish, store by store, and what a death right after it leaves (the tail is where the next record begins)
//   1 horizon (W1), only when a stride is entered      less history                                        before
//   2 payload                                          bytes behind the tail, which no chain reaches       before
//   3 words of the chain but its first; 0 behind it    the same: the word at the tail is still 0           before
//   4 the chain's first word (W3)                      published                                           after
//   5 for each stride entered: tag 0, position,        the newest entries are missing, or one has no tag:
//     sequence, time, tag (W4)                         recover() writes them                               after
//   6 takeover: epoch + 1 (W5)                         a number too high                                   after
// A chain is one record, a batch, or either with the skip that takes it to the front of the ring: its first word is the
// only commit point. recover() walks from the newest whole entry to the tail, at most a stride and a chain; it changes
// nothing a reader could be reading, and run twice it does what it does once. Invariants: broadcast_layout.hpp.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "holdfast/detail/concat.hpp"
#include "holdfast/detail/long_copy.hpp"
#include "holdfast/detail/shared_copy.hpp"
#include "holdfast/layout/broadcast_gate.hpp"
#include "holdfast/layout/broadcast_view.hpp"
#include "holdfast/outcome.hpp"

namespace holdfast {

/// Room for a message, to be filled in place. True in a condition when there is some.
struct broadcast_claim {
    outcome status = outcome::full;
    std::uint64_t count = 0;  ///< too_large: bytes of the longest message possible behind what is staged
    std::span<std::byte> bytes{};
    [[nodiscard]] explicit operator bool() const noexcept { return status == outcome::ok; }
};

}  // namespace holdfast

namespace holdfast::layout {

/// From whom a writer has its ring. Of one that it has just made readers may know already: they are told of no
/// takeover.
enum class ring_origin : std::uint8_t { predecessor, just_made };

/// The writer over bytes. Where it stands it keeps privately: stored bytes decide only in recover().
class broadcast_write_core {
 public:
    broadcast_write_core() = default;

    /// Makes zeroed bytes an empty ring. Requires: as the constructor.
    static void format(std::span<std::byte> body, const broadcast_geometry& geometry, std::uint64_t now_ns) noexcept {
        // Relaxed: nobody else has the bytes yet.
        reinterpret_cast<broadcast_control*>(body.data())->epoch.store(1, std::memory_order_relaxed);
        write_entry(*reinterpret_cast<broadcast_entry*>(body.data() + geometry.entry_offset(0)), 0, {0, 1, now_ns});
    }

    /// Takes over a ring: formatted, or left by a writer that died at any instruction.
    /// Requires: `geometry` validated against body.size(); body aligned to 64 bytes; no other writer.
    /// Throws: error(corrupt) when something else than a crash damaged the bytes.
    broadcast_write_core(std::span<std::byte> body, const broadcast_geometry& geometry, const broadcast_clocks& clocks,
                         const std::string& subject, ring_origin origin = ring_origin::predecessor)
        : base_(body.data()),
          view_(body, geometry),
          gate_(body.data(), geometry, clocks),
          clocks_(clocks),
          message_max_(geometry.message_max()) {
        entered_.reserve(static_cast<std::size_t>(geometry.chain_max() / geometry.stride) + 4);
        recover(subject, origin);
    }

    [[nodiscard]] const broadcast_view& view() const noexcept { return view_; }
    [[nodiscard]] std::uint64_t tail() const noexcept { return tail_; }
    /// The number of the message last published; 0 before the first.
    [[nodiscard]] std::uint64_t published() const noexcept { return sequence_ - 1; }
    /// Messages staged and not yet published.
    [[nodiscard]] std::uint64_t staged() const noexcept { return staged_; }

    /// Opens room for a message of up to `bytes` behind what is staged; drops an earlier claim.
    /// Returns: ok; too_large (of a message, or of a batch with it); full (a registered reader is in the way).
    template <broadcast_slots Slots>
    [[nodiscard]] broadcast_claim claim(std::uint64_t bytes, Slots& slots) {
        const place found = place_for(bytes, slots);
        if (found.status != outcome::ok) return {found.status, found.count, {}};
        claimed_at_ = found.begin;
        claimed_ = bytes + 1;
        return {outcome::ok, 0, {mutable_at(found.begin) + ring_word_bytes, static_cast<std::size_t>(bytes)}};
    }

    /// The longest message that fits behind what is staged, whoever is in the way; 0 also when none does.
    [[nodiscard]] std::uint64_t longest() const noexcept {
        const std::uint64_t left = view_.geometry().chain_max() - (end_ - tail_);
        const std::uint64_t room = ring_room(end_, view_.geometry().capacity);
        // Up to the end of the ring, or from its front on, behind a skip that counts too.
        const std::uint64_t record = std::max(std::min(left, room), left > room ? left - room : 0);
        return record < ring_word_bytes ? 0 : std::min(record - ring_word_bytes, message_max_);
    }

    /// Makes the first `bytes` bytes of the claim the next message of the batch. Returns: ok, or not_claimed.
    [[nodiscard]] outcome stage(std::uint64_t bytes, std::uint16_t type) noexcept {
        if (bytes >= claimed_) return outcome::not_claimed;
        claimed_ = 0;
        put_record(claimed_at_, bytes, type);
        return outcome::ok;
    }

    /// Publishes what is staged, all at once. Returns: ok with the messages published, or not_claimed.
    [[nodiscard]] result commit() noexcept {
        if (staged_ == 0) return {outcome::not_claimed, 0};
        const std::uint64_t count = staged_;
        long_copies_.fence();  // before W3, whose release does not cover stores past the caches
        // W2. Relaxed: published by W3. Without it the word behind the chain would be some payload of an earlier lap.
        word_at(end_).store(0, std::memory_order_relaxed);
        // W3, pairs with R1. Weaker would let a reader find the word before the payload or the 0 behind.
        word_at(tail_).store(first_word_, std::memory_order_release);
        tail_ = end_;
        sequence_ += count;
        staged_ = 0;
        claimed_ = 0;
        if (!entered_.empty()) [[unlikely]]
            write_index();
        return {outcome::ok, count};
    }

    /// How long messages are copied. Requires: nothing staged.
    [[nodiscard]] holdfast::detail::long_copier& long_copies() noexcept { return long_copies_; }

    /// What registered readers sleep on, and what tells them that we sleep. Ours alone to store.
    [[nodiscard]] std::atomic<std::uint32_t>& bell() noexcept { return control().bell; }
    [[nodiscard]] std::atomic<std::uint32_t>& blocked() noexcept { return control().blocked; }

    /// Forgets the claim and what is staged; none of it was ever visible.
    void discard() noexcept {
        long_copies_.fence();  // whoever uses the space next may be another thread
        end_ = tail_;
        staged_ = 0;
        claimed_ = 0;
        entered_.clear();
    }

    /// Copies a message behind what is staged. Returns: ok, too_large or full, as claim.
    /// As few other stores as can be: see queue_write_core::append().
    template <broadcast_slots Slots>
    [[nodiscard]] result append(std::span<const std::byte> message, std::uint16_t type, Slots& slots) {
        const place found = place_for(message.size(), slots);
        if (found.status != outcome::ok) return {found.status, found.count};
        std::byte* const payload = mutable_at(found.begin) + ring_word_bytes;
        if (message.size() >= holdfast::detail::long_copier::least_bytes) [[unlikely]]
            long_copies_.copy(payload, message.data(), message.size());
        else
            holdfast::detail::copy_to_shared(payload, message.data(), message.size());
        put_record(found.begin, message.size(), type);
        return {outcome::ok, message.size()};
    }

 private:
    [[nodiscard]] broadcast_control& control() noexcept { return *reinterpret_cast<broadcast_control*>(base_); }
    [[nodiscard]] std::byte* mutable_at(std::uint64_t position) noexcept {
        return base_ + (view_.at(position) - base_);
    }
    [[nodiscard]] std::atomic<std::uint64_t>& word_at(std::uint64_t position) noexcept {
        return *reinterpret_cast<std::atomic<std::uint64_t>*>(mutable_at(position));
    }

    struct place {
        outcome status = outcome::ok;
        std::uint64_t count = 0;  ///< too_large: as claim
        std::uint64_t begin = 0;  ///< of the record
    };
    /// Where a record for that many bytes goes, whose strides may be overwritten now. An earlier claim is dropped.
    template <broadcast_slots Slots>
    [[nodiscard]] place place_for(std::uint64_t bytes, Slots& slots) {
        claimed_ = 0;
        if (bytes > message_max_) [[unlikely]]
            return {outcome::too_large, longest()};
        const std::uint64_t record = ring_record_bytes(bytes);
        const std::uint64_t room = ring_room(end_, view_.geometry().capacity);
        const std::uint64_t begin = record > room ? end_ + room : end_;
        const std::uint64_t end = begin + record;
        if (end - tail_ > view_.geometry().chain_max()) [[unlikely]]
            return {outcome::too_large, longest()};
        if (end + ring_word_bytes > horizon_ && !raise(end + ring_word_bytes, slots)) [[unlikely]]
            return {outcome::full};
        return {outcome::ok, 0, begin};
    }
    /// The words of a record behind what is staged, a skip in front of it where it begins at the front of the ring.
    void put_record(std::uint64_t begin, std::uint64_t bytes, std::uint16_t type) {
        if (begin != end_) [[unlikely]] {
            put_word(end_, ring_skip_word(begin - end_));
            go_to(begin);
        }
        put_word(begin, ring_message_word(bytes, type));
        ++staged_;
        go_to(begin + ring_record_bytes(bytes));
    }

    void put_word(std::uint64_t position, std::uint64_t word) noexcept {
        if (position == tail_)
            first_word_ = word;  // the commit, which comes last
        else
            word_at(position).store(word, std::memory_order_relaxed);  // relaxed: published by W3
    }
    /// The next record will begin at `position`; notes whether that is the first of a stride.
    void go_to(std::uint64_t position) {
        const std::uint64_t stride = view_.geometry().stride_of(position);
        // No allocation: a chain enters no more strides than were reserved for.
        if (stride > (entered_.empty() ? newest_ : view_.geometry().stride_of(entered_.back().position)))
            entered_.push_back({position, sequence_ + staged_, 0});
        end_ = position;
    }

    template <broadcast_slots Slots>
    [[nodiscard, gnu::noinline]] bool raise(std::uint64_t needed, Slots& slots) {
        const std::uint64_t stride = view_.geometry().stride;
        const std::uint64_t target = (needed + stride - 1) / stride * stride;
        bool admitted = true;
        while (horizon_ < target) {
            if (slots.size() != 0 && !gate_.admits(target, horizon_, tail_, slots)) {
                // Ours alone to write; relaxed, for people.
                control().refused.store(control().refused.load(std::memory_order_relaxed) + 1,
                                        std::memory_order_relaxed);
                admitted = false;
                break;
            }
            horizon_ += slots.size() != 0 ? stride : target - horizon_;
            // W1, pairs with R2, and with R5 of broadcast_slots.hpp. seq_cst: the next scan (R4) must not be satisfied
            // before it is visible, or a reader could register where we are about to write. On x86-64 a locked
            // instruction or a full fence, which stores past the caches do not pass either.
            control().horizon.store(horizon_, std::memory_order_seq_cst);
        }
        // Keeps every store below the horizon, ours or the caller's plain ones, behind W1; pairs with the fence in
        // overrun(). Weaker: a reader could meet new bytes and still find the old horizon. Also when refused half way:
        // a shorter message may fit below the strides that were raised, without a raise of its own.
        std::atomic_thread_fence(std::memory_order_release);
        return admitted;
    }

    static void write_entry(broadcast_entry& entry, std::uint64_t stride, const broadcast_boundary& at) noexcept {
        // Relaxed: kept in front of what follows by the fence, which pairs with the one in boundary().
        entry.tag.store(0, std::memory_order_relaxed);
        std::atomic_thread_fence(std::memory_order_release);
        // Relaxed: published by W4, found torn by the tag.
        entry.position.store(at.position, std::memory_order_relaxed);
        entry.sequence.store(at.sequence, std::memory_order_relaxed);
        entry.time_ns.store(at.time_ns, std::memory_order_relaxed);
        // W4, pairs with R3. Weaker would let a reader find the tag before the entry.
        entry.tag.store(stride + 1, std::memory_order_release);
    }
    /// Entries for the strides that were entered, in order (I3).
    [[gnu::noinline]] void write_index() noexcept {
        // Monotone, whatever the clock does (I4).
        time_ns_ = std::max(time_ns_, clocks_.unix_ns());
        for (broadcast_boundary& at : entered_) {
            at.time_ns = time_ns_;
            for (const std::uint64_t last = view_.geometry().stride_of(at.position); newest_ < last;) {
                ++newest_;
                write_entry(*reinterpret_cast<broadcast_entry*>(base_ + view_.geometry().entry_offset(newest_)),
                            newest_, at);
            }
        }
        entered_.clear();
    }

    void recover(const std::string& subject, ring_origin origin);
    [[noreturn]] static void damaged(const std::string& subject, const std::string& what) {
        throw error(errc::corrupt, subject,
                    what + "; no crash does this: restore the segment from a copy, or remove and recreate it");
    }

    std::byte* base_ = nullptr;
    broadcast_view view_;
    broadcast_gate gate_;
    broadcast_clocks clocks_{};
    std::uint64_t message_max_ = 0;
    std::uint64_t horizon_ = 0;
    std::uint64_t tail_ = 0;        // where the chain begins
    std::uint64_t end_ = 0;         // where its next record will
    std::uint64_t sequence_ = 1;    // of the first message of the chain
    std::uint64_t staged_ = 0;      // messages of the chain
    std::uint64_t first_word_ = 0;  // the chain's first, stored at commit
    std::uint64_t claimed_at_ = 0;
    std::uint64_t claimed_ = 0;  // bytes + 1; 0: no claim
    std::uint64_t newest_ = 0;   // stride of the newest entry
    std::uint64_t time_ns_ = 0;  // of the newest entry
    std::vector<broadcast_boundary> entered_;
    holdfast::detail::long_copier long_copies_;
};

inline void broadcast_write_core::recover(const std::string& subject, ring_origin origin) {
    using holdfast::detail::concat;
    const broadcast_geometry& geometry = view_.geometry();
    // Acquire, as all loads of the view: the predecessor may still be a thread of this process, in tests; between
    // processes the lease orders its stores before ours.
    horizon_ = view_.horizon();
    if (horizon_ > broadcast_position_max || horizon_ % geometry.stride != 0)
        damaged(subject, concat("the ring's horizon is ", horizon_));
    const auto newest = view_.newest_stride(horizon_);
    const auto entry = newest ? view_.boundary(*newest) : std::nullopt;
    if (!entry) damaged(subject, concat("the ring's index has no entry below its horizon ", horizon_));
    const broadcast_boundary from = *entry;
    newest_ = *newest;
    time_ns_ = from.time_ns;
    sequence_ = from.sequence;
    tail_ = from.position;
    // As if everything behind the newest entry had just been staged: no store but the missing entries. One record may
    // lead over several strides, of which the last lack their entries: the walk begins with the entry's own position.
    go_to(from.position);
    const std::uint64_t limit = std::max(horizon_, ring_word_bytes);
    for (;;) {
        if (end_ + ring_word_bytes > limit || end_ - from.position > geometry.chain_max() + geometry.stride)
            damaged(subject, concat("the chain of records from position ", from.position, " has no end"));
        const ring_word record = view_.record_at(end_);
        if (record.kind == ring_word_kind::not_ready) break;
        const bool message = record.kind == ring_word_kind::message && record.length <= message_max_;
        if (!message && record.kind != ring_word_kind::skip)
            damaged(subject, concat("the record at position ", end_, " has an impossible word"));
        if (message) ++staged_;
        go_to(end_ + record.bytes);
    }
    tail_ = end_;
    sequence_ += staged_;
    staged_ = 0;
    if (!entered_.empty()) write_index();
    // A predecessor that died asleep. Relaxed: seen late it costs a reader a needless wake.
    if (control().blocked.load(std::memory_order_relaxed) != 0) control().blocked.store(0, std::memory_order_relaxed);
    // W5. Relaxed: published to readers by the first W3.
    if (origin == ring_origin::predecessor)
        control().epoch.store(control().epoch.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

}  // namespace holdfast::layout
