// SPDX-License-Identifier: Apache-2.0
// passing.hpp - descriptors over a unix socket (SCM_RIGHTS): how memfd: segments reach another process.
// Source: unix(7), cmsg(3).
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "holdfast/memory/descriptor.hpp"

namespace holdfast::memory {

inline constexpr std::size_t passed_max = 16;

/// Sends one byte with the descriptors beside it. Throws: invalid_argument (none, or more than 16), io.
inline void send_descriptors(int socket, std::span<const int> descriptors) {
    if (descriptors.empty() || descriptors.size() > passed_max)
        throw error(errc::invalid_argument, "send_descriptors", "between 1 and 16 descriptors can be sent at once");
    alignas(struct cmsghdr) std::array<char, CMSG_SPACE(passed_max * sizeof(int))> control{};
    char mark = 'd';
    struct iovec bytes{&mark, 1};
    struct msghdr message{};
    message.msg_iov = &bytes;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
    struct cmsghdr* const part = CMSG_FIRSTHDR(&message);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(part), descriptors.data(), descriptors.size_bytes());
    ssize_t sent = -1;
    do sent = ::sendmsg(socket, &message, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    if (sent != 1) throw_errno(errno, "send_descriptors", "sendmsg");
}

/// Receives what one send_descriptors() sent. Throws: truncated (the peer closed, or more came than fits), io.
[[nodiscard]] inline std::vector<descriptor> receive_descriptors(int socket) {
    alignas(struct cmsghdr) std::array<char, CMSG_SPACE(passed_max * sizeof(int))> control{};
    char mark = 0;
    struct iovec bytes{&mark, 1};
    struct msghdr message{};
    message.msg_iov = &bytes;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    std::vector<descriptor> received;
    received.reserve(passed_max);  // nothing may throw between the kernel's giving and our owning
    ssize_t got = -1;
    do got = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
    while (got < 0 && errno == EINTR);
    if (got < 0) throw_errno(errno, "receive_descriptors", "recvmsg");
    for (struct cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr; part = CMSG_NXTHDR(&message, part)) {
        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
        const std::size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (std::size_t i = 0; i < count; ++i) {
            int fd = -1;
            std::memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof fd);
            received.emplace_back(fd);
        }
    }
    if (got == 0 || received.empty() || (message.msg_flags & MSG_CTRUNC) != 0)
        throw error(errc::truncated, "receive_descriptors",
                    "the peer closed the socket or sent other data; check who is at its other end");
    return received;
}

}  // namespace holdfast::memory
