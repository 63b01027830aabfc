// SPDX-License-Identifier: Apache-2.0
// two_workers.hpp - what a second worker costs, and brings: processor time a request, and latency, with two beside one,
// asked by the same clients.
//
// Two clients, each a thread on a core of its own, keep half of the connections each; both are always there, whether
// they ask one worker or two (I1). Windows of both begin together (I2). With fewer than four cores clients and workers
// share two of them, in either case alike.
// Threads: the calling one is the first client, and is pinned meanwhile.
#pragma once

#include <string>
#include <vector>

#include "http/rounds.hpp"
#include "http/subject.hpp"
#include "workload/suite.hpp"

namespace holdfast::bench::http {

/// Where two workers and two clients run.
struct two_worker_cores {
    std::vector<unsigned> servers, clients;  ///< two each; none: there are not two cores

    [[nodiscard]] bool shared() const noexcept { return servers == clients; }
};

/// Of the cores that may be used, or as they were chosen: `servers` and `clients` count where they name two.
[[nodiscard]] two_worker_cores cores_for_two(const std::vector<unsigned>& usable, const std::vector<unsigned>& servers,
                                             const std::vector<unsigned>& clients);

[[nodiscard]] std::string with_workers(const std::string& subject, unsigned workers);

/// Closed loop, `shape.connections` in all. Requires: clients that share cores with workers do not spin. Throws: what
/// measure_throughput throws.
[[nodiscard]] throughput_samples measure_by_two_clients(const contestants& all, const workload_shape& shape,
                                                        const std::vector<exchange>& exchanges,
                                                        const round_options& options, const two_worker_cores& cores);
/// By a schedule, at rates_hz[contestant] by both clients together.
[[nodiscard]] latency_samples measure_latency_by_two_clients(const contestants& all, const workload_shape& shape,
                                                             const std::vector<exchange>& exchanges,
                                                             const round_options& options,
                                                             const two_worker_cores& cores,
                                                             const std::vector<double>& rates_hz);

}  // namespace holdfast::bench::http
