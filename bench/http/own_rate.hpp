// SPDX-License-Identifier: Apache-2.0
// own_rate.hpp - latency at a share of what each subject itself can do, by a schedule: beside its saturated rate it
// tells who can be loaded how far.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "http/rounds.hpp"
#include "workload/suite.hpp"

namespace holdfast::bench::http {

inline constexpr std::array load_percents{50U, 90U};
inline constexpr std::array percentiles{"p50", "p99", "p99.9"};

/// Of one line of a suite, and in its words.
struct own_rate_line {
    std::string name;                                         ///< before the colon
    std::string requests = "requests";                        ///< what it asks
    std::vector<workload::published_figure> published_p50{};  ///< others' figures
    std::vector<workload::published_figure> published_p99{};

    [[nodiscard]] std::string latency(const char* percentile, unsigned percent) const;
};

/// Whether any of its latencies is wanted; all are asked, so who lists the experiments hears of each.
[[nodiscard]] bool wants_own_rate(workload::recorder& to, const own_rate_line& line);

/// Asks all subjects at these rates, one each.
using latency_at = std::function<latency_samples(const std::vector<double>& rates_hz)>;

/// Measures at each share that is wanted, adds the experiments, and notes the rates, and whose latencies are too long
/// by the client's own fault. `found` is what each could do. Throws: what `ask` throws.
void measure_at_own_rate(workload::recorder& to, const own_rate_line& line, const contestants& all,
                         const round_options& options, const throughput_samples& found, const latency_at& ask);
/// The same by measure_latency().
void measure_at_own_rate(workload::recorder& to, const own_rate_line& line, const contestants& all,
                         const workload_shape& shape, const std::vector<exchange>& exchanges,
                         const round_options& options, const throughput_samples& found);

/// For subjects that waited for the processor more than `limit` of the time. A client without a core of its own always
/// does, and gets none.
[[nodiscard]] std::vector<std::vector<perf_test::warning>> marks_of(const std::vector<double>& held_up, double limit,
                                                                    const round_options& options);

}  // namespace holdfast::bench::http
