// SPDX-License-Identifier: Apache-2.0
// server.hpp - a strict HTTP/1.1 server: one loop, one thread, any number of connections and listeners.
//
// A server is a loop, not a pool: to use more cores run one server in each worker process or thread, each with a
// listener of its own on the same port (listen_options::reuse_port).
// (I1) Responses leave in the order of their requests, also when handlers answer later (channel.hpp); replies to
//      pipelined requests are coalesced into few sends.
// (I2) A connection with output_bytes_max unsent bytes is not read from until half of them have left; nor is one with
//      pipeline_max exchanges under way. Who asks for much at once is answered some 64 KiB at a time, or one answer,
//      and others in between; who asks for what takes long, some 0.2 ms at a time and a few requests.
// (I3) Memory is bounded by the limits whatever clients do, also by what channels queue for them, and those that hold
//      most of it go first; every wait for a client has a time-out.
// (I4) A malformed request is answered once and its connection closed; nothing behind it is interpreted.
// (I5) A handler that throws costs its client a 500 and nobody else anything.
// (I6) What is posted from one thread runs in the order it was posted, each once, never inside post(), after() or
//      cancel(). A task that throws is counted, and costs nobody else anything.
// Threads: everything on the thread that calls run(), or before it, except stop(), drain() and hand_over(), which
//          any thread or signal handler may call, and post(), which any thread may call. What server_options::pool says
//          runs on that pool's workers, in the order of its connection.
#pragma once

#include <chrono>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/net/limits.hpp"
#include "holdfast/net/request.hpp"
#include "holdfast/net/response.hpp"
#include "holdfast/net/tls.hpp"

namespace holdfast::executor {
class thread_pool;
}

namespace holdfast::net {

/// Answers one request, or takes a channel by which that is done later (response::defer, response::stream). Runs inline
/// on the loop: while it runs, every other connection of this loop waits.
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
    std::uint64_t bytes_sent = 0;          ///< with TLS: encrypted, and without handshakes; received: what they say
    std::uint64_t refused = 0;             ///< requests malformed, ambiguous or beyond a limit
    std::uint64_t handler_exceptions = 0;  ///< of handlers, tasks, timers and callbacks
    std::uint64_t header_timeouts = 0, body_timeouts = 0, idle_timeouts = 0, write_timeouts = 0;
    std::uint64_t answer_timeouts = 0;       ///< late answers that did not come
    std::uint64_t over_connections_max = 0;  ///< answered 503 at once
    std::uint64_t over_descriptors = 0;      ///< answered 503 for lack of descriptors, or of the kernel's memory, or
                                             ///< for server_options::files_max
    std::uint64_t over_held_bytes = 0;       ///< answered 503, or reset, for limits::held_bytes_max
    std::uint64_t accept_pauses = 0;         ///< times accepting stopped for a moment because nothing else helped
    std::uint64_t read_pauses = 0;           ///< times a connection's input was paused for its output or its exchanges
    std::uint64_t lost = 0;                  ///< connections the client reset or left in the middle of an exchange;
                                             ///< each once
    std::uint64_t partial_requests = 0;      ///< requests that came in more than one piece
    std::uint64_t half_closed = 0;           ///< clients that ended their sending in the middle of an exchange
    std::uint64_t channel_overflows = 0;     ///< channels cut for when_full::close
    std::uint64_t messages_dropped = 0;      ///< of channels, for when_full::drop_oldest and drop_newest
    std::uint64_t websockets_refused = 0;    ///< WebSockets closed because their client broke a rule
    std::uint64_t files_cut = 0;             ///< answers whose file became shorter than announced; reset
    std::uint64_t out_of_buffers = 0;        ///< io_uring: receives that waited a turn for a buffer
    std::uint64_t out_of_completions = 0;    ///< io_uring: turns that brought more than the ring holds
    std::uint64_t tls_handshakes = 0;        ///< made
    std::uint64_t tls_resumed = 0;           ///< of these, by a ticket
    std::uint64_t tls_failures = 0;          ///< handshakes refused or broken off, records that were tampered with,
                                             ///< key updates without end
    std::uint64_t tls_timeouts = 0;          ///< handshakes not made within header_timeout_ms
    std::uint64_t tls_plain = 0;             ///< connections that began with a request without TLS
    std::uint64_t tls_truncated = 0;         ///< connections that ended without a word of TLS about it
};

/// How the kernel is asked for bytes and given them. Servers behave alike on each.
enum class engine_choice : std::uint8_t {
    epoll,      ///< on every kernel, and where containers forbid the other
    io_uring,   ///< one system call for all that is ready; Linux 6.1 and later
    automatic,  ///< io_uring where this process may use it, else epoll
};

/// Why this process cannot have engine_choice::io_uring, in words; empty where it can.
/// Cost: makes a ring as a server's (some 220 kB) and a pair of sockets, and asks the kernel to receive. When it clears
/// the ring away, a moment later, a call of this thread that waits may be interrupted (EINTR).
[[nodiscard]] std::string io_uring_lack();

struct server_options {
    net::limits limits{};
    engine_choice engine = engine_choice::automatic;
    std::size_t files_max = 256;    ///< files that answers have open at a time; one more is answered 503
    std::vector<tls_listener> tls;  ///< those of the listeners whose connections speak TLS
    bool identify_peers = false;    ///< request::peer() tells who sent it; costs some system calls a connection
    /// Where callbacks of channels with channel_options::on_pool are called, and the handler for requests that
    /// handle_on_pool says yes to: on a strand of the connection, so in order and never two at a time within it, and
    /// beside those of others. None: everything runs on the loop. run() returns when the last of them has ended, so
    /// none may wait for the loop once that was told to end. Should the pool be closed first, requests meant for it are
    /// answered 503, WebSockets that have messages for it closed with 1001, and on_close is still called.
    /// Requires: at least one worker, and that run() is not called by one of them.
    std::shared_ptr<executor::thread_pool> pool{};
    /// Of a connection: calls that wait in its strand before it is not read from, until half of them have begun; so are
    /// limits::output_bytes_max of what they hold.
    std::uint32_t strand_waiting_max = 64;
    /// Which requests are handled in the pool, by a copy: a slow handler then keeps nobody but its own connection
    /// waiting. Asked once for each whose body is whole, on the loop; one that throws is counted, and means no. There
    /// the response is all that a handler can answer with: defer(), stream() and websocket() belong to the loop. The
    /// handler is called by several threads then, for different connections.
    std::function<bool(const request&)> handle_on_pool{};
    /// Which requests are handed to the handler when their head is there, for response::receive_body. Asked once for
    /// each that a body follows, on the loop; one that throws is counted, and means no. Others come with their body.
    std::function<bool(const request&)> body_in_pieces;
    std::function<void(const response_event&)>
        on_response;                             ///< must not throw; without it no clock is read per request
    std::chrono::milliseconds tick_interval{0};  ///< 0: no ticks
    std::function<void()> on_tick;               ///< on the loop, about every tick_interval; must not throw
};

/// Names a timer of one server; never used again for another.
struct timer_id {
    std::uint64_t deadline_ms = 0;
    std::uint64_t number = 0;  ///< 0: none

    friend auto operator<=>(const timer_id&, const timer_id&) = default;
};

class server {
 public:
    /// Takes the listeners' descriptors (listener.hpp) and closes them in the end, also when it throws.
    /// Throws: error(invalid_argument) for a limit of 0, or TLS for a listener that is not given; error(io) when the
    /// kernel gives no epoll or eventfd; error(unsupported) that says why there is no io_uring.
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
    /// drain_idle_ms, late answers are waited for, streams are ended in order behind what they have queued, and
    /// whatever is left is cut after drain_timeout_ms. A queue that no other process or server holds open goes with its
    /// listener: the kernel resets who comes between the last accept and the close (see hand_over.hpp).
    /// Threads: any; async-signal-safe.
    void drain() noexcept;

    /// As drain(), where another process has the same listeners and accepts from them by now (hand_over.hpp): what
    /// waits in their queues is left to it, and idle connections may stay for three quarters of drain_timeout_ms, since
    /// their next request is answered with "Connection: close" and nobody else lacks them. A client that asks once in
    /// that time never meets a closed connection. Threads: any; async-signal-safe.
    void hand_over() noexcept;

    /// Calls `readable` on the loop whenever `fd` is readable or hung up, until unwatch(fd). The descriptor stays the
    /// caller's. Level-triggered: a callback that leaves it readable is called again.
    void watch(int fd, std::function<void()> readable);
    void unwatch(int fd);

    /// Runs `task` on the loop, within a turn. Tasks that are posted by tasks wait for the next turn, so they cannot
    /// keep connections waiting. Whatever else happens on the loop belongs here: after(), cancel(), watch().
    ///
    /// Returns: false once run() has returned; `task` is then gone. Tasks that a stop() overtakes are destroyed without
    /// running. Throws: std::bad_alloc. Threads: any, as long as the server exists. Cost: one allocation; a system call
    /// where the loop has nothing posted yet.
    bool post(std::function<void()> task);

    /// Runs `task` once on the loop, not before `delay` has passed, and as late as a turn takes. Timers of one deadline
    /// run in the order they were made. Those left when run() returns never run. Throws: std::bad_alloc.
    /// Cost: logarithmic in the timers; one allocation.
    timer_id after(std::chrono::nanoseconds delay, std::function<void()> task);

    /// Returns: false when it has run, or runs, or was cancelled.
    bool cancel(timer_id timer);

    [[nodiscard]] const server_counters& counters() const noexcept;
    /// "epoll" or "io_uring".
    [[nodiscard]] std::string_view engine() const noexcept;

 private:
    std::unique_ptr<class server_core> core_;
};

}  // namespace holdfast::net
