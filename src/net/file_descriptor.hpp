// SPDX-License-Identifier: Apache-2.0
// file_descriptor.hpp - a descriptor that closes itself.
#pragma once

#include <unistd.h>

#include <utility>

namespace holdfast::net {

class file_descriptor {
 public:
    file_descriptor() noexcept = default;
    explicit file_descriptor(int fd) noexcept : fd_(fd) {}
    file_descriptor(file_descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    file_descriptor& operator=(file_descriptor&& other) noexcept {
        if (this != &other) reset(std::exchange(other.fd_, -1));
        return *this;
    }
    ~file_descriptor() { reset(); }

    [[nodiscard]] int get() const noexcept { return fd_; }
    [[nodiscard]] int release() noexcept { return std::exchange(fd_, -1); }
    explicit operator bool() const noexcept { return fd_ >= 0; }
    void reset(int fd = -1) noexcept {
        // EINTR is not repeated: Linux has closed the descriptor all the same, and another thread may own it by then.
        if (fd_ >= 0) ::close(fd_);
        fd_ = fd;
    }

 private:
    int fd_ = -1;
};

}  // namespace holdfast::net
