// SPDX-License-Identifier: Apache-2.0
// snapshot_layout.hpp - where everything of a snapshot lies: N slots, each able to hold one whole object, and the word
// that says which of them is current.
//
// Layout v1 of the segment's body (little-endian)
//   offset        bytes  field         written by
//        0            8  current       writer: version << 8 | slot; 0 = nothing published yet
//        8           56  front         writer: a second copy of the current object, if it has 40 bytes or fewer
//                                      (snapshot_front: the value of `current` that it belongs to, size, bytes)
//       64            8  refused       writer: publishes refused because no slot was free
//       72            8  reclaimed     writer: hazards of dead readers taken back
//      128        N*128  slot headers  writer: version, payload bytes, checksum, format, time (snapshot_slot)
//        C      N*S      payloads      writer; C and S are multiples of 4096, payload i starts at C + i*S
//
// (I1) `current` is 0 or names a slot < N whose header carries the same version. It is the only commit point.
// (I2) A slot's version is 0 (empty or being filled) or the version it holds; no two slots hold the same version and
//      none holds one above current's, except between the last two stores of a publish that a crash cut short.
// (I3) The slot named by `current` is never written; nor is one whose version a live reader's hazard names.
// (I4) payload bytes <= slot_bytes.
// (I5) The front's word is 0 or one that `current` has held. While it is the one that `current` holds, the front holds
//      the object of the slot that `current` names, byte for byte. Else the front means nothing: so an image of before
//      there was a front (zeros), and one that a writer who knows of none went on with, are read rightly, and they read
//      ours.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <type_traits>

#include "holdfast/error.hpp"

namespace holdfast::layout {

inline constexpr std::uint32_t snapshot_slots_min = 2;
inline constexpr std::uint32_t snapshot_slots_max = 255;
inline constexpr std::uint64_t snapshot_page = 4096;
inline constexpr std::uint64_t snapshot_slot_bytes_max = std::uint64_t{1} << 46;
inline constexpr std::uint64_t snapshot_version_max = (std::uint64_t{1} << 56) - 1;

inline constexpr std::uint64_t snapshot_front_bytes = 40;  // what the cache line of `current` has left

struct snapshot_front {
    std::atomic<std::uint64_t> word;   // of `current`; 0: being filled, or never filled
    std::atomic<std::uint64_t> bytes;  // <= snapshot_front_bytes
    std::byte data[snapshot_front_bytes];
};

struct snapshot_control {
    std::atomic<std::uint64_t> current;
    snapshot_front front;
    std::atomic<std::uint64_t> refused;
    std::atomic<std::uint64_t> reclaimed;
    std::byte padding_1[48];
};

struct snapshot_slot {
    std::atomic<std::uint64_t> version;
    std::atomic<std::uint64_t> bytes;
    std::atomic<std::uint64_t>
        checksum;                       // holdfast::detail::checksum of the payload: for verify, never on the read path
    std::atomic<std::uint64_t> format;  // what the payload is: container kind | its version << 32
    std::atomic<std::uint64_t> published_ns;  // Unix time, for people
    std::byte padding[88];
};

static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
static_assert(sizeof(snapshot_front) == 56 && offsetof(snapshot_front, bytes) == 8 &&
              offsetof(snapshot_front, data) == 16);
static_assert(sizeof(snapshot_control) == 128 && offsetof(snapshot_control, front) == 8 &&
              offsetof(snapshot_control, refused) == 64 && offsetof(snapshot_control, reclaimed) == 72);
static_assert(sizeof(snapshot_slot) == 128 && offsetof(snapshot_slot, bytes) == 8 &&
              offsetof(snapshot_slot, checksum) == 16 && offsetof(snapshot_slot, format) == 24 &&
              offsetof(snapshot_slot, published_ns) == 32);
static_assert(std::is_standard_layout_v<snapshot_control> && std::is_standard_layout_v<snapshot_front> &&
              std::is_standard_layout_v<snapshot_slot>);

[[nodiscard]] constexpr std::uint64_t snapshot_word(std::uint64_t version, std::uint32_t slot) noexcept {
    return version << 8 | slot;
}
[[nodiscard]] constexpr std::uint64_t snapshot_version_of(std::uint64_t word) noexcept { return word >> 8; }
[[nodiscard]] constexpr std::uint32_t snapshot_slot_of(std::uint64_t word) noexcept {
    return static_cast<std::uint32_t>(word & 0xFFU);
}

/// What a payload is, as stored in a slot and in the geometry: 0 is "bytes of the user's own".
[[nodiscard]] constexpr std::uint64_t payload_format(std::uint32_t kind, std::uint32_t version) noexcept {
    return std::uint64_t{version} << 32 | kind;
}

/// The numbers that place everything. A handle validates them once against the bytes it really has, then uses only its
/// own copy: no stored byte can steer it out of bounds afterwards.
struct snapshot_geometry {
    std::uint32_t slots = 0;
    std::uint64_t slot_bytes = 0;  // largest payload
    std::uint64_t format = 0;      // payload_format of every payload

    [[nodiscard]] constexpr std::uint64_t control_bytes() const noexcept {
        return round_to_page(sizeof(snapshot_control) + slots * sizeof(snapshot_slot));
    }
    [[nodiscard]] constexpr std::uint64_t slot_stride() const noexcept { return round_to_page(slot_bytes); }
    [[nodiscard]] constexpr std::uint64_t body_bytes() const noexcept {
        return control_bytes() + slots * slot_stride();
    }
    /// First byte of slot header `slot` / payload `slot`, from the start of the body.
    [[nodiscard]] static constexpr std::uint64_t header_offset(std::uint32_t slot) noexcept {
        return sizeof(snapshot_control) + slot * sizeof(snapshot_slot);
    }
    [[nodiscard]] constexpr std::uint64_t payload_offset(std::uint32_t slot) const noexcept {
        return control_bytes() + slot * slot_stride();
    }

    /// As the words of a segment's geometry (words from 4 on belong to the payload's own format).
    [[nodiscard]] constexpr std::array<std::uint64_t, 4> words() const noexcept {
        return {slots, slot_bytes, format, control_bytes()};
    }

    /// Throws: error(invalid_argument) when no such snapshot can be.
    static snapshot_geometry make(std::uint64_t slots, std::uint64_t slot_bytes, std::uint64_t format,
                                  const std::string& subject) {
        if (slots < snapshot_slots_min || slots > snapshot_slots_max)
            throw error(errc::invalid_argument, subject,
                        "a snapshot has 2 to 255 slots, not " + std::to_string(slots) +
                            "; take the number of pinned readers plus 2");
        if (slot_bytes == 0 || slot_bytes > snapshot_slot_bytes_max)
            throw error(errc::invalid_argument, subject,
                        "a slot holds 1 to 2^46 bytes, not " + std::to_string(slot_bytes) +
                            "; give the size of the largest object to publish");
        return {static_cast<std::uint32_t>(slots), slot_bytes, format};
    }

    /// The geometry stored in a segment, checked against the `body_bytes` really mapped.
    /// Throws: error(geometry_mismatch).
    static snapshot_geometry parse(std::span<const std::uint64_t> words, std::uint64_t body_bytes,
                                   const std::string& subject) {
        const auto refuse = [&](const std::string& why) {
            throw error(errc::geometry_mismatch, subject, why + "; the header is damaged: restore or recreate it");
        };
        if (words.size() < 4) refuse("a snapshot's geometry has 4 words");
        if (words[0] < snapshot_slots_min || words[0] > snapshot_slots_max)
            refuse("header claims " + std::to_string(words[0]) + " snapshot slots, possible are 2 to 255");
        if (words[1] == 0 || words[1] > snapshot_slot_bytes_max)
            refuse("header claims slots of " + std::to_string(words[1]) + " bytes");
        const snapshot_geometry geometry{static_cast<std::uint32_t>(words[0]), words[1], words[2]};
        if (words[3] != geometry.control_bytes())
            refuse("header puts the payloads at " + std::to_string(words[3]) + ", its slot count says " +
                   std::to_string(geometry.control_bytes()));
        if (geometry.body_bytes() != body_bytes)
            refuse("header describes " + std::to_string(geometry.body_bytes()) + " bytes, there are " +
                   std::to_string(body_bytes));
        return geometry;
    }

 private:
    static constexpr std::uint64_t round_to_page(std::uint64_t bytes) noexcept {
        return (bytes + snapshot_page - 1) / snapshot_page * snapshot_page;
    }
};

// 255 slots of the largest size still fit 64 bits, so none of the sums above can wrap.
static_assert(snapshot_slot_bytes_max <= std::numeric_limits<std::uint64_t>::max() / (4 * snapshot_slots_max));

}  // namespace holdfast::layout
