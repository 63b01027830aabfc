// SPDX-License-Identifier: Apache-2.0
// load_connection.hpp - the load client's connections: from many loopback addresses, and waits that Ctrl-C ends.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "net/file_descriptor.hpp"
#include "net/socket_address.hpp"

namespace holdfast::workload::http {

inline constexpr int wait_ms = 100;  ///< how long an interruption may go unseen

/// Throws std::system_error of errno.
[[noreturn]] void fail(const char* what);

/// Begins to connect, without waiting; to the loopback network from another address of it for each `number`. `code`: 0
/// for a connection that is there, EINPROGRESS for one to wait for, else why there is none.
/// Throws: std::system_error where the machine refuses.
[[nodiscard]] net::file_descriptor open_connection(const net::socket_address& server, std::uint32_t number, int& code);

/// Sends what a protocol begins with, and waits for the head that answers 101. Throws: server_failed, wrong_answer when
/// it says something else or more, interrupted.
void open_protocol(int fd, std::string_view opening, std::chrono::milliseconds patience);

/// Why a connection could not be made or was lost; 0: it is there.
[[nodiscard]] int connection_error(int fd);

[[nodiscard]] std::string connecting_text(int code);

/// Waits for poll()'s `events`. Returns: whether they came in time. Throws: interrupted.
[[nodiscard]] bool ready_within(int fd, short events, std::chrono::milliseconds patience);

}  // namespace holdfast::workload::http
