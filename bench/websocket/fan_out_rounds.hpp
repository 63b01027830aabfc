// SPDX-License-Identifier: Apache-2.0
// fan_out_rounds.hpp - fan-out on all subjects in turn, as http/rounds.hpp has it for what is asked and answered.
//
// The connections of a turn are opened for it and closed behind it, and the next turn begins when the server has done
// what their end asks of it.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "http/rounds.hpp"
#include "websocket/fan_out.hpp"

namespace holdfast::bench::websocket {

struct fan_out_rounds {
    fan_out_plan plan;  ///< of every turn, but for port and rate
    std::size_t rounds = 5;
    /// A turn of latency lasts until as many messages are due, at most the time behind it, and until two are.
    double messages = 64;
    double seconds_max = 2;
    std::function<void(std::size_t who, std::size_t round)> before_turn = {};
};

/// Closed loops: requests are deliveries. Throws: what run_fan_out throws, naming the subject.
[[nodiscard]] http::throughput_samples measure_fan_out(const http::contestants& all, const fan_out_rounds& how);
/// At rates_hz[contestant] deliveries a second. What is late are messages. Throws: the same.
[[nodiscard]] http::latency_samples measure_fan_out_latency(const http::contestants& all, const fan_out_rounds& how,
                                                            const std::vector<double>& rates_hz);

}  // namespace holdfast::bench::websocket
