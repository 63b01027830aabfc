// SPDX-License-Identifier: Apache-2.0
// rounds.hpp - one workload on all subjects in turn: what the samples of an experiment are.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "http/load.hpp"
#include "http/subject.hpp"

namespace holdfast::bench::http {

/// A subject that runs.
struct contestant {
    std::string name;
    running_server server;
    bool only_kept = false;  ///< as in subject
};

using contestants = std::vector<const contestant*>;

struct round_options {
    std::size_t rounds = 7;
    std::chrono::nanoseconds duration{200'000'000};  ///< of one subject's turn
    std::chrono::nanoseconds warm_up{50'000'000};
    /// A turn of latency lasts until as many requests are due, three seconds at most: ten of them lie above its p99.9.
    std::uint64_t latency_requests = 10'000;
    bool spin = true;
    load_protocol protocol{};
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
    samples p50_us, p99_us, p999_us;
    std::vector<double> held_up;               ///< as above, for each contestant
    std::vector<std::uint64_t> late, batches;  ///< sent too late through the client's own fault, of all; likewise
    std::uint64_t requests_least = 0;          ///< of the turn with the fewest
};

/// Nothing yet, of so many contestants.
[[nodiscard]] latency_samples no_latencies(std::size_t count);
/// Notes a turn of one of them. Throws: server_failed where nothing was answered.
void note_turn(latency_samples& to, std::size_t who, const histogram_counts& latency_ns, std::uint64_t late,
               std::uint64_t batches);

/// The median of each contestant. Requires: a sample of each.
[[nodiscard]] std::vector<double> medians_of(const samples& each);

/// Calls turn(contestant, round) for each, the order moved on by one from round to round; names the subject of what
/// goes wrong.
void in_turn(const contestants& all, std::size_t rounds, const std::function<void(std::size_t, std::size_t)>& turn);
/// A closed loop of that shape, with the same requests for every subject of a round.
[[nodiscard]] load_plan plan_of(const contestant& who, const workload_shape& shape, const round_options& options,
                                std::size_t round);

/// By a schedule, for as long as so many requests take, three seconds at most, and no shorter than before.
void ask_at(load_plan& plan, double rate_hz, std::uint64_t requests);

/// How long client and server were ready to run in a window and something else ran.
class hold_up {
 public:
    explicit hold_up(const contestant& who) : server_(*who.server.process) {}
    /// At the begin of the window, and at its end.
    void mark();
    /// Of the one that waited longer, over the window.
    [[nodiscard]] double share(double seconds) const;

 private:
    const child_process& server_;
    std::uint64_t client_ns_ = 0, server_ns_ = 0;
};

/// Processor time that a server takes in a window.
class server_time {
 public:
    explicit server_time(const child_process& server) : server_(server) {}
    /// At the begin of the window, and at its end.
    void mark();
    [[nodiscard]] double us() const noexcept { return static_cast<double>(used_ns_) * 1e-3; }

 private:
    const child_process& server_;
    std::uint64_t used_ns_ = 0;
};

/// The share of time held up from which a percentile is marked as disturbed: once the requests of that time are enough
/// to be all that lie above it, and never more than 2 %.
[[nodiscard]] double held_up_limit(double level) noexcept;

/// Throws: wrong_answer and server_failed naming the subject; what run_load throws else.
[[nodiscard]] throughput_samples measure_throughput(const contestants& all, const workload_shape& shape,
                                                    const std::vector<exchange>& exchanges,
                                                    const round_options& options);

struct client_samples {
    samples client_us, server_us;  ///< processor time a request, of the same turn
};

/// Closed loops whose client sleeps where it has nothing to do: what it takes then is what it costs.
[[nodiscard]] client_samples measure_client(const contestants& all, const workload_shape& shape,
                                            const std::vector<exchange>& exchanges, const round_options& options);
/// At rates_hz[contestant].
[[nodiscard]] latency_samples measure_latency(const contestants& all, const workload_shape& shape,
                                              const std::vector<exchange>& exchanges, const round_options& options,
                                              const std::vector<double>& rates_hz);

/// The value that a part `level` of the values does not exceed, to within a 64th of it. Throws: server_failed for none.
[[nodiscard]] double percentile_of(const histogram_counts& values, double level);

}  // namespace holdfast::bench::http
