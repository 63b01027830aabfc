// SPDX-License-Identifier: Apache-2.0
// queue_layout.hpp - where everything of a queue lies: what each of the two sides writes, and the ring.
//
// Layout v1 of the segment's body (little-endian)
//   offset  bytes  field            written by
//        0    256  producer side    producer (queue_side)
//      256    256  consumer side    consumer, where the kind of memory has no NAME.peers (heap:); else unused
//      512      8  producer here    producer: 1 while its handle lives; heap: only, elsewhere a lock says it
//      640      8  consumer here    consumer: likewise
//     4096      C  ring             producer; C = capacity (form bytes) or capacity * stride (form elements)
//
// NAME.peers has three slots of 128 bytes: 0 and 1 are the consumer side (slot 0's lock is the consumer's claim), slot
// 2 holds nothing but a lock, by which the consumer learns whether a producer lives.
//
// A side (queue_side)
//   offset  bytes  field
//        0      8  position   producer: tail, consumer: head. Bytes (form bytes) or elements (form elements) since ever
//        8     48  ledgers    two of {position, messages, bytes}: the one whose position is the side's tells the counts
//       56      8  refused    producer: claims refused for want of room
//       64      8  parked     times that this side went to sleep
//       72      8  rung       times that it woke the other side
//      128      8  waiting    not 0: this side sleeps or is about to; producer: the head that it needs
//      136      4  bell       futex word on which the other side sleeps; this side counts it up to wake it
// A side's first 128 bytes change with every message and nobody polls them; the other 128 are what the peer looks at.
//
// (I1) Form bytes: the ring's word at the true tail is 0 (not ready), and every word from head to it is a whole record.
//      The true tail is the producer's position or, if it died in between, what one walk along the words finds.
// (I2) head <= true tail; true tail + 8 - head <= capacity (form elements: tail - head <= capacity).
// (I3) One of a side's ledgers has the side's true position; if that is not the stored one, the other has the stored
//      one.
// (I4) Form bytes: positions are multiples of 8, and at each lies a record's word.
// (I5) Each word is stored by its own side alone: there is no shared read-modify-write and nothing to unlock.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <type_traits>

#include "holdfast/detail/concat.hpp"
#include "holdfast/error.hpp"
#include "holdfast/layout/ring_record.hpp"

namespace holdfast::layout {

struct queue_ledger {
    std::atomic<std::uint64_t> position;
    std::atomic<std::uint64_t> messages;
    std::atomic<std::uint64_t> bytes;
};

struct queue_side {
    std::atomic<std::uint64_t> position;
    std::array<queue_ledger, 2> ledgers;
    std::atomic<std::uint64_t> refused;
    std::atomic<std::uint64_t> parked;
    std::atomic<std::uint64_t> rung;
    std::array<std::byte, 48> padding_position;
    std::atomic<std::uint64_t> waiting;
    std::atomic<std::uint32_t> bell;
    std::array<std::byte, 116> padding_waiting;
};

static_assert(std::atomic<std::uint64_t>::is_always_lock_free && std::atomic<std::uint32_t>::is_always_lock_free);
static_assert(sizeof(queue_ledger) == 24 && sizeof(queue_side) == 256 && std::is_standard_layout_v<queue_side>);
static_assert(offsetof(queue_side, ledgers) == 8 && offsetof(queue_side, refused) == 56);
static_assert(offsetof(queue_side, parked) == 64 && offsetof(queue_side, rung) == 72);
static_assert(offsetof(queue_side, waiting) == 128 && offsetof(queue_side, bell) == 136);

inline constexpr std::uint64_t queue_producer_offset = 0;
inline constexpr std::uint64_t queue_consumer_offset = 256;
inline constexpr std::uint64_t queue_producer_here_offset = 512;
inline constexpr std::uint64_t queue_consumer_here_offset = 640;
inline constexpr std::uint64_t queue_ring_offset = 4096;

inline constexpr std::uint32_t queue_peer_slots = 3;
inline constexpr std::uint32_t queue_consumer_slot = 0;  ///< and the one behind it
inline constexpr std::uint32_t queue_producer_slot = 2;

inline constexpr std::uint64_t queue_elements_max = std::uint64_t{1} << 32U;
inline constexpr std::uint64_t queue_stride_max = std::uint64_t{1} << 20U;

/// How messages lie in the ring. The numbers are part of the layout.
enum class queue_form : std::uint64_t {
    bytes = 1,     ///< records of any size (ring_record.hpp); the record's word is the commit point
    elements = 2,  ///< slots of one size; the tail is the commit point
};

/// The immutable numbers of a queue.
struct queue_geometry {
    queue_form form = queue_form::bytes;
    std::uint64_t capacity = 0;  ///< a power of two: bytes, or elements
    std::uint64_t stride = 1;    ///< bytes of an element's slot, a multiple of 8; 1 for form bytes
    bool rings = true;           ///< whether sleepers are woken; else they look again at intervals

    [[nodiscard]] constexpr std::uint64_t ring_bytes() const noexcept { return capacity * stride; }
    [[nodiscard]] constexpr std::uint64_t body_bytes() const noexcept { return queue_ring_offset + ring_bytes(); }
    /// The first words of a segment's geometry.
    [[nodiscard]] constexpr std::array<std::uint64_t, 4> words() const noexcept {
        return {static_cast<std::uint64_t>(form), capacity, stride, rings ? std::uint64_t{1} : std::uint64_t{0}};
    }

    /// A ring of at least `bytes` bytes. Throws: error(invalid_argument).
    static queue_geometry of_bytes(std::uint64_t bytes, bool rings, const std::string& subject) {
        if (bytes == 0 || bytes > ring_capacity_max)
            throw error(errc::invalid_argument, subject,
                        holdfast::detail::concat("a queue's ring has 1 to 2^32 bytes, not ", bytes,
                                                 "; take at least twice the largest message"));
        return {queue_form::bytes, power_of_two(bytes, ring_capacity_min), 1, rings};
    }
    /// A ring of at least `elements` slots for elements of `element_bytes` bytes. Throws: error(invalid_argument).
    static queue_geometry of_elements(std::uint64_t elements, std::uint64_t element_bytes, bool rings,
                                      const std::string& subject) {
        if (elements == 0 || elements > queue_elements_max || element_bytes == 0 || element_bytes > queue_stride_max)
            throw error(
                errc::invalid_argument, subject,
                holdfast::detail::concat("a queue has 1 to 2^32 elements of 1 to 2^20 bytes, not ", elements, " of ",
                                         element_bytes, "; larger records belong into a queue of bytes"));
        return {queue_form::elements, power_of_two(elements, 2), ring_round_up(element_bytes), rings};
    }
    /// The geometry stored in a segment, checked against the `body_bytes` really mapped.
    /// Throws: error(geometry_mismatch).
    static queue_geometry parse(std::span<const std::uint64_t> words, std::uint64_t body_bytes,
                                const std::string& subject) {
        const auto refuse = [&](std::string why) {
            throw error(errc::geometry_mismatch, subject,
                        why.append("; the header is damaged: restore or recreate the queue"));
        };
        if (words.size() < 4) refuse("a queue's geometry has 4 words");
        if (words[0] != 1 && words[0] != 2) refuse(holdfast::detail::concat("the queue's form ", words[0], " is none"));
        if (words[3] > 1) refuse("the queue's flags are unknown");
        const queue_geometry g{static_cast<queue_form>(words[0]), words[1], words[2], words[3] == 1};
        const bool possible = g.form == queue_form::bytes ? ring_capacity_valid(g.capacity) && g.stride == 1
                                                          : g.capacity >= 2 && g.capacity <= queue_elements_max &&
                                                                (g.capacity & (g.capacity - 1)) == 0 && g.stride >= 8 &&
                                                                g.stride <= queue_stride_max && g.stride % 8 == 0;
        if (!possible)
            refuse(holdfast::detail::concat("no queue has a capacity of ", g.capacity, " and a stride of ", g.stride));
        if (g.body_bytes() != body_bytes)
            refuse(holdfast::detail::concat("header describes ", g.body_bytes(), " bytes, there are ", body_bytes));
        return g;
    }

 private:
    [[nodiscard]] static constexpr std::uint64_t power_of_two(std::uint64_t least, std::uint64_t start) noexcept {
        std::uint64_t power = start;
        while (power < least) power *= 2;
        return power;
    }
};
// The largest ring that parse() admits has 2^52 bytes, so none of the products above can wrap.
static_assert(queue_elements_max * queue_stride_max == std::uint64_t{1} << 52U);

/// What a side counted up to a position.
struct queue_counts {
    std::uint64_t messages = 0;
    std::uint64_t bytes = 0;
    friend bool operator==(const queue_counts&, const queue_counts&) = default;
};

/// The side's ledgers, as their owner keeps them: the counts for a position are stored before the position becomes
/// true, into the ledger that is not the current one. So a death at any store leaves the right counts for either
/// position (I3).
class queue_counter {
 public:
    queue_counter() = default;
    /// Finds the ledger of `position`. Nothing when neither has it: no crash does that. While its owner works it may
    /// mix two counts: believe it only if, behind an acquire fence, the side's position is still the same.
    [[nodiscard]] static std::optional<queue_counter> at(const queue_side& side, std::uint64_t position) noexcept {
        for (unsigned i = 0; i < 2; ++i) {
            // Acquire, pairs with W5 in announce(): the counts that belong to this position.
            if (side.ledgers[i].position.load(std::memory_order_acquire) != position) continue;
            queue_counter found;
            found.current_ = i;
            found.counts_.messages = side.ledgers[i].messages.load(std::memory_order_relaxed);  // relaxed: see above
            found.counts_.bytes = side.ledgers[i].bytes.load(std::memory_order_relaxed);        // likewise
            return found;
        }
        return std::nullopt;
    }
    [[nodiscard]] const queue_counts& counts() const noexcept { return counts_; }

    /// Writes what will be true once the side stands at `position`.
    void announce(queue_side& side, std::uint64_t position, const queue_counts& more) noexcept {
        // What follows must not be seen before the last commit: this ledger was true until then. Pairs with the fence
        // of who copies it and then finds the position unchanged. (The processor retires stores in program order,
        // which is what a kill cuts.)
        std::atomic_thread_fence(std::memory_order_release);
        current_ ^= 1U;
        counts_.messages += more.messages;
        counts_.bytes += more.bytes;
        queue_ledger& ledger = side.ledgers[current_];
        // Relaxed: released by W5. A death between these leaves a ledger whose position is long past: nobody's.
        ledger.messages.store(counts_.messages, std::memory_order_relaxed);
        ledger.bytes.store(counts_.bytes, std::memory_order_relaxed);
        // W5, pairs with the acquire in at(). Weaker: a successor could find the position with the counts before it.
        ledger.position.store(position, std::memory_order_release);
    }

 private:
    unsigned current_ = 0;
    queue_counts counts_;
};

/// Adds one to a word that only the caller writes.
inline void add_one(std::atomic<std::uint64_t>& own) noexcept {
    // Relaxed: ours alone to write, so a load and a store will do, and nothing hangs on it.
    own.store(own.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

}  // namespace holdfast::layout
