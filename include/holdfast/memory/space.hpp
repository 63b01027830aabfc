// SPDX-License-Identifier: Apache-2.0
// space.hpp - room is found out before it is used: reserved pages, and the memory cgroup's limit.
//
// A page of a shared mapping that the file system cannot supply is SIGBUS at the store; one that a memory cgroup cannot
// supply is a SIGKILL. So every page is reserved at creation by fallocate, and the cgroup is asked beforehand.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>

#include "holdfast/memory/descriptor.hpp"

namespace holdfast::memory {

namespace detail {

/// A small text file's content, or nothing.
[[nodiscard]] inline std::optional<std::string> read_small_file(const std::string& path) {
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "re"), &std::fclose);
    if (!file) return std::nullopt;
    std::string text(8192, '\0');
    text.resize(std::fread(text.data(), 1, text.size(), file.get()));
    return text;
}

[[nodiscard]] inline std::optional<std::uint64_t> read_number(const std::string& path) {
    const std::optional<std::string> text = read_small_file(path);
    if (!text || text->empty() || (*text)[0] < '0' || (*text)[0] > '9') return std::nullopt;  // "max", or not there
    return std::strtoull(text->c_str(), nullptr, 10);
}

/// This process's path in the unified hierarchy ("0::/path") or in the old memory controller's ("N:memory:/path").
[[nodiscard]] inline std::optional<std::string> cgroup_path(const std::string& table, std::string_view controller) {
    std::size_t at = 0;
    while (at < table.size()) {
        const std::size_t end = std::min(table.find('\n', at), table.size());
        const std::string_view line = std::string_view(table).substr(at, end - at);
        const std::size_t first = line.find(':');
        const std::size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
        if (second != std::string_view::npos && line.substr(first + 1, second - first - 1) == controller)
            return std::string(line.substr(second + 1));
        at = end + 1;
    }
    return std::nullopt;
}

struct cgroup_room {
    std::uint64_t bytes;
    std::string file;  ///< the limit's file, for the error's text
};

/// The least room over a cgroup and all its ancestors, where any of them has a limit.
[[nodiscard]] inline std::optional<cgroup_room> least_room(const std::string& mount, std::string path,
                                                           const char* limit_file, const char* usage_file) {
    std::optional<cgroup_room> least;
    for (;;) {
        const std::string folder = mount + (path == "/" ? "" : path) + "/";
        const std::optional<std::uint64_t> limit = read_number(folder + limit_file);
        const std::optional<std::uint64_t> usage = read_number(folder + usage_file);
        if (limit && usage && *limit < (std::uint64_t{1} << 60)) {
            const std::uint64_t room = *limit > *usage ? *limit - *usage : 0;
            if (!least || room < least->bytes) least = cgroup_room{room, folder + limit_file};
        }
        if (path.empty() || path == "/") return least;
        path.resize(path.rfind('/') == 0 ? 1 : path.rfind('/'));
    }
}

[[nodiscard]] inline std::optional<cgroup_room> memory_room() {
    const std::optional<std::string> table = read_small_file("/proc/self/cgroup");
    if (!table) return std::nullopt;
    if (const auto path = cgroup_path(*table, ""))
        if (auto room = least_room("/sys/fs/cgroup", *path, "memory.max", "memory.current")) return room;
    if (const auto path = cgroup_path(*table, "memory"))
        return least_room("/sys/fs/cgroup/memory", *path, "memory.limit_in_bytes", "memory.usage_in_bytes");
    return std::nullopt;
}

/// Holds every signal that can be held back while it lives: fallocate on tmpfs starts over at each one, and under a
/// steady timer would never end. SIGKILL and SIGSTOP are not held.
class signals_held {
 public:
    signals_held() noexcept {
        sigset_t all;
        sigfillset(&all);
        for (const int fatal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP}) sigdelset(&all, fatal);
        ::pthread_sigmask(SIG_SETMASK, &all, &before_);
    }
    signals_held(const signals_held&) = delete;
    signals_held& operator=(const signals_held&) = delete;
    ~signals_held() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
    sigset_t before_{};
};

}  // namespace detail

/// Throws no_space when taking `bytes` more memory would exceed the limit of this process's memory cgroup.
inline void check_memory_limit(std::uint64_t bytes, const std::string& subject) {
    const std::optional<detail::cgroup_room> room = detail::memory_room();
    if (!room || bytes <= room->bytes) return;
    throw error(errc::no_space, subject,
                std::to_string(bytes) + " bytes are needed and the memory cgroup has " + std::to_string(room->bytes) +
                    " left, after which the kernel would kill this process; raise " + room->file +
                    " (container memory limit) or make the segment smaller");
}

/// Throws no_space when a file of `bytes` would exceed RLIMIT_FSIZE: the kernel answers that with a signal that kills.
inline void check_file_size_limit(std::uint64_t bytes, const std::string& subject) {
    struct rlimit limit{};
    if (::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || bytes <= limit.rlim_cur) return;
    throw error(errc::no_space, subject,
                std::to_string(bytes) + " bytes are needed and this process may make files of " +
                    std::to_string(limit.rlim_cur) + " bytes; raise the limit (ulimit -f, LimitFSIZE=)");
}

/// Throws no_space when a file system has not that much room now: who reserves little by little would fill it up first.
inline void check_free_room(int fd, std::uint64_t bytes, const std::string& subject) {
    struct statvfs room{};
    // File systems without a limit of their own say 0 blocks in all.
    if (::fstatvfs(fd, &room) != 0 || room.f_blocks == 0 || bytes / room.f_frsize < room.f_bfree) return;
    throw error(errc::no_space, subject,
                std::to_string(bytes) + " bytes are needed and the file system has " +
                    std::to_string(room.f_bfree * room.f_frsize) +
                    " free; free some, or enlarge it (df -h; for a container's /dev/shm: --shm-size)");
}

/// Reserves [at, at + length) of a file that is to have `bytes` in all, so that no store there can fail later.
/// Throws: no_space and others.
inline void reserve_range(int fd, std::uint64_t at, std::uint64_t length, std::uint64_t bytes,
                          const std::string& subject) {
    int reason = 0;
    int tries = 0;
    do {
        const detail::signals_held held;
        reason = ::posix_fallocate(fd, static_cast<off_t>(at), static_cast<off_t>(length));
    } while (reason == EINTR && ++tries < 1000);
    if (reason == ENOSPC || reason == EFBIG || reason == EDQUOT || reason == ENOMEM)
        throw error(errc::no_space, subject,
                    "the file system has no room for " + std::to_string(bytes) + " bytes (" + errno_text(reason) +
                        "); free some, or enlarge it (df -h; for a container's /dev/shm: --shm-size)");
    if (reason != 0) throw_errno(reason, subject, "reserving " + std::to_string(bytes) + " bytes");
}

/// Reserves the first `bytes` of a file, so that no store into them can fail later. Throws: no_space and others.
inline void reserve_file(int fd, std::uint64_t bytes, const std::string& subject) {
    check_file_size_limit(bytes, subject);
    constexpr std::uint64_t step_bytes = std::uint64_t{64} << 20;  // signals wait at most some 15 ms for one step
    for (std::uint64_t at = 0; at < bytes; at += step_bytes)
        reserve_range(fd, at, std::min(step_bytes, bytes - at), bytes, subject);
}

}  // namespace holdfast::memory
