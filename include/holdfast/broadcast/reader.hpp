// SPDX-License-Identifier: Apache-2.0
// reader.hpp - reads a broadcast ring through a read-only mapping, unknown to everybody. See broadcast.hpp.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "holdfast/layout/broadcast_read.hpp"
#include "holdfast/layout/broadcast_verify.hpp"
#include "holdfast/memory/waiting.hpp"
#include "holdfast/segment.hpp"

namespace holdfast {

inline constexpr std::uint32_t broadcast_layout_version = 1;

namespace detail {

/// The validated geometry of a segment that holds a broadcast ring. Throws: kind_mismatch, version_mismatch,
/// geometry_mismatch.
[[nodiscard]] inline layout::broadcast_geometry broadcast_geometry_of(const segment& from) {
    from.require(container_kind::broadcast, broadcast_layout_version);
    const auto geometry = layout::broadcast_geometry::parse(from.info().geometry, from.bytes().size(), from.uri());
    // One slot is the board.
    if ((geometry.readers == 0 ? 0 : geometry.readers + 1) != from.info().peer_slots)
        throw error(errc::geometry_mismatch, from.uri(),
                    "the header has room for other registered readers than the ring; restore or recreate it");
    return geometry;
}

[[nodiscard]] inline outcome outcome_of_wait(memory::wait_answer answer) noexcept {
    switch (answer) {
        case memory::wait_answer::ready: return outcome::ok;
        case memory::wait_answer::timed_out: return outcome::timed_out;
        case memory::wait_answer::gone: return outcome::writer_gone;
    }
    return outcome::timed_out;
}

/// Asks the lease, not too often, whether a writer lives: an open, a lock call and a look at the name each time.
class broadcast_writer_watch {
 public:
    explicit broadcast_writer_watch(const segment& of) noexcept : segment_(of) {}
    /// Whether it is known that nobody holds the lease, or the name leads to the ring no more: its lease is then gone
    /// or another ring's, and no successor finds it. Where that cannot be told, or without a name to ask by: false.
    [[nodiscard]] bool gone() noexcept {
        constexpr std::uint64_t pause_ns = 20'000'000;
        const std::uint64_t now = memory::deadline::now_ns();
        if (asked_ns_ != 0 && now - asked_ns_ < pause_ns) return false;
        asked_ns_ = now;
        try {
            return lease_state_of(segment_.name()) == lease_state::free || segment_.replaced();
        } catch (const std::exception&) {  // no memory for a path: not known
            return false;
        }
    }

 private:
    const segment& segment_;
    std::uint64_t asked_ns_ = 0;
};

/// A `look` that copies a message into a buffer of the caller's.
[[nodiscard]] inline auto copying_into(std::span<std::byte> out) noexcept {
    return [out](std::span<const std::byte> message, std::uint16_t) noexcept {
        if (message.size() > out.size()) return false;
        copy_from_shared(out.data(), message.data(), message.size());
        return true;
    };
}
/// A `look` that copies a message into a vector, whose size becomes the message's.
[[nodiscard]] inline auto copying_into(std::vector<std::byte>& out) noexcept {
    return [&out](std::span<const std::byte> message, std::uint16_t) {
        out.resize(message.size());
        copy_from_shared(out.data(), message.data(), message.size());
        return true;
    };
}
/// A `look` that shows the message in place.
template <class Look>
[[nodiscard]] auto showing(Look& look) noexcept {
    return [&look](std::span<const std::byte> message, std::uint16_t type) {
        look(message, type);
        return true;
    };
}

}  // namespace detail

/// What one step of a reader gave: the answer, and the message when it is ok.
struct broadcast_message {
    broadcast_read answer;  ///< ok or lapped
    std::span<const std::byte> bytes{};
};

/// The messages that are there now, as an input range; see broadcast_reader::drain. It ends when there is no further
/// one.
template <class Reader>
class broadcast_drain {
 public:
    class iterator {
     public:
        using value_type = broadcast_message;
        using difference_type = std::ptrdiff_t;
        iterator() = default;
        explicit iterator(broadcast_drain* of) : of_(of) { ++*this; }
        [[nodiscard]] const broadcast_message& operator*() const noexcept { return of_->now_; }
        iterator& operator++() {
            if (!of_->step()) of_ = nullptr;
            return *this;
        }
        void operator++(int) { ++*this; }
        [[nodiscard]] bool operator==(std::default_sentinel_t) const noexcept { return of_ == nullptr; }

     private:
        broadcast_drain* of_ = nullptr;
    };
    broadcast_drain(Reader& reader, std::vector<std::byte>& buffer) noexcept : reader_(&reader), buffer_(&buffer) {}

    [[nodiscard]] iterator begin() { return iterator(this); }
    [[nodiscard]] static std::default_sentinel_t end() noexcept { return {}; }

 private:
    [[nodiscard]] bool step() {
        now_.answer = reader_->read(*buffer_);
        now_.bytes = now_.answer ? std::span<const std::byte>(*buffer_) : std::span<const std::byte>();
        return now_.answer || now_.answer.status == outcome::lapped;
    }
    Reader* reader_;
    std::vector<std::byte>* buffer_;
    broadcast_message now_;
};

/// Reads one message after the other from a place of its own. Registers nowhere: the writer does not know of it, and
/// overruns it if it is slow. A copy reads on from the same place by itself. Requires: not moved from.
class broadcast_reader {
 public:
    /// Throws: as segment::attach; kind_mismatch, version_mismatch, geometry_mismatch, corrupt.
    [[nodiscard]] static broadcast_reader attach(std::string_view uri,
                                                 const broadcast_start& start = broadcast_start::oldest(),
                                                 const attach_options& options = {}) {
        return broadcast_reader(segment::attach_read_only(uri, options), start);
    }
    /// A reader of a mapping that somebody already has (heap: and anon: have no other way).
    explicit broadcast_reader(std::shared_ptr<const holdfast::segment> from,
                              const broadcast_start& start = broadcast_start::oldest())
        : segment_(std::move(from)), core_(segment_->bytes(), detail::broadcast_geometry_of(*segment_)) {
        joined_ = join(start);
        if (joined_.status == outcome::corrupt)
            throw error(errc::corrupt, segment_->uri(),
                        "the ring's index contradicts its horizon; holdfast verify says more: recreate the ring");
    }

    /// Copies the next message to the front of `out` and steps behind it.
    /// Returns: ok with its bytes, type and number; empty; too_small with the bytes needed (the message stays the
    /// next); lapped with the messages lost (the reader stands behind them); corrupt (see fault()).
    /// Cost: the copy, as memcpy, and a load of a line that changes once a stride.
    broadcast_read read(std::span<std::byte> out) noexcept { return keep(core_.next(detail::copying_into(out))); }

    /// Copies the next message into `out`, whose size becomes the message's. Allocates at most message_bytes_max().
    broadcast_read read(std::vector<std::byte>& out) { return keep(core_.next(detail::copying_into(out))); }

    /// Copies the next messages one behind the other into `room`, each at a multiple of 8 bytes, and runs use(bytes,
    /// type) on each of the copies once all are known to be whole: as many as are there and fit, `most` and 64 at most.
    /// What `use` throws passes through; all of them count as read. Returns: ok with the number of messages as `count`
    /// and the number of the first; of `most` 0, empty; else as read() into `room`. A message behind a restart of the
    /// writer comes alone. Cost: less than reading small messages one by one; as queue_consumer::drain.
    template <class Use>
    broadcast_read read_batch(std::span<std::byte> room, Use&& use, std::uint64_t most = ~std::uint64_t{0}) {
        layout::broadcast_batch batch;
        const broadcast_read got = keep(core_.next_batch(room, most, batch));
        batch.for_each(room, use);
        return got;
    }

    /// The messages that are there now, one by one in `buffer`: for (const auto& [answer, bytes] :
    /// reader.drain(buffer)). Losses are elements too (answer.status is lapped). Ends at empty or corrupt (see
    /// fault()).
    [[nodiscard]] broadcast_drain<broadcast_reader> drain(std::vector<std::byte>& buffer) noexcept {
        return {*this, buffer};
    }

    /// Runs look(bytes, type) on the next message in place and steps behind it.
    ///
    /// `look` may meet a mix of two messages: it must neither trust lengths or offsets it finds there nor act outside
    /// its own results, and those count only if the status is ok.
    template <class Look>
    broadcast_read visit(Look&& look) {
        return keep(core_.next(detail::showing(look)));
    }

    /// Waits until read() would say something else than empty.
    /// Returns: ok; timed_out; writer_gone (nobody holds the lease, or the name leads to this ring no more).
    ///
    /// It asks the lease by the ring's name. So it never says writer_gone of memfd:, anon: and heap: memory, nor on the
    /// mapping of a writer of this process, which keeps the lease; and it says so of a living writer whose file was
    /// unlinked or renamed by hand, and to who has changed its root directory: messages are read all the same.
    /// The writer does not know of this reader, so it looks by itself, each 0.05 to 1 ms; a registered one is woken.
    result wait(std::chrono::nanoseconds timeout) noexcept {
        detail::broadcast_writer_watch watch(*segment_);
        memory::wait_policy policy;
        policy.rung = false;
        const memory::wait_answer answer = memory::wait_until(
            core_.view().control().bell, memory::deadline::after(timeout), policy, [&] { return core_.ready(); }, [] {},
            [] {}, [&] { return watch.gone(); });
        return {detail::outcome_of_wait(answer), 0};
    }

    /// Goes elsewhere. Returns: ok; lapped where the start is older than what is left, now standing at the oldest
    /// (count: messages between; 0 where nobody knows: by time, or, its place unchanged, where a writer outran every
    /// attempt); empty where the sequence lies beyond the next to come, now standing at the end; corrupt. Cost: a
    /// bisection of the index, and a walk of at most a stride.
    result join(const broadcast_start& start) noexcept {
        const result joined = core_.join(start);
        if (joined.status == outcome::corrupt) corrupt_ = true;
        return joined;
    }
    /// How the first join went, as join() returns it.
    [[nodiscard]] result joined() const noexcept { return joined_; }

    /// The number of the next message; messages are numbered from 1.
    [[nodiscard]] std::uint64_t sequence() const noexcept { return core_.sequence(); }
    /// How often a writer took the ring over, as this reader knows it.
    [[nodiscard]] std::uint64_t epoch() const noexcept { return core_.epoch(); }
    /// Size of the longest message that can be published: a buffer of this size is never too small.
    [[nodiscard]] std::uint64_t message_bytes_max() const noexcept { return core_.view().geometry().message_max(); }
    [[nodiscard]] std::uint64_t capacity_bytes() const noexcept { return core_.view().geometry().capacity; }
    /// errc::corrupt once a read met damage, errc::truncated if the file was cut under us.
    [[nodiscard]] std::optional<errc> fault() const noexcept {
        return corrupt_ ? std::optional(errc::corrupt) : segment_->fault();
    }
    /// What is damaged in the ring's structure. Cost: one load for each record held.
    [[nodiscard]] layout::findings verify() const {
        layout::findings found;
        layout::verify_broadcast(segment_->bytes(), core_.view().geometry(), found);
        return found;
    }

    [[nodiscard]] const holdfast::segment& segment() const noexcept { return *segment_; }
    [[nodiscard]] const std::shared_ptr<const holdfast::segment>& shared() const noexcept { return segment_; }

 private:
    broadcast_read keep(const broadcast_read& got) noexcept {
        if (got.status == outcome::corrupt) [[unlikely]]
            corrupt_ = true;
        return got;
    }

    std::shared_ptr<const holdfast::segment> segment_;
    layout::broadcast_read_core core_;
    result joined_{};
    bool corrupt_ = false;
};

}  // namespace holdfast
