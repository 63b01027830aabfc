// SPDX-License-Identifier: Apache-2.0
// begun_time.hpp - which time-out a connection is under, and until when what its client has begun to send has time.
#pragma once

#include <cstdint>

namespace holdfast::net {

enum class timer_class : std::uint8_t { none, idle, handshake, header, body, write, linger, ping, closing };

/// Of a head, a body or a WebSocket's message under way: its time goes on while output waits for the client.
struct begun_time {
    timer_class of = timer_class::none;
    std::uint64_t due_ms = 0;
};

}  // namespace holdfast::net
