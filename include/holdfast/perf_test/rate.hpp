// SPDX-License-Identifier: Apache-2.0
// rate.hpp - calls begun by a schedule that does not wait for slow ones, and what a client of such a service would see.
//
// Two times of each call: service, from its actual start to its end; response, from the start that the schedule
// intended. While a body stalls, calls go on falling due; they are begun late and their responses hold the wait. A
// measurement that begins the next call only when the last one is done leaves those out (coordinated omission).
// (I1) response = service + max(0, actual start - intended start): never less than service.
// (I2) Whoever is behind begins the next call at once and never sleeps, until caught up.
// (I3) Every call that falls due is counted: one that could not be begun before the end, with the time it had waited.
// (I4) The loop ends at the schedule's end, or later by one call and a grace of a twentieth of its length (at most
//      0.1 s) in which it may catch up, at whatever rate.
// Source: coordinated omission: Tene, How NOT to Measure Latency, 2013; open and closed loops: Schroeder, Wierman,
// Harchol-Balter, Open Versus Closed: A Cautionary Tale, NSDI 2006.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "holdfast/perf_test/call_times.hpp"
#include "holdfast/perf_test/engine.hpp"
#include "holdfast/perf_test/latency.hpp"
#include "holdfast/perf_test/options.hpp"
#include "holdfast/perf_test/pacing.hpp"
#include "holdfast/perf_test/result.hpp"
#include "holdfast/perf_test/schedule.hpp"

namespace holdfast::perf_test {

struct rate_options {
    double hz = 1000;      ///< of all workers together; above 0, at most rate_hz_max
    double seconds = 1.5;  ///< calls whose intended start lies before this
    arrivals arrival = arrivals::fixed;
    pacing pace = pacing::spin;
    std::uint64_t seed = 1;  ///< of Poisson arrivals
};

/// What the loop needs to know of the machine.
struct rate_costs {
    std::uint64_t margin_ns = 60'000;   ///< spinning begins so long before an instant
    std::uint64_t call_ns = 0;          ///< an empty call with its two readings of the clock; taken off each service
    std::uint64_t tolerance_ns = 1000;  ///< a start later than this is a late one
};

/// What one worker's loop did and saw. Plain memory, as call_times.
struct rate_counts {
    std::uint64_t calls = 0, late_starts = 0, backlog_max = 0, abandoned = 0;
    std::uint64_t first_start_ns = 0, last_start_ns = 0, end_ns = 0;  ///< since the schedule's beginning
    bool aborted = false;
    call_times service, response, start_error;  ///< start_error: of starts that were waited for
};

/// Rehearses the pacing and measures an empty call. Cost: about 6 ms.
[[nodiscard]] rate_costs measure_rate_costs(pacing pace, body_runner& body);

/// Puts the counts of workers that shared a schedule together. Backlogs are added up: an upper bound, as each had its
/// greatest at its own time.
class rate_summary {
 public:
    explicit rate_summary(const rate_options& options);
    void add(const rate_counts& counts);
    [[nodiscard]] rate_result result() const;
    [[nodiscard]] std::uint64_t calls() const noexcept { return calls_; }

 private:
    rate_result sum_;
    std::uint64_t calls_ = 0;
    std::uint64_t first_start_ns_ = ~std::uint64_t{0}, last_start_ns_ = 0, end_ns_ = 0;
    histogram_counts service_, response_, start_error_;
};

namespace detail {

/// Counts what fell due before `end_ns` and was never begun (I3), with the time that it has waited. At most 65,536
/// steps: beyond that many, calls are counted in equal groups, spread evenly.
inline void abandon(schedule& plan, std::uint64_t end_ns, std::uint64_t duration_ns, rate_counts& counts) noexcept {
    const std::uint64_t due = duration_ns == 0 ? 0 : plan.due_by(std::min(end_ns, duration_ns - 1));
    if (due <= plan.index()) return;
    counts.abandoned = due - plan.index();
    constexpr std::uint64_t groups_max = 65'536;
    if (counts.abandoned <= groups_max) {
        for (; plan.index() < due; plan.advance()) counts.response.record(end_ns - std::min(end_ns, plan.next_ns()));
        return;
    }
    const double from = static_cast<double>(plan.next_ns());
    const double width = static_cast<double>(counts.abandoned) / static_cast<double>(groups_max);
    std::uint64_t counted = 0;
    for (std::uint64_t group = 1; group <= groups_max; ++group) {
        const auto until = static_cast<std::uint64_t>(width * static_cast<double>(group));
        const double start = from + (static_cast<double>(group) - 0.5) * width * plan.period_ns();
        const auto waited = static_cast<std::uint64_t>(std::max(0.0, static_cast<double>(end_ns) - start));
        counts.response.record(waited, until - counted);
        counted = until;
    }
}

}  // namespace detail

/// Follows `plan` from `origin_ns` on, which may lie ahead. `Clock` is a monotonic_clock or a test's; `stop`: as
/// wanted_to_stop takes it. Throws: what the body throws.
template <class Clock>
void follow_schedule(const Clock& clock, schedule& plan, std::uint64_t origin_ns, body_runner& body,
                     const rate_options& options, const rate_costs& costs, const std::atomic<std::uint32_t>* stop,
                     rate_counts& counts) {
    const auto duration_ns = static_cast<std::uint64_t>(options.seconds * 1e9);
    const std::uint64_t give_up_ns = duration_ns + std::min<std::uint64_t>(duration_ns / 20, 100'000'000);  // I4
    const auto since_origin = [&](std::uint64_t at) { return at - std::min(at, origin_ns); };
    const auto stopped = [stop] { return wanted_to_stop(stop); };
    std::uint64_t now = since_origin(wait_until(clock, origin_ns, options.pace, costs.margin_ns, stopped));
    bool ended_early = false;
    for (; plan.next_ns() < duration_ns; plan.advance()) {
        const std::uint64_t intended = plan.next_ns();
        const bool waited = now < intended;
        if (waited) now = since_origin(wait_until(clock, origin_ns + intended, options.pace, costs.margin_ns, stopped));
        ended_early = stopped();
        if (ended_early || now >= give_up_ns) break;
        body.prepare(1);
        const std::uint64_t begin = clock.now() - origin_ns;
        (void)body.run_batch(1);
        const std::uint64_t end = clock.now() - origin_ns;
        body.finish();
        now = end;
        const std::uint64_t late = begin - std::min(begin, intended);
        const std::uint64_t took = end - begin - std::min(end - begin, costs.call_ns);
        counts.service.record(took);
        counts.response.record(late + took);  // I1
        if (waited) counts.start_error.record(late);
        if (late > costs.tolerance_ns) ++counts.late_starts;
        if (counts.calls++ == 0) counts.first_start_ns = begin;
        counts.last_start_ns = begin;
        const std::uint64_t due = plan.due_by(std::min(now, duration_ns - 1));
        if (due > plan.index() + 1) counts.backlog_max = std::max(counts.backlog_max, due - plan.index() - 1);
    }
    counts.aborted = stop_sign::is_raised();
    if (!ended_early) {
        if (plan.next_ns() < duration_ns) detail::abandon(plan, now, duration_ns, counts);
        now = since_origin(wait_until(clock, origin_ns + duration_ns, pacing::sleep, 0, stopped));
    }
    counts.end_ns = now;
}

}  // namespace holdfast::perf_test
