// SPDX-License-Identifier: Apache-2.0
// deleted.hpp - the sign that a compiler has removed the body of a loop: nothing is left of its time.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "holdfast/perf_test/result.hpp"
#include "holdfast/perf_test/statistics.hpp"

namespace holdfast::perf_test {

inline constexpr double deleted_below_ns = 0.3;  // about a cycle: less is no operation

/// One time of the empty loop for so many of the body: enough to compare them, and little more to wait.
inline constexpr std::size_t samples_a_floor = 4;

/// Median of the body's samples over that of the empty loop between them, ns an operation: what slows the machine for
/// as long as a measurement takes slows both.
[[nodiscard]] inline double left_of(const std::vector<double>& samples, const std::vector<double>& floors) {
    if (samples.empty()) return 0;
    return describe(samples).median - (floors.empty() ? 0 : describe(floors).median);
}

/// Warns by what left_of() found, or by a quick sample of the body's own time, ns an operation.
inline void warn_if_deleted(double left_ns, std::vector<warning>& warnings) {
    if (left_ns >= deleted_below_ns) return;
    warnings.push_back(
        {"deleted",
         "nothing of the body is left to measure: the compiler removed it, or it costs less than the loop around it; "
         "use its result with PERF_USE and hide its inputs with do_not_optimize"});
}

/// Whether the result warns of that.
[[nodiscard]] inline bool is_deleted(const result& found) {
    return std::any_of(found.warnings.begin(), found.warnings.end(),
                       [](const warning& one) { return one.code == "deleted"; });
}

}  // namespace holdfast::perf_test
