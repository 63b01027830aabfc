// SPDX-License-Identifier: Apache-2.0
// limits.hpp - every bound on what a client may cost the server, each with a default that suits a public listener.
//
// What a breach answers: target 414, head 431, body 413, chunk framing 413, time-outs 408 or a plain close,
// connections 503. Nothing here is per address: that is the work of whatever stands in front, or of the kernel.
#pragma once

#include <cstddef>
#include <cstdint>

namespace holdfast::net {

/// Bounds of one message, as the parser enforces them.
struct message_limits {
    std::size_t target_bytes_max = 8192;           ///< request target; more is 414
    std::size_t header_bytes_max = 16384;          ///< request line and header fields together; more is 431
    std::size_t headers_max = 100;                 ///< header fields; more is 431
    std::size_t body_bytes_max = 1U << 20U;        ///< decoded body; more is 413
    std::size_t chunk_extension_bytes_max = 4096;  ///< all chunk extensions of one body together; more is 413
    std::size_t trailer_bytes_max = 4096;          ///< trailer section of a chunked body; more is 431

    friend bool operator==(const message_limits&, const message_limits&) = default;
};

/// Bounds of a server. Times are milliseconds; 0 is refused, since a server without a time-out can be held for ever.
struct limits {
    message_limits message{};
    std::size_t connections_max = 10000;       ///< beyond it a connection is answered 503 and closed
    std::size_t output_bytes_max = 1U << 20U;  ///< unsent reply bytes of a connection that stop us reading from it
    std::size_t held_bytes_max = 256U << 20U;  ///< partial requests, unsent replies and queues of channels, of all
                                               ///< connections together; a message to many counts in each queue.
                                               ///< Beyond it those that hold most get 503 or, stuck, a reset, until
                                               ///< there is room for the one that came
    std::uint32_t header_timeout_ms = 10000;   ///< from a request's first byte to the end of its head; then 408. It
                                               ///< stands still while the server does not read, and what is left of it
                                               ///< goes on behind that
    std::uint32_t body_timeout_ms = 60000;     ///< from the end of the head to the end of the body, likewise; then 408.
                                               ///< Of one in pieces: for each 64 KiB, and it stands still while its
                                               ///< reader is paused. A WebSocket's message from its first byte to its
                                               ///< last; then 1008
    std::uint32_t idle_timeout_ms = 60000;     ///< without a request on an open connection; then it is closed
    std::uint32_t write_timeout_ms = 30000;    ///< without the client taking a single byte of a reply; then reset
    std::uint32_t linger_timeout_ms = 2000;    ///< reading on after a last reply, so that a reset cannot destroy it
    std::uint32_t answer_timeout_ms = 60000;   ///< from a handler's defer(), of a body in pieces from its end or while
                                               ///< it is paused, to the answer; then 504
    std::uint32_t pipeline_max = 64;           ///< exchanges of a connection under way, and what waits behind them,
                                               ///< that stop us reading from it
    std::uint32_t websocket_ping_ms = 30000;   ///< without a byte from its client: it is pinged; once more: reset
    std::uint32_t websocket_close_ms = 5000;   ///< from our close frame to the client's; then the connection is closed
    std::uint32_t drain_idle_ms = 500;         ///< how long a drain keeps idle connections for a request under way
    std::uint32_t drain_timeout_ms = 10000;    ///< then a drain cuts what is still open

    friend bool operator==(const limits&, const limits&) = default;
};

}  // namespace holdfast::net
