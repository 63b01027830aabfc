// SPDX-License-Identifier: Apache-2.0
#include "client_transport.hpp"

#include <sys/socket.h>

#include <cerrno>

namespace holdfast::net {

namespace {

class plain_transport final : public client_transport {
 public:
    explicit plain_transport(int socket) noexcept : socket_(socket) {}

    [[nodiscard]] int begin() noexcept override { return 0; }

    [[nodiscard]] moved receive(std::span<char> into) noexcept override {
        ssize_t n = 0;
        do n = ::recv(socket_, into.data(), into.size(), MSG_DONTWAIT);
        while (n < 0 && errno == EINTR);
        if (n < 0) return {.error = errno};
        return {.bytes = static_cast<std::size_t>(n), .ended = n == 0};
    }

    [[nodiscard]] moved send(std::span<const iovec> bytes) noexcept override {
        msghdr message{};
        message.msg_iov = const_cast<iovec*>(bytes.data());  // sendmsg only reads it
        message.msg_iovlen = bytes.size();
        ssize_t n = 0;
        do n = ::sendmsg(socket_, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
        while (n < 0 && errno == EINTR);
        if (n < 0) return {.error = errno};
        return {.bytes = static_cast<std::size_t>(n)};
    }

    [[nodiscard]] bool is_quiet() noexcept override {
        char byte = 0;
        return ::recv(socket_, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
    }

 private:
    int socket_;
};

}  // namespace

std::unique_ptr<client_transport> make_plain_transport(int socket) { return std::make_unique<plain_transport>(socket); }

}  // namespace holdfast::net
