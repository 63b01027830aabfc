// SPDX-License-Identifier: Apache-2.0
// ring_followers.hpp - many subscribers of one served ring in one thread, which publishes as well.
//
// A closed loop: `window` messages are under way, where one is until every subscriber has it. The three ways carry the
// same JSON (docs/design/0032), so one search finds the messages in all of them. A page is asked for again as soon as
// it was answered. (I1) Every subscriber gets every message once and in order, and each byte of its text is compared;
// else the run ends. (I2) Every delivery is accounted for: those under way at the end are awaited. Threads: everything
// on the thread in run_followers().
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "holdfast/metrics/histogram_counts.hpp"
#include "http/load.hpp"

namespace holdfast::bench::rings {

/// Server-sent events, a WebSocket, or pages that wait.
enum class follow_way : std::uint8_t { events, frames, pages };

struct follow_plan {
    std::uint16_t port = 0;  ///< of 127.0.0.1
    std::string target;      ///< "/v1/rings/NAME"
    follow_way way = follow_way::events;
    std::uint64_t first = 1;  ///< the number of the message that is published next
    std::function<void(std::string_view text)> publish;
    std::size_t followers = 1000;
    std::size_t message_bytes = 64;  ///< at least 20
    unsigned window = 1;
    std::chrono::nanoseconds warm_up{50'000'000};
    std::chrono::nanoseconds duration{200'000'000};
    bool spin = true;  ///< as in load_plan
    std::chrono::milliseconds patience{20'000};
};

struct follow_outcome {
    std::uint64_t deliveries = 0;  ///< within the window
    double seconds = 0;            ///< of the window
    histogram_counts latency_ns;   ///< from the publication, of those within the window
    std::uint64_t cpu_ns = 0;      ///< processor time of this thread within the window
};

/// Throws: wrong_answer, server_failed, interrupted, std::system_error, and what `publish` throws.
[[nodiscard]] follow_outcome run_followers(const follow_plan& plan, const http::on_window& window = {});

}  // namespace holdfast::bench::rings
