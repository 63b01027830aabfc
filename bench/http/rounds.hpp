// SPDX-License-Identifier: Apache-2.0
// rounds.hpp - one workload on all subjects in turn: what the samples of an experiment are.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "http/load_generator.hpp"
#include "http/subject.hpp"

namespace holdfast::bench::http {

/// A subject that runs.
struct contestant {
    std::string name;
    running_server server;
};

struct round_options {
    std::size_t rounds = 7;
    std::chrono::nanoseconds duration{200'000'000};  ///< of one subject's turn
    std::chrono::nanoseconds warm_up{50'000'000};
    bool spin = true;
};

/// One line of the workload template.
struct workload_shape {
    unsigned connections = 64, pipeline = 1;
    bool connection_per_request = false;
};

using samples = std::vector<std::vector<double>>;  ///< [contestant][round]

struct throughput_samples {
    samples requests_per_second, cpu_us;
    std::vector<double> busy;  ///< processor time of the server over time, medians
    double held_up = 0;        ///< time in which client or server was ready and something else ran, over time; median
};

struct latency_samples {
    double rate_hz = 0;
    samples p50_us, p99_us;
    std::uint64_t late = 0, requests = 0;  ///< sent too late through the client's own fault, of all
};

/// Throws: wrong_answer and server_failed naming the subject; what run_load throws else.
[[nodiscard]] throughput_samples measure_throughput(const std::vector<contestant>& all, const workload_shape& shape,
                                                    const std::vector<exchange>& exchanges,
                                                    const round_options& options);
[[nodiscard]] latency_samples measure_latency(const std::vector<contestant>& all, const workload_shape& shape,
                                              const std::vector<exchange>& exchanges, const round_options& options,
                                              double rate_hz);

/// The value that a part `level` of the sorted values does not exceed (nearest rank). Reorders `values`.
[[nodiscard]] double percentile_of(std::vector<std::uint32_t>& values, double level);

}  // namespace holdfast::bench::http
