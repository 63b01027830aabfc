// SPDX-License-Identifier: Apache-2.0
// begun_time.hpp - which time-out a connection is under, and until when what its client has begun to send has time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

namespace holdfast::net {

enum class timer_class : std::uint8_t { none, idle, handshake, header, body, write, linger, ping, closing };

/// Of a head, a body or a WebSocket's message under way: its time goes on while output waits for the client, and stands
/// still while the client is not read from. Neither wins it more.
struct begun_time {
    timer_class of = timer_class::none;
    bool stands_still = false;
    std::uint64_t due_ms = 0;  // while it stands still, how long from when it goes on

    void stand_still(std::uint64_t now_ms) noexcept {
        if (!std::exchange(stands_still, true)) due_ms -= std::min(due_ms, now_ms);
    }
    void go_on(std::uint64_t now_ms) noexcept {
        if (std::exchange(stands_still, false)) due_ms += now_ms;
    }
};

}  // namespace holdfast::net
