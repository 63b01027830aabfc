// SPDX-License-Identifier: Apache-2.0
// websocket_subjects.hpp - the servers that are compared: each a program with /echo, /publish and /subscribe on one
// thread.
#pragma once

#include <string>
#include <vector>

#include "http/subject.hpp"

namespace holdfast::bench::websocket {

inline constexpr const char* net_epoll_name = "holdfast::net, epoll";
inline constexpr const char* net_io_uring_name = "holdfast::net, io_uring";

/// Boost.Beast, libwebsockets, websocketpp, gorilla/websocket, fastwebsockets and tokio-tungstenite behind ours. The
/// answer_kind that their start is given means nothing here.
[[nodiscard]] std::vector<http::subject> all_subjects();

}  // namespace holdfast::bench::websocket
