// SPDX-License-Identifier: Apache-2.0
// suite.hpp - what a benchmark suite is made of: experiments that time our subject beside its peers.
//
// An experiment is one line of a report: one workload (data set, access pattern, hit or miss), the same for every
// subject. A suite runs its experiments one after the other through a recorder, so that only one data set is in memory
// at a time. The program's own suites know only our containers; bench/ adds the peers to the same workload templates.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/perf_test/interleaved.hpp"

namespace holdfast::workload {

/// A figure that others published, printed beside ours and never compared by ratio: it is from another machine.
struct published_figure {
    std::string subject;
    double value = 0;
    std::string unit;
    std::string source;  ///< title, year or page, and the machine as far as it was said
};

/// One workload. The first subject is ours; the ratios are of it against each other one.
struct experiment {
    std::string name;                          ///< "find hit, 1e6 entries of 16 bytes, 4 KiB pages"
    std::string unit = "ns";                   ///< of one operation's time; the samples are in it
    std::vector<perf_test::subject> subjects;  ///< subject::name: "holdfast", "boost::unordered_flat_map", ...
    std::vector<published_figure> published;
};

/// What belongs to numbers that were taken elsewhere.
struct sample_context {
    std::vector<published_figure> published = {};
    std::vector<std::vector<perf_test::warning>> warnings = {};  ///< [subject], marks on its samples; empty: none
    bool unpaired = false;  ///< the subjects had their turns one after the other: samples of one place are no pair
    bool exact = false;     ///< counts that nothing disturbs: they get no marks, and one is enough
};

/// What the user asked for.
struct run_options {
    bool quick = false;             ///< sizes and times cut so that the whole suite ends within about a minute
    double seconds = 1.5;           ///< -time, for each subject of an experiment
    std::string filter;             ///< only experiments whose name holds this; empty: all
    std::vector<std::string> only;  ///< only these subjects beside ours; empty: all
};

/// Takes what suites find. Implemented by the runner (report.hpp).
class recorder {
 public:
    virtual ~recorder() = default;
    /// True if the filter wants this experiment: ask before building its data.
    virtual bool wants(std::string_view experiment_name) = 0;
    /// Runs it and notes the results. Returns: the samples of each subject, in the experiment's unit, those of one
    /// round in the same place; none of one that was not wanted or failed. Throws what a subject throws.
    virtual std::vector<std::vector<double>> run(const experiment&) = 0;
    /// Notes numbers that were taken elsewhere (another process, another clock): samples[i] belongs to subjects[i],
    /// rounds are paired if all have equally many. higher_is_better: the samples are rates. What can be seen in the
    /// samples themselves is marked behind the marks of the context.
    virtual void add(std::string_view experiment_name, std::string_view unit, const std::vector<std::string>& subjects,
                     const std::vector<std::vector<double>>& samples, bool higher_is_better,
                     const sample_context& context = {}) = 0;
    /// A subject that could not run, and why; printed and kept in the file.
    virtual void skip(std::string_view subject, std::string_view reason) = 0;
    /// Version of a subject or of something it stands on.
    virtual void version(std::string_view subject, std::string_view version) = 0;
    /// A remark for people, printed under the table: a target met or missed, a limit of what was measured.
    virtual void note(std::string_view text) = 0;
    /// What goes on now, for people who watch: replaces what was said before; empty takes it away. Not kept.
    virtual void progress(std::string_view /*line*/) {}
    virtual const run_options& options() const = 0;
};

struct suite {
    std::string name;         ///< "hash_table"
    std::string description;  ///< one line for --list
    std::function<void(recorder&)> run;
};

}  // namespace holdfast::workload
