// SPDX-License-Identifier: Apache-2.0
// snapshot_verify.hpp - checks every byte of a snapshot that means something, at rest or while its writer works.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "holdfast/detail/checksum.hpp"
#include "holdfast/layout/finding.hpp"
#include "holdfast/layout/snapshot_layout.hpp"
#include "holdfast/layout/snapshot_read.hpp"

namespace holdfast::layout {

inline void verify_snapshot_slot(const snapshot_read_core& core, std::uint32_t index, findings& found) {
    const snapshot_slot& header = core.slot(index);
    const std::uint64_t at = snapshot_geometry::header_offset(index);
    const std::string name = "slot " + std::to_string(index);
    // As a reader: R1, pairs with W1 of snapshot_write.hpp.
    const std::uint64_t version = header.version.load(std::memory_order_acquire);
    if (version == 0) return;
    // After the slot's version: whoever stored v there had published v - 1 before, so no live writer can break the
    // comparison below.
    const std::uint64_t current_version = snapshot_version_of(core.current());
    // Relaxed: all of it is believed only if the version below has not moved.
    const std::uint64_t bytes = header.bytes.load(std::memory_order_relaxed);
    const std::uint64_t format = header.format.load(std::memory_order_relaxed);
    const std::uint64_t expected = header.checksum.load(std::memory_order_relaxed);
    const bool fits = bytes <= core.geometry().slot_bytes;
    const std::byte* payload = core.payload(snapshot_word(version, index));
    const std::uint64_t sum = fits ? holdfast::detail::checksum({payload, static_cast<std::size_t>(bytes)}) : 0;
    // After the copies, like still_there(), but by the whole version: a damaged one may not fit into a snapshot word.
    std::atomic_thread_fence(std::memory_order_acquire);
    // Relaxed: behind the fence.
    if (header.version.load(std::memory_order_relaxed) != version) return;  // being refilled
    if (version > snapshot_version_max) {
        found.add(at, name + " holds version " + std::to_string(version) + ", the last possible is 2^56-1");
    } else if (version > current_version + 1) {  // current + 1: a publish cut short, harmless
        found.add(at, name + " holds version " + std::to_string(version) + " although current is " +
                          std::to_string(current_version));
    }
    if (!fits) {
        found.add(at + offsetof(snapshot_slot, bytes), name + " claims " + std::to_string(bytes) +
                                                           " bytes, a slot has " +
                                                           std::to_string(core.geometry().slot_bytes));
    } else if (sum != expected) {
        found.add(core.geometry().payload_offset(index),
                  name + ", version " + std::to_string(version) + ": payload or its checksum is damaged");
    }
    if (format != core.geometry().format)
        found.add(at + offsetof(snapshot_slot, format), name + " carries another payload format than the segment");
}

/// The front is checked against what the slot of the same word says of its object (I5).
inline void verify_snapshot_front(const snapshot_read_core& core, findings& found) {
    const snapshot_front& front = core.control().front;
    const std::uint64_t at = offsetof(snapshot_control, front);
    // R7, as a reader.
    const std::uint64_t word = front.word.load(std::memory_order_acquire);
    if (word == 0) return;
    // After the front's word: a writer stores it behind `current` (W2, W8).
    const std::uint64_t current = core.current();
    if (snapshot_version_of(word) > snapshot_version_of(current)) {
        found.add(at, "the copy beside current is of version " + std::to_string(snapshot_version_of(word)) +
                          " although current is " + std::to_string(snapshot_version_of(current)));
        return;
    }
    if (word != current) return;  // means nothing, or is about to
    const snapshot_located in_slot = core.check(word);
    if (in_slot.status != outcome::ok) return;  // moved on, or found with the slot
    // Relaxed: believed only if neither word nor version has moved.
    const std::uint64_t bytes = front.bytes.load(std::memory_order_relaxed);
    const std::uint64_t expected = core.slot(snapshot_slot_of(word)).checksum.load(std::memory_order_relaxed);
    const bool fits = bytes == in_slot.bytes && bytes <= snapshot_front_bytes;
    const std::uint64_t sum = fits ? holdfast::detail::checksum({front.data, static_cast<std::size_t>(bytes)}) : 0;
    // still_there() begins with the fence that keeps the loads above in front of both looks (R3, R8).
    if (!core.still_there(in_slot) || front.word.load(std::memory_order_relaxed) != word) return;
    if (!fits) {
        found.add(at + offsetof(snapshot_front, bytes), "the copy beside current claims " + std::to_string(bytes) +
                                                            " bytes, the object has " + std::to_string(in_slot.bytes));
    } else if (sum != expected) {
        found.add(at + offsetof(snapshot_front, data),
                  "the copy beside current of version " + std::to_string(in_slot.version()) + " is damaged");
    }
}

/// What is damaged in a snapshot's body. Reads only; any bytes are safe; a writer may be at work meanwhile.
/// Requires: `geometry` validated against body.size(); body aligned to 64 bytes.
/// Cost: one pass over the payloads of the versions held.
inline void verify_snapshot(std::span<const std::byte> body, const snapshot_geometry& geometry, findings& found) {
    const snapshot_read_core core(body, geometry);
    const snapshot_located current = core.locate();
    if (current.status == outcome::corrupt)
        found.add(0, "current word " + std::to_string(current.word) + " names no whole object");
    verify_snapshot_front(core, found);
    for (std::uint32_t i = 0; i < geometry.slots; ++i) {
        verify_snapshot_slot(core, i, found);
        const std::uint64_t held = core.slot(i).version.load(std::memory_order_acquire);  // R1, as above
        for (std::uint32_t j = 0; held != 0 && j < i; ++j) {
            const std::uint64_t other = core.slot(j).version.load(std::memory_order_acquire);  // R1, as above
            // A writer gives each version to one slot. The look back rules out a slot emptied by recovery meanwhile.
            if (other == held && core.still_there({outcome::ok, snapshot_word(held, i), 0}))
                found.add(snapshot_geometry::header_offset(i), "slots " + std::to_string(j) + " and " +
                                                                   std::to_string(i) + " both hold version " +
                                                                   std::to_string(held));
        }
    }
}

}  // namespace holdfast::layout
