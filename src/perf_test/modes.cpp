// SPDX-License-Identifier: Apache-2.0
#include "holdfast/perf_test/modes.hpp"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <utility>

#include "holdfast/perf_test/clock.hpp"
#include "holdfast/perf_test/latency.hpp"
#include "holdfast/perf_test/pacing.hpp"
#include "holdfast/perf_test/rate.hpp"
#include "holdfast/perf_test/statistics.hpp"
#include "holdfast/perf_test/workers.hpp"
#include "perf_test/deleted.hpp"

namespace holdfast::perf_test {
namespace {

std::string number(double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.4g", value);
    return text;
}

std::string group_conflict(const test_options& options, const std::vector<std::size_t>& groups, const char* what) {
    for (const std::size_t workers : groups) {
        if (workers == 0 || workers > workers_max)
            return std::to_string(workers) + " " + what + ": a group has 1 to " + std::to_string(workers_max);
        if (options.hz > 0 && options.arrival == arrivals::fixed &&
            std::ceil(options.hz * options.seconds) < static_cast<double>(workers))
            return number(options.hz) + " calls a second for " + number(options.seconds) +
                   " s are not one for each of " + std::to_string(workers) + " " + what +
                   "; measure longer, faster or with fewer workers";
    }
    return {};
}

rate_options rate_asked(const test_options& options) {
    rate_options rate{.hz = options.hz, .seconds = options.seconds, .arrival = options.arrival, .pace = options.pace};
    rate.seed = options.seed != 0 ? options.seed : monotonic_ns();
    return rate;
}

void warn_of_rate(const rate_result& rate, std::vector<warning>& warnings) {
    if (rate.abandoned > 0) {
        warnings.push_back(
            {"overload", "the body cannot keep up with " + number(rate.wanted_hz) +
                             " calls a second: " + std::to_string(rate.abandoned) +
                             " calls that were due were never begun. They count as "
                             "responses with the time they had waited, so response times are lower bounds"});
    } else if (rate.service.count > 0 && rate.late_starts * 20 > rate.service.count) {
        warnings.push_back({"late_starts", std::to_string(rate.late_starts) + " of " +
                                               std::to_string(rate.service.count) +
                                               " calls began late: slow calls held up others, or the machine is busy; "
                                               "response times show it"});
    }
}

void warn_of_latency(const latency_result& latency, double clock_ns, std::vector<warning>& warnings) {
    if (latency.percentiles.empty() || latency.percentiles.front().estimate >= clock_ns) return;
    warnings.push_back({"below_clock", "timing a call costs " + number(clock_ns) +
                                           " ns and half of the calls take less, " +
                                           number(latency.percentiles.front().estimate) +
                                           " ns: calls that short cannot be told apart; measure without -latency"});
}

void warn_of_group(const workers_result& group, std::vector<warning>& warnings) {
    cpu_set_t usable;
    CPU_ZERO(&usable);
    if (::sched_getaffinity(0, sizeof usable, &usable) == 0 &&
        group.workers > static_cast<std::size_t>(CPU_COUNT(&usable)))
        warnings.push_back({"crowded", "they share " + std::to_string(CPU_COUNT(&usable)) +
                                           " CPUs and take turns; the numbers hold the waiting"});
    if (group.start_spread_ns > 0.05e9 * group.seconds)
        warnings.push_back({"start_spread", "the last began " + number(group.start_spread_ns / 1e6) +
                                                " ms after the first; for that long they were fewer"});
}

void measure_alone(const test_options& options, body_runner& body, result& found) {
    if (options.hz > 0) {
        const rate_options rate = rate_asked(options);
        const timer_slack fine;
        const rate_costs costs = measure_rate_costs(rate.pace, body);
        schedule plan(rate.hz, rate.arrival, rate.seed);
        const auto counts = std::make_unique<rate_counts>();
        const monotonic_clock clock;
        follow_schedule(clock, plan, clock.now(), body, rate, costs, nullptr, *counts);
        rate_summary sum(rate);
        sum.add(*counts);
        found.rate = sum.result();
        found.floor_ns = static_cast<double>(costs.call_ns);
        found.count = counts->calls;
        found.seconds = static_cast<double>(counts->end_ns) * 1e-9;
        found.aborted = counts->aborted;
        warn_of_rate(*found.rate, found.warnings);
        return;
    }
    const tick_clock& clock = tick_clock::get();
    found.floor_ns = empty_call_ns(clock, body);
    const auto times = std::make_unique<call_times>();
    const double warm_up = std::min(options.warmup_seconds.value_or(options.seconds / 5), options.seconds / 5);
    if (warm_up > 0) (void)time_calls(clock, body, {.seconds = warm_up, .calls_max = 10'000}, found.floor_ns, *times);
    *times = call_times{};
    timed_calls did{.aborted = stop_sign::is_raised()};
    if (!did.aborted) did = time_calls(clock, body, {.seconds = options.seconds}, found.floor_ns, *times);
    found.latency = latency_of(*times);
    found.count = did.count;
    found.seconds = did.seconds;
    found.aborted = did.aborted;
    warn_of_latency(*found.latency, found.floor_ns, found.warnings);
}

/// Returns: whether to go on with the next group.
bool measure_group(const test_options& options, body_runner& body, std::size_t workers, bool processes, result& found) {
    group_options group{.test = found.full_name(), .workers = workers, .processes = processes};
    group.seconds = options.seconds;
    group.batch = options.batch;
    group.latency = options.latency;
    if (options.hz > 0) group.rate = rate_asked(options);
    group.pin = options.pin;
    // A hanging worker is found before the watchdog of the whole test ends everything with less to say.
    const auto groups = static_cast<double>(options.threads.size() + options.processes.size());
    group.patience_seconds =
        options.timeout() > 0 ? std::max(0.1, 0.8 * options.timeout() / groups - options.seconds) : 0;
    group_outcome outcome = run_group(group, body);
    found.failure = outcome.result.failure;
    found.aborted = outcome.aborted;
    if (!outcome.result.failure.empty()) {
        found.workers.push_back(std::move(outcome.result));
        return false;
    }
    found.count = outcome.result.count;
    found.seconds = outcome.result.seconds;
    found.floor_ns = outcome.floor_ns;
    found.samples = std::move(outcome.samples);
    found.time = outcome.result.batches;
    std::vector<warning> warnings = warnings_of(found.time);  // of batches: nothing where calls were timed
    if (found.time.count > 0) warn_if_deleted(found.time.p05, warnings);
    warn_of_group(outcome.result, warnings);
    if (outcome.result.rate) warn_of_rate(*outcome.result.rate, warnings);
    if (outcome.result.latency) warn_of_latency(*outcome.result.latency, outcome.floor_ns, warnings);
    for (warning& each : warnings)
        found.warnings.push_back(
            {each.code, std::to_string(workers) + (processes ? " processes: " : " threads: ") + each.text});
    found.workers.push_back(std::move(outcome.result));
    return !found.aborted;
}

}  // namespace

bool wants_mode(const test_options& options) noexcept {
    const bool paced = options.arrival != arrivals::fixed || options.pace != pacing::spin;
    return options.latency || options.hz != 0 || paced || !options.threads.empty() || !options.processes.empty();
}

std::string mode_conflict(const test_options& options) {
    if (!(options.seconds > 0) || !std::isfinite(options.seconds))
        return "the time to measure must be above zero and finite, not " + number(options.seconds) + " s";
    if (!(options.hz >= 0) || options.hz > rate_hz_max)
        return "a rate of " + number(options.hz) + " calls a second: it must be above zero and at most " +
               number(rate_hz_max);
    if (options.hz == 0 && options.arrival != arrivals::fixed)
        return "-arrival says how the calls of a schedule are spread; give the schedule's rate too (-hz)";
    if (options.hz == 0 && options.pace != pacing::spin)
        return "-pace says how the calls of a schedule are waited for; give the schedule's rate too (-hz)";
    if (options.precision > 0 && wants_mode(options))
        return "-precision ends the plain measurement early; "
               "a run by -hz, -latency, -threads or -procs lasts for -time";
    if (options.count != counting::standard && !(options.threads.empty() && options.processes.empty()))
        return "-count counts on the thread that runs the tests, and a run by -threads or -procs has others: "
               "count without them";
    std::string conflict = group_conflict(options, options.threads, "threads");
    if (conflict.empty()) conflict = group_conflict(options, options.processes, "processes");
    return conflict;
}

result measure_mode(const test_options& options, body_runner& body) {
    result found;
    found.suite = options.suite;
    found.name = options.name;
    found.parameter = options.parameter;
    found.failure = mode_conflict(options);
    if (!found.good()) return found;
    if (options.threads.empty() && options.processes.empty()) {
        measure_alone(options, body, found);
    } else {
        bool go_on = true;
        for (const std::size_t workers : options.threads)
            go_on = go_on && measure_group(options, body, workers, false, found);
        for (const std::size_t workers : options.processes)
            go_on = go_on && measure_group(options, body, workers, true, found);
    }
    if (found.good() && found.count == 0 && !found.aborted)
        found.failure = found.full_name() + ": not one operation was done in the time; measure longer (-time)";
    return found;
}

}  // namespace holdfast::perf_test
