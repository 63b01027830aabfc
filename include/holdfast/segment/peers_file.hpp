// SPDX-License-Identifier: Apache-2.0
// peers_file.hpp - the bytes of NAME.peers: state that registered readers write, apart from the data that they only
// read.
//
// Layout v1 (little-endian)
//   offset  bytes     field       written by
//        0      8     magic       whoever makes the file: the creator, or a writer that finds it missing
//        8     16     identity    the segment it belongs to
//       24      4     slots
//       28   4068     reserved    zero
//     4096  128*slots slots       the holder of the slot's lock: an OFD lock on the slot's first byte
// (I1) The file's length is 4096 + 128 * slots, with the slot count of the segment's own header, never the one here.
// Crash: a dead reader's lock is free; its slot's content is stale and whoever it hinders may clear it.
#pragma once

#include <time.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "holdfast/layout/segment_header.hpp"
#include "holdfast/memory/shared_file.hpp"
#include "holdfast/memory/space.hpp"
#include "holdfast/segment/lease.hpp"
#include "holdfast/segment/places.hpp"

namespace holdfast::layout {

inline constexpr std::uint64_t peers_magic = 0x3152454550444c48;  // "HLDPEER1" in memory order
inline constexpr std::size_t peer_slot_bytes = 128;

struct peers_header {
    std::uint64_t magic;
    identity_array identity;
    std::uint32_t slots;
    std::array<std::uint8_t, 4068> reserved;
};
static_assert(sizeof(peers_header) == header_bytes && offsetof(peers_header, identity) == 8 &&
              offsetof(peers_header, slots) == 24);

[[nodiscard]] constexpr std::uint64_t peers_bytes(std::uint32_t slots) noexcept {
    return header_bytes + std::uint64_t{slots} * peer_slot_bytes;
}
[[nodiscard]] constexpr std::int64_t peer_slot_offset(std::uint32_t slot) noexcept {
    return static_cast<std::int64_t>(header_bytes + std::size_t{slot} * peer_slot_bytes);
}

}  // namespace holdfast::layout

namespace holdfast::detail {

/// Fills an empty file. Throws: no_space.
inline void fill_peers(int fd, const identity_array& identity, std::uint32_t slots, const std::string& subject) {
    memory::reserve_file(fd, layout::peers_bytes(slots), subject);
    layout::peers_header header{};
    header.magic = layout::peers_magic;
    header.identity = identity;
    header.slots = slots;
    if (::pwrite(fd, &header, sizeof header, 0) != static_cast<ssize_t>(sizeof header))
        memory::throw_errno(errno, subject, "writing the peers file");
}

/// Whether the file belongs to the segment of that identity and has its slots. Throws: io and others where that cannot
/// be told: it may be the segment's own then, in which others have their places.
[[nodiscard]] inline bool peers_match(int fd, const identity_array& identity, std::uint32_t slots,
                                      const std::string& subject) {
    struct stat status{};
    if (::fstat(fd, &status) != 0) memory::throw_errno(errno, subject, "examining the peers file");
    if (static_cast<std::uint64_t>(status.st_size) != layout::peers_bytes(slots)) return false;
    layout::peers_header header{};
    const ssize_t got = memory::read_at(fd, &header, sizeof header, 0);
    if (got < 0) memory::throw_errno(errno, subject, "reading the peers file");
    return got == static_cast<ssize_t>(sizeof header) && header.magic == layout::peers_magic &&
           header.identity == identity && header.slots == slots;
}

/// The right to take a peers file's name away. A holder of an exclusive lease has it alone; of those that share one it
/// is a lock in the lease's file, which no reader can open. (One in the peers file itself any reader could hold.)
class peers_replacement {
 public:
    peers_replacement(int lease, writers policy) noexcept
        : lease_(policy == writers::many ? lease : -1),
          had_(lease_ < 0 || memory::try_lock(lease_, memory::lock_mode::exclusive, peers_byte)) {}
    peers_replacement(const peers_replacement&) = delete;
    peers_replacement& operator=(const peers_replacement&) = delete;
    ~peers_replacement() {
        if (had_ && lease_ >= 0) memory::unlock(lease_, peers_byte);
    }
    [[nodiscard]] bool had() const noexcept { return had_; }

 private:
    int lease_;
    bool had_;
};

/// Makes sure that the companion of a named segment is there and is its own. Requires: `lease`, held by that policy.
inline void ensure_peers(const places& where, int lease, writers policy, const identity_array& identity,
                         std::uint32_t slots, const memory::ownership& rights, const memory::trust& whom,
                         const std::string& subject) {
    if (slots == 0) return;
    for (int tries = 0; tries < 1000; ++tries) {
        const memory::descriptor existing = memory::open_trusted(where.peers(), O_RDWR, whom, subject);
        if (existing && peers_match(existing.get(), identity, slots, subject)) return;
        if (existing) {  // of an earlier segment of this name, or written over
            const peers_replacement mine(lease, policy);
            if (!mine.had()) {
                const struct timespec pause{0, 100'000};
                ::nanosleep(&pause, nullptr);
                continue;
            }
            if (!memory::still_named(where.peers(), existing.get())) continue;
            ::unlink(where.peers().c_str());
        }
        memory::unpublished_file fresh = memory::unpublished_file::make(where.directory, where.peers_name, subject);
        memory::set_ownership(fresh.fd(), rights, subject);
        fill_peers(fresh.fd(), identity, slots, subject);
        if (fresh.publish(where.peers_name, subject)) return;
    }
    throw error(errc::io, subject, "the peers file is replaced without end; stop whatever does that");
}

}  // namespace holdfast::detail
