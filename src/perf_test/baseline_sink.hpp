// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "holdfast/perf_test/environment.hpp"
#include "holdfast/perf_test/options.hpp"
#include "holdfast/perf_test/session.hpp"

namespace holdfast::perf_test {

/// Compares each test of a pass with the baseline that `output` names, and says the verdicts at its end. Throws:
/// usage_error, as baseline does.
[[nodiscard]] std::unique_ptr<sink> make_baseline_sink(const output_options& output, const environment& here);

}  // namespace holdfast::perf_test
