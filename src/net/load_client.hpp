// SPDX-License-Identifier: Apache-2.0
// load_client.hpp - many keep-alive connections from one thread, for loading and checking servers that may die.
//
// Every request is accounted for exactly once (I1): answered, lost with its connection, timed out, or answered by
// something that is not HTTP. So after a kill the caller knows precisely which requests may or may not have been
// carried out: those reported `lost` with `sent` set. A refused connection is no request; it is counted, reported and
// tried again after reconnect_delay.
// Threads: everything on the thread in run(), except stop() and finish(), which any thread may call.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace holdfast::net {

struct load_options {
    std::string host = "127.0.0.1";  ///< an IPv4 address
    std::uint16_t port = 0;
    unsigned connections = 64;
    unsigned pipeline = 1;  ///< requests in flight per connection
    std::chrono::milliseconds reconnect_delay{1};
    std::chrono::milliseconds request_timeout{5000};  ///< then the connection is dropped, its requests `timed_out`
};

enum class load_outcome : std::uint8_t { response, lost, timed_out, malformed };

struct load_result {
    unsigned connection = 0;
    std::uint64_t tag = 0;  ///< what next_request gave
    load_outcome outcome = load_outcome::lost;
    int status = 0;                ///< of a response
    std::string_view head{};       ///< of a response: from the status line to the empty line; valid during the call
    std::string_view body{};       ///< of a response, decoded; valid during the call
    std::uint64_t latency_ns = 0;  ///< from the request being made to its outcome
    bool sent = false;             ///< a byte of the request was given to the kernel; else no server can have seen it
    int error = 0;                 ///< errno of a lost connection; 0 when the server closed it in order
};

struct load_counters {
    std::uint64_t requests = 0, responses = 0, lost = 0, timed_out = 0, malformed = 0;
    std::uint64_t connected = 0;    ///< connections made
    std::uint64_t refused = 0;      ///< attempts that failed
    std::uint64_t closed_idle = 0;  ///< connections the server ended with nothing in flight
};

class load_client {
 public:
    /// Appends exactly one request to `bytes` and returns a tag for it; nothing: this connection wants no more.
    using next_request = std::function<std::optional<std::uint64_t>(unsigned connection, std::string& bytes)>;
    using on_result = std::function<void(const load_result&)>;
    using on_refused = std::function<void(unsigned connection, int error)>;

    /// Throws: error(invalid_argument) for an address or numbers that make no sense; error(io).
    load_client(load_options options, next_request next, on_result result, on_refused refused = {});
    ~load_client();
    load_client(const load_client&) = delete;
    load_client& operator=(const load_client&) = delete;

    /// Connects and exchanges until no connection wants more and nothing is in flight, or until stop().
    /// Returns: whether it came to that end by itself or by finish().
    bool run();
    /// Makes no new requests and lets run() return once those in flight have their outcome.
    void finish() noexcept;
    /// Makes run() return at once; what is in flight is reported lost first.
    void stop() noexcept;

    [[nodiscard]] const load_counters& counters() const noexcept;

 private:
    class core;
    std::unique_ptr<core> core_;
};

}  // namespace holdfast::net
