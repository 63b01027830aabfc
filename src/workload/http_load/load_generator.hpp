// SPDX-License-Identifier: Apache-2.0
// load_generator.hpp - asks one server over many connections from one thread, and checks every answer.
//
// Closed loop (rate_hz = 0): every connection keeps `pipeline` requests under way; what is counted are answers a
// second. Open loop: batches of `pipeline` requests start by a schedule (rate_schedule.hpp) on whichever connection is
// free; with none free they wait, and the wait counts (I1). Latency is from the time in the schedule to the moment the
// answer was read.
// (I2) Strict: every answer is compared, status 200 and the very body. The first wrong one ends the run with
// wrong_answer,
//      the first failure of the server with server_failed. Tolerant: answers are counted by status, failed requests by
//      kind, and a connection that failed is made anew a moment later.
// (I3) Every request is accounted for: after the end of the window those under way are awaited too.
// (I4) Bounded: a server that does not answer within `patience` has failed.
// Threads: everything on the thread in run().
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/metrics/histogram_counts.hpp"
#include "net/socket_address.hpp"
#include "workload/http_load/answer_scanner.hpp"

namespace holdfast::workload::http {

/// An answer that is not the one asked for, or no HTTP.
struct wrong_answer : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// A connection refused, lost or closed too early; no answer in time.
struct server_failed : std::runtime_error {
    using std::runtime_error::runtime_error;
};

struct exchange {
    std::string request;
    std::string body;  ///< strict: the answer is 200 with exactly this body
};

/// 127.0.0.1:PORT.
[[nodiscard]] net::socket_address loopback(std::uint16_t port);

/// What connections speak.
struct load_protocol {
    std::string opening;  ///< sent first on each, and answered 101; empty: nothing, as in HTTP
    scan_status (*scan)(std::string_view bytes, answer& out) noexcept = scan_answer;  ///< takes answers off
};

struct load_plan {
    net::socket_address server{};
    load_protocol protocol{};  ///< with an opening: strict, over connections that are kept
    bool tolerant = false;     ///< (I2)
    unsigned connections = 64;
    unsigned pipeline = 1;                ///< requests under way on a connection
    bool connection_per_request = false;  ///< the requests say "Connection: close"; pipeline is 1
    double rate_hz = 0;                   ///< requests a second; 0: closed loop
    std::chrono::nanoseconds warm_up{50'000'000};
    std::chrono::nanoseconds duration{200'000'000};
    std::uint64_t answers_min =
        1;  ///< closed loop: the window lasts until there are as many, on a machine that is busy
    std::chrono::milliseconds patience{5000};
    bool spin =
        true;  ///< poll instead of sleeping: the client needs a core of its own, and its wake-ups are not measured
    std::uint64_t seed = 1;  ///< of the order in which the exchanges come
    bool ring = true;        ///< kept connections by io_uring where the machine gives it, else by epoll
};

/// Requests that failed, by what became of them; of the whole run, and none in a strict one.
struct load_failures {
    std::uint64_t refused = 0;     ///< attempts to connect, which are no requests
    std::uint64_t closed = 0;      ///< the server closed the connection in order before the answer
    std::uint64_t reset = 0;       ///< the connection was lost
    std::uint64_t timed_out = 0;   ///< no answer within `patience`
    std::uint64_t not_sent = 0;    ///< open loop: still waiting for a free connection `patience` after the window
    std::uint64_t unreadable = 0;  ///< an answer that answer_scanner.hpp does not know; those behind it count too

    [[nodiscard]] std::uint64_t sum() const noexcept {
        return refused + closed + reset + timed_out + not_sent + unreadable;
    }
};

struct load_outcome {
    std::uint64_t answers = 0;    ///< within the window
    double seconds = 0;           ///< of the window
    histogram_counts latency_ns;  ///< of the answered requests that were meant to start in the window
    std::uint64_t starts = 0;     ///< open loop: batches meant to start in the window
    std::uint64_t late = 0;       ///< of these: a free connection was there, and it was sent over 50 us late
    std::map<int, std::uint64_t> statuses{};  ///< of the answers within the window
    load_failures failures{};
    std::uint64_t cpu_ns = 0;  ///< processor time of this thread within the window
};

/// Called when the window begins (true) and ends (false).
using on_window = std::function<void(bool begins)>;

/// Throws: wrong_answer, server_failed, interrupted, std::system_error, std::invalid_argument.
[[nodiscard]] load_outcome run_load(const load_plan& plan, const std::vector<exchange>& exchanges,
                                    const on_window& window = {});

/// One request on a connection of its own, checked like the others. Throws like run_load.
void ask_once(const net::socket_address& server, const exchange& what, std::chrono::milliseconds patience);

}  // namespace holdfast::workload::http
