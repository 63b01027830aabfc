// SPDX-License-Identifier: Apache-2.0
// runner.hpp - runs suites: the recorder that times experiments by interleaving, and one pass over several suites.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "workload/report.hpp"
#include "workload/suite.hpp"

namespace holdfast::workload {

/// What is told while a run goes on. Either may be empty.
struct run_listener {
    std::function<void(std::string_view line)> progress;  ///< a line that replaces the one before; empty takes it away
    std::function<void(const report& so_far)> done;       ///< after each experiment, its report the last one
};

/// Runs the suites one after the other. One that throws ends there and is noted in report::failures; the others run.
/// Requires: the suites outlive the call. Throws: std::bad_alloc.
[[nodiscard]] report run_suites(const std::vector<const suite*>& suites, const run_options& options,
                                const run_listener& listener);

/// Names of the experiments of a suite that the filter wants, asked of the suite without running anything.
[[nodiscard]] std::vector<std::string> experiment_names(const suite& one, const run_options& options);

}  // namespace holdfast::workload
