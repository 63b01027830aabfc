// SPDX-License-Identifier: Apache-2.0
// lock.hpp - open-file-description locks on ranges of bytes: how a living owner is known.
//
// The kernel holds the lock for the description, so it goes exactly when the last descriptor of that description is
// closed: by the owner, or by its death, never by a time-out. Two opens in one process are two descriptions and exclude
// each other. A descriptor inherited by fork or passed over a socket shares the description and therefore the lock:
// always open anew (proc_path()). Nobody here unlocks explicitly what a forked child might share: closing is the only
// release of a lease. Source: fcntl(2), "Open file description locks".
#pragma once

#include <fcntl.h>

#include <cerrno>
#include <cstdint>

namespace holdfast::memory {

enum class lock_mode : short { shared = F_RDLCK, exclusive = F_WRLCK };

namespace detail {

[[nodiscard]] inline struct flock lock_range(short type, std::int64_t offset, std::int64_t bytes) noexcept {
    struct flock range{};
    range.l_type = type;
    range.l_whence = SEEK_SET;
    range.l_start = offset;
    range.l_len = bytes;
    return range;
}

}  // namespace detail

/// Takes the lock at once or returns false: errno is EAGAIN when another description holds it, EBADF when the
/// descriptor's mode does not allow it.
[[nodiscard]] inline bool try_lock(int fd, lock_mode mode, std::int64_t offset, std::int64_t bytes = 1) noexcept {
    struct flock range = detail::lock_range(static_cast<short>(mode), offset, bytes);
    int result = -1;
    do result = ::fcntl(fd, F_OFD_SETLK, &range);
    while (result < 0 && errno == EINTR);
    if (result < 0 && errno == EACCES) errno = EAGAIN;  // fcntl(2) allows either
    return result == 0;
}

/// Gives back a lock that no other process can share.
inline void unlock(int fd, std::int64_t offset, std::int64_t bytes = 1) noexcept {
    struct flock range = detail::lock_range(F_UNLCK, offset, bytes);
    (void)::fcntl(fd, F_OFD_SETLK, &range);
}

/// Whether another description holds a lock that conflicts with an exclusive one on the range.
[[nodiscard]] inline bool locked_elsewhere(int fd, std::int64_t offset, std::int64_t bytes = 1) noexcept {
    struct flock range = detail::lock_range(F_WRLCK, offset, bytes);
    if (::fcntl(fd, F_OFD_GETLK, &range) != 0) return true;  // cannot tell: the careful answer
    return range.l_type != F_UNLCK;
}

}  // namespace holdfast::memory
