// SPDX-License-Identifier: Apache-2.0
#include "holdfast/perf_test/perf_result.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "holdfast/perf_test/options.hpp"
#include "holdfast/perf_test/statistics.hpp"
#include "perf_test/deleted.hpp"
#include "perf_test/flag_values.hpp"

namespace holdfast::perf_test {
namespace {

measured nothing(std::string reason) { return {.value = 0, .range = {}, .void_reason = std::move(reason)}; }

constexpr double call_least_ns = 1;  // calls are counted in whole nanoseconds

}  // namespace

std::string why_no_time(const result& found) {
    if (!found.good()) return found.full_name() + " has no result: " + found.failure;
    if (found.samples.empty()) return found.full_name() + " has no samples";
    if (is_deleted(found) || !(found.time.median > 0))
        return found.full_name() +
               ": nothing of the body is left to measure: use its result with PERF_USE and hide its inputs with "
               "do_not_optimize";
    return {};
}

measured perf_result::median() const {
    if (std::string why = why_no_time(*this); !why.empty()) return nothing(std::move(why));
    return {.value = time.median, .range = time.median_95, .void_reason = {}};
}

measured perf_result::percentile_at(double level) const {
    if (!good()) return nothing(why_no_time(*this));
    if (!latency) return nothing("calls were not timed one by one: use PERF_LATENCY, or options with latency = true");
    constexpr double same = 1e-9;
    const auto& all = latency->percentiles;
    const auto found =
        std::find_if(all.begin(), all.end(), [&](const percentile& p) { return std::fabs(p.level - level) < same; });
    if (found == all.end()) return nothing("the percentile at level " + std::to_string(level) + " was not computed");
    if (all.front().estimate < call_least_ns)
        return nothing(full_name() +
                       ": half of the calls took no time that the clock can tell: the compiler removed the body, or it "
                       "is too short to be timed call by call; measure it in batches (PERF_RUN)");
    if (!found->bounded) {
        return nothing("too few calls (" + std::to_string(latency->count) + ") for the percentile at level " +
                       std::to_string(level) + ": measure longer (-time)");
    }
    return {.value = found->estimate, .range = {found->lower, found->upper}, .void_reason = {}};
}

measured ratio_of(const result& a, const result& b, double confidence) {
    for (const result* one : {&a, &b}) {
        if (std::string why = why_no_time(*one); !why.empty()) return nothing(std::move(why));
    }
    // Both intervals hold together with the wanted confidence if each is missed with half of what is left.
    const double each = 1 - (1 - confidence) / 2;
    const percentile of_a = quantile(a.samples, 0.5, each), of_b = quantile(b.samples, 0.5, each);
    if (!of_a.bounded || !of_b.bounded) return nothing("too few samples for this confidence: measure longer (-time)");
    if (!(of_b.lower > 0)) return nothing(b.full_name() + " takes no time that could be divided by");
    return {.value = of_a.estimate / of_b.estimate,
            .range = {of_a.lower / of_b.upper, of_a.upper / of_b.lower},
            .void_reason = {}};
}

measured paired_ratio_of(const result& a, const result& b, double confidence) {
    for (const result* one : {&a, &b}) {
        if (std::string why = why_no_time(*one); !why.empty()) return nothing(std::move(why));
    }
    if (a.samples.size() != b.samples.size()) return nothing("the results are not of the same rounds");
    std::vector<double> ratios;
    for (std::size_t round = 0; round < a.samples.size(); ++round) {
        if (!(b.samples[round] > 0)) return nothing(b.full_name() + " takes no time that could be divided by");
        ratios.push_back(a.samples[round] / b.samples[round]);
    }
    const percentile found = quantile(ratios, 0.5, confidence);
    if (!found.bounded) return nothing("too few rounds for this confidence: measure longer (-time)");
    return {.value = found.estimate, .range = {found.lower, found.upper}, .void_reason = {}};
}

double percentage_of(std::string text) {
    std::erase(text, ' ');
    return part_of(text);
}

}  // namespace holdfast::perf_test
