// SPDX-License-Identifier: Apache-2.0
// descriptor.hpp - an owned file descriptor, and the few descriptor calls with their interruptions handled.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "holdfast/error.hpp"

namespace holdfast::memory {

/// Owns one file descriptor; closes it on destruction. Move-only.
class descriptor {
 public:
    descriptor() noexcept = default;
    explicit descriptor(int fd) noexcept : fd_(fd) {}
    descriptor(descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    descriptor& operator=(descriptor&& other) noexcept {
        if (this != &other) {
            reset();
            fd_ = std::exchange(other.fd_, -1);
        }
        return *this;
    }
    descriptor(const descriptor&) = delete;
    descriptor& operator=(const descriptor&) = delete;
    ~descriptor() { reset(); }

    [[nodiscard]] int get() const noexcept { return fd_; }
    [[nodiscard]] explicit operator bool() const noexcept { return fd_ >= 0; }

    void reset() noexcept {
        // close() is never repeated: on Linux the descriptor is gone even when it answers EINTR.
        if (fd_ >= 0) ::close(std::exchange(fd_, -1));
    }

 private:
    int fd_ = -1;
};

/// The message of an errno value.
[[nodiscard]] inline std::string errno_text(int value) { return std::generic_category().message(value); }

/// Throws the error that stands for errno `value`: "WHAT failed: TEXT; CURE".
[[noreturn]] inline void throw_errno(int value, std::string subject, std::string_view what,
                                     std::string_view cure = {}) {
    std::string text = std::string(what) + " failed: " + errno_text(value);
    if (!cure.empty()) text.append("; ").append(cure);
    throw error(errc_of_errno(value), std::move(subject), text);
}

/// openat() with O_CLOEXEC, repeated while interrupted. Returns an empty descriptor with errno set on failure.
[[nodiscard]] inline descriptor open_at(int directory, const char* path, int flags, mode_t mode = 0) noexcept {
    int fd = -1;
    do fd = ::openat(directory, path, flags | O_CLOEXEC, mode);
    while (fd < 0 && errno == EINTR);
    return descriptor(fd);
}

/// "/proc/self/fd/N": the path by which a descriptor can be opened again as a description of its own.
[[nodiscard]] inline std::string proc_path(int fd) { return "/proc/self/fd/" + std::to_string(fd); }

/// Reads exactly `bytes` at `offset`, or returns how many there were before the end of the file; -1 with errno on
/// failure.
[[nodiscard]] inline ssize_t read_at(int fd, void* to, std::size_t bytes, off_t offset) noexcept {
    std::size_t done = 0;
    while (done < bytes) {
        const ssize_t n = ::pread(fd, static_cast<char*>(to) + done, bytes - done, offset + static_cast<off_t>(done));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return -1;
        if (n == 0) break;
        done += static_cast<std::size_t>(n);
    }
    return static_cast<ssize_t>(done);
}

/// Whether two stat results name the same file.
[[nodiscard]] inline bool same_file(const struct stat& a, const struct stat& b) noexcept {
    return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

}  // namespace holdfast::memory
