// SPDX-License-Identifier: Apache-2.0
// broadcast_view.hpp - a broadcast ring's bytes by position, and its index: looking only, from any bytes.
//
// Nothing found here may be believed before overrun() has said that the lowest position it depends on is still in the
// ring. Synchronisation: broadcast_read.hpp.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "holdfast/layout/broadcast_layout.hpp"

namespace holdfast::layout {

/// Where a record begins (or will), its sequence number, and a time at or before which all in front of it was
/// published.
struct broadcast_boundary {
    std::uint64_t position = 0;
    std::uint64_t sequence = 0;
    std::uint64_t time_ns = 0;
};

/// Looks at a ring. Holds no state but where the bytes are: copies are free, any thread may use its own.
class broadcast_view {
 public:
    broadcast_view() = default;
    /// Requires: `geometry` validated against body.size(); body aligned to 64 bytes.
    broadcast_view(std::span<const std::byte> body, const broadcast_geometry& geometry) noexcept
        : base_(body.data()), ring_(body.data() + geometry.ring_offset()), geometry_(geometry) {}

    [[nodiscard]] const broadcast_geometry& geometry() const noexcept { return geometry_; }
    [[nodiscard]] const broadcast_control& control() const noexcept {
        return *reinterpret_cast<const broadcast_control*>(base_);
    }
    [[nodiscard]] const broadcast_report& report(std::uint32_t slot) const noexcept {
        return *reinterpret_cast<const broadcast_report*>(base_ + broadcast_geometry::report_offset(slot));
    }
    [[nodiscard]] const broadcast_entry& entry(std::uint64_t stride) const noexcept {
        return *reinterpret_cast<const broadcast_entry*>(base_ + geometry_.entry_offset(stride));
    }
    /// The byte of a position. Aligned to 8 when the position is.
    [[nodiscard]] const std::byte* at(std::uint64_t position) const noexcept {
        return ring_ + (position & (geometry_.capacity - 1));
    }
    /// The record word at a position, taken apart and bounded by the ring's end. Requires: a multiple of 8.
    [[nodiscard]] ring_word record_at(std::uint64_t position) const noexcept {
        // R1, pairs with W3 of broadcast_write.hpp: who sees a record's word sees its payload. Weaker would not.
        const std::uint64_t word =
            reinterpret_cast<const std::atomic<std::uint64_t>*>(at(position))->load(std::memory_order_acquire);
        return ring_decode(word, ring_room(position, geometry_.capacity));
    }
    /// The horizon as it is now; nothing read before is ordered by it.
    [[nodiscard]] std::uint64_t horizon() const noexcept {
        // Acquire: what is read of the index afterwards is at least as new (W1 follows the index's stores).
        return control().horizon.load(std::memory_order_acquire);
    }
    /// Whether bytes of positions from `position` on that were read before this call may have been overwritten
    /// meanwhile. A horizon below the position, which only damage makes, also says so.
    [[nodiscard]] bool overrun(std::uint64_t position) const noexcept {
        // R2: the fence keeps the loads above from sinking below the check; pairs with the fence behind W1. Weaker: a
        // mix of two laps could pass.
        std::atomic_thread_fence(std::memory_order_acquire);
        // Relaxed: the fence above orders it.
        return control().horizon.load(std::memory_order_relaxed) - position > geometry_.capacity;
    }

    /// The first stride all of whose positions are at least `spare` bytes above what may be being overwritten.
    [[nodiscard]] std::uint64_t oldest_stride(std::uint64_t horizon, std::uint64_t spare) const noexcept {
        const std::uint64_t kept = geometry_.capacity - spare;
        return horizon <= kept ? 0 : (horizon - kept + geometry_.stride - 1) / geometry_.stride;
    }
    /// Reads the entry of a stride. Nothing when it is not there (yet, or any more) or names no position it could name.
    [[nodiscard]] std::optional<broadcast_boundary> boundary(std::uint64_t stride) const noexcept {
        const broadcast_entry& found = entry(stride);
        // R3, pairs with W4: the rest of the entry is as new as the tag.
        if (found.tag.load(std::memory_order_acquire) != stride + 1) return std::nullopt;
        // Relaxed: believed only if the tag is still the same below.
        const broadcast_boundary result{found.position.load(std::memory_order_relaxed),
                                        found.sequence.load(std::memory_order_relaxed),
                                        found.time_ns.load(std::memory_order_relaxed)};
        // Keeps the three loads above the second look at the tag; pairs with the fence behind the store of 0.
        std::atomic_thread_fence(std::memory_order_acquire);
        // Relaxed: behind the fence.
        if (found.tag.load(std::memory_order_relaxed) != stride + 1) return std::nullopt;
        const bool possible = result.position % ring_word_bytes == 0 && result.position >= stride * geometry_.stride &&
                              result.position - stride * geometry_.stride <= geometry_.capacity / 4 &&
                              result.sequence != 0;
        return possible ? std::optional(result) : std::nullopt;
    }
    /// The newest stride that has an entry, looking down from the horizon. Nothing when there is none where one must be
    /// (I2, I3), or the horizon was damaged. Cost: at most half the strides of the ring.
    [[nodiscard]] std::optional<std::uint64_t> newest_stride(std::uint64_t horizon) const noexcept {
        std::uint64_t stride = geometry_.stride_of(horizon);
        // Tail >= horizon - chain_max - stride - 8, and the entries behind the tail may be missing for one chain more.
        for (std::uint64_t left = entries_behind_horizon(); left > 0; --left, --stride) {
            if (boundary(stride)) return stride;
            if (stride == 0) break;
        }
        return std::nullopt;
    }

 private:
    [[nodiscard]] std::uint64_t entries_behind_horizon() const noexcept {
        return 2 * geometry_.chain_max() / geometry_.stride + 4;
    }

    const std::byte* base_ = nullptr;
    const std::byte* ring_ = nullptr;
    broadcast_geometry geometry_{};
};

}  // namespace holdfast::layout
