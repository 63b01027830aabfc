// SPDX-License-Identifier: Apache-2.0
// lease.hpp - who may write: a lock in a companion file that only writers may open.
//
// A lock byte in the data file would let any reader lock the writer out (a read lock works through a read-only
// descriptor), so the lease has a file of its own. Byte 0 is the writer's: locked exclusively under writers::one,
// shared under writers::many. Byte 1 + n is that of writer slot n of containers that give each of many writers a slot
// of its own (segment/writer_slot.hpp), and byte 2^33 of whoever of many writers puts another file in the place of
// NAME.peers. The kernel frees it when the holder is torn down: no time-outs, no heartbeats, no pids. Crash: nothing to
// repair; a lease file without a lock is a free lease.
#pragma once

#include <fcntl.h>
#include <time.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "holdfast/layout/segment_header.hpp"
#include "holdfast/memory/descriptor.hpp"
#include "holdfast/memory/lock.hpp"
#include "holdfast/memory/shared_file.hpp"
#include "holdfast/segment/places.hpp"

namespace holdfast::detail {

inline constexpr std::int64_t lease_byte = 0;
inline constexpr std::int64_t peers_byte = std::int64_t{1} << 33;

[[nodiscard]] constexpr std::int64_t writer_slot_byte(std::uint32_t slot) noexcept { return std::int64_t{1} + slot; }

[[nodiscard]] constexpr memory::lock_mode lease_mode(writers policy) noexcept {
    return policy == writers::one ? memory::lock_mode::exclusive : memory::lock_mode::shared;
}

[[noreturn]] inline void throw_writer_alive(const std::string& subject) {
    throw error(
        errc::writer_alive, subject,
        "a living process holds the lease (holdfast who shows it); attach read-only, or end that process first");
}

[[nodiscard]] inline std::uint64_t monotonic_ns() noexcept {
    struct timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

/// Tries for the lock until it is had or `timeout_ns` has passed; 0 tries once. False when another description holds
/// it.
[[nodiscard]] inline bool lock_within(int fd, memory::lock_mode mode, std::uint64_t timeout_ns,
                                      const std::string& subject) {
    const std::uint64_t begin = monotonic_ns();
    // The kernel offers no timed wait for these locks; a holder that was killed is torn down within a fraction of a
    // millisecond.
    for (long pause_ns = 50'000;; pause_ns = pause_ns < 1'000'000 ? pause_ns * 2 : pause_ns) {
        if (memory::try_lock(fd, mode, lease_byte)) return true;
        if (errno != EAGAIN) memory::throw_errno(errno, subject, "locking the lease");
        if (monotonic_ns() - begin >= timeout_ns) return false;
        const struct timespec pause{0, pause_ns};
        ::nanosleep(&pause, nullptr);
    }
}

/// Opens and locks the lease file at `where.lease()`. Returns nothing when there is none. Throws: writer_alive and
/// errors of opening.
[[nodiscard]] inline std::optional<memory::descriptor> take_existing_lease(const places& where, writers policy,
                                                                           const memory::trust& whom,
                                                                           std::uint64_t timeout_ns,
                                                                           const std::string& subject) {
    for (int tries = 0; tries < 1000; ++tries) {
        memory::descriptor file = memory::open_trusted(where.lease(), O_RDWR, whom, subject);
        if (!file) return std::nullopt;
        if (!lock_within(file.get(), lease_mode(policy), timeout_ns, subject)) throw_writer_alive(subject);
        // A remover unlinks the lease while holding it: a lock on a file without its name guards nothing.
        if (memory::still_named(where.lease(), file.get())) return file;
    }
    throw error(errc::io, subject, "the lease file is replaced faster than it can be locked; stop whatever does that");
}

/// A lease file left by an earlier segment of the name gets the rights of the new one. Throws: no_permission.
inline void give_lease_rights(int fd, const memory::ownership& data_rights, const std::string& subject) {
    memory::ownership wanted = data_rights;
    wanted.mode = memory::writers_mode(data_rights.mode);
    struct stat now{};
    if (::fstat(fd, &now) != 0) memory::throw_errno(errno, subject, "examining the lease");
    const bool same = (now.st_mode & 0777) == wanted.mode && wanted.owner.value_or(now.st_uid) == now.st_uid &&
                      wanted.group.value_or(now.st_gid) == now.st_gid;
    if (!same) memory::set_ownership(fd, wanted, subject);
}

/// A lease that has no name yet, locked before anybody can see it.
[[nodiscard]] inline memory::unpublished_file make_lease(const places& where, writers policy,
                                                         const memory::ownership& data_rights,
                                                         const std::string& subject) {
    memory::unpublished_file file = memory::unpublished_file::make(where.directory, where.lease_name, subject);
    memory::ownership rights = data_rights;
    rights.mode = memory::writers_mode(data_rights.mode);
    memory::set_ownership(file.fd(), rights, subject);
    if (!memory::try_lock(file.fd(), lease_mode(policy), lease_byte))
        memory::throw_errno(errno, subject, "locking the lease");
    return file;
}

/// A lease that is held, and whether its file was there before.
struct taken_lease {
    memory::descriptor file;
    bool was_there = false;
};

/// Takes the lease of a segment whose lease file may be missing (its creator was killed before it made one, or it was
/// removed).
[[nodiscard]] inline taken_lease find_or_make_lease(const places& where, writers policy, const memory::trust& whom,
                                                    std::uint64_t timeout_ns, const memory::ownership& data_rights,
                                                    const std::string& subject) {
    for (int tries = 0; tries < 1000; ++tries) {
        if (auto held = take_existing_lease(where, policy, whom, timeout_ns, subject)) return {std::move(*held), true};
        memory::unpublished_file fresh = make_lease(where, policy, data_rights, subject);
        if (fresh.publish(where.lease_name, subject)) return {fresh.release(), false};
    }
    throw error(errc::io, subject, "the lease file appears and vanishes without end; stop whatever does that");
}
[[nodiscard]] inline memory::descriptor take_lease(const places& where, writers policy, const memory::trust& whom,
                                                   std::uint64_t timeout_ns, const memory::ownership& data_rights,
                                                   const std::string& subject) {
    return find_or_make_lease(where, policy, whom, timeout_ns, data_rights, subject).file;
}

}  // namespace holdfast::detail
