// SPDX-License-Identifier: Apache-2.0
#include "perf_test/figures.hpp"

#include <array>
#include <cmath>
#include <cstdio>

#include "perf_test/deleted.hpp"

namespace holdfast::perf_test {
namespace {

std::string rate_name(const rate_result& rate) {
    std::array<char, 40> text{};
    std::snprintf(text.data(), text.size(), "%.9g/s", rate.wanted_hz);
    std::string name = text.data();
    if (rate.arrival == arrivals::poisson) name += " poisson";
    if (rate.pace == pacing::sleep) name += " sleeping";
    return name;
}

void add_percentiles(const latency_result& from, const std::string& name, std::vector<figure>& all) {
    for (const percentile& p : from.percentiles) {
        const bool middle = std::fabs(p.level - 0.5) < 1e-9;
        if (!p.bounded || (!middle && std::fabs(p.level - 0.99) > 1e-9)) continue;
        figure one{.name = name + (middle ? " p50" : " p99"),
                   .kind = middle ? figure_kind::time : figure_kind::tail,
                   .numbers = {}};
        one.numbers.count = from.count;
        one.numbers.median = p.estimate;
        one.numbers.median_95 = {p.lower, p.upper};
        all.push_back(std::move(one));
    }
}

/// What one thread, or one group of workers that `prefix` names, has to compare.
void add_measured(const std::optional<latency_result>& latency, const std::optional<rate_result>& rate,
                  const summary& batches, const std::string& prefix, std::vector<figure>& all) {
    if (latency) add_percentiles(*latency, prefix + "latency", all);
    if (rate) {
        const std::string name = prefix + rate_name(*rate);
        add_percentiles(rate->service, name + " service", all);
        add_percentiles(rate->response, name + " response", all);
    }
    if (!latency && !rate && batches.count != 0) {
        figure one{.name = prefix + "median", .kind = figure_kind::time, .numbers = {}};
        one.numbers.count = batches.count;
        one.numbers.median = batches.p05 < deleted_below_ns ? 0 : batches.median;
        one.numbers.median_95 = batches.median_95;
        all.push_back(std::move(one));
    }
}

}  // namespace

std::vector<figure> figures_of(const result& found) {
    std::vector<figure> all;
    if (!found.good()) return all;
    if (found.workers.empty()) add_measured(found.latency, found.rate, found.time, "", all);
    for (const workers_result& group : found.workers) {
        if (!group.failure.empty()) continue;
        const std::string name = std::to_string(group.workers) + (group.processes ? " processes " : " threads ");
        add_measured(group.latency, group.rate, group.batches, name, all);
    }
    for (const counter& one : found.counters) {
        // The CPU's own counters differ from run to run by what interrupts it; callgrind's do not.
        if (one.name != "instructions" || one.source != "callgrind") continue;
        figure count{.name = one.name, .kind = figure_kind::count, .numbers = {}};
        count.numbers.count = 1;
        count.numbers.median = one.per_operation;
        all.push_back(std::move(count));
    }
    return all;
}

}  // namespace holdfast::perf_test
