// SPDX-License-Identifier: Apache-2.0
#include "workload/two_sided.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "holdfast/error.hpp"
#include "holdfast/perf_test/disturbance.hpp"
#include "holdfast/perf_test/interleaved.hpp"
#include "holdfast/perf_test/statistics.hpp"

namespace holdfast::workload {

namespace {

class rounds {
 public:
    rounds(const std::vector<two_sided_subject>& subjects, const two_sided_options& options)
        : subjects_(subjects), options_(options), operations_(subjects.size()) {
        for (std::size_t i = 0; i < subjects_.size(); ++i) operations_[i] = calibrated(subjects_[i]);
        fitting_ = operations_;
    }

    two_sided_result run() {
        sample_rounds taken(
            subjects_.size(), [this](std::size_t subject) { return attempt(subject); }, options_.retakes);
        const auto wanted = static_cast<std::size_t>(std::clamp(options_.seconds / options_.batch_seconds,
                                                                static_cast<double>(options_.rounds_min),
                                                                static_cast<double>(options_.rounds_max)));
        const auto orders = perf_test::balanced_orders(subjects_.size(), 1);
        for (std::size_t i = 0; i < wanted; ++i) taken.round(orders[i % orders.size()]);
        return std::move(taken.found());
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

    sample_attempt attempt(std::size_t subject) {
        const two_sided_subject& s = subjects_[subject];
        const std::uint64_t half = std::max<std::uint64_t>(options_.probe_trips / 2, 2);
        sample_attempt one;
        const bool stolen_between = meter_.since_last().steal_seconds > 0;
        const std::uint64_t switches = s.far->involuntary_switches();
        for (double& probe : one.before) probe = s.far->line_round_trip(half);
        (void)s.run(options_.operations_min);  // the caches are another subject's
        one.ns = s.run(fitting_[subject]) / static_cast<double>(fitting_[subject]);
        for (double& probe : one.after) probe = s.far->line_round_trip(half);
        one.two_lines_ns = s.far->two_lines_round_trip(options_.probe_trips);
        const perf_test::disturbance seen = meter_.since_last();
        one.lost_core = seen.involuntary_switches != 0 || s.far->involuntary_switches() != switches;
        one.stolen = stolen_between || seen.steal_seconds > 0;
        s.far->rest();
        fit_the_next(subject, one.ns);
        return one;
    }

    /// Some locks fall into step with the other side in some samples, and an operation takes a thousand times as long
    /// as in the one that was calibrated with: then the next is shorter, lest the experiment take an hour. A disturbed
    /// sample counts as well: where all are, the experiment has an end too, and an undisturbed one sets it right again.
    void fit_the_next(std::size_t subject, double operation_ns) {
        const std::uint64_t least = options_.operations_min;
        const double most = sample_seconds_max(options_) * 1e9 / operation_ns;
        const bool fits = static_cast<double>(operations_[subject]) <= most;
        fitting_[subject] =
            fits ? operations_[subject] : std::max(least, static_cast<std::uint64_t>(most) / least * least);
    }

    const std::vector<two_sided_subject>& subjects_;
    const two_sided_options& options_;
    std::vector<std::uint64_t> operations_;  // of a sample as calibrated
    std::vector<std::uint64_t> fitting_;     // of the next one
    perf_test::disturbance_meter meter_;
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
        options.retakes = 0;
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
    std::size_t all = 0;
    for (const std::vector<double>& of_subject : found.samples) all += of_subject.size();
    text += "; of " + std::to_string(all) + " samples taken again: " + std::to_string(found.unsteady) +
            " in which that changed, " + std::to_string(found.disturbed) + " that lost a core; " +
            std::to_string(found.kept) + " that should have been were kept";
    return text;
}

}  // namespace holdfast::workload
