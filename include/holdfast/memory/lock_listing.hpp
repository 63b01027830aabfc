// SPDX-License-Identifier: Apache-2.0
// lock_listing.hpp - whether a byte of a file is locked, for those who may not open the file.
//
// The kernel lists every lock in /proc/locks, for everybody: kind, device, inode and range. That answers for a file
// that may be looked up but not opened. A list that is longer than a page is read in pieces, between which locks may
// come and go, so that "not locked" is believed only after several readings.
// Source: proc(5), /proc/locks.
#pragma once

#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

#include <charconv>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>

#include "holdfast/memory/descriptor.hpp"

namespace holdfast::memory {

/// One line of /proc/locks that is about a range of bytes, and not about somebody who waits for one.
struct listed_lock {
    unsigned major_number = 0;
    unsigned minor_number = 0;
    std::uint64_t inode = 0;
    std::uint64_t first = 0;
    std::uint64_t last = 0;

    /// Returns: nothing for lines of another kind, also for waiters ("->") and for nonsense.
    [[nodiscard]] static std::optional<listed_lock> parse(const std::string& line) {
        listed_lock lock;
        char kind[16] = {}, last[24] = {};
        unsigned long long inode = 0, first = 0;
        if (std::sscanf(line.c_str(), "%*u: %15s %*15s %*15s %*d %x:%x:%llu %llu %23s", kind, &lock.major_number,
                        &lock.minor_number, &inode, &first, last) != 6 ||
            (std::string_view(kind) != "OFDLCK" && std::string_view(kind) != "POSIX"))
            return std::nullopt;
        lock.inode = inode;
        lock.first = first;
        lock.last = ~std::uint64_t{0};
        const std::string_view end(last);
        if (end != "EOF" && std::from_chars(end.data(), end.data() + end.size(), lock.last).ec != std::errc())
            return std::nullopt;
        return lock;
    }
    [[nodiscard]] bool covers(const struct stat& file, std::int64_t offset) const noexcept {
        const auto byte = static_cast<std::uint64_t>(offset);
        return inode == file.st_ino && major_number == major(file.st_dev) && minor_number == minor(file.st_dev) &&
               first <= byte && byte <= last;
    }
};

namespace detail {

/// File systems whose stat() tells the device and inode that their locks are listed under. Others (btrfs, overlays) may
/// tell numbers of their own.
[[nodiscard]] inline bool lists_locks_by_stat(const char* path) noexcept {
    constexpr decltype(statfs::f_type) known[] = {0x01021994 /* tmpfs */, 0xEF53 /* ext4 */, 0x58465342 /* xfs */};
    struct statfs status{};
    if (::statfs(path, &status) != 0) return false;
    for (const auto type : known)
        if (status.f_type == type) return true;
    return false;
}

struct lock_reading {
    bool readable = false;
    bool found = false;
    bool one_piece = false;  // the whole list came at one moment
};

[[nodiscard]] inline lock_reading read_lock_listing(const struct stat& file, std::int64_t offset) {
    lock_reading reading;
    const descriptor list = open_at(AT_FDCWD, "/proc/locks", O_RDONLY);
    if (!list) return reading;
    std::string text;
    char piece[4096];
    unsigned pieces = 0;
    for (ssize_t got = 0; (got = ::read(list.get(), piece, sizeof piece)) != 0;) {
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return reading;
        text.append(piece, static_cast<std::size_t>(got));
        ++pieces;
        std::size_t begin = 0;
        for (std::size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1)
            if (const auto lock = listed_lock::parse(text.substr(begin, end - begin));
                lock && lock->covers(file, offset))
                return {true, true, true};
        text.erase(0, begin);
    }
    reading.readable = true;
    reading.one_piece = pieces <= 1;
    return reading;
}

}  // namespace detail

/// Whether anybody holds a lock on the byte of the file that `path` names; nothing where that cannot be told. Needs no
/// right to the file but to look it up. Cost: the kernel's whole list of locks is read, up to eight times if it is
/// longer than a page. Throws: std::bad_alloc.
[[nodiscard]] inline std::optional<bool> listed_as_locked(const std::string& path, std::int64_t offset) {
    struct stat file{};
    if (::lstat(path.c_str(), &file) != 0 || !S_ISREG(file.st_mode) || !detail::lists_locks_by_stat(path.c_str()))
        return std::nullopt;
    constexpr int readings = 8;
    for (int i = 0; i < readings; ++i) {
        const detail::lock_reading reading = detail::read_lock_listing(file, offset);
        if (!reading.readable) return std::nullopt;
        if (reading.found) return true;
        if (reading.one_piece) break;
    }
    return false;
}

}  // namespace holdfast::memory
