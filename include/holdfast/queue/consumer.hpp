// SPDX-License-Identifier: Apache-2.0
// consumer.hpp - takes messages out of a queue of bytes. See queue.hpp.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "holdfast/detail/reader_slip.hpp"
#include "holdfast/detail/spans.hpp"
#include "holdfast/layout/queue_layout.hpp"
#include "holdfast/layout/queue_read.hpp"
#include "holdfast/memory/fork_guard.hpp"
#include "holdfast/outcome.hpp"
#include "holdfast/queue/consumed_range.hpp"
#include "holdfast/queue/place.hpp"
#include "holdfast/segment.hpp"

namespace holdfast {

/// When a message copied out by try_pop() is released, that is, what a killed consumer's successor meets.
enum class delivery : std::uint8_t {
    at_least_once,  ///< with the next look at the queue or acknowledge(): the last one copied may come once more
    at_most_once,   ///< before try_pop() returns: the last one copied may be lost
};

struct queue_consumer_options {
    delivery how = delivery::at_least_once;
    attach_options segment{};  ///< lease_timeout: how long to wait for a dying consumer's place
};

class queue_consumer;
using queue_messages = detail::consumed_range<queue_consumer, queue_message>;

/// Takes messages out of a queue, in place or by copy. One consumer at a time, in whatever process. Move-only.
///
/// It maps the data read-only; what it writes lies in NAME.peers. Threads: one at a time.
/// After a crash: its successor goes on at the oldest message not released. Moved from: as queue_producer.
class queue_consumer {
 public:
    /// Throws: as segment::attach; kind_mismatch, version_mismatch, geometry_mismatch; writer_alive while another
    /// consumer lives; not_found, no_permission (NAME.peers); corrupt.
    [[nodiscard]] static queue_consumer attach(std::string_view uri, const queue_consumer_options& options = {}) {
        return queue_consumer(segment::attach_read_only(uri, options.segment), options);
    }
    /// A consumer of a mapping that somebody already has. Throws: as attach.
    explicit queue_consumer(std::shared_ptr<const holdfast::segment> from, const queue_consumer_options& options = {})
        : segment_(std::move(from)), how_(options.how) {
        const auto geometry = detail::queue_geometry_of(*segment_, layout::queue_form::bytes);
        rings_ = geometry.rings;
        guard_ = memory::fork_guard::make(segment_->uri());
        place_.emplace(detail::queue_place::of_consumer(*segment_, options.segment.trust,
                                                        detail::ns_of(options.segment.lease_timeout)));
        core_ = layout::queue_read_core(segment_->bytes(), geometry, place_->consumer(), segment_->uri());
        slip_ = detail::reader_slip(geometry.ring_bytes());
    }

    queue_consumer(queue_consumer&&) noexcept = default;
    queue_consumer& operator=(queue_consumer&& other) noexcept {
        if (this == &other) return *this;
        // The old place goes before the mapping that it lies in, as in any destruction.
        std::destroy_at(this);
        std::construct_at(this, std::move(other));
        return *this;
    }
    ~queue_consumer() = default;

    /// The oldest message, in place: its bytes stay until pop(). Acknowledges what try_pop() gave.
    /// Returns: ok; empty; corrupt; read_only (inherited by fork). Cost: one load.
    [[nodiscard]] queue_message front() noexcept {
        front_ = false;
        if (!ours()) return {outcome::read_only, 0, 0, {}};
        acknowledge();
        const queue_message found = core_.front();
        front_ = found.status == outcome::ok;
        return found;
    }
    /// Releases the message that front() gave. False when it gave none. Cost: some six stores, and a system call if
    /// the producer sleeps and its turn has come.
    bool pop() noexcept {
        // The core's own front is not enough: wait() and drain() look there too.
        if (!ours() || !std::exchange(front_, false) || !core_.next()) return false;
        acknowledge();
        return true;
    }
    /// Copies the oldest message into `out`.
    /// Returns: ok with the bytes in `out`; too_small with the bytes needed, nothing taken; else as front().
    queue_message try_pop(std::span<std::byte> out) noexcept {
        queue_message found = front();
        front_ = false;
        if (!found) return found;
        if (found.bytes.size() > out.size()) return {outcome::too_small, found.type, found.bytes.size(), {}};
        // The bytes are ours until W2: R1 has shown that they are whole.
        if (!found.bytes.empty()) std::memcpy(out.data(), found.bytes.data(), found.bytes.size());
        found.bytes = out.first(found.bytes.size());
        core_.next();
        if (how_ == delivery::at_most_once) acknowledge();
        return found;
    }
    /// Releases what try_pop() gave: the caller is done with it.
    void acknowledge() noexcept {
        if (ours() && core_.release()) detail::ring_if_asleep(core_, rings_);
    }

    /// Runs use(message) on up to `most` messages in place and releases them together.
    /// Returns: ok and their number; else as front(), when there was none. What `use` throws passes through; the
    /// message it was given stays, those before it are released. What `use` takes itself is not passed once more.
    /// Cost: of a stream of lots, up to 4 us where it has been caught up with (detail/reader_slip.hpp).
    template <class Use>
    result drain(std::uint64_t most, Use&& use) {
        result done{outcome::ok, 0};
        front_ = false;
        struct releaser {
            queue_consumer& self;
            ~releaser() { self.acknowledge(); }
        };
        if (!ours()) return {outcome::read_only, 0};
        acknowledge();
        const releaser at_end{*this};
        slip_.before_look(most);
        while (done.count < most) {
            const queue_message message = core_.front();
            if (!message) {
                if (done.count == 0) done.status = message.status;
                break;
            }
            const std::uint64_t at = core_.cursor();
            use(message);
            front_ = false;
            if (core_.cursor() == at) core_.next();
            ++done.count;
        }
        slip_.found(done.count, most);
        return done;
    }
    /// The messages that are there, as an input range; each is released when the iterator leaves it.
    [[nodiscard]] queue_messages messages() noexcept { return queue_messages(*this); }

    /// Waits until there is a message (or damage to report).
    /// Returns: ok; timed_out; writer_gone (nothing to read and no living producer); read_only. Spins, then sleeps.
    result wait(std::chrono::nanoseconds timeout) noexcept {
        if (!ours()) return {outcome::read_only, 0};
        acknowledge();
        const auto ready = [&] { return core_.front().status != outcome::empty; };
        return {detail::outcome_of(detail::wait_on(core_.producer(), core_.side(), 1, *place_, rings_, timeout, ready),
                                   outcome::writer_gone),
                0};
    }

    [[nodiscard]] std::uint64_t capacity_bytes() const noexcept { return core_.capacity(); }
    /// A buffer of this size is never too small.
    [[nodiscard]] std::uint64_t message_bytes_max() const noexcept {
        return layout::ring_message_max(core_.capacity());
    }
    [[nodiscard]] queue_side_stats stats() const noexcept {
        return detail::stats_of(core_.side(), {layout::queue_form::bytes, core_.capacity(), 1, rings_});
    }
    /// Whether a living process produces. Cost: a system call.
    [[nodiscard]] bool producer_alive() const noexcept { return place_->other_lives(); }
    /// errc::corrupt once a look met damage, errc::truncated if the file was cut under us.
    [[nodiscard]] std::optional<errc> fault() const noexcept {
        const auto damage = core_.fault();
        return damage ? damage : segment_->fault();
    }
    [[nodiscard]] const holdfast::segment& segment() const noexcept { return *segment_; }

 private:
    [[nodiscard]] bool ours() const noexcept { return segment_ != nullptr && guard_.same_process(); }

    std::shared_ptr<const holdfast::segment> segment_;
    memory::fork_guard guard_;
    std::optional<detail::queue_place> place_;
    layout::queue_read_core core_;
    delivery how_ = delivery::at_least_once;
    bool front_ = false;  // front() gave a message that pop() may release
    bool rings_ = true;
    detail::reader_slip slip_;  // of drain()
};

}  // namespace holdfast
