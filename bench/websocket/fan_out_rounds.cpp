// SPDX-License-Identifier: Apache-2.0
#include "websocket/fan_out_rounds.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "http/many_connections.hpp"

namespace holdfast::bench::websocket {

namespace {

using http::samples;

struct turn_found {
    fan_out_outcome outcome;
    double server_us = 0;
    double held_up = 0;
};

turn_found take_turn(const http::contestant& who, fan_out_plan plan) {
    plan.port = who.server.port;
    turn_found found;
    http::server_time used(*who.server.process);
    http::hold_up waited(who);
    found.outcome = run_fan_out(plan, [&](bool) {
        used.mark();
        waited.mark();
    });
    found.server_us = used.us();
    found.held_up = waited.share(found.outcome.seconds);
    http::await_rest(*who.server.process);
    return found;
}

void in_turn(const http::contestants& all, const fan_out_rounds& how,
             const std::function<void(std::size_t, const http::contestant&)>& turn) {
    http::in_turn(all, how.rounds, [&](std::size_t who, std::size_t round) {
        if (how.before_turn) how.before_turn(who, round);
        turn(who, *all[who]);
    });
}

}  // namespace

http::throughput_samples measure_fan_out(const http::contestants& all, const fan_out_rounds& how) {
    http::throughput_samples found{
        .requests_per_second = samples(all.size()), .cpu_us = samples(all.size()), .busy = {}};
    samples busy(all.size());
    in_turn(all, how, [&](std::size_t who, const http::contestant& one) {
        const turn_found turn = take_turn(one, how.plan);
        const auto count = static_cast<double>(turn.outcome.deliveries);
        found.requests_per_second[who].push_back(count / turn.outcome.seconds);
        found.cpu_us[who].push_back(turn.server_us / count);
        busy[who].push_back(turn.server_us * 1e-6 / turn.outcome.seconds);
    });
    found.busy = http::medians_of(busy);
    return found;
}

http::latency_samples measure_fan_out_latency(const http::contestants& all, const fan_out_rounds& how,
                                              const std::vector<double>& rates_hz) {
    http::latency_samples found = http::no_latencies(all.size());
    samples held_up(all.size());
    in_turn(all, how, [&](std::size_t who, const http::contestant& one) {
        fan_out_plan plan = how.plan;
        plan.rate_hz = rates_hz[who] / static_cast<double>(plan.subscribers);
        const double seconds = std::max(2 / plan.rate_hz, std::min(how.messages / plan.rate_hz, how.seconds_max));
        plan.duration = std::max(plan.duration, std::chrono::nanoseconds(static_cast<std::int64_t>(seconds * 1e9)));
        const turn_found turn = take_turn(one, plan);
        held_up[who].push_back(turn.held_up);
        http::note_turn(found, who, turn.outcome.latency_ns, turn.outcome.late, turn.outcome.messages);
    });
    found.held_up = http::medians_of(held_up);
    return found;
}

}  // namespace holdfast::bench::websocket
