// SPDX-License-Identifier: Apache-2.0
// load_generator.hpp - asks one server over many connections from one thread, and checks every answer.
//
// Closed loop (rate_hz = 0): every connection keeps `pipeline` requests under way; what is counted are answers a
// second. Open loop: batches of `pipeline` requests start by a schedule (rate_schedule.hpp) on whichever connection is
// free; with none free they wait, and the wait counts (I1). Latency is from the time in the schedule to the moment the
// answer was read.
// (I2) Every answer is compared: status 200 and the very body. The first wrong one ends the run with wrong_answer.
// (I3) Every request is accounted for: after the end of the window those under way are awaited and checked too.
// (I4) Bounded: a server that does not answer within `patience` ends the run with server_failed.
// Threads: everything on the thread in run().
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <vector>

#include "http/exchange.hpp"

namespace holdfast::bench::http {

/// An answer that is not the one asked for, or no HTTP.
struct wrong_answer : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// A connection refused, lost or closed too early; no answer in time.
struct server_failed : std::runtime_error {
    using std::runtime_error::runtime_error;
};

struct load_plan {
    std::uint16_t port = 0;  ///< of 127.0.0.1
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
};

struct load_outcome {
    std::uint64_t answers = 0;              ///< within the window
    double seconds = 0;                     ///< of the window
    std::vector<std::uint32_t> latency_ns;  ///< open loop: of each request of the window, 2^32 - 1 for more
    std::uint64_t late =
        0;  ///< open loop: batches of the window that a free connection was there for, sent over 50 us late
};

/// Called when the window begins (true) and ends (false).
using on_window = std::function<void(bool begins)>;

/// Throws: wrong_answer, server_failed, interrupted, std::system_error, std::invalid_argument.
[[nodiscard]] load_outcome run_load(const load_plan& plan, const std::vector<exchange>& exchanges,
                                    const on_window& window = {});

/// One request on a connection of its own, checked like the others. Throws like run_load.
void ask_once(std::uint16_t port, const exchange& what, std::chrono::milliseconds patience);

}  // namespace holdfast::bench::http
