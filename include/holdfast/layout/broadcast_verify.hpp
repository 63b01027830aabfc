// SPDX-License-Identifier: Apache-2.0
// broadcast_verify.hpp - checks everything of a broadcast ring that has a structure: horizon, index, and the chain of
// records from the oldest to the tail. At rest or while its writer works.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "holdfast/detail/concat.hpp"
#include "holdfast/layout/broadcast_view.hpp"
#include "holdfast/layout/finding.hpp"

namespace holdfast::layout {

/// What a check of a broadcast ring looked at.
struct broadcast_checked {
    bool quiet = true;           ///< false: the writer overran every look; nothing can be said of the ring
    std::uint64_t messages = 0;  ///< that can still be read
    std::uint64_t oldest = 1;    ///< number of the first of them
    std::uint64_t tail = 0;      ///< position behind the last
};

/// One look from the oldest entry to the tail.
class broadcast_inspection {
 public:
    explicit broadcast_inspection(const broadcast_view& view) noexcept : view_(view), horizon_(view.horizon()) {}

    /// Returns: false when the writer overran the look, whose results then mean nothing.
    [[nodiscard]] bool run(findings& found, broadcast_checked& checked) {
        using holdfast::detail::concat;
        const broadcast_geometry& geometry = view_.geometry();
        if (horizon_ > broadcast_position_max || horizon_ % geometry.stride != 0) {
            found.add(0, concat("the horizon is ", horizon_, ", which is no stride of ", geometry.stride, " bytes"));
            return true;
        }
        const auto newest = view_.newest_stride(horizon_);
        const std::uint64_t low = view_.oldest_stride(horizon_, 0);
        const auto oldest = view_.boundary(low);
        if (!newest || !oldest || *newest < low) {
            if (view_.horizon() != horizon_) return false;
            found.add(geometry.entry_offset(low), "the index has no entry for the oldest or the newest stride");
            return true;
        }
        // Loaded anew, behind the entry: no writer makes one before the horizon is above it (I3). To overrun() below it
        // would look like a writer at work, for ever.
        if (const std::uint64_t now = view_.horizon(); oldest->position > now) {
            found.add(geometry.entry_offset(low),
                      concat("the oldest entry names position ", oldest->position, ", the horizon is ", now));
            return true;
        }
        newest_ = *newest;
        const auto last = view_.boundary(newest_);
        const findings before = found;
        const bool whole = walk(*oldest, found, checked);
        // Nothing of it was overwritten during the look, or it is to be repeated.
        if (view_.overrun(oldest->position)) {
            found = before;
            return false;
        }
        if (whole && last && last->position > checked.tail)
            found.add(geometry.entry_offset(newest_), concat("the index knows a record at ", last->position,
                                                             " although the last ends at ", checked.tail));
        if (whole && horizon_ > checked.tail + geometry.chain_max() + geometry.stride + ring_word_bytes)
            found.add(0, concat("the horizon is ", horizon_, " although the last record ends at ", checked.tail));
        return true;
    }

 private:
    bool walk(const broadcast_boundary& from, findings& found, broadcast_checked& checked) {
        using holdfast::detail::concat;
        const broadcast_geometry& geometry = view_.geometry();
        broadcast_boundary at = from;
        time_ns_ = from.time_ns;
        checked.oldest = from.sequence;
        for (bool skipped = false;;) {
            checked.messages = at.sequence - from.sequence;
            checked.tail = at.position;
            const ring_word record = view_.record_at(at.position);
            if (record.kind == ring_word_kind::not_ready && !skipped) break;
            const bool message = record.kind == ring_word_kind::message && record.length <= geometry.message_max();
            const bool skip = record.kind == ring_word_kind::skip && !skipped && record.bytes <= geometry.capacity / 4;
            if ((!message && !skip) || at.position + record.bytes - from.position > geometry.capacity) {
                found.add(ring_offset(at.position), concat("the record at position ", at.position, ", before message ",
                                                           at.sequence, ", has an impossible word"));
                return false;
            }
            const std::uint64_t stride = geometry.stride_of(at.position);
            at.position += record.bytes;
            if (message) ++at.sequence;
            skipped = skip;
            compare(stride, at, found);
        }
        if (checked.tail + ring_word_bytes > view_.horizon() && checked.tail != 0) {
            found.add(0, concat("records reach to ", checked.tail, ", the horizon is ", view_.horizon()));
            return false;
        }
        return true;
    }
    /// The entries of the strides entered by the record behind which `at` lies.
    void compare(std::uint64_t stride, const broadcast_boundary& at, findings& found) {
        using holdfast::detail::concat;
        const std::uint64_t last = view_.geometry().stride_of(at.position);
        while (stride < last) {
            ++stride;
            const std::uint64_t offset = view_.geometry().entry_offset(stride);
            // Acquire, as boundary(): a living writer may be about to write it.
            const std::uint64_t tag = view_.entry(stride).tag.load(std::memory_order_acquire);
            if (stride > newest_ && may_be_missing(stride, tag)) continue;
            const auto entry = view_.boundary(stride);
            if (!entry)
                found.add(offset, concat("the index has no sound entry for stride ", stride));
            else if (entry->position != at.position || entry->sequence != at.sequence)
                found.add(offset,
                          concat("the index names message ", entry->sequence, " at ", entry->position, " for stride ",
                                 stride, "; the records say ", at.sequence, " at ", at.position));
            else if (entry->time_ns < time_ns_)
                found.add(offset, concat("the time of stride ", stride, " lies before that of the one in front of it"));
            if (entry) time_ns_ = entry->time_ns;
        }
    }
    /// A kill leaves the newest entries unwritten: 0, or what was there an index ago, whole.
    [[nodiscard]] bool may_be_missing(std::uint64_t stride, std::uint64_t tag) const noexcept {
        const std::uint64_t entries = view_.geometry().entries();
        if (tag == 0) return true;
        if (stride < entries || tag != stride + 1 - entries) return false;
        // A living writer may be overwriting it just now; then its tag has changed. Acquire, as boundary().
        return view_.boundary(stride - entries) || view_.entry(stride).tag.load(std::memory_order_acquire) != tag;
    }
    [[nodiscard]] std::uint64_t ring_offset(std::uint64_t position) const noexcept {
        return view_.geometry().ring_offset() + (position & (view_.geometry().capacity - 1));
    }

    const broadcast_view& view_;
    std::uint64_t horizon_;
    std::uint64_t newest_ = 0;
    std::uint64_t time_ns_ = 0;
};

/// What is damaged in a ring's structure. Reads only; any bytes are safe; a writer may be at work meanwhile. Payloads
/// have no checksum and are not looked at.
/// Requires: `geometry` validated against body.size(); body aligned to 64 bytes. Cost: one load for each record.
inline broadcast_checked verify_broadcast(std::span<const std::byte> body, const broadcast_geometry& geometry,
                                          findings& found) {
    const broadcast_view view(body, geometry);
    constexpr unsigned looks = 8;
    for (unsigned look = 0; look < looks; ++look) {
        broadcast_checked checked;
        if (broadcast_inspection(view).run(found, checked)) return checked;
    }
    return {false, 0, 1, 0};
}

}  // namespace holdfast::layout
