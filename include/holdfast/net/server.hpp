// SPDX-License-Identifier: Apache-2.0
// server.hpp - a strict HTTP/1.1 server: one loop, one thread, any number of connections and listeners.
//
// A server is a loop, not a pool: to use more cores run one server in each worker process or thread, each with a
// listener of its own on the same port (listen_options::reuse_port).
// (I1) Responses leave in the order of their requests; replies to pipelined requests are coalesced into few sends.
// (I2) A connection with output_bytes_max unsent bytes is not read from until half of them have left.
// (I3) Memory is bounded by the limits whatever clients do; every wait for a client has a time-out.
// (I4) A malformed request is answered once and its connection closed; nothing behind it is interpreted.
// (I5) A handler that throws costs its client a 500 and nobody else anything.
// Threads: everything on the thread that calls run(), except stop() and drain(), which any thread or signal handler may
//          call.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "holdfast/net/limits.hpp"
#include "holdfast/net/request.hpp"
#include "holdfast/net/response.hpp"

namespace holdfast::net {

/// Answers one request. Runs inline on the loop: while it runs, every other connection of this loop waits.
using handler = std::function<void(const request&, response&)>;

/// One response handed to the connection, for counting. Refused requests and time-outs are events too.
struct response_event {
    int route = 0;       ///< what the handler gave to response::route
    int status = 0;      ///< as sent
    bool parsed = true;  ///< false: no request was understood (400, 408, 413, ...), `method` means nothing
    net::method method = net::method::get;
    std::uint64_t request_bytes = 0;
    std::uint64_t response_bytes = 0;
    std::uint64_t latency_ns = 0;  ///< from the arrival of the request's first byte to its response being queued
};

/// Counts of one loop since it was made. Plain numbers: read them on the loop's thread or after run() returned.
struct server_counters {
    std::uint64_t accepted = 0;
    std::uint64_t open = 0;           ///< connections now
    std::uint64_t requests = 0;       ///< understood and handed to the handler
    std::uint64_t responses[5] = {};  ///< by class: [1] is 2xx ... [4] is 5xx; [0] interim 100
    std::uint64_t bytes_received = 0;
    std::uint64_t bytes_sent = 0;
    std::uint64_t refused = 0;  ///< requests malformed, ambiguous or beyond a limit
    std::uint64_t handler_exceptions = 0;
    std::uint64_t header_timeouts = 0, body_timeouts = 0, idle_timeouts = 0, write_timeouts = 0;
    std::uint64_t over_connections_max = 0;  ///< answered 503 at once
    std::uint64_t over_descriptors = 0;      ///< answered 503 because the process was out of descriptors
    std::uint64_t accept_pauses = 0;         ///< times accepting stopped for a moment because nothing else helped
    std::uint64_t read_pauses = 0;           ///< times a connection's input was paused for its unsent output
    std::uint64_t lost = 0;                  ///< connections the client reset or left in the middle of an exchange
};

struct server_options {
    net::limits limits{};
    std::function<void(const response_event&)>
        on_response;                             ///< must not throw; without it no clock is read per request
    std::chrono::milliseconds tick_interval{0};  ///< 0: no ticks
    std::function<void()> on_tick;               ///< on the loop, about every tick_interval; must not throw
};

class server {
 public:
    /// Takes the listeners' descriptors (listener.hpp) and closes them in the end, also when it throws.
    /// Throws: error(invalid_argument) for a limit of 0; error(io) when the kernel gives no epoll or eventfd.
    server(std::vector<int> listeners, server_options options, handler answer);
    ~server();
    server(const server&) = delete;
    server& operator=(const server&) = delete;

    /// Serves until stop() or the end of a drain. Once.
    void run();

    /// Makes run() return soon; open connections are cut.
    /// Threads: any; async-signal-safe.
    void stop() noexcept;

    /// Makes run() return when what is under way has been answered: connections already in the kernel's queue are
    /// taken, listeners closed, every response says "Connection: close", idle connections are closed after
    /// drain_idle_ms, and whatever is left is cut after drain_timeout_ms. Threads: any; async-signal-safe.
    void drain() noexcept;

    /// Calls `readable` on the loop whenever `fd` is readable or hung up, until unwatch(fd). The descriptor stays the
    /// caller's. Level-triggered: a callback that leaves it readable is called again.
    void watch(int fd, std::function<void()> readable);
    void unwatch(int fd);

    [[nodiscard]] const server_counters& counters() const noexcept;

 private:
    std::unique_ptr<class server_core> core_;
};

}  // namespace holdfast::net
