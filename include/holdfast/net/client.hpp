// SPDX-License-Identifier: Apache-2.0
// client.hpp - an asynchronous HTTP/1.1 client: many requests at a time over kept connections, on one loop.
//
// A client is a descriptor and a call that does what is due, so any loop can carry it: that of a server, whose handler
// asks another server and answers later by its channel, without a thread (server.watch(client.fd(), ...)); one of its
// own, run(); or a thread's, client_thread.
// (I1) Each request that start() takes ends by one on_done. No callback runs inside a call other than turn(), run() and
//      the destructor, so all of them may be called from callbacks.
// (I2) A connection carries one request at a time. It is used again only when the answer had an end of its own, nothing
//      followed it, and both sides meant to go on; so no byte of one answer is ever taken for another's.
// (I3) A request is sent twice only where client_request::retry says so.
// (I4) Every wait has a time-out, every queue, head, body and number of connections a limit.
// (I5) Redirects are not followed, cookies not kept, bodies not decompressed, proxies not asked, the environment not
//      read.
// (I6) With https no byte of a request leaves before the certificate is believed (tls_trust.hpp), and a body that ends
//      with its connection is whole only by an end of TLS. Connections are kept apart by scheme, host, port and trust.
// Threads: one at a time, that of turn() or run(), but post() and stop(), which any thread may call.
// Source: RFC 9110, RFC 9112, RFC 8446, RFC 9525 (whom a certificate is for).
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "holdfast/net/client_message.hpp"
#include "holdfast/net/limits.hpp"
#include "holdfast/net/server.hpp"
#include "holdfast/net/tls_trust.hpp"

namespace holdfast::net {

/// Bounds of a client; 0 is refused.
struct client_limits {
    std::size_t connections_max = 256;  ///< in all, idle ones included
    std::size_t connections_per_origin_max =
        16;                                     ///< to one scheme, host and port, or unix socket; with https: and trust
    std::size_t waiting_max = 10000;            ///< requests that have no connection yet
    std::size_t look_ups_max = 1000;            ///< names being looked up, or waiting for it; others: overloaded
    std::chrono::milliseconds idle{20000};      ///< how long a connection is kept unused; less than servers keep it
    std::chrono::milliseconds name_kept{5000};  ///< how long the addresses of a name are
    /// Of an answer: all but target_bytes_max holds. A body beyond its limit ends the request, streamed or not.
    message_limits answer{.header_bytes_max = 65536, .headers_max = 200, .body_bytes_max = 16U << 20U};
};

struct client_options {
    client_limits limits{};
    client_timeouts timeouts{.connect = std::chrono::seconds(5),
                             .first_byte = std::chrono::seconds(15),
                             .silence = std::chrono::seconds(15),
                             .whole = std::chrono::seconds(60)};
    /// Finds the addresses of a name, "192.0.2.1" or "2001:db8::1", best first; none, or a throw: not_resolved. Called
    /// on helper threads, several at a time, also beside the client's end. Default: getaddrinfo.
    std::function<std::vector<std::string>(const std::string& name)> resolve{};
    /// How long an address of a name has before the next one is tried beside it, IPv6 and IPv4 in turn; the first that
    /// answers is taken. Source: RFC 8305.
    std::chrono::milliseconds address_delay{250};
    /// Whom to believe with https, where a request does not say it. None: tls_trust{}, the issuers of the system, made
    /// with the first request that needs it.
    std::optional<tls_trust> tls{};
};

/// Counts since the client was made. Plain numbers: read them on its thread.
struct client_counters {
    std::uint64_t started = 0, answered = 0, failed = 0;  ///< answered: with client_error::none
    std::uint64_t retried = 0;                            ///< sent a second time
    std::uint64_t connected = 0;                          ///< connections that stood
    std::uint64_t reused = 0;                             ///< requests given to one that had served before
    std::uint64_t closed_idle = 0;                        ///< idle connections that the other side ended
    std::uint64_t unasked_bytes = 0;                      ///< connections given up for bytes behind an answer
    std::uint64_t open = 0;                               ///< connections now
    std::uint64_t tls_handshakes = 0;                     ///< made, resumed ones included
    std::uint64_t tls_resumed = 0;                        ///< short ones, by what a server gave before
    std::uint64_t tls_failures = 0;                       ///< not made: not_trusted and tls_failed
    std::uint64_t tls_truncated = 0;                      ///< answers cut by an end of TCP without one of TLS
    std::uint64_t callback_exceptions = 0;
};

class client {
 public:
    /// Throws: error(invalid_argument) for a limit or time-out of 0; error(io) when the kernel gives no epoll, eventfd
    /// or timerfd.
    explicit client(client_options options = {});
    /// Ends what is under way with client_ended. Not from a callback.
    ~client();
    client(const client&) = delete;
    client& operator=(const client&) = delete;

    /// Begins a request. What is wrong with it is told by on_done, too.
    /// Returns: its handle; none, and nothing is called, while the client ends. Throws: error(invalid_argument) without
    /// an on_done; std::bad_alloc.
    request_id start(client_request asked, client_callbacks calls);
    /// The same for a plain GET.
    request_id get(std::string url, std::function<void(client_result&&)> on_done);

    /// Each returns false when the request has ended, or the handle never named one.
    bool cancel(request_id request);           ///< on_done(cancelled) follows
    bool pause(request_id request);            ///< nothing more of the answer is read or told, on_done included
    bool resume(request_id request);           ///< it goes on, by a later turn
    bool continue_upload(request_id request);  ///< asks a source that said `wait` again, by a later turn

    /// Runs `task` once on the loop, not before `delay` has passed. As server::after.
    timer_id after(std::chrono::nanoseconds delay, std::function<void()> task);
    /// Returns: false when it has run, or runs, or was cancelled.
    bool cancel(timer_id timer);

    /// Readable when turn() has something to do. It stays the client's.
    [[nodiscard]] int fd() const noexcept;
    /// Does what is due, without waiting.
    void turn();

    /// turn() for ever, waiting between: returns after stop(), and ends what is then under way with client_ended. Once.
    void run();
    /// Threads: any; async-signal-safe.
    void stop() noexcept;
    /// Runs `task` within a turn. Returns: false once the client has ended; `task` is then gone. Threads: any, as long
    /// as the client exists.
    bool post(std::function<void()> task);

    [[nodiscard]] const client_counters& counters() const noexcept;

 private:
    friend class client_thread;
    std::unique_ptr<class client_core> core_;
};

/// A client in a thread of its own.
///
/// Threads: any, for everything; callbacks run on the client's thread.
class client_thread {
 public:
    /// Throws: as client.
    explicit client_thread(client_options options = {});
    /// Ends what is under way with client_ended. Not from a callback.
    ~client_thread();
    client_thread(const client_thread&) = delete;
    client_thread& operator=(const client_thread&) = delete;

    request_id start(client_request asked, client_callbacks calls);
    /// Sends a request and waits for its end. Throws: error(invalid_argument) from a callback, which would wait for
    /// itself.
    [[nodiscard]] client_result ask(client_request asked);

    void cancel(request_id request);
    void pause(request_id request);
    void resume(request_id request);
    void continue_upload(request_id request);
    /// Runs `task` on the client's thread.
    bool post(std::function<void(client&)> task);

 private:
    struct parts;
    std::unique_ptr<parts> parts_;
};

}  // namespace holdfast::net
