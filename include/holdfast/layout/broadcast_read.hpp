// SPDX-License-Identifier: Apache-2.0
// broadcast_read.hpp - reading a broadcast ring out of plain bytes through nothing but a read-only mapping: message
// after message, with exact counts of what was lost, from any starting point that is still there.
//
// Synchronisation (W in broadcast_write.hpp)
//   store                             load                               what it gives
//   W3 first word of a chain release  R1 record's word         acquire   the whole chain, and the 0 behind it
//   W1 horizon, fence        release  R2 fence, horizon        acquire   a copy that met a later lap is found out
//   W4 entry's tag           release  R3 entry's tag           acquire   position, sequence and time of that entry
//   W5 epoch                 (by W3)  epoch after R1           relaxed   known no later than the new writer's messages
//
// Why R2 suffices: the writer stores the horizon, then, behind a release fence, bytes of positions below it. If any
// load of a word or a payload met a byte of a later lap, that byte was stored behind the fence, so the load of the
// horizon behind our own fence finds at least the value that announced it. If none did, every byte is of this lap, and
// R1 found a committed word.
// A word of 0 is believed under the same check only: an overrun reader may meet the 0 of some payload.
//
// Why losses are exact: `sequence` is the number of the record at `position`; both came from one entry of the index, or
// were counted on from there. An overrun reader goes on at another entry (I3); between the two lie exactly the
// difference of their numbers, and it was given none of those.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "holdfast/detail/reader_slip.hpp"
#include "holdfast/detail/shared_copy.hpp"
#include "holdfast/layout/broadcast_view.hpp"
#include "holdfast/outcome.hpp"

namespace holdfast {

/// What a read of a broadcast ring gave. True in a condition when it is a message.
struct broadcast_read {
    outcome status = outcome::empty;
    std::uint16_t type = 0;  ///< of the message: the writer's own number
    /// A writer took the ring over since the last read: the messages before this one may have ended in its
    /// predecessor's death.
    bool restarted = false;
    std::uint64_t count = 0;     ///< ok: payload bytes; too_small: bytes needed; lapped: messages lost; else 0
    std::uint64_t sequence = 0;  ///< ok, too_small: the message's number; lapped: of the next to be read

    [[nodiscard]] explicit operator bool() const noexcept { return status == outcome::ok; }
};

/// Where a reader starts.
struct broadcast_start {
    enum class from : std::uint8_t { oldest, latest, sequence, time };
    from where = from::oldest;
    std::uint64_t value = 0;

    /// The oldest message that is still there.
    [[nodiscard]] static constexpr broadcast_start oldest() noexcept { return {from::oldest, 0}; }
    /// Only what is published from now on.
    [[nodiscard]] static constexpr broadcast_start latest() noexcept { return {from::latest, 0}; }
    /// The message of that number; messages are numbered from 1.
    [[nodiscard]] static constexpr broadcast_start sequence(std::uint64_t number) noexcept {
        return {from::sequence, number};
    }
    /// Everything published after that instant, nanoseconds since the Unix epoch, and up to a stride of older messages.
    [[nodiscard]] static constexpr broadcast_start time(std::uint64_t unix_ns) noexcept {
        return {from::time, unix_ns};
    }
};

}  // namespace holdfast

namespace holdfast::layout {

/// How often a search is begun anew because the writer overran it; each time it needs three quarters of the ring.
inline constexpr unsigned broadcast_attempts = 64;

/// Messages that were copied together, one behind the other, each from a multiple of 8 bytes on.
class broadcast_batch {
 public:
    static constexpr std::uint32_t size_max = 64;

    broadcast_batch() noexcept {}  // no message; the places are not made zeros
    /// Runs use(bytes, type) on each. Requires: `room` is what they were copied into.
    template <class Use>
    void for_each(std::span<const std::byte> room, Use&& use) const {
        std::size_t at = 0;
        for (std::uint32_t i = 0; i < count_; ++i) {
            use(room.subspan(at, copies_[i].bytes), copies_[i].type);
            at = std::min(room.size(), at + step(copies_[i].bytes));
        }
    }

 private:
    friend class broadcast_read_core;
    struct copied {
        std::uint32_t bytes;
        std::uint16_t type;
    };
    [[nodiscard]] static std::size_t step(std::size_t bytes) noexcept {
        return static_cast<std::size_t>(ring_round_up(bytes));
    }
    /// Returns: by how much the next lies behind it.
    std::size_t add(std::size_t bytes, std::uint16_t type) noexcept {
        copies_[count_++] = {static_cast<std::uint32_t>(bytes), type};
        return step(bytes);
    }

    std::uint32_t count_ = 0;
    copied copies_[size_max];
};

/// A reader's place in the ring, and the reading. Threads: one at a time.
class broadcast_read_core {
 public:
    broadcast_read_core() = default;
    /// Stands nowhere until join() has been called. Requires: as broadcast_view.
    broadcast_read_core(std::span<const std::byte> body, const broadcast_geometry& geometry) noexcept
        : view_(body, geometry),
          epoch_(view_.control().epoch.load(std::memory_order_acquire)),
          slip_(geometry.capacity) {}

    [[nodiscard]] const broadcast_view& view() const noexcept { return view_; }
    [[nodiscard]] std::uint64_t position() const noexcept { return position_; }
    /// The number of the next message.
    [[nodiscard]] std::uint64_t sequence() const noexcept { return sequence_; }
    [[nodiscard]] std::uint64_t epoch() const noexcept { return epoch_; }

    /// Gives the next message to look(bytes, type), which says whether it takes it (false: too small), and steps behind
    /// it. The bytes may change while `look` runs; what it made of them counts only if the status is ok.
    template <class Look>
    [[nodiscard, gnu::always_inline]] inline broadcast_read next(Look&& look) noexcept(noexcept(look({}, 0))) {
        for (unsigned skips = 0;; ++skips) {
            const ring_word record = view_.record_at(position_);
            const bool restarted = notice_restart();
            if (record.kind == ring_word_kind::message && record.length <= view_.geometry().message_max()) [[likely]] {
                const std::span payload(view_.at(position_) + ring_word_bytes, static_cast<std::size_t>(record.length));
                const bool taken = look(payload, record.type);
                if (view_.overrun(position_)) [[unlikely]]
                    return catch_up(restarted);
                pending_restart_ = false;
                const std::uint64_t number = sequence_;
                if (!taken) return {outcome::too_small, record.type, restarted, record.length, number};
                position_ += record.bytes;
                ++sequence_;
                return {outcome::ok, record.type, restarted, record.length, number};
            }
            if (view_.overrun(position_)) return catch_up(restarted);
            // Behind a skip the ring begins anew; a second one in a row no writer makes.
            if (record.kind == ring_word_kind::skip && skips == 0) {
                position_ += record.bytes;
                continue;
            }
            pending_restart_ = false;
            const outcome why = record.kind == ring_word_kind::not_ready ? outcome::empty : outcome::corrupt;
            return {why, 0, restarted, 0, sequence_};
        }
    }

    /// The next message to the front of `out`; one that does not fit stays the next.
    [[nodiscard]] broadcast_read read(std::span<std::byte> out) noexcept {
        return next([out](std::span<const std::byte> payload, std::uint16_t) noexcept {
            if (payload.size() > out.size()) return false;
            holdfast::detail::copy_from_shared(out.data(), payload.data(), payload.size());
            return true;
        });
    }

    /// Copies the messages that come next one behind the other into `room`: as many as are there, as fit, and `most` at
    /// most. One look at the horizon tells of all: what lies behind a byte that is still there is there too.
    /// Returns: ok with the number of messages as `count` and the number of the first; else as read() into `room`; of
    /// `most` 0, empty.
    [[nodiscard]] broadcast_read next_batch(std::span<std::byte> room, std::uint64_t most,
                                            broadcast_batch& batch) noexcept {
        batch.count_ = 0;
        if (most == 0) return {outcome::empty, 0, false, 0, sequence_};
        most = std::min<std::uint64_t>(most, broadcast_batch::size_max);
        std::uint64_t position = position_;
        std::size_t used = 0;
        bool more = true;
        slip_.before_look(most);
        while (batch.count_ < most) {
            const ring_word record = view_.record_at(position);
            more = record.kind != ring_word_kind::not_ready;
            if (record.kind != ring_word_kind::message || record.length > view_.geometry().message_max() ||
                record.length > room.size() - used || notice_restart())
                break;
            const auto bytes = static_cast<std::size_t>(record.length);
            holdfast::detail::copy_from_shared(room.data() + used, view_.at(position) + ring_word_bytes, bytes);
            used = std::min(room.size(), used + batch.add(bytes, record.type));
            position += record.bytes;
        }
        if (batch.count_ == 0 || view_.overrun(position_)) [[unlikely]]
            return next_alone(room, batch);
        slip_.found(batch.count_, more ? batch.count_ : broadcast_batch::size_max);
        const std::uint64_t first = sequence_;
        position_ = position;
        sequence_ += batch.count_;
        return {outcome::ok, 0, false, batch.count_, first};
    }

    /// Whether next() would say anything but `empty`.
    [[nodiscard]] bool ready() const noexcept {
        return view_.record_at(position_).kind != ring_word_kind::not_ready || view_.overrun(position_);
    }

    /// Goes to where reading is to start. `spare`: bytes by which it has to be above what may be being overwritten.
    /// Returns: ok; lapped where the start is older than what is left, now standing at the oldest (count: messages
    /// between; 0 for a time, where nobody knows, and when the writer outran every attempt: place unchanged); empty
    /// when the sequence is beyond the next to come, now standing at the tail; corrupt, place unchanged.
    [[nodiscard]] result join(const broadcast_start& start, std::uint64_t spare = 0) noexcept;

    /// Goes on where nothing is being overwritten soon. Requires: the place is, or is about to be, overwritten (the
    /// horizon is more than capacity - `spare` above it). Returns: lapped with the messages lost (0 when the writer
    /// outran every attempt: place unchanged), or corrupt.
    [[nodiscard]] result jump(std::uint64_t spare = 0) noexcept;

 private:
    /// Whether a restart is to be told; pending until an answer tells it, also when `look` throws before.
    [[nodiscard]] bool notice_restart() noexcept {
        // Relaxed: ordered by R1. In the horizon's line, which is looked at anyway.
        const std::uint64_t now = view_.control().epoch.load(std::memory_order_relaxed);
        if (now != epoch_) [[unlikely]] {
            epoch_ = now;
            pending_restart_ = true;
        }
        return pending_restart_;
    }
    /// What no batch begins with: the answer that is none, or the message that it is told with.
    [[gnu::noinline]] broadcast_read next_alone(std::span<std::byte> room, broadcast_batch& batch) noexcept {
        batch.count_ = 0;
        slip_.found(0, broadcast_batch::size_max);
        broadcast_read got = read(room);
        if (!got) return got;
        batch.add(static_cast<std::size_t>(got.count), got.type);
        got.count = 1;
        return got;
    }
    [[gnu::noinline]] broadcast_read catch_up(bool restarted) noexcept {
        const result jumped = jump();
        slip_.lapped();
        pending_restart_ = false;
        return {jumped.status, 0, restarted, jumped.count, sequence_};
    }

    enum class step : std::uint8_t { there, again, damaged };
    /// One attempt at join(): the newest entry in front of which `start` does not lie, or the oldest.
    [[nodiscard]] step search(const broadcast_start& start, std::uint64_t spare, broadcast_boundary& found,
                              bool& reached) const noexcept;
    /// Along the chain from `from`, as far as message `sequence` or the tail.
    [[nodiscard]] step walk(broadcast_boundary& from, std::uint64_t sequence) const noexcept;
    [[nodiscard]] result arrive(const broadcast_start& start, const broadcast_boundary& at, bool reached) noexcept;

    broadcast_view view_;
    std::uint64_t position_ = 0;
    std::uint64_t sequence_ = 1;
    std::uint64_t epoch_ = 0;
    bool pending_restart_ = false;
    holdfast::detail::reader_slip slip_;
};

inline result broadcast_read_core::jump(std::uint64_t spare) noexcept {
    const broadcast_geometry& geometry = view_.geometry();
    for (unsigned attempt = 0; attempt < broadcast_attempts; ++attempt) {
        const std::uint64_t horizon = view_.horizon();
        // We were overrun, and the horizon only rises.
        if (horizon > broadcast_position_max || horizon < position_ || horizon - position_ <= geometry.capacity - spare)
            return {outcome::corrupt, 0};
        const auto target = view_.boundary(view_.oldest_stride(horizon, geometry.capacity / 4));
        if ((!target || view_.overrun(target->position)) && view_.horizon() != horizon) continue;
        // The horizon stood still meanwhile, or the target is still there: an entry that is missing or does not lie
        // ahead of us is damage (I3, I4).
        if (!target || target->position <= position_ || target->sequence < sequence_ || target->position > horizon)
            return {outcome::corrupt, 0};
        const std::uint64_t lost = target->sequence - sequence_;
        position_ = target->position;
        sequence_ = target->sequence;
        return {outcome::lapped, lost};
    }
    return {outcome::lapped, 0};
}

inline broadcast_read_core::step broadcast_read_core::search(const broadcast_start& start, std::uint64_t spare,
                                                             broadcast_boundary& found, bool& reached) const noexcept {
    const std::uint64_t horizon = view_.horizon();
    if (horizon > broadcast_position_max) return step::damaged;
    const auto unless_moved = [&] { return view_.horizon() == horizon ? step::damaged : step::again; };
    std::uint64_t low = view_.oldest_stride(horizon, spare);
    const auto newest = view_.newest_stride(horizon);
    if (!newest || *newest < low) return unless_moved();
    const auto in_front = [&start](const broadcast_boundary& entry) {
        switch (start.where) {
            case broadcast_start::from::oldest: return false;
            case broadcast_start::from::latest: return true;
            case broadcast_start::from::sequence: return entry.sequence <= start.value;
            case broadcast_start::from::time: return entry.time_ns <= start.value;
        }
        return false;
    };
    const auto oldest = view_.boundary(low);
    if (!oldest) return unless_moved();
    found = *oldest;
    reached = start.where == broadcast_start::from::oldest || in_front(*oldest);
    // in_front(low) holds and in_front(high) does not, or high is behind the newest (I4).
    std::uint64_t high = reached && start.where != broadcast_start::from::oldest ? *newest + 1 : low + 1;
    while (high - low > 1) {
        const std::uint64_t middle = low + (high - low) / 2;
        const auto entry = view_.boundary(middle);
        if (!entry) return unless_moved();
        if (in_front(*entry)) {
            low = middle;
            found = *entry;
        } else {
            high = middle;
        }
    }
    // Loaded anew: an entry may be newer than the horizon above, but not than the one before which it was written.
    if (found.position > view_.horizon()) return step::damaged;
    return step::there;
}

inline broadcast_read_core::step broadcast_read_core::walk(broadcast_boundary& from,
                                                           std::uint64_t sequence) const noexcept {
    const std::uint64_t begin = from.position;
    while (from.sequence < sequence) {
        const ring_word record = view_.record_at(from.position);
        const bool moves = record.kind == ring_word_kind::message || record.kind == ring_word_kind::skip;
        // A lap is the limit of any walk, whatever the bytes say.
        if (!moves || from.position + record.bytes - begin > view_.geometry().capacity) {
            if (view_.overrun(begin)) return step::again;
            return record.kind == ring_word_kind::not_ready ? step::there : step::damaged;
        }
        from.position += record.bytes;
        if (record.kind == ring_word_kind::message) ++from.sequence;
    }
    return view_.overrun(begin) ? step::again : step::there;
}

inline result broadcast_read_core::arrive(const broadcast_start& start, const broadcast_boundary& at,
                                          bool reached) noexcept {
    position_ = at.position;
    sequence_ = at.sequence;
    // Acquire: a restart is reported for what comes after the join only.
    epoch_ = view_.control().epoch.load(std::memory_order_acquire);
    pending_restart_ = false;
    if (start.where == broadcast_start::from::sequence) {
        const std::uint64_t wanted = start.value == 0 ? 1 : start.value;
        if (at.sequence > wanted) return {outcome::lapped, at.sequence - wanted};
        if (at.sequence < wanted) return {outcome::empty, 0};
    }
    // By time: everything is still there when nothing was overwritten yet.
    if (!reached && at.sequence > 1) return {outcome::lapped, 0};
    return {outcome::ok, 0};
}

inline result broadcast_read_core::join(const broadcast_start& start, std::uint64_t spare) noexcept {
    for (unsigned attempt = 0; attempt < broadcast_attempts; ++attempt) {
        broadcast_boundary at;
        bool reached = false;
        step went = search(start, spare, at, reached);
        if (went == step::there && reached) {
            if (start.where == broadcast_start::from::latest) went = walk(at, ~std::uint64_t{0});
            if (start.where == broadcast_start::from::sequence) went = walk(at, start.value);
        }
        if (went == step::there && view_.overrun(at.position)) went = step::again;
        if (went == step::damaged) return {outcome::corrupt, 0};
        if (went == step::there) return arrive(start, at, reached);
    }
    return {outcome::lapped, 0};
}

}  // namespace holdfast::layout
