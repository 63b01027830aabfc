// SPDX-License-Identifier: Apache-2.0
// targets.hpp - how suites say whether a target is met, and which subjects the user wants.
//
// What is said is computed from the samples that the table above it shows: each sentence is one line of the output that
// can be held against the table.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "workload/suite.hpp"

namespace holdfast::workload {

/// " (met)" or " (missed)".
[[nodiscard]] std::string verdict(bool met);

/// With that many digits behind the point.
[[nodiscard]] std::string fixed_text(double value, int digits);

/// Whether the user wants that subject beside ours.
[[nodiscard]] bool is_wanted_subject(const run_options& wanted, std::string_view name, bool ours);

/// By how much the time of a is less than that of b: the median of b / a over rounds. Requires: as many samples.
[[nodiscard]] double times_faster(std::span<const double> a, std::span<const double> b);
[[nodiscard]] double median_of(std::span<const double> samples);

/// Samples of an experiment by the names of its subjects, ours first.
struct sampled {
    std::vector<std::string> names;
    std::vector<std::vector<double>> samples;  ///< [subject], in ns; empty: not timed

    /// The subject of that name; nothing if it was not timed.
    [[nodiscard]] std::optional<std::size_t> find(std::string_view name) const;
    [[nodiscard]] bool timed(std::size_t subject) const {
        return subject < samples.size() && !samples[subject].empty();
    }
};

/// Has it timed.
[[nodiscard]] sampled run_sampled(recorder& to, const experiment& e);

/// "target: WHAT in at most N times the time of PEER: M times, T ns (met)"; nothing if either was not timed. An aim
/// beyond what is asked follows the peer, " (aim 1.2)", and is not judged.
[[nodiscard]] std::string at_most_text(const std::string& what, const sampled& found, std::string_view peer,
                                       double times, std::string_view aim = {});
/// "target: WHAT at least N times as fast as PEER: M times, T ns (met)"; nothing if either was not timed. As above.
[[nodiscard]] std::string at_least_text(const std::string& what, const sampled& found, std::string_view peer,
                                        double times, std::string_view aim = {});
/// "target: WHAT not judged: PEER is not there".
[[nodiscard]] std::string not_judged_text(const std::string& what, std::string_view peer);
/// "WHAT: N million a second; published, another machine: M million UNIT": nothing if ours was not timed.
[[nodiscard]] std::string beside_published_text(const std::string& what, std::span<const double> ours,
                                                const published_figure& published);

/// Notes it unless it is empty.
void note_if_any(recorder& to, const std::string& text);

}  // namespace holdfast::workload
