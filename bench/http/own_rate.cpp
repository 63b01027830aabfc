// SPDX-License-Identifier: Apache-2.0
#include "http/own_rate.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>

namespace holdfast::bench::http {

namespace {

bool wants(workload::recorder& to, const own_rate_line& line, unsigned percent) {
    bool any = false;
    for (const char* const percentile : percentiles) any = to.wants(line.latency(percentile, percent)) || any;
    return any;
}

void measure(workload::recorder& to, const own_rate_line& line, unsigned percent, const contestants& all,
             const round_options& options, const throughput_samples& found, const latency_at& ask) {
    std::vector<std::string> names;
    for (const contestant* const each : all) names.push_back(each->name);
    std::vector<double> rates = medians_of(found.requests_per_second);
    for (double& hz : rates) hz *= percent / 100.0;
    const latency_samples latency = ask(rates);
    const auto add = [&](const char* percentile, const samples& us, double level,
                         const std::vector<workload::published_figure>& published) {
        const std::string name = line.latency(percentile, percent);
        if (!to.wants(name)) return;
        to.add(name, "us", names, us, false,
               {.published = published, .warnings = marks_of(latency.held_up, held_up_limit(level), options)});
    };
    add(percentiles[0], latency.p50_us, 0.5, line.published_p50);
    add(percentiles[1], latency.p99_us, 0.99, line.published_p99);
    add(percentiles[2], latency.p999_us, 0.999, {});
    const std::string at = line.name + ", at " + std::to_string(percent) + " % load: ";
    if (latency.requests_least < options.latency_requests)
        to.note(at + "a turn had as few as " + std::to_string(latency.requests_least) + " " + line.requests +
                "; its p99.9 is one of the greatest of these and no more");
    std::string text, late;
    for (std::size_t i = 0; i < names.size(); ++i) {
        text += (i == 0 ? "" : "; ") + names[i] + " " + std::to_string(static_cast<long>(rates[i]));
        if (const std::uint64_t share = latency.late[i] * 100 / std::max<std::uint64_t>(latency.batches[i], 1);
            share > 0)
            late.append(late.empty() ? "" : ", ").append(names[i] + " (" + std::to_string(share) + " %)");
    }
    to.note(at + line.requests + "/s by a schedule, of its own median rate each: " + text);
    if (!late.empty())
        to.note(at + "the client itself was late with " + line.requests + " to " + late +
                "; those latencies are too long by that");
}

}  // namespace

std::string own_rate_line::latency(const char* percentile, unsigned percent) const {
    return name + ": " + percentile + " at " + std::to_string(percent) + " % load";
}

bool wants_own_rate(workload::recorder& to, const own_rate_line& line) {
    bool any = false;
    for (const unsigned percent : load_percents) any = wants(to, line, percent) || any;
    return any;
}

void measure_at_own_rate(workload::recorder& to, const own_rate_line& line, const contestants& all,
                         const round_options& options, const throughput_samples& found, const latency_at& ask) {
    for (const unsigned percent : load_percents)
        if (wants(to, line, percent)) measure(to, line, percent, all, options, found, ask);
}

void measure_at_own_rate(workload::recorder& to, const own_rate_line& line, const contestants& all,
                         const workload_shape& shape, const std::vector<exchange>& exchanges,
                         const round_options& options, const throughput_samples& found) {
    measure_at_own_rate(to, line, all, options, found, [&](const std::vector<double>& rates_hz) {
        return measure_latency(all, shape, exchanges, options, rates_hz);
    });
}

std::vector<std::vector<perf_test::warning>> marks_of(const std::vector<double>& held_up, double limit,
                                                      const round_options& options) {
    std::vector<std::vector<perf_test::warning>> all(held_up.size());
    for (std::size_t i = 0; i < held_up.size() && options.spin; ++i) {
        if (held_up[i] <= limit) continue;
        char share[32];
        std::snprintf(share, sizeof share, "%.2g", held_up[i] * 100);
        all[i].push_back({"disturbed", "other programs kept client or server from running for " + std::string(share) +
                                           " % of the time"});
    }
    return all;
}

}  // namespace holdfast::bench::http
