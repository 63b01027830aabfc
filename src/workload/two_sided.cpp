// SPDX-License-Identifier: Apache-2.0
#include "workload/two_sided.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "holdfast/error.hpp"
#include "holdfast/perf_test/disturbance.hpp"
#include "holdfast/perf_test/interleaved.hpp"
#include "holdfast/perf_test/statistics.hpp"

namespace holdfast::workload {

namespace {

constexpr double steady =
    1.4;  // between the fastest and the slowest probe of a round; the regimes are three times apart

/// What one round saw.
struct round_record {
    std::vector<double> samples;
    std::vector<double> probes, probes_of_two;
    bool disturbed = false;

    [[nodiscard]] bool is_steady() const {
        const auto [low, high] = std::ranges::minmax(probes);
        return high <= steady * low;
    }
};

class rounds {
 public:
    rounds(const std::vector<two_sided_subject>& subjects, const two_sided_options& options)
        : subjects_(subjects), options_(options), operations_(subjects.size()) {
        for (std::size_t i = 0; i < subjects_.size(); ++i) operations_[i] = calibrated(subjects_[i]);
    }

    two_sided_result run() {
        two_sided_result found;
        found.samples.resize(subjects_.size());
        const auto wanted = static_cast<std::size_t>(std::clamp(options_.seconds / options_.batch_seconds,
                                                                static_cast<double>(options_.rounds_min),
                                                                static_cast<double>(options_.rounds_max)));
        const auto orders = perf_test::balanced_orders(subjects_.size(), 1);
        for (std::size_t kept = 0, taken = 0; kept < wanted; ++taken) {
            const round_record one = round(orders[taken % orders.size()]);
            if (one.disturbed || !one.is_steady()) {
                if (taken - kept < wanted) {
                    ++(one.disturbed ? found.disturbed : found.unsteady);
                    continue;
                }
                ++found.kept_disturbed;
            }
            ++kept;
            for (std::size_t i = 0; i < subjects_.size(); ++i) found.samples[i].push_back(one.samples[i]);
            found.line_ns.push_back(median_of(one.probes));
            found.two_lines_ns.push_back(median_of(one.probes_of_two));
        }
        return found;
    }

 private:
    /// Operations that take about the time of a sample.
    [[nodiscard]] std::uint64_t calibrated(const two_sided_subject& s) const {
        const double wanted_ns = options_.batch_seconds * 1e9;
        const std::uint64_t least = options_.operations_min;
        std::uint64_t operations = least;
        double took = 0;
        for (;; operations *= 4) {
            // The shortest of some decides how long samples get, and nothing else: one that lost its core would make
            // all of them too short to mean anything.
            took = s.run(operations);
            for (int i = 0; i < 3; ++i) took = std::min(took, s.run(operations));
            if (took >= wanted_ns / 4 || operations >= std::uint64_t{1} << 32U) break;
        }
        s.far->rest();
        const double scaled = static_cast<double>(operations) * wanted_ns / took;
        return std::max(least, static_cast<std::uint64_t>(scaled) / least * least);
    }

    round_record round(const std::vector<std::size_t>& order) {
        round_record one;
        one.samples.resize(subjects_.size());
        perf_test::disturbance_meter meter;
        for (const std::size_t i : order) {
            const two_sided_subject& s = subjects_[i];
            const std::uint64_t switches = s.far->involuntary_switches();
            one.probes.push_back(s.far->line_round_trip(options_.probe_trips));
            (void)s.run(options_.operations_min);  // the caches are another subject's
            one.samples[i] = s.run(operations_[i]) / static_cast<double>(operations_[i]);
            one.probes.push_back(s.far->line_round_trip(options_.probe_trips));
            one.probes_of_two.push_back(s.far->two_lines_round_trip(options_.probe_trips));
            if (s.far->involuntary_switches() != switches) one.disturbed = true;
            s.far->rest();
        }
        if (meter.since_last().any()) one.disturbed = true;
        return one;
    }

    const std::vector<two_sided_subject>& subjects_;
    const two_sided_options& options_;
    std::vector<std::uint64_t> operations_;
};

}  // namespace

two_sided_result measure_two_sided(const std::vector<two_sided_subject>& subjects, const two_sided_options& options) {
    if (subjects.empty()) throw error(errc::invalid_argument, "two-sided experiment", "there is nothing to time");
    return rounds(subjects, options).run();
}

two_sided_options two_sided_timing(const run_options& wanted) {
    two_sided_options options;
    options.seconds = wanted.quick ? std::min(wanted.seconds, 0.05) : wanted.seconds;
    if (wanted.quick) options.batch_seconds = 2e-3;
    if (wanted.seconds < 0.01) {  // a trial
        options.rounds_min = 1;
        options.batch_seconds = 1e-4;
        options.probe_trips = 10;
    }
    return options;
}

std::string line_text(const two_sided_result& found) {
    const perf_test::summary line = perf_test::describe(found.line_ns);
    std::string text = "one cache line there and back took " + fixed_text(line.median, 0) +
                       " ns meanwhile (p05 to p95 " + fixed_text(line.p05, 0) + " to " + fixed_text(line.p95, 0) +
                       "), a line each way " + fixed_text(median_of(found.two_lines_ns), 0) + " ns";
    if (const std::size_t again = found.unsteady + found.disturbed; again != 0)
        text += "; taken again: " + std::to_string(found.unsteady) + " rounds in which that changed, " +
                std::to_string(found.disturbed) + " that lost a core";
    if (found.kept_disturbed != 0) text += "; " + std::to_string(found.kept_disturbed) + " such rounds were kept";
    return text;
}

}  // namespace holdfast::workload
