// SPDX-License-Identifier: Apache-2.0
// pacing.cpp - how late a paced call begins, by the way it is waited for; what timing a call costs; how far apart a
// group's workers begin. Prints a table; the numbers of docs/design/0013 are from it.
//
//   study_pacing [SECONDS A ROW] [--check]
//
// --check ends with an error if what the design stands on does not show: calls made on time or counted as late, and a
// median start that is nearer to its time with the last part spun than slept. It holds on a busy machine.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "holdfast/perf_test/clock.hpp"
#include "holdfast/perf_test/engine.hpp"
#include "holdfast/perf_test/latency.hpp"
#include "holdfast/perf_test/pacing.hpp"
#include "holdfast/perf_test/rate.hpp"
#include "holdfast/perf_test/workers.hpp"

namespace {

namespace perf = holdfast::perf_test;

struct waiting {
    const char* name;
    perf::pacing how;
    bool fine_slack;
    std::uint64_t margin_ns;  // 0: measured
};

int failures = 0;

void expect(bool holds, const char* what) {
    if (holds) return;
    std::fprintf(stderr, "does not show: %s\n", what);
    ++failures;
}

// Start errors in microseconds over a schedule of 1 kHz. Returns: the median.
double start_errors(const waiting& way, double seconds) {
    std::optional<perf::timer_slack> fine;
    if (way.fine_slack) fine.emplace();
    auto nothing = [] {};
    perf::looped_body body(nothing);
    const perf::rate_options options{.hz = 1000, .seconds = seconds, .pace = way.how};
    perf::rate_costs costs = perf::measure_rate_costs(options.pace, body);
    if (way.margin_ns != 0) costs.margin_ns = way.margin_ns;
    perf::schedule plan(options.hz, options.arrival);
    const auto counts = std::make_unique<perf::rate_counts>();
    const perf::monotonic_clock clock;
    perf::follow_schedule(clock, plan, clock.now(), body, options, costs, nullptr, *counts);
    const perf::latency_result late = perf::latency_of(counts->start_error);
    std::printf("%-44s margin %4.0f us  start late by p50 %8.2f  p90 %8.2f  p99 %8.2f us, waited %llu of %llu\n",
                way.name, static_cast<double>(costs.margin_ns) / 1e3, late.percentiles.at(0).estimate / 1e3,
                late.percentiles.at(1).estimate / 1e3, late.percentiles.at(2).estimate / 1e3,
                static_cast<unsigned long long>(late.count), static_cast<unsigned long long>(counts->calls));
    const double p50 = late.percentiles.at(0).estimate, p90 = late.percentiles.at(1).estimate,
                 p99 = late.percentiles.at(2).estimate;
    expect(late.count > 0 && late.count <= counts->calls, "calls that were waited for are some of all");
    expect(std::fabs(static_cast<double>(counts->calls) - 1000 * seconds) <= 1, "every call of the schedule is made");
    expect(p50 >= 0 && p50 <= p90 && p90 <= p99, "no call begins before its time, and percentiles are in order");
    return p50;
}

void call_costs() {
    auto nothing = [] {};
    perf::looped_body body(nothing);
    const perf::tick_clock& ticks = perf::tick_clock::get();
    const perf::tick_clock& kernel = perf::tick_clock::kernel();
    std::printf("an empty timed call: %.1f ns with %s, %.1f ns with the kernel's clock\n",
                perf::empty_call_ns(ticks, body), perf::to_string(ticks.source()), perf::empty_call_ns(kernel, body));
    auto times = std::make_unique<perf::call_times>();
    const perf::timed_calls did = perf::time_calls(ticks, body, {.calls_max = 2'000'000}, 0, *times);
    std::printf("the whole loop of the latency mode: %.1f ns a call\n",
                did.seconds * 1e9 / static_cast<double>(did.count));
    auto counts = std::make_unique<perf::rate_counts>();
    const perf::rate_options options{.hz = 1e9, .seconds = 0.2};
    perf::schedule plan(options.hz, options.arrival);
    const perf::monotonic_clock clock;
    perf::follow_schedule(clock, plan, clock.now(), body, options, {}, nullptr, *counts);
    std::printf("the whole loop of the rate mode: %.1f ns a call, so at most %.1f million calls a second\n",
                static_cast<double>(counts->end_ns) / static_cast<double>(counts->calls),
                static_cast<double>(counts->calls) * 1e3 / static_cast<double>(counts->end_ns));
}

void start_spreads(std::size_t workers, bool processes) {
    auto operation = [] {
        for (int i = 0; i < 500; ++i) perf::do_not_optimize(i);
    };
    perf::looped_body body(operation);
    perf::group_options group;
    group.test = "spread";
    group.workers = workers;
    group.processes = processes;
    group.seconds = 0.02;
    std::vector<double> spreads;
    for (int run = 0; run < 51; ++run) spreads.push_back(perf::run_group(group, body).result.start_spread_ns / 1e3);
    std::sort(spreads.begin(), spreads.end());
    std::printf("%zu %s begin within p50 %.1f  p90 %.1f us of each other\n", workers,
                processes ? "processes" : "threads", spreads[spreads.size() / 2], spreads[spreads.size() * 9 / 10]);
}

}  // namespace

int main(int argc, char** argv) {
    const bool check = argc > 1 && std::strcmp(argv[argc - 1], "--check") == 0;
    if (check) --argc;
    const double seconds = argc > 1 ? std::strtod(argv[1], nullptr) : 3;
    if (!(seconds > 0 && seconds < 1e6) || argc > 2) {
        std::fprintf(stderr, "usage: study_pacing [SECONDS A ROW] [--check], above 0\n");
        return 2;
    }
    call_costs();
    const waiting ways[] = {
        {"sleep, slack as found", perf::pacing::sleep, false, 0},
        {"sleep, least slack (-pace=sleep)", perf::pacing::sleep, true, 0},
        {"sleep then spin, slack as found, 60 us", perf::pacing::spin, false, 60'000},
        {"sleep then spin, least slack, 60 us", perf::pacing::spin, true, 60'000},
        {"sleep then spin, least slack (-pace=spin)", perf::pacing::spin, true, 0},
        {"spin only", perf::pacing::spin, true, 2'000'000},
    };
    std::vector<double> medians;
    for (const waiting& way : ways) medians.push_back(start_errors(way, seconds));
    expect(medians[3] < medians[1], "spinning the last part begins nearer to the time than sleeping");
    for (const std::size_t workers : {2, 4})
        for (const bool processes : {false, true}) start_spreads(workers, processes);
    return check && failures > 0 ? 1 : 0;
}
