// SPDX-License-Identifier: Apache-2.0
// place.hpp - where the two sides of a queue find each other, who may take them, and how they wake each other. See
// queue.hpp.
//
// The consumer's side lies in slots 0 and 1 of NAME.peers; the lock on slot 0 is its claim. The producer's right is the
// segment's lease; beside it the producer holds the lock of slot 2, by which the consumer learns whether it lives
// (segment/writer_presence.hpp). heap: segments are one process and have no peers: there both sides lie in the body,
// with a flag each.
#pragma once

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "holdfast/layout/queue_layout.hpp"
#include "holdfast/memory/descriptor.hpp"
#include "holdfast/memory/waiting.hpp"
#include "holdfast/outcome.hpp"
#include "holdfast/peers.hpp"
#include "holdfast/segment.hpp"
#include "holdfast/segment/writer_presence.hpp"

namespace holdfast {

inline constexpr std::uint32_t queue_layout_version = 1;

/// What one side of a queue counted, exactly, also across kills.
struct queue_side_stats {
    std::uint64_t position = 0;  ///< bytes (queue) or elements (queue<T>) put in or released since ever
    std::uint64_t messages = 0;
    std::uint64_t bytes = 0;    ///< of payload
    std::uint64_t refused = 0;  ///< producer: tries that found no room. This and the following may miss the last before
                                ///< a kill
    std::uint64_t parked = 0;   ///< times it slept
    std::uint64_t rung = 0;     ///< times it woke the other side
    bool counted = true;  ///< false: no moment was met at which position and counts belonged together (looked at from
                          ///< outside, or damaged); messages and bytes are 0 then
};

namespace detail {

/// Throws: kind_mismatch, version_mismatch, geometry_mismatch.
[[nodiscard]] inline layout::queue_geometry queue_geometry_of(const segment& from, layout::queue_form form) {
    from.require(container_kind::queue, queue_layout_version);
    const auto geometry = layout::queue_geometry::parse(from.info().geometry, from.bytes().size(), from.uri());
    if (geometry.form != form)
        throw error(errc::kind_mismatch, from.uri(),
                    form == layout::queue_form::bytes
                        ? "the queue holds elements of one size; open it as queue<T>"
                        : "the queue holds messages of any size; open it as queue_producer or queue_consumer");
    if (from.info().peer_slots != layout::queue_peer_slots)
        throw error(errc::geometry_mismatch, from.uri(),
                    "the segment has not the slots of a queue's sides; restore it or make it anew");
    return geometry;
}

/// What every queue asks of a new segment.
[[nodiscard]] inline segment_spec queue_spec(const layout::queue_geometry& geometry) {
    segment_spec spec;
    spec.kind = container_kind::queue;
    spec.container_version = queue_layout_version;
    std::size_t i = 0;
    for (const std::uint64_t word : geometry.words()) spec.geometry[i++] = word;
    spec.body_bytes = geometry.body_bytes();
    spec.peer_slots = layout::queue_peer_slots;
    return spec;
}

/// A word of a heap: segment's body: 1 while a handle of this process has a role. Move-only.
class heap_flag {
 public:
    heap_flag() = default;
    heap_flag(heap_flag&& other) noexcept : word_(std::exchange(other.word_, nullptr)) {}
    heap_flag& operator=(heap_flag&&) = delete;
    ~heap_flag() {
        if (word_ != nullptr) word_->store(0, std::memory_order_release);  // pairs with the exchange in take()
    }
    [[nodiscard]] bool take(std::atomic<std::uint64_t>& word) noexcept {
        // Acquire-release: what the last holder stored under the role is seen by the next.
        if (word.exchange(1, std::memory_order_acq_rel) != 0) return false;
        word_ = &word;
        return true;
    }

 private:
    std::atomic<std::uint64_t>* word_ = nullptr;
};

/// One handle's place at a queue: its hold on its role and its way to the other side. Move-only.
class queue_place {
 public:
    /// The producer's. Requires: `of` attached read-write; it outlives this. `patience`: as show_presence(). Throws: as
    /// peers::open.
    [[nodiscard]] static queue_place of_producer(const segment& of, const memory::trust& whom,
                                                 std::chrono::nanoseconds patience = presence_patience_max) {
        queue_place result(of, whom, layout::queue_consumer_slot);
        if (result.table_)
            show_presence(of, *result.table_, layout::queue_producer_slot, patience);
        else
            (void)result.flag_.take(heap_word(of, layout::queue_producer_here_offset));
        return result;
    }
    /// The consumer's. Requires: `of` outlives this. Throws: writer_alive while another living consumer has it; io and
    /// others where the system cannot lock it; as peers::open.
    [[nodiscard]] static queue_place of_consumer(const segment& of, const memory::trust& whom,
                                                 std::uint64_t timeout_ns) {
        queue_place result(of, whom, layout::queue_producer_slot);
        const bool held = result.table_ ? hold_within(*result.table_, layout::queue_consumer_slot, timeout_ns)
                                        : result.flag_.take(heap_word(of, layout::queue_consumer_here_offset));
        // A lock that the system cannot give says nothing of another consumer.
        if (!held && result.table_ && errno != EAGAIN)
            memory::throw_errno(errno, of.uri(), "locking the consumer's place");
        if (!held)
            throw error(errc::writer_alive, of.uri(),
                        "another living consumer reads this queue and it has one at a time; end that first");
        return result;
    }

    [[nodiscard]] layout::queue_side& consumer() const noexcept { return *consumer_; }
    /// Whether a living process has the other role. Cost: a system call; for the consumer, as writer_lives().
    [[nodiscard]] bool other_lives() const noexcept {
        // Acquire, pairs with heap_flag.
        if (!table_) return other_word_->load(std::memory_order_acquire) != 0;
        return other_slot_ == layout::queue_producer_slot ? writer_lives(*segment_, *table_, other_slot_)
                                                          : table_->alive(other_slot_);
    }

 private:
    queue_place(const segment& of, const memory::trust& whom, std::uint32_t other_slot)
        : segment_(&of), other_slot_(other_slot) {
        if (of.name().kind == memory::kind::heap) {
            consumer_ = reinterpret_cast<layout::queue_side*>(heap_bytes(of) + layout::queue_consumer_offset);
            other_word_ =
                &heap_word(of, other_slot == layout::queue_producer_slot ? layout::queue_producer_here_offset
                                                                         : layout::queue_consumer_here_offset);
            return;
        }
        table_ = peers::open(of, whom);
        // Slots 0 and 1, one behind the other.
        consumer_ = reinterpret_cast<layout::queue_side*>(table_->slot(layout::queue_consumer_slot).data());
    }
    // heap: memory is mapped for writing whatever the handle, and is this process's own.
    [[nodiscard]] static std::byte* heap_bytes(const segment& of) noexcept {
        return const_cast<std::byte*>(of.bytes().data());
    }
    [[nodiscard]] static std::atomic<std::uint64_t>& heap_word(const segment& of, std::uint64_t offset) noexcept {
        return *reinterpret_cast<std::atomic<std::uint64_t>*>(heap_bytes(of) + offset);
    }

    const segment* segment_;
    std::optional<peers> table_;  // its descriptor holds the lock
    heap_flag flag_;
    layout::queue_side* consumer_ = nullptr;
    std::atomic<std::uint64_t>* other_word_ = nullptr;
    std::uint32_t other_slot_;
};
static_assert(sizeof(layout::queue_side) == 2 * peers::slot_bytes);

/// Wakes the other side if it sleeps. `core` is that of the side that has just committed.
template <class Core>
void ring_if_asleep(const Core& core, bool rings) noexcept {
    if (!rings || !core.sleeper()) return;
    layout::queue_side& own = core.side();
    layout::add_one(own.rung);
    // Release, pairs with the acquire in wait_until(): who sees the new count sees the commit. Ours alone to write.
    own.bell.store(own.bell.load(std::memory_order_relaxed) + 1, std::memory_order_release);
    memory::futex_wake(own.bell, 1);
}

/// Waits on the other side's bell, with `own.waiting` = `mark` while asleep.
template <class Ready>
[[nodiscard]] memory::wait_answer wait_on(const layout::queue_side& other, layout::queue_side& own, std::uint64_t mark,
                                          const queue_place& place, bool rings, std::chrono::nanoseconds timeout,
                                          Ready&& ready) noexcept {
    memory::wait_policy policy;
    policy.rung = rings;
    return memory::wait_until(
        other.bell, memory::deadline::after(timeout), policy, std::forward<Ready>(ready),
        [&] {
            layout::add_one(own.parked);
            // W4: announced before the last look (Dekker with the fence in sleeper()).
            own.waiting.store(mark, std::memory_order_seq_cst);
            std::atomic_thread_fence(std::memory_order_seq_cst);  // the look's loads stay behind W4
        },
        // Relaxed: seen late it costs the other side one needless ring.
        [&] { own.waiting.store(0, std::memory_order_relaxed); }, [&] { return !place.other_lives(); });
}

/// The answer of a wait for something that the other side, named `gone` if dead, must do.
[[nodiscard]] inline outcome outcome_of(memory::wait_answer answer, outcome gone) noexcept {
    switch (answer) {
        case memory::wait_answer::ready: return outcome::ok;
        case memory::wait_answer::timed_out: return outcome::timed_out;
        case memory::wait_answer::gone: return gone;
    }
    return outcome::timed_out;
}

/// What a side counted, read beside its owner. `element_bytes`: form elements: what each holds, which is less than its
/// slot where that is rounded up; left out where nobody asks for bytes.
[[nodiscard]] inline queue_side_stats stats_of(const layout::queue_side& side, const layout::queue_geometry& g,
                                               std::uint64_t element_bytes = 0) noexcept {
    queue_side_stats out;
    constexpr auto relaxed = std::memory_order_relaxed;  // numbers that need not belong together
    out.refused = side.refused.load(relaxed);
    out.parked = side.parked.load(relaxed);
    out.rung = side.rung.load(relaxed);
    for (unsigned tries = 0; tries < 1000; ++tries) {
        out.position = side.position.load(std::memory_order_acquire);  // pairs with W3, W1 or W2 of the side
        if (g.form == layout::queue_form::elements) {
            out.messages = out.position;
            out.bytes = out.position * element_bytes;
            return out;
        }
        const auto counter = layout::queue_counter::at(side, out.position);
        // Pairs with the fence in announce(): if a count was of a later commit, so is the position now. Relaxed behind
        // it.
        std::atomic_thread_fence(std::memory_order_acquire);
        if (!counter || side.position.load(relaxed) != out.position) continue;  // its owner has gone on: again
        out.messages = counter->counts().messages;
        out.bytes = counter->counts().bytes;
        return out;
    }
    out.counted = false;
    return out;
}

}  // namespace detail
}  // namespace holdfast
