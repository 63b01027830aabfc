// SPDX-License-Identifier: Apache-2.0
// writer.hpp - makes a broadcast ring and publishes to it. See broadcast.hpp.
#pragma once

#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "holdfast/broadcast/reader.hpp"
#include "holdfast/broadcast/reliable_reader.hpp"
#include "holdfast/broadcast/reports.hpp"
#include "holdfast/layout/broadcast_write.hpp"
#include "holdfast/memory/waiting.hpp"
#include "holdfast/peers.hpp"
#include "holdfast/segment.hpp"
#include "holdfast/segment/writer_presence.hpp"

namespace holdfast {

struct broadcast_options {
    std::uint64_t capacity_bytes = 4 << 20;  ///< of the ring, rounded up to a power of two from 2048; four times the
                                             ///< longest message at least
    std::uint32_t registered_readers = 0;    ///< how many there may be at once
    std::string schema{};                    ///< canonical schema text of the messages, may be empty
    create_options segment{};
};

/// Publishes messages. Holds the segment's lease: one writer at a time. Never waits. Move-only.
/// A handle that was moved from answers read_only to what publishes; the rest requires one that was not.
///
/// Threads: one at a time; what is staged goes to another by a mutex, or whatever else executes a locked instruction.
/// After a crash: each message or batch is published or not; what was staged or claimed is not.
class broadcast_writer {
 public:
    /// Throws: invalid_argument; as segment::create.
    [[nodiscard]] static broadcast_writer create(std::string_view uri, const broadcast_options& options) {
        const auto geometry =
            layout::broadcast_geometry::make(options.capacity_bytes, options.registered_readers, std::string(uri));
        segment_spec spec;
        spec.kind = container_kind::broadcast;
        spec.container_version = broadcast_layout_version;
        spec.schema = options.schema;
        std::ranges::copy(geometry.words(), spec.geometry.begin());
        spec.body_bytes = geometry.body_bytes();
        spec.peer_slots = geometry.readers == 0 ? 0 : geometry.readers + 1;  // and the board
        return broadcast_writer(
            segment::create(
                uri, spec, options.segment,
                [&](std::span<std::byte> body) { layout::broadcast_write_core::format(body, geometry, unix_ns()); }),
            trust_of_creator(options.segment), detail::presence_patience_max, layout::ring_origin::just_made);
    }

    /// Takes over an existing ring. After a crash: bounded recovery, a walk over a stride and a batch.
    /// Throws: as segment::attach (writer_alive while another lives); kind_mismatch, version_mismatch,
    /// geometry_mismatch, corrupt.
    [[nodiscard]] static broadcast_writer attach(std::string_view uri, const attach_options& options = {}) {
        return broadcast_writer(segment::attach(uri, access::read_write, options), options.trust, options.lease_timeout,
                                layout::ring_origin::predecessor);
    }

    /// Copies a message into the ring and publishes it, with all that was staged before.
    /// Returns: ok with the number of messages published; too_large with the largest possible; full (a registered
    /// reader is in the way); read_only (inherited by fork). Nothing changes unless it is ok.
    /// Cost: the copy; each stride a line more, and a line for each slot of registered readers.
    result publish(std::span<const std::byte> message, std::uint16_t type = 0) {
        const result staged = append(message, type);
        return staged ? finish() : staged;
    }

    /// Publishes several messages at once: readers see all of them or none, also after a crash. Together they may span
    /// half the ring. Returns: as publish; what was staged before is dropped with them unless it is ok, also when the
    /// range throws, which passes through.
    template <std::ranges::input_range Messages>
        requires std::convertible_to<std::ranges::range_reference_t<Messages>, std::span<const std::byte>>
    result publish_batch(Messages&& messages, std::uint16_t type = 0) {
        struct dropper {  // also when the range's iterator throws
            layout::broadcast_write_core& core;
            bool published = false;
            ~dropper() {
                if (!published) core.discard();
            }
        } unless_published{core_};
        for (const std::span<const std::byte> message : messages)
            if (const result staged = append(message, type); !staged) return staged;
        const result done = commit();
        unless_published.published = static_cast<bool>(done);
        return done;
    }

    /// Opens room for a message of up to `bytes` bytes, to be filled in place; drops an earlier claim. Nothing of it is
    /// visible before commit. Returns: ok with the bytes, 8-byte aligned; too_large, full, read_only as publish.
    ///
    /// Plain stores are fine: a reader that was overrun may still be looking there and will find out by itself.
    [[nodiscard]] broadcast_claim claim(std::uint64_t bytes) {
        if (!writable()) return {outcome::read_only, 0, {}};
        auto slots = table();
        return core_.claim(bytes, slots);
    }
    /// Makes the first `bytes` bytes claimed the next message of a batch, which commit() publishes.
    /// Returns: ok; not_claimed; read_only.
    outcome stage(std::uint64_t bytes, std::uint16_t type = 0) noexcept {
        return writable() ? core_.stage(bytes, type) : outcome::read_only;
    }
    /// Copies a message into the batch that commit() publishes. Returns: as publish, but for ok: bytes.
    result append(std::span<const std::byte> message, std::uint16_t type = 0) {
        if (!writable()) return {outcome::read_only, 0};
        auto slots = table();
        return core_.append(message, type, slots);
    }
    /// Stages the first `bytes` bytes claimed and publishes the batch.
    /// Returns: ok with the messages published; not_claimed; read_only.
    result commit(std::uint64_t bytes, std::uint16_t type = 0) noexcept {
        const outcome staged = stage(bytes, type);
        return staged == outcome::ok ? finish() : result{staged, 0};
    }
    /// Publishes what is staged, all at once; an open claim is dropped. Nothing staged is ok with 0 messages.
    result commit() noexcept {
        if (!writable()) return {outcome::read_only, 0};
        return core_.staged() == 0 ? result{outcome::ok, 0} : finish();
    }
    /// Waits until a message of up to `bytes` bytes could be claimed behind what is staged; drops an open claim.
    /// Returns: ok; timed_out; too_large; read_only.
    result wait_room(std::uint64_t bytes, std::chrono::nanoseconds timeout) {
        result last{outcome::full, 0};
        const auto ready = [&] {
            const broadcast_claim room = claim(bytes);
            last = {room.status, room.count};
            return room.status != outcome::full;
        };
        if (ready() || !peers_) return last;
        memory::wait_policy policy;
        policy.spins = 20;                 // each look scans the slots and asks the kernel about who is in the way
        policy.sleep_ns_max = 10'000'000;  // a reader may die or run out of patience without a word
        const memory::wait_answer answer = memory::wait_until(
            detail::broadcast_board_in(*peers_).bell, memory::deadline::after(timeout), policy, ready,
            [&] {
                // Said before the last look (I5); pairs with the look of a reader that has moved.
                core_.blocked().store(1, std::memory_order_seq_cst);
                std::atomic_thread_fence(std::memory_order_seq_cst);  // the look's loads stay behind it
            },
            // Relaxed: seen late it costs a reader one needless wake.
            [&] { core_.blocked().store(0, std::memory_order_relaxed); }, [] { return false; });
        return answer == memory::wait_answer::ready ? last : result{outcome::timed_out, 0};
    }
    /// Drops the claim and what is staged; none of it was ever visible.
    void discard() noexcept { core_.discard(); }

    /// Appends to the ring as to a container. Throws: no_space (full), invalid_argument (too large), read_only.
    void push_back(std::span<const std::byte> message) {
        const result done = publish(message);
        if (done) return;
        throw error(done.status == outcome::read_only   ? errc::read_only
                    : done.status == outcome::too_large ? errc::invalid_argument
                                                        : errc::no_space,
                    segment_ != nullptr ? segment_->uri() : "broadcast",
                    done.status == outcome::too_large
                        ? "the message is longer than a quarter of the ring; make the ring larger"
                        : "the ring takes no message now (" + std::string(outcome_name(done.status)) +
                              "); use publish() and look at its answer");
    }
    using value_type = std::span<const std::byte>;  ///< for std::back_inserter

    /// The number of the message last published; 0 before the first.
    [[nodiscard]] std::uint64_t sequence() const noexcept { return core_.published(); }
    [[nodiscard]] std::uint64_t message_bytes_max() const noexcept { return core_.view().geometry().message_max(); }
    [[nodiscard]] std::uint64_t capacity_bytes() const noexcept { return core_.view().geometry().capacity; }

    /// Who is registered, and who held the writer up. Cost: a line and a system call for each slot.
    [[nodiscard]] std::vector<broadcast_reader_report> registered_readers() const {
        if (!peers_) return {};
        return detail::broadcast_reports(core_.view(), *peers_, core_.tail());
    }

    /// A reader of this very mapping, which it keeps alive.
    [[nodiscard]] broadcast_reader make_reader(const broadcast_start& start = broadcast_start::oldest()) const {
        return broadcast_reader(segment_, start);
    }
    /// A registered reader in this process, on this very mapping.
    [[nodiscard]] broadcast_reliable_reader make_reliable_reader(const broadcast_registration& how = {}) const {
        return broadcast_reliable_reader(segment_, how, whom_);
    }

    [[nodiscard]] const holdfast::segment& segment() const noexcept { return *segment_; }

    /// Takes over a segment attached read-write by other means (descriptors). Throws: as attach; read_only.
    explicit broadcast_writer(holdfast::segment from, const memory::trust& whom = {})
        : broadcast_writer(std::move(from), whom, detail::presence_patience_max, layout::ring_origin::predecessor) {}

 private:
    broadcast_writer(holdfast::segment from, const memory::trust& whom, std::chrono::nanoseconds patience,
                     layout::ring_origin origin)
        : segment_(std::make_shared<holdfast::segment>(std::move(from))), whom_(whom) {
        if (!segment_->writable())
            throw error(errc::read_only, segment_->uri(), "a ring's writer needs the segment attached read-write");
        const auto geometry = detail::broadcast_geometry_of(*segment_);
        if (segment_->info().peer_slots > 0) {
            peers_ = peers::open(*segment_, whom);
            // The board's lock tells registered readers that a writer lives.
            detail::show_presence(*segment_, *peers_, detail::broadcast_board_slot, patience);
        }
        core_ =
            layout::broadcast_write_core(segment_->body(), geometry, {unix_ns, monotonic_ns}, segment_->uri(), origin);
    }

    /// Publishes, and wakes registered readers that sleep.
    result finish() noexcept {
        const result done = core_.commit();
        if (peers_) ring();
        return done;
    }
    void ring() noexcept {
        std::atomic<std::uint32_t>& asleep = detail::broadcast_board_in(*peers_).asleep;
        // W3 before the look: either we see the sleeper or its last look saw the message (I5).
        std::atomic_thread_fence(std::memory_order_seq_cst);
        if (asleep.load(std::memory_order_relaxed) == 0) return;  // relaxed: behind the fence
        // Taken back before the bell: who says so from here on has seen the new bell or is not let asleep on the old.
        asleep.store(0, std::memory_order_seq_cst);
        std::atomic<std::uint32_t>& bell = core_.bell();
        // Release, pairs with the acquire in wait_until(). Ours alone to write.
        bell.store(bell.load(std::memory_order_relaxed) + 1, std::memory_order_release);
        memory::futex_wake(bell, std::numeric_limits<int>::max());
    }
    [[nodiscard]] bool writable() const noexcept { return segment_ != nullptr && segment_->writable(); }
    [[nodiscard]] detail::broadcast_peer_slots table() noexcept {
        return detail::broadcast_peer_slots(peers_ ? &*peers_ : nullptr);
    }
    [[nodiscard]] static std::uint64_t unix_ns() noexcept { return detail::clock_ns(CLOCK_REALTIME); }
    [[nodiscard]] static std::uint64_t monotonic_ns() noexcept { return detail::clock_ns(CLOCK_MONOTONIC); }

    std::shared_ptr<holdfast::segment> segment_;
    std::optional<peers> peers_;
    layout::broadcast_write_core core_;
    memory::trust whom_;  // of the readers that it makes
};

}  // namespace holdfast
