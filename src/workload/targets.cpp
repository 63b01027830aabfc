// SPDX-License-Identifier: Apache-2.0
#include "workload/targets.hpp"

#include <algorithm>
#include <cstdio>

#include "holdfast/perf_test/interleaved.hpp"
#include "holdfast/perf_test/statistics.hpp"

namespace holdfast::workload {

namespace {

[[nodiscard]] std::string nanoseconds(std::span<const double> samples) {
    const double median = median_of(samples);
    return fixed_text(median, median < 100 ? 2 : 0) + " ns";
}

// Two digits where one would say another number.
[[nodiscard]] std::string asked_text(double times) {
    const std::string text = fixed_text(times, 2);
    return text.ends_with('0') ? text.substr(0, text.size() - 1) : text;
}

[[nodiscard]] std::string aim_text(std::string_view aim) {
    return aim.empty() ? std::string() : " (aim " + std::string(aim) + ")";
}

}  // namespace

std::string verdict(bool met) { return met ? " (met)" : " (missed)"; }

std::string fixed_text(double value, int digits) {
    char text[40];
    std::snprintf(text, sizeof text, "%.*f", digits, value);
    return text;
}

bool is_wanted_subject(const run_options& wanted, std::string_view name, bool ours) {
    return ours || wanted.only.empty() || std::ranges::any_of(wanted.only, [&](const std::string& one) {
               return name == one || name.starts_with(one + ", ");
           });
}

double times_faster(std::span<const double> a, std::span<const double> b) {
    return perf_test::ratio_of_pairs(a, b).ratio;
}

double median_of(std::span<const double> samples) {
    std::vector<double> sorted(samples.begin(), samples.end());
    std::ranges::sort(sorted);
    return perf_test::percentile_of_sorted(sorted, 0.5);
}

std::optional<std::size_t> sampled::find(std::string_view name) const {
    const auto at = static_cast<std::size_t>(std::ranges::find(names, name) - names.begin());
    return timed(at) ? std::optional(at) : std::nullopt;
}

sampled run_sampled(recorder& to, const experiment& e) {
    sampled found;
    for (const perf_test::subject& s : e.subjects) found.names.push_back(s.name);
    found.samples = to.run(e);
    return found;
}

std::string at_most_text(const std::string& what, const sampled& found, std::string_view peer, double times,
                         std::string_view aim) {
    const auto other = found.find(peer);
    if (!other || !found.timed(0)) return {};
    const double ratio = times_faster(found.samples[*other], found.samples[0]);
    return "target: " + what + " in at most " + asked_text(times) + " times the time of " + std::string(peer) +
           aim_text(aim) + ": " + fixed_text(ratio, 2) + " times, " + nanoseconds(found.samples[0]) +
           verdict(ratio <= times);
}

std::string at_least_text(const std::string& what, const sampled& found, std::string_view peer, double times,
                          std::string_view aim) {
    const auto other = found.find(peer);
    if (!other || !found.timed(0)) return {};
    const double ratio = times_faster(found.samples[0], found.samples[*other]);
    return "target: " + what + " at least " + asked_text(times) + " times as fast as " + std::string(peer) +
           aim_text(aim) + ": " + fixed_text(ratio, 2) + " times, " + nanoseconds(found.samples[0]) +
           verdict(ratio >= times);
}

std::string not_judged_text(const std::string& what, std::string_view peer) {
    return "target: " + what + " not judged: " + std::string(peer) + " is not there";
}

std::string beside_published_text(const std::string& what, std::span<const double> ours,
                                  const published_figure& published) {
    if (ours.empty()) return {};
    return what + ": " + fixed_text(1e3 / median_of(ours), 1) +
           " million a second; published, another machine: " + fixed_text(published.value / 1e6, 0) + " million " +
           published.unit;
}

void note_if_any(recorder& to, const std::string& text) {
    if (!text.empty()) to.note(text);
}

}  // namespace holdfast::workload
