// SPDX-License-Identifier: Apache-2.0
// report.hpp - what a run of suites found, before it becomes a table, a file or a page.
//
// (I1) A number that is in here is good: a subject that could not be measured is in `skipped`, a suite that failed in
//      `failures`, and nothing is ever reported as zero in their place.
// (I2) A ratio above 1 means that ours is better, whether the unit is a time or a rate.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "holdfast/perf_test/result.hpp"
#include "workload/machine.hpp"
#include "workload/suite.hpp"

namespace holdfast::workload {

/// Samples of one subject in one experiment, in the experiment's unit and in the order in which they were taken.
struct subject_report {
    std::string name;
    std::vector<double> samples = {};
    perf_test::summary described = {};
    bool bounded = true;      ///< the interval of the median holds: of six samples or more, or of exact counts
    std::uint64_t batch = 0;  ///< operations behind one sample; 0: unknown
    std::vector<perf_test::warning> warnings = {};
};

/// Our subject against a peer.
struct ratio_report {
    std::string subject, peer;
    double ratio = 0;
    perf_test::interval range = {};  ///< 95 %
    bool bounded = true;             ///< else the range is the least and the greatest of too few samples
    bool paired = false;             ///< from rounds that both took part in; else from two medians, which says less
};

struct experiment_report {
    std::string suite, name, unit;
    bool higher_is_better = false;
    std::vector<subject_report> subjects = {};  ///< the first is ours
    std::vector<ratio_report> ratios = {};
    std::vector<published_figure> published = {};
    std::uint64_t seed = 0;  ///< of the order of the subjects
    std::size_t rounds = 0, disturbed_rounds = 0;

    /// How the experiment is called outside its suite: in files and on charts.
    [[nodiscard]] std::string full_name() const { return suite + ": " + name; }
};

/// Text that belongs to a suite: a subject that was not run and why, a remark, why the suite failed.
struct suite_text {
    std::string suite, subject, text;
};

struct report {
    machine_record machine = {};
    std::string started;  ///< ISO 8601, UTC
    run_options options = {};
    std::vector<experiment_report> experiments = {};
    std::vector<suite_text> skipped = {}, notes = {}, failures = {};
    std::vector<std::pair<std::string, std::string>> versions = {};  ///< of subjects and what they stand on
};

/// `{"machine":{...},"results":[...],"ratios":[...]}` and more, as docs/bench.md describes it. One line of text.
[[nodiscard]] std::string json_text(const report& all);

/// One experiment as lines for people.
[[nodiscard]] std::string table_text(const experiment_report& experiment, bool colours);
/// What belongs under the tables of a run: skipped subjects, remarks, failures, versions.
[[nodiscard]] std::string closing_text(const report& all, bool colours);

/// One page that needs nothing else: charts and tables of everything above.
[[nodiscard]] std::string html_text(const report& all);

}  // namespace holdfast::workload
