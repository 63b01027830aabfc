// SPDX-License-Identifier: Apache-2.0
// send_now.hpp - what a socket takes at once.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include <cerrno>
#include <cstddef>
#include <string_view>

namespace holdfast::net {

struct sent_now {
    std::size_t taken = 0;
    int code = 0;  // an errno: the connection is broken
};

/// Sends until the socket takes no more, whether it blocks or not.
[[nodiscard]] inline sent_now send_now(int fd, std::string_view bytes) noexcept {
    sent_now result;
    while (result.taken < bytes.size()) {
        const ssize_t n =
            ::send(fd, bytes.data() + result.taken, bytes.size() - result.taken, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n >= 0) {
            result.taken += static_cast<std::size_t>(n);
        } else if (errno == EAGAIN) {
            break;
        } else if (errno != EINTR) {
            result.code = errno;
            break;
        }
    }
    return result;
}

}  // namespace holdfast::net
