// SPDX-License-Identifier: Apache-2.0
// websocket_end.hpp - what a connection has once a request to become a WebSocket was accepted on it.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "begun_time.hpp"
#include "channel_state.hpp"
#include "holdfast/net/websocket_session.hpp"

namespace holdfast::net {

struct websocket_end {
    websocket_end(const websocket_limits& limits, const websocket_deflate& deflate,
                  std::shared_ptr<channel_state> whose)
        : session(limits, deflate), channel(std::move(whose)) {}

    /// Whether a message that is answered with as much would find room in the queue, most likely.
    [[nodiscard]] bool has_room() const { return channel->queued_memory() <= channel->options.queue_bytes_max / 2; }

    websocket_session session;
    std::shared_ptr<channel_state> channel;
    std::string buffer;                 // bytes of what is under way, or held back by a pause
    std::optional<channel_end> ending;  // our close frame is out, and why
    begun_time time;
    bool begun = false;   // 101 is out; until then nothing is read, for nothing could be answered
    bool heard = false;   // bytes came since the ping timer was set
    bool whole = false;   // a message, or a frame between two, ended since the timer of the next was set
    bool pinged = false;  // and none have come since we asked for a sign of life
};

}  // namespace holdfast::net
