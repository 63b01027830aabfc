// SPDX-License-Identifier: Apache-2.0
#include "http/two_workers.hpp"

#include <barrier>
#include <cstdint>
#include <exception>
#include <thread>

namespace holdfast::bench::http {

namespace {

/// Runs the load and arrives at the gate when its window begins; leaves it to the other client if it never does.
load_outcome run_together(const load_plan& plan, const std::vector<exchange>& exchanges, std::barrier<>& gate,
                          const on_window& window) {
    bool arrived = false;
    try {
        return run_load(plan, exchanges, [&](bool begins) {
            if (begins) {
                arrived = true;
                gate.arrive_and_wait();
            }
            window(begins);
        });
    } catch (...) {
        if (!arrived) gate.arrive_and_drop();
        throw;
    }
}

struct outcomes {
    load_outcome first, second;

    [[nodiscard]] double seconds() const noexcept { return first.seconds; }
};

/// Both clients' loads at once; `window` is told of the first one's.
outcomes run_by_two(const load_plan& plan, const std::vector<exchange>& exchanges, const two_worker_cores& cores,
                    const on_window& window) {
    outcomes found;
    std::barrier gate(2);
    std::exception_ptr failure, own_failure;
    std::thread second([&] {
        try {
            pin_to({cores.clients[1]});
            found.second = run_together(plan, exchanges, gate, [](bool) {});
        } catch (...) {
            failure = std::current_exception();
        }
    });
    try {
        found.first = run_together(plan, exchanges, gate, window);
    } catch (...) {
        own_failure = std::current_exception();
    }
    second.join();
    if (own_failure) std::rethrow_exception(own_failure);
    if (failure) std::rethrow_exception(failure);
    return found;
}

/// A client's half of it.
workload_shape half_of(workload_shape shape) {
    shape.connections = (shape.connections + 1) / 2;
    return shape;
}

double rate_of(const load_outcome& outcome) { return static_cast<double>(outcome.answers) / outcome.seconds; }

}  // namespace

two_worker_cores cores_for_two(const std::vector<unsigned>& usable, const std::vector<unsigned>& servers,
                               const std::vector<unsigned>& clients) {
    if (usable.size() < 2) return {};
    two_worker_cores cores;
    cores.servers = servers.size() == 2 ? servers : std::vector{usable[0], usable[1]};
    if (clients.size() == 2)
        cores.clients = clients;
    else
        cores.clients = usable.size() < 4 ? cores.servers : std::vector(usable.end() - 2, usable.end());
    return cores;
}

std::string with_workers(const std::string& subject, unsigned workers) {
    return subject + (workers == 1 ? ", one worker" : ", two workers");
}

throughput_samples measure_by_two_clients(const contestants& all, const workload_shape& shape,
                                          const std::vector<exchange>& exchanges, const round_options& options,
                                          const two_worker_cores& cores) {
    throughput_samples found{.requests_per_second = samples(all.size()), .cpu_us = samples(all.size()), .busy = {}};
    samples busy(all.size());
    const pinned here({cores.clients[0]});
    in_turn(all, options.rounds, [&](std::size_t who, std::size_t round) {
        server_time used(*all[who]->server.process);
        const outcomes both = run_by_two(plan_of(*all[who], half_of(shape), options, round), exchanges, cores,
                                         [&](bool) { used.mark(); });
        const double rate = rate_of(both.first) + rate_of(both.second);
        const double cpu_share = used.us() * 1e-6 / both.seconds();
        found.requests_per_second[who].push_back(rate);
        found.cpu_us[who].push_back(cpu_share * 1e6 / rate);
        busy[who].push_back(cpu_share);
    });
    found.busy = medians_of(busy);
    return found;
}

latency_samples measure_latency_by_two_clients(const contestants& all, const workload_shape& shape,
                                               const std::vector<exchange>& exchanges, const round_options& options,
                                               const two_worker_cores& cores, const std::vector<double>& rates_hz) {
    latency_samples found = no_latencies(all.size());
    samples held_up(all.size());
    const pinned here({cores.clients[0]});
    in_turn(all, options.rounds, [&](std::size_t who, std::size_t round) {
        load_plan plan = plan_of(*all[who], half_of(shape), options, round);
        ask_at(plan, rates_hz[who] / 2, options.latency_requests / 2);
        hold_up waited(*all[who]);
        outcomes both = run_by_two(plan, exchanges, cores, [&](bool) { waited.mark(); });
        held_up[who].push_back(waited.share(both.seconds()));
        both.first.latency_ns.merge(both.second.latency_ns);
        note_turn(found, who, both.first.latency_ns, both.first.late + both.second.late,
                  both.first.starts + both.second.starts);
    });
    found.held_up = medians_of(held_up);
    return found;
}

}  // namespace holdfast::bench::http
