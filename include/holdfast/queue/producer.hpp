// SPDX-License-Identifier: Apache-2.0
// producer.hpp - makes a queue of bytes and puts messages into it. See queue.hpp.
#pragma once

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "holdfast/layout/queue_layout.hpp"
#include "holdfast/layout/queue_write.hpp"
#include "holdfast/outcome.hpp"
#include "holdfast/queue/consumer.hpp"
#include "holdfast/queue/place.hpp"
#include "holdfast/segment.hpp"

namespace holdfast {

struct queue_options {
    std::uint64_t capacity_bytes = 256 * 1024;  ///< of the ring; rounded up to a power of two
    bool rings = true;  ///< wake sleepers; false saves a fence a commit, and who waits looks again every 0.05 to 1 ms
    create_options segment{};
};

/// Puts messages into a queue. Holds the segment's lease: one producer at a time. Move-only.
///
/// Threads: one at a time; an open batch goes to another by a mutex, or whatever else executes a locked instruction.
/// After a crash: what was committed is there, whole; an open claim or batch is not.
/// A handle that was moved from answers read_only to what changes the queue or waits; stats(), fault(), segment()
/// and the like require one that was not.
class queue_producer {
 public:
    using value_type = std::span<const std::byte>;

    /// Throws: invalid_argument; as segment::create.
    [[nodiscard]] static queue_producer create(std::string_view uri, const queue_options& options = {}) {
        const auto geometry = layout::queue_geometry::of_bytes(options.capacity_bytes, options.rings, std::string(uri));
        // A zeroed body is an empty queue.
        return queue_producer(
            segment::create(uri, detail::queue_spec(geometry), options.segment, [](std::span<std::byte>) {}),
            trust_of_creator(options.segment));
    }
    /// Takes over an existing queue. After a crash: bounded recovery, at most one walk over the last transaction.
    /// Throws: as segment::attach (writer_alive while another lives); kind_mismatch, version_mismatch,
    /// geometry_mismatch, corrupt.
    [[nodiscard]] static queue_producer attach(std::string_view uri, const attach_options& options = {}) {
        return queue_producer(segment::attach(uri, access::read_write, options), options.trust, options.lease_timeout);
    }
    /// Takes over a segment attached read-write by other means (descriptors). Throws: as attach; read_only.
    explicit queue_producer(holdfast::segment from, const memory::trust& whom = {})
        : queue_producer(std::move(from), whom, detail::presence_patience_max) {}

    queue_producer(queue_producer&&) noexcept = default;
    queue_producer& operator=(queue_producer&& other) noexcept {
        if (this == &other) return *this;
        // The old place goes before the mapping that it lies in, as in any destruction.
        std::destroy_at(this);
        std::construct_at(this, std::move(other));
        return *this;
    }
    ~queue_producer() = default;

    /// Room for a message of up to `bytes` bytes, to be filled in place; drops an earlier claim. Plain stores are fine:
    /// the bytes are this producer's until it commits.
    /// Returns: ok; full; too_large (in a batch: for what is left of the ring); corrupt; read_only.
    /// Cost: a few instructions; one line transfer when the ring looks full.
    [[nodiscard]] queue_claim try_claim(std::uint64_t bytes) noexcept {
        if (!writable()) return {outcome::read_only, 0, {}};
        return core_.try_claim(bytes);
    }
    /// Publishes the first `bytes` bytes of the claim, with a number of the user's own; in a batch, adds them to it.
    /// Returns: ok; not_claimed; read_only. Cost: some ten stores, and a system call if the consumer sleeps.
    result commit(std::uint64_t bytes, std::uint16_t type = 0) noexcept {
        if (!writable()) return {outcome::read_only, 0};
        const result done = core_.commit(bytes, type);
        if (done && !core_.in_batch()) ring();
        return done;
    }
    /// Drops the claim.
    void discard() noexcept { core_.discard(); }

    /// Copies a message in; one of 512 bytes and more past the caches, while that takes less time (x86-64; now and then
    /// it is timed, by the time-stamp counter). Returns: ok and its bytes; else as try_claim, with nothing changed.
    /// Requires: it lies outside an open claim, which is dropped.
    result try_push(std::span<const std::byte> message, std::uint16_t type = 0) noexcept {
        if (!writable()) return {outcome::read_only, 0};
        // The space is ours until W1: R2 has shown that the consumer is done with it.
        const result done = core_.append(message, type);
        if (done && !core_.in_batch()) ring();
        return done;
    }

    /// Opens a transaction: what is committed from here on becomes visible at once, by commit_batch(), or never.
    /// False when one is open. The whole batch must fit into the ring.
    bool begin_batch() noexcept { return writable() && core_.begin_batch(); }
    /// Publishes the batch. Returns: ok and its messages; not_claimed; read_only. Wakes the consumer once.
    result commit_batch() noexcept {
        if (!writable()) return {outcome::read_only, 0};
        const result done = core_.commit_batch();
        if (done && done.count != 0) ring();
        return done;
    }
    /// Drops the batch.
    void discard_batch() noexcept { core_.discard_batch(); }

    /// Puts all of `messages` (each convertible to a span of bytes) in, or none.
    /// Returns: ok and their number; else as try_claim, with nothing changed; not_claimed while a batch is open.
    template <std::ranges::input_range Messages>
        requires std::convertible_to<std::ranges::range_reference_t<Messages>, std::span<const std::byte>>
    result try_push_all(Messages&& messages, std::uint16_t type = 0) {
        if (!writable()) return {outcome::read_only, 0};
        if (!core_.begin_batch()) return {outcome::not_claimed, 0};
        struct dropper {  // also when a range's iterator throws
            layout::queue_write_core& core;
            ~dropper() {
                if (core.in_batch()) core.discard_batch();
            }
        };
        const dropper unless_committed{core_};
        for (const std::span<const std::byte> message : messages)
            if (const result put = try_push(message, type); !put) return put;
        return commit_batch();
    }

    /// Puts a message in or throws, so that std::back_inserter and std::ranges::copy work on a producer.
    /// Throws: no_space (full), invalid_argument (too large), read_only, corrupt.
    void push_back(std::span<const std::byte> message) {
        const result put = try_push(message);
        if (put) return;
        const errc code = put.status == outcome::full        ? errc::no_space
                          : put.status == outcome::too_large ? errc::invalid_argument
                          : put.status == outcome::read_only ? errc::read_only
                                                             : errc::corrupt;
        throw error(code, segment_ ? segment_->uri() : std::string("queue"),
                    detail::concat("the message of ", message.size(), " bytes was not taken: ",
                                   outcome_name(put.status), "; wait for room, or make the queue larger"));
    }

    /// Waits until a claim of `bytes` can succeed and an eighth of the ring is free.
    /// Returns: ok; timed_out; reader_gone (no room, and nobody reads); too_large; read_only; corrupt. Spins, then
    /// sleeps.
    result wait_room(std::uint64_t bytes, std::chrono::nanoseconds timeout) noexcept {
        if (!writable()) return {outcome::read_only, 0};
        if (!core_.can_fit(bytes)) return {outcome::too_large, core_.longest()};
        const std::uint64_t needed = core_.head_needed(bytes);
        if (needed == 0) return core_.fault() ? result{outcome::corrupt, 0} : result{};
        const layout::queue_side& other = core_.consumer();
        // Acquire: R2 is repeated by the claim; this is only a look.
        const auto ready = [&] { return other.position.load(std::memory_order_acquire) >= needed; };
        return {detail::outcome_of(detail::wait_on(other, core_.side(), needed, *place_, rings_, timeout, ready),
                                   outcome::reader_gone),
                0};
    }

    /// Ring size in bytes, and the longest message that it takes.
    [[nodiscard]] std::uint64_t capacity_bytes() const noexcept { return core_.capacity(); }
    [[nodiscard]] std::uint64_t message_bytes_max() const noexcept {
        return layout::ring_message_max(core_.capacity());
    }
    [[nodiscard]] queue_side_stats stats() const noexcept {
        return detail::stats_of(core_.side(), {layout::queue_form::bytes, core_.capacity(), 1, rings_});
    }
    /// Whether a living process consumes. Cost: a system call.
    [[nodiscard]] bool consumer_alive() const noexcept { return place_->other_lives(); }
    /// errc::corrupt once the consumer's position was damaged, errc::truncated if the file was cut under us.
    [[nodiscard]] std::optional<errc> fault() const noexcept {
        const auto damage = core_.fault();
        return damage ? damage : segment_->fault();
    }

    /// The consumer of this very mapping, in this process. Throws: writer_alive while another consumer lives; corrupt.
    [[nodiscard]] queue_consumer make_consumer(delivery how = delivery::at_least_once) const {
        return queue_consumer(segment_, {.how = how, .segment = {.trust = whom_}});
    }
    [[nodiscard]] const holdfast::segment& segment() const noexcept { return *segment_; }

 private:
    queue_producer(holdfast::segment from, const memory::trust& whom, std::chrono::nanoseconds patience)
        : segment_(std::make_shared<holdfast::segment>(std::move(from))), whom_(whom) {
        if (!segment_->writable())
            throw error(errc::read_only, segment_->uri(), "a queue's producer needs the segment attached read-write");
        const auto geometry = detail::queue_geometry_of(*segment_, layout::queue_form::bytes);
        rings_ = geometry.rings;
        place_.emplace(detail::queue_place::of_producer(*segment_, whom, patience));
        core_ = layout::queue_write_core(segment_->body(), geometry, place_->consumer(), segment_->uri());
    }
    [[nodiscard]] bool writable() const noexcept { return segment_ != nullptr && segment_->writable(); }
    void ring() noexcept { detail::ring_if_asleep(core_, rings_); }

    std::shared_ptr<holdfast::segment> segment_;
    std::optional<detail::queue_place> place_;
    layout::queue_write_core core_;
    bool rings_ = true;
    memory::trust whom_;  // of the consumers that it makes
};

}  // namespace holdfast
