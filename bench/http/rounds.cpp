// SPDX-License-Identifier: Apache-2.0
#include "http/rounds.hpp"

#include <algorithm>
#include <optional>

#include "workload/targets.hpp"

namespace holdfast::bench::http {

namespace {

constexpr double latency_seconds_max = 3;

}  // namespace

void hold_up::mark() {
    client_ns_ = own_waited_ns() - client_ns_;
    server_ns_ = server_.waited_ns() - server_ns_;
}

void server_time::mark() { used_ns_ = server_.cpu_ns() - used_ns_; }

double hold_up::share(double seconds) const {
    return static_cast<double>(std::max(client_ns_, server_ns_)) * 1e-9 / seconds;
}

void in_turn(const contestants& all, std::size_t rounds, const std::function<void(std::size_t, std::size_t)>& turn) {
    for (std::size_t round = 0; round < rounds; ++round) {
        for (std::size_t step = 0; step < all.size(); ++step) {
            const std::size_t who = (step + round) % all.size();
            try {
                turn(who, round);
            } catch (const wrong_answer& e) {
                throw wrong_answer(all[who]->name +
                                   " gave a wrong answer, so no number of this run counts: " + e.what());
            } catch (const server_failed& e) {
                throw server_failed(all[who]->name + ": " + e.what() + "; it said: \"" +
                                    all[who]->server.process->log_text() + "\"");
            }
        }
    }
}

load_plan plan_of(const contestant& who, const workload_shape& shape, const round_options& options, std::size_t round) {
    return {.server = loopback(who.server.port),
            .protocol = options.protocol,
            .connections = shape.connections,
            .pipeline = shape.pipeline,
            .connection_per_request = shape.connection_per_request,
            .warm_up = options.warm_up,
            .duration = options.duration,
            .answers_min = 100,
            .spin = options.spin,
            .seed = round + 1};
}

void ask_at(load_plan& plan, double rate_hz, std::uint64_t requests) {
    plan.rate_hz = rate_hz;
    const double seconds = std::min(latency_seconds_max, static_cast<double>(requests) / rate_hz);
    plan.duration = std::max(plan.duration, std::chrono::nanoseconds(static_cast<std::int64_t>(1e9 * seconds)));
}

double percentile_of(const histogram_counts& values, double level) {
    const std::optional<quantile_estimate> found = values.quantile(level);
    if (!found) throw server_failed("no answer in the time measured");
    return found->estimate;
}

throughput_samples measure_throughput(const contestants& all, const workload_shape& shape,
                                      const std::vector<exchange>& exchanges, const round_options& options) {
    throughput_samples found{.requests_per_second = samples(all.size()), .cpu_us = samples(all.size()), .busy = {}};
    samples busy(all.size());
    std::vector<double> held_up;
    in_turn(all, options.rounds, [&](std::size_t who, std::size_t round) {
        server_time used(*all[who]->server.process);
        hold_up waited(*all[who]);
        const load_outcome outcome = run_load(plan_of(*all[who], shape, options, round), exchanges, [&](bool) {
            used.mark();
            waited.mark();
        });
        found.requests_per_second[who].push_back(static_cast<double>(outcome.answers) / outcome.seconds);
        found.cpu_us[who].push_back(used.us() / static_cast<double>(outcome.answers));
        busy[who].push_back(used.us() * 1e-6 / outcome.seconds);
        held_up.push_back(waited.share(outcome.seconds));
    });
    found.busy = medians_of(busy);
    found.held_up = workload::median_of(held_up);
    return found;
}

std::vector<double> medians_of(const samples& each) {
    std::vector<double> all;
    for (const std::vector<double>& one : each) all.push_back(workload::median_of(one));
    return all;
}

double held_up_limit(double level) noexcept { return std::min(0.02, 1 - level); }

client_samples measure_client(const contestants& all, const workload_shape& shape,
                              const std::vector<exchange>& exchanges, const round_options& options) {
    client_samples found{.client_us = samples(all.size()), .server_us = samples(all.size())};
    in_turn(all, options.rounds, [&](std::size_t who, std::size_t round) {
        load_plan plan = plan_of(*all[who], shape, options, round);
        plan.spin = false;
        server_time used(*all[who]->server.process);
        const load_outcome outcome = run_load(plan, exchanges, [&](bool) { used.mark(); });
        found.client_us[who].push_back(static_cast<double>(outcome.cpu_ns) * 1e-3 /
                                       static_cast<double>(outcome.answers));
        found.server_us[who].push_back(used.us() / static_cast<double>(outcome.answers));
    });
    return found;
}

latency_samples no_latencies(std::size_t count) {
    return {.p50_us = samples(count),
            .p99_us = samples(count),
            .p999_us = samples(count),
            .held_up = {},
            .late = std::vector<std::uint64_t>(count),
            .batches = std::vector<std::uint64_t>(count)};
}

void note_turn(latency_samples& to, std::size_t who, const histogram_counts& latency_ns, std::uint64_t late,
               std::uint64_t batches) {
    to.p50_us[who].push_back(percentile_of(latency_ns, 0.50) * 1e-3);
    to.p99_us[who].push_back(percentile_of(latency_ns, 0.99) * 1e-3);
    to.p999_us[who].push_back(percentile_of(latency_ns, 0.999) * 1e-3);
    to.late[who] += late;
    to.batches[who] += batches;
    const std::uint64_t requests = latency_ns.total();
    to.requests_least = to.requests_least == 0 ? requests : std::min(to.requests_least, requests);
}

latency_samples measure_latency(const contestants& all, const workload_shape& shape,
                                const std::vector<exchange>& exchanges, const round_options& options,
                                const std::vector<double>& rates_hz) {
    latency_samples found = no_latencies(all.size());
    samples held_up(all.size());
    in_turn(all, options.rounds, [&](std::size_t who, std::size_t round) {
        load_plan plan = plan_of(*all[who], shape, options, round);
        ask_at(plan, rates_hz[who], options.latency_requests);
        hold_up waited(*all[who]);
        const load_outcome outcome = run_load(plan, exchanges, [&](bool) { waited.mark(); });
        held_up[who].push_back(waited.share(outcome.seconds));
        note_turn(found, who, outcome.latency_ns, outcome.late, outcome.starts);
    });
    found.held_up = medians_of(held_up);
    return found;
}

}  // namespace holdfast::bench::http
