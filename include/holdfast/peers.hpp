// SPDX-License-Identifier: Apache-2.0
// peers.hpp - slots that registered readers write, apart from the data that they may only read.
//
// A slot belongs to whoever holds the lock on its first byte in NAME.peers; the kernel frees it when the holder dies,
// so no heartbeat and no pid is needed to know the living from the dead. heap: segments are one process: their slots
// are plain memory with a flag each.
// (I1) The slot count is that of the segment's validated header; an index at or above it is refused.
// (I2) A slot's bytes belong to its holder; whoever finds its lock free may clear them.
// Threads: claim, release and alive may run together on different objects; one object is used by one thread at a time.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "holdfast/segment.hpp"
#include "holdfast/segment/peers_file.hpp"

namespace holdfast {

/// Access to the slots of a segment's registered readers. Move-only; slots still claimed are given back on destruction.
class peers {
 public:
    static constexpr std::size_t slot_bytes = layout::peer_slot_bytes;

    /// Opens a description of its own on the companion file of `of` (a memfd: segment: the descriptor it was given).
    /// Throws: not_found (the segment has no slots, or its companion is missing), no_permission, geometry_mismatch.
    [[nodiscard]] static peers open(const segment& of, const memory::trust& whom = {}) { return open(of, whom, true); }
    /// To look at what the slots' holders wrote and whether they live: the right to read the companion will do.
    /// Requires: nothing is claimed, held or stored to. Throws: as open().
    [[nodiscard]] static peers open_to_look(const segment& of, const memory::trust& whom = {}) {
        return open(of, whom, false);
    }

    [[nodiscard]] std::uint32_t size() const noexcept { return slots_; }

    /// Takes a free slot and zeroes it; nothing when all are taken. Cost: a system call per slot tried.
    [[nodiscard]] std::optional<std::uint32_t> claim() noexcept {
        for (std::uint32_t slot = 0; slot < slots_; ++slot) {
            if (claimed_by_us(slot) ||
                !memory::try_lock(file_.get(), memory::lock_mode::exclusive, layout::peer_slot_offset(slot)))
                continue;
            clear(slot);
            ours_[slot / 64] |= std::uint64_t{1} << (slot % 64);
            return slot;
        }
        return std::nullopt;
    }

    /// Takes one given slot and leaves its bytes as they are, for a role whose state outlives its holders; it is given
    /// up with this object. Returns: false, errno as of try_lock(), when another holds it or it cannot be locked.
    [[nodiscard]] bool hold(std::uint32_t slot) noexcept {
        if (slot >= slots_ || claimed_by_us(slot) ||
            !memory::try_lock(file_.get(), memory::lock_mode::exclusive, layout::peer_slot_offset(slot)))
            return false;
        ours_[slot / 64] |= std::uint64_t{1} << (slot % 64);
        return true;
    }

    /// Gives back a slot that claim() returned: zeroes it, then frees the lock.
    void release(std::uint32_t slot) noexcept {
        if (slot >= slots_ || !claimed_by_us(slot)) return;
        clear(slot);
        ours_[slot / 64] &= ~(std::uint64_t{1} << (slot % 64));
        memory::unlock(file_.get(), layout::peer_slot_offset(slot));
    }

    /// Whether a living process other than this object holds the slot.
    [[nodiscard]] bool alive(std::uint32_t slot) const noexcept {
        return slot < slots_ && memory::locked_elsewhere(file_.get(), layout::peer_slot_offset(slot));
    }

    /// The bytes of a slot, 128-byte aligned, as 8-byte words to be used through atomics. Requires: slot < size().
    [[nodiscard]] std::span<std::byte, slot_bytes> slot(std::uint32_t index) const noexcept {
        return std::span<std::byte, slot_bytes>(map_.data() + header_bytes + std::size_t{index} * slot_bytes,
                                                slot_bytes);
    }

 private:
    peers() = default;

    [[nodiscard]] static peers open(const segment& of, const memory::trust& whom, bool writable) {
        const segment_info& info = of.info();
        if (info.peer_slots == 0)
            throw error(errc::not_found, info.uri,
                        "the segment was made without slots for registered readers; make it with some");
        peers result;
        result.slots_ = info.peer_slots;
        if (of.name().kind == memory::kind::heap)
            throw error(errc::unsupported, info.uri, "heap: memory has no registered readers; use anon:");
        result.file_ = open_file(of, whom, writable ? O_RDWR : O_RDONLY);
        if (!detail::peers_match(result.file_.get(), info.identity, info.peer_slots, info.uri))
            throw error(errc::geometry_mismatch, info.uri,
                        "the peers file belongs to another segment; the writer mends it when it next attaches");
        result.map_ =
            memory::mapping::of_file(result.file_.get(), layout::peers_bytes(info.peer_slots), writable, info.uri);
        result.watch_ = memory::truncation_watch::over(result.map_.data(), result.map_.bytes(), writable);
        return result;
    }

    [[nodiscard]] static memory::descriptor open_file(const segment& of, const memory::trust& whom, int flags) {
        const std::string& subject = of.uri();
        if (of.name().is_memfd()) {
            if (of.descriptors().peers < 0)
                throw error(errc::not_found, subject, "no peers descriptor was given; ask the creator for it");
            const int seals = ::fcntl(of.descriptors().peers, F_GET_SEALS);
            if (seals < 0 || (seals & F_SEAL_SHRINK) == 0)
                throw error(errc::unsafe_file, subject,
                            "the peers memory is not sealed against truncation; ask the creator for its own");
            return detail::reopen(of.descriptors().peers, flags, subject);
        }
        memory::descriptor file = memory::open_trusted(detail::places_of(of.name()).peers(), flags, whom, subject);
        if (!file)
            throw error(errc::not_found, subject,
                        "the peers file is missing; the writer makes it when it next attaches");
        return file;
    }

    [[nodiscard]] bool claimed_by_us(std::uint32_t slot) const noexcept {
        return (ours_[slot / 64] >> (slot % 64) & 1U) != 0;
    }

    void clear(std::uint32_t index) const noexcept {
        auto* words = reinterpret_cast<std::uint64_t*>(slot(index).data());
        // Release: what the reader loaded under its claim comes before the slot is seen cleared; pairs with the acquire
        // of whoever reads the slot next. Zero means "nothing" to every container.
        for (std::size_t i = 0; i < slot_bytes / sizeof(std::uint64_t); ++i)
            std::atomic_ref(words[i]).store(0, std::memory_order_release);
    }

    std::uint32_t slots_ = 0;
    memory::mapping map_;
    memory::truncation_watch watch_;  // a peer that may write the file may cut it off; then its slots read as empty
    memory::descriptor file_;         // closing it frees every slot still held
    std::array<std::uint64_t, peer_slots_max / 64> ours_{};
};

}  // namespace holdfast
