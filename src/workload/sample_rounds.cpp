// SPDX-License-Identifier: Apache-2.0
#include "workload/sample_rounds.hpp"

#include <utility>

#include "workload/targets.hpp"

namespace holdfast::workload {

namespace {

[[nodiscard]] bool alike(double a, double b) { return std::max(a, b) <= sample_rounds::steady * std::min(a, b); }

}  // namespace

sample_rounds::sample_rounds(std::size_t subjects, take attempt, std::size_t retakes_max)
    : attempt_(std::move(attempt)), retakes_max_(retakes_max), places_(subjects) {
    found_.samples.resize(subjects);
}

sample_rounds::flaw sample_rounds::flaw_of(const place& one) const {
    if (one.disturbed) return flaw::disturbed;
    const double before = one.sample.line_before(), after = one.sample.line_after();
    if (!alike(before, after)) return flaw::unsteady;
    return line_ && !(alike(before, *line_) && alike(after, *line_)) ? flaw::unsteady : flaw::none;
}

bool sample_rounds::may_retake(const place& one) const {
    return one.goes <= retakes_max_ && found_.unsteady + found_.disturbed < counted_ + retakes_max_ * places_.size();
}

void sample_rounds::go(std::size_t subject) {
    place& one = places_[subject];
    one = {attempt_(subject), one.goes + 1, false};
    one.disturbed = one.sample.lost_core || one.sample.stolen;
    // Stolen time is told a tick after it was stolen, which may be a sample later: the one before is in doubt too.
    if (one.sample.stolen && last_) places_[*last_].disturbed = true;
    last_ = subject;
    const double before = one.sample.line_before(), after = one.sample.line_after();
    if (!one.disturbed && alike(before, after)) line_ = (before + after) / 2;
}

void sample_rounds::round(std::span<const std::size_t> order) {
    std::ranges::fill(places_, place{});
    line_.reset();
    last_.reset();
    for (const std::size_t i : order) go(i);
    // Again and again over those that do not count: to take one anew may show that the line's time is another now.
    for (bool any = true; any;) {
        any = false;
        for (const std::size_t i : order) {
            const flaw why = flaw_of(places_[i]);
            if (why == flaw::none || !may_retake(places_[i])) continue;
            ++(why == flaw::disturbed ? found_.disturbed : found_.unsteady);
            go(i);
            any = true;
        }
    }
    hand_over();
}

void sample_rounds::hand_over() {
    std::vector<double> lines, two_lines;
    for (std::size_t i = 0; i < places_.size(); ++i) {
        const place& one = places_[i];
        ++(flaw_of(one) == flaw::none ? counted_ : found_.kept);
        found_.samples[i].push_back(one.sample.ns);
        lines.insert(lines.end(), one.sample.before.begin(), one.sample.before.end());
        lines.insert(lines.end(), one.sample.after.begin(), one.sample.after.end());
        two_lines.push_back(one.sample.two_lines_ns);
    }
    found_.line_ns.push_back(median_of(lines));
    found_.two_lines_ns.push_back(median_of(two_lines));
}

}  // namespace holdfast::workload
