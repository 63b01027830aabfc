// SPDX-License-Identifier: Apache-2.0
// counting.hpp - what an operation does beside taking time, found in a pass of its own after the timed ones.
#pragma once

#include "holdfast/perf_test/engine.hpp"

namespace holdfast::perf_test {

/// One more batch for counting, flat out on the calling thread whatever the mode was, and the empty loop's counts taken
/// off where they are counted exactly. What cannot be counted is a warning that says why.
void count_beside(const test_options& options, body_runner& body, result& found);

/// In the process that callgrind runs: a batch is done so that it is counted, and nothing is measured.
[[nodiscard]] bool is_counted_child(const test_options& options) noexcept;
[[nodiscard]] result run_counted_child(const test_options& options, body_runner& body);

}  // namespace holdfast::perf_test
