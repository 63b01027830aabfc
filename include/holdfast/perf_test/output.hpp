// SPDX-License-Identifier: Apache-2.0
// output.hpp - results as files: JSON, CSV, one HTML page, properties of GoogleTest's own reports; and a JSON read back
// as a baseline.
//
// A result with a failure has no numbers in any form, only the failure. docs/perf_test_json.md describes the JSON.
// Threads: pure functions, but for what reads a file.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "holdfast/perf_test/compare.hpp"
#include "holdfast/perf_test/environment.hpp"
#include "holdfast/perf_test/judgement.hpp"
#include "holdfast/perf_test/result.hpp"

namespace holdfast::perf_test {

inline constexpr int json_schema_version = 1;

/// What one process measured, and where.
struct run_record {
    environment where;
    std::string started;  ///< ISO 8601, UTC
    std::vector<result> results;
    std::vector<judgement> judgements{};  ///< in the order in which they were made
};

[[nodiscard]] std::string to_json(const run_record& run);
/// A line a test behind a line of headings, as RFC 4180; of a test in groups of workers, a line a group. Percentiles of
/// single calls are empty where none were timed.
[[nodiscard]] std::string to_csv(std::span<const result> results);
/// One page that loads nothing, with the distribution of each test's samples or calls, its curves over sizes and
/// numbers of workers, and what assertions and comparisons came to.
[[nodiscard]] std::string to_html(const run_record& run);

/// Name and value of what belongs into GoogleTest's XML and JSON reports, by RecordProperty, as `perf_NAME`; for groups
/// of workers as `perf_threads_4_NAME`.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> properties_of(const result& found);

/// The parts of an environment that have to agree before times are compared: processor, number of CPUs, memory,
/// architecture, and whether the code was optimised or instrumented.
[[nodiscard]] std::string identity_of(const environment& where);

/// Earlier runs: of each test and run, the numbers that can be compared.
class baseline {
 public:
    /// Reads a file that to_json wrote, or every .json file of a folder: one process run each.
    /// Throws: usage_error for what is not such a file, is written in another version of the schema, or comes from a
    /// machine or build that cannot be compared with `here`. Hostile files: no crash, bounded memory.
    baseline(const std::string& path, const environment& here);

    /// The runs of that test; none if no run has it, or it failed in all. Of each: medians and percentiles with their
    /// intervals, rates, groups and counters, each checked to be a number above zero or left out.
    [[nodiscard]] std::vector<result> runs_of(const std::string& full_name) const;

 private:
    void read(const std::string& file, const std::string& identity);
    std::vector<std::pair<std::string, result>> runs_;
};

}  // namespace holdfast::perf_test
