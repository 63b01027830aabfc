// SPDX-License-Identifier: Apache-2.0
// fan_out.hpp - one publisher and many subscribers of one server, all of them in one thread.
//
// Closed loop (rate_hz = 0): the publisher keeps `window` messages under way, where one is until every subscriber has
// it. Open loop: messages leave by a schedule, whatever has arrived; latency is from the time in the schedule. (I1)
// Every subscriber gets every message once and in order, and each byte of it is compared; else the run ends. (I2) Every
// delivery is accounted for: those under way at the end are awaited. Threads: everything on the thread in
// run_fan_out().
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "holdfast/metrics/histogram_counts.hpp"
#include "http/load.hpp"

namespace holdfast::bench::websocket {

struct fan_out_plan {
    std::uint16_t port = 0;  ///< of 127.0.0.1: /publish and /subscribe
    std::size_t subscribers = 1000;
    std::size_t message_bytes = 64;  ///< at least 8
    unsigned window = 1;
    double rate_hz = 0;  ///< messages a second
    std::chrono::nanoseconds warm_up{50'000'000};
    std::chrono::nanoseconds duration{200'000'000};
    bool spin = true;  ///< as in load_plan
    std::chrono::milliseconds patience{10'000};
};

struct fan_out_outcome {
    std::uint64_t deliveries = 0;  ///< within the window
    double seconds = 0;            ///< of the window
    histogram_counts latency_ns;   ///< of the deliveries of messages that were sent, or due, in the window
    std::uint64_t cpu_ns = 0;      ///< processor time of this thread within the window
    std::uint64_t messages = 0;    ///< that were sent, or due, in the window
    std::uint64_t late = 0;        ///< of these by a rate: there was room, and it was sent over 50 us late
};

/// Throws: wrong_answer, server_failed, interrupted, std::system_error.
[[nodiscard]] fan_out_outcome run_fan_out(const fan_out_plan& plan, const http::on_window& window = {});

}  // namespace holdfast::bench::websocket
