// SPDX-License-Identifier: Apache-2.0
#include "holdfast/perf_test/rate.hpp"

#include "holdfast/perf_test/latency.hpp"

namespace holdfast::perf_test {
namespace {

/// monotonic_clock with the names that empty_call_ns asks for: the loop over a schedule reads this clock.
struct monotonic_ticks {
    monotonic_clock clock;
    [[nodiscard]] std::uint64_t start() const noexcept { return clock.now(); }
    [[nodiscard]] std::uint64_t stop() const noexcept { return clock.now(); }
    [[nodiscard]] double ns(std::uint64_t from, std::uint64_t to) const noexcept {
        return static_cast<double>(to - std::min(to, from));
    }
};

}  // namespace

rate_costs measure_rate_costs(pacing pace, body_runner& body) {
    const wake_up_error wake_up = rehearse_wake_up(monotonic_clock{});
    rate_costs costs;
    costs.margin_ns = wake_up.margin_ns();
    costs.call_ns = static_cast<std::uint64_t>(empty_call_ns(monotonic_ticks{}, body) + 0.5);
    // A spinner that starts more than a microsecond late was held up; a sleeper always is, by its wake-up.
    constexpr std::uint64_t spin_tolerance_ns = 1000;
    costs.tolerance_ns = pace == pacing::spin ? spin_tolerance_ns : std::max(spin_tolerance_ns, 3 * wake_up.median_ns);
    return costs;
}

rate_summary::rate_summary(const rate_options& options) {
    sum_.wanted_hz = options.hz;
    sum_.arrival = options.arrival;
    sum_.pace = options.pace;
    sum_.seed = options.seed;
}

void rate_summary::add(const rate_counts& counts) {
    calls_ += counts.calls;
    sum_.late_starts += counts.late_starts;
    sum_.backlog_max += counts.backlog_max;
    sum_.abandoned += counts.abandoned;
    if (counts.calls != 0) {
        first_start_ns_ = std::min(first_start_ns_, counts.first_start_ns);
        last_start_ns_ = std::max(last_start_ns_, counts.last_start_ns);
    }
    end_ns_ = std::max(end_ns_, counts.end_ns);
    counts.service.add_to(service_);
    counts.response.add_to(response_);
    counts.start_error.add_to(start_error_);
}

rate_result rate_summary::result() const {
    rate_result result = sum_;
    // Between n starts lie n - 1 gaps; a single start has none, and was the only one in all that time.
    if (calls_ > 1 && last_start_ns_ > first_start_ns_) {
        result.achieved_hz =
            static_cast<double>(calls_ - 1) * 1e9 / static_cast<double>(last_start_ns_ - first_start_ns_);
    } else if (calls_ > 0 && end_ns_ > 0) {
        result.achieved_hz = static_cast<double>(calls_) * 1e9 / static_cast<double>(end_ns_);
    }
    result.start_error_ns = start_error_.quantile(0.5).value_or(quantile_estimate{}).estimate;
    result.service = latency_of(service_);
    result.response = latency_of(response_);
    return result;
}

}  // namespace holdfast::perf_test
