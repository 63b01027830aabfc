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
    std::uint64_t used = 0;
    http::hold_up waited(who);
    found.outcome = run_fan_out(plan, [&](bool begins) {
        const std::uint64_t now = who.server.process->cpu_ns();
        used = begins ? now : now - used;
        waited.mark();
    });
    found.server_us = static_cast<double>(used) * 1e-3;
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
    const std::size_t count = all.size();
    http::latency_samples found{.p50_us = samples(count),
                                .p99_us = samples(count),
                                .p999_us = samples(count),
                                .held_up = {},
                                .late = std::vector<std::uint64_t>(count),
                                .batches = std::vector<std::uint64_t>(count)};
    samples held_up(count);
    in_turn(all, how, [&](std::size_t who, const http::contestant& one) {
        fan_out_plan plan = how.plan;
        plan.rate_hz = rates_hz[who] / static_cast<double>(plan.subscribers);
        const double seconds = std::max(2 / plan.rate_hz, std::min(how.messages / plan.rate_hz, how.seconds_max));
        plan.duration = std::max(plan.duration, std::chrono::nanoseconds(static_cast<std::int64_t>(seconds * 1e9)));
        const turn_found turn = take_turn(one, plan);
        held_up[who].push_back(turn.held_up);
        found.p50_us[who].push_back(http::percentile_of(turn.outcome.latency_ns, 0.50) * 1e-3);
        found.p99_us[who].push_back(http::percentile_of(turn.outcome.latency_ns, 0.99) * 1e-3);
        found.p999_us[who].push_back(http::percentile_of(turn.outcome.latency_ns, 0.999) * 1e-3);
        found.late[who] += turn.outcome.late;
        found.batches[who] += turn.outcome.messages;
        const std::uint64_t deliveries = turn.outcome.latency_ns.total();
        found.requests_least = found.requests_least == 0 ? deliveries : std::min(found.requests_least, deliveries);
    });
    found.held_up = http::medians_of(held_up);
    return found;
}

}  // namespace holdfast::bench::websocket
