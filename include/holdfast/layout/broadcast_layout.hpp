// SPDX-License-Identifier: Apache-2.0
// broadcast_layout.hpp - where everything of a broadcast ring lies: horizon, index by strides, and the ring itself.
//
// Layout v1 of the segment's body (little-endian)
//   offset        bytes  field       written by
//        0            8  horizon     writer: it may be overwriting every byte of a position below horizon - capacity
//        8            8  epoch       writer: 1, and how often the ring was taken over
//      128            8  refused     writer: publishes refused because a registered reader holds them up
//      136            8  evicted     writer: registered readers whose patience ran out
//      144            8  reclaimed   writer: dead registered readers whose hold was taken back
//      192            4  bell        writer: counted up for readers that sleep
//      196            4  blocked     writer: 1 while it sleeps, waiting for room
//      256         64*R  reports     writer: one line for each registered reader's slot (broadcast_report)
//        I         32*N  index       writer: entry s is in place s mod N (broadcast_entry)
//        D     capacity  ring        writer: records (ring_record.hpp); D is a multiple of 4096
//
// A position counts bytes since creation; sequence numbers count messages from 1. A stride is `stride` bytes of
// positions, stride s begins at s * stride; N is twice the strides of the ring.
// (I1) Chain: from every position in the index whole records lead to the tail; the word at the tail is 0.
// (I2) Horizon: a multiple of the stride; tail + 8 <= horizon (or both are 0) and horizon <= tail + capacity / 2 +
//      stride + 8. Only positions below it were ever stored to, so the byte of position p is in the ring as long as
//      horizon - p <= capacity.
// (I3) Index: entry s names the first record that begins at or behind s * stride, with its sequence number and a time
//      at or before which everything in front of it was published. It is written after that boundary was committed,
//      in order of s: only the newest can be missing.
// (I4) Positions, sequence numbers and times never decrease from entry s to entry s + 1.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>

#include "holdfast/detail/concat.hpp"
#include "holdfast/error.hpp"
#include "holdfast/layout/ring_record.hpp"

namespace holdfast::layout {

inline constexpr std::uint64_t broadcast_capacity_min = 2048;
inline constexpr std::uint64_t broadcast_capacity_max = ring_capacity_max;
inline constexpr std::uint64_t broadcast_strides_min = 32;
inline constexpr std::uint64_t broadcast_stride_max = 64 * 1024;
inline constexpr std::uint64_t broadcast_page = 4096;
inline constexpr std::uint32_t broadcast_readers_max = 4095;
/// No ring gets this far: 2^60 bytes at 100 GB/s take four months more than a hundred days; larger ones are damage.
inline constexpr std::uint64_t broadcast_position_max = std::uint64_t{1} << 60U;

struct broadcast_control {
    std::atomic<std::uint64_t> horizon;
    std::atomic<std::uint64_t> epoch;
    std::byte padding_0[112];
    std::atomic<std::uint64_t> refused;
    std::atomic<std::uint64_t> evicted;
    std::atomic<std::uint64_t> reclaimed;
    std::byte padding_1[40];
    std::atomic<std::uint32_t> bell;
    std::atomic<std::uint32_t> blocked;
    std::byte padding_2[56];
};

/// What the writer notes about one registered reader; for people.
struct broadcast_report {
    std::atomic<std::uint64_t> registered_ns;  ///< which registration the rest is about: its reader's own word
    std::atomic<std::uint64_t> blocked_ns;     ///< how long it held the writer up, in all
    std::atomic<std::uint64_t> blocked;        ///< how often
    std::atomic<std::uint64_t> evicted;        ///< 1 once its patience ran out
    std::byte padding[32];
};

/// One entry of the index: a boundary between records, believed only while the tag stays.
struct broadcast_entry {
    std::atomic<std::uint64_t> tag;  ///< stride + 1; 0 while the rest is being written
    std::atomic<std::uint64_t> position;
    std::atomic<std::uint64_t> sequence;
    std::atomic<std::uint64_t> time_ns;  ///< Unix time
};

static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
static_assert(sizeof(broadcast_control) == 256 && offsetof(broadcast_control, epoch) == 8 &&
              offsetof(broadcast_control, refused) == 128 && offsetof(broadcast_control, evicted) == 136 &&
              offsetof(broadcast_control, reclaimed) == 144 && offsetof(broadcast_control, bell) == 192 &&
              offsetof(broadcast_control, blocked) == 196);
static_assert(sizeof(broadcast_report) == 64 && offsetof(broadcast_report, blocked_ns) == 8 &&
              offsetof(broadcast_report, blocked) == 16 && offsetof(broadcast_report, evicted) == 24);
static_assert(sizeof(broadcast_entry) == 32 && offsetof(broadcast_entry, position) == 8 &&
              offsetof(broadcast_entry, sequence) == 16 && offsetof(broadcast_entry, time_ns) == 24);
static_assert(std::is_standard_layout_v<broadcast_control> && std::is_standard_layout_v<broadcast_report> &&
              std::is_standard_layout_v<broadcast_entry>);

/// The numbers that place everything. A handle validates them once against the bytes it really has, then uses only its
/// own copy: no stored byte can steer it out of bounds afterwards.
struct broadcast_geometry {
    std::uint64_t capacity = 0;  // bytes of the ring, a power of two
    std::uint64_t stride = 0;    // bytes, a power of two
    std::uint32_t readers = 0;   // registered readers there may be

    [[nodiscard]] constexpr std::uint64_t entries() const noexcept { return 2 * (capacity / stride); }
    [[nodiscard]] static constexpr std::uint64_t report_offset(std::uint32_t slot) noexcept {
        return sizeof(broadcast_control) + std::uint64_t{slot} * sizeof(broadcast_report);
    }
    [[nodiscard]] constexpr std::uint64_t index_offset() const noexcept { return report_offset(readers); }
    [[nodiscard]] constexpr std::uint64_t entry_offset(std::uint64_t stride_number) const noexcept {
        return index_offset() + (stride_number & (entries() - 1)) * sizeof(broadcast_entry);
    }
    [[nodiscard]] constexpr std::uint64_t ring_offset() const noexcept {
        const std::uint64_t end = index_offset() + entries() * sizeof(broadcast_entry);
        return (end + broadcast_page - 1) / broadcast_page * broadcast_page;
    }
    [[nodiscard]] constexpr std::uint64_t body_bytes() const noexcept { return ring_offset() + capacity; }

    [[nodiscard]] constexpr std::uint64_t stride_of(std::uint64_t position) const noexcept { return position / stride; }
    /// The longest message. A quarter of the ring keeps several in it whatever their size.
    [[nodiscard]] constexpr std::uint64_t message_max() const noexcept { return capacity / 4 - ring_word_bytes; }
    /// What may be published at once, records and skips together (I2).
    [[nodiscard]] constexpr std::uint64_t chain_max() const noexcept { return capacity / 2; }

    /// As the words of a segment's geometry.
    [[nodiscard]] constexpr std::array<std::uint64_t, 5> words() const noexcept {
        return {capacity, stride, readers, index_offset(), ring_offset()};
    }

    /// `capacity_bytes` is rounded up to a power of two. Throws: error(invalid_argument).
    static broadcast_geometry make(std::uint64_t capacity_bytes, std::uint64_t readers, const std::string& subject) {
        if (capacity_bytes == 0 || capacity_bytes > broadcast_capacity_max)
            throw error(errc::invalid_argument, subject,
                        holdfast::detail::concat("a broadcast ring has 2048 bytes to 4 GiB, not ", capacity_bytes,
                                                 "; give four times the longest message at least"));
        if (readers > broadcast_readers_max)
            throw error(errc::invalid_argument, subject,
                        holdfast::detail::concat("a broadcast ring has at most 4095 registered readers, not ", readers,
                                                 "; readers that need no registration are without number"));
        const std::uint64_t capacity = std::bit_ceil(std::max(capacity_bytes, broadcast_capacity_min));
        return {capacity, std::min(capacity / broadcast_strides_min, broadcast_stride_max),
                static_cast<std::uint32_t>(readers)};
    }

    /// The geometry stored in a segment, checked against the `body_bytes` really mapped.
    /// Throws: error(geometry_mismatch).
    static broadcast_geometry parse(std::span<const std::uint64_t> words, std::uint64_t body_bytes,
                                    const std::string& subject) {
        const auto refuse = [&](const std::string& why) {
            throw error(errc::geometry_mismatch, subject, why + "; the header is damaged: restore or recreate it");
        };
        using holdfast::detail::concat;
        if (words.size() < 5) refuse("a broadcast ring's geometry has 5 words");
        const std::uint64_t capacity = words[0], stride = words[1], readers = words[2];
        if (!std::has_single_bit(capacity) || capacity < broadcast_capacity_min || capacity > broadcast_capacity_max)
            refuse(concat("header claims a ring of ", capacity, " bytes"));
        if (stride != std::min(capacity / broadcast_strides_min, broadcast_stride_max))
            refuse(concat("header claims strides of ", stride, " bytes in a ring of ", capacity));
        if (readers > broadcast_readers_max) refuse(concat("header claims ", readers, " registered readers"));
        const broadcast_geometry geometry{capacity, stride, static_cast<std::uint32_t>(readers)};
        if (words[3] != geometry.index_offset() || words[4] != geometry.ring_offset())
            refuse(concat("header puts index and ring at ", words[3], " and ", words[4], ", its other numbers say ",
                          geometry.index_offset(), " and ", geometry.ring_offset()));
        if (geometry.body_bytes() != body_bytes)
            refuse(concat("header describes ", geometry.body_bytes(), " bytes, there are ", body_bytes));
        return geometry;
    }
};

// The smallest ring: a quarter of it is several strides, so that every bound on the horizon below leaves room.
static_assert(broadcast_capacity_min / broadcast_strides_min >= 64);

}  // namespace holdfast::layout
