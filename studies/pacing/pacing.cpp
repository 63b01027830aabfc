// SPDX-License-Identifier: Apache-2.0
// pacing.cpp - how late a paced call begins, by the way it is waited for; what timing a call costs; how far apart a
// group's workers begin. Prints a table; the numbers of docs/design/0013 are from it.
//
//   study_pacing [SECONDS A ROW] [--html FILE] [--check]
//
// --html writes the same as a page with plots.
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
#include <string>
#include <utility>
#include <vector>

#include "../page.hpp"
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

// For the page: rows of its three tables, and the curves of its chart.
std::vector<std::vector<std::string>> late_rows, cost_rows, spread_rows;
std::vector<study::plot::tail> late_curves;

std::string text_of(double value) {
    char text[40];
    std::snprintf(text, sizeof text, "%.2f", value);
    return text;
}

// Prints a line and keeps it for the page.
void say_cost(const std::string& what, const std::string& found) {
    std::printf("%s: %s\n", what.c_str(), found.c_str());
    cost_rows.push_back({what, found});
}

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
    late_rows.push_back({way.name, text_of(static_cast<double>(costs.margin_ns) / 1e3),
                         text_of(late.percentiles.at(0).estimate / 1e3), text_of(late.percentiles.at(1).estimate / 1e3),
                         text_of(late.percentiles.at(2).estimate / 1e3)});
    study::plot::tail curve{way.name, {}, late_curves.size()};
    for (const perf::call_bucket& bucket : late.histogram)
        curve.calls.push_back({bucket.high / 1e3, static_cast<double>(bucket.count)});
    late_curves.push_back(std::move(curve));
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
    say_cost(std::string("an empty timed call with ") + perf::to_string(ticks.source()),
             text_of(perf::empty_call_ns(ticks, body)) + " ns");
    say_cost("an empty timed call with the kernel's clock", text_of(perf::empty_call_ns(kernel, body)) + " ns");
    auto times = std::make_unique<perf::call_times>();
    const perf::timed_calls did = perf::time_calls(ticks, body, {.calls_max = 2'000'000}, 0, *times);
    say_cost("the whole loop of the latency mode",
             text_of(did.seconds * 1e9 / static_cast<double>(did.count)) + " ns a call");
    auto counts = std::make_unique<perf::rate_counts>();
    const perf::rate_options options{.hz = 1e9, .seconds = 0.2};
    perf::schedule plan(options.hz, options.arrival);
    const perf::monotonic_clock clock;
    perf::follow_schedule(clock, plan, clock.now(), body, options, {}, nullptr, *counts);
    const double each = static_cast<double>(counts->end_ns) / static_cast<double>(counts->calls);
    say_cost("the whole loop of the rate mode",
             text_of(each) + " ns a call, so at most " + text_of(1e3 / each) + " million calls a second");
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
    const std::string group_name = std::to_string(workers) + (processes ? " processes" : " threads");
    const double p50 = spreads[spreads.size() / 2], p90 = spreads[spreads.size() * 9 / 10];
    std::printf("%s begin within p50 %.1f  p90 %.1f us of each other\n", group_name.c_str(), p50, p90);
    spread_rows.push_back({group_name, text_of(p50), text_of(p90)});
}

bool write_page(const std::string& path) {
    std::vector<study::plot::legend_entry> names;
    for (const study::plot::tail& one : late_curves) names.push_back({one.name, one.colour});
    std::string body = study::where_text(perf::this_environment(perf::this_build()));
    body += study::card("How late a call begins, at 1000 calls a second, us",
                        study::table({"waited for by", "margin", "p50", "p90", "p99"}, late_rows) +
                            study::plot::legend(names) +
                            study::plot::tails(late_curves, "share of calls that begin later", "us"));
    body += study::card("What timing a call costs", study::table({"what", "costs"}, cost_rows));
    body +=
        study::card("How far apart a group's workers begin, us", study::table({"group", "p50", "p90"}, spread_rows));
    return study::write_page(path, "Calls at a given rate", body);
}

}  // namespace

int main(int argc, char** argv) {
    const bool check = argc > 1 && std::strcmp(argv[argc - 1], "--check") == 0;
    if (check) --argc;
    std::string html;
    if (argc > 2 && std::strcmp(argv[argc - 2], "--html") == 0) {
        html = argv[argc - 1];
        argc -= 2;
    }
    const double seconds = argc > 1 ? std::strtod(argv[1], nullptr) : 3;
    if (!(seconds > 0 && seconds < 1e6) || argc > 2) {
        std::fprintf(stderr, "usage: study_pacing [SECONDS A ROW, above 0] [--html FILE] [--check]\n");
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
    // A machine that stands still for a part of a row shows nothing: what is so shows in one of a few turns.
    for (unsigned turn = 0; turn == 0 || (check && failures > 0 && turn < 5); ++turn) {
        failures = 0;
        late_rows.clear();
        late_curves.clear();
        std::vector<double> medians;
        for (const waiting& way : ways) medians.push_back(start_errors(way, seconds));
        expect(medians[3] < medians[1], "spinning the last part begins nearer to the time than sleeping");
    }
    for (const std::size_t workers : {2, 4})
        for (const bool processes : {false, true}) start_spreads(workers, processes);
    if (!html.empty() && !write_page(html)) return 1;
    return check && failures > 0 ? 1 : 0;
}
