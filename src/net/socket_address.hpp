// SPDX-License-Identifier: Apache-2.0
// socket_address.hpp - addresses as people write them, and what is wrong with a socket in their words.
#pragma once

#include <sys/socket.h>

#include <optional>
#include <string>
#include <string_view>

#include "holdfast/net/peer.hpp"

namespace holdfast::net {

struct socket_address {
    sockaddr_storage storage{};
    socklen_t size = 0;
};

/// Of "127.0.0.1:8080", "[::1]:8080" or "localhost:8080"; nothing for any other text.
[[nodiscard]] std::optional<socket_address> parse_address(std::string_view text);

/// Who a connected socket leads to; unknown where the kernel does not tell all.
[[nodiscard]] peer peer_of(int socket);

/// Throws: error for the errno of a failed call, with the cure where there is one.
[[noreturn]] void fail_socket(int code, const std::string& subject, std::string_view call);

}  // namespace holdfast::net
