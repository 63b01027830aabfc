// SPDX-License-Identifier: Apache-2.0
// wake_event.hpp - wakes a loop from other threads and from signal handlers: an eventfd that the loop watches.
#pragma once

#include <sys/eventfd.h>

#include <cerrno>
#include <cstdint>

#include "file_descriptor.hpp"

namespace holdfast::net {

class wake_event {
 public:
    wake_event() noexcept : event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

    /// False where the process is out of descriptors; errno says of what.
    explicit operator bool() const noexcept { return static_cast<bool>(event_); }
    [[nodiscard]] int fd() const noexcept { return event_.get(); }

    /// Makes the descriptor readable. Threads: any; async-signal-safe.
    void signal() const noexcept {
        const std::uint64_t one = 1;
        const int saved = errno;  // a signal handler must leave errno as it was
        // A full counter means that the loop is being woken already.
        [[maybe_unused]] const ssize_t written = ::write(event_.get(), &one, sizeof one);
        errno = saved;
    }
    void clear() const noexcept {
        std::uint64_t count = 0;
        [[maybe_unused]] const ssize_t got = ::read(event_.get(), &count, sizeof count);
    }

 private:
    file_descriptor event_;
};

}  // namespace holdfast::net
