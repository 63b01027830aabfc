// SPDX-License-Identifier: Apache-2.0
// deleted.hpp - the sign that a compiler has removed the body of a loop: nothing is left of its time.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "holdfast/perf_test/result.hpp"

namespace holdfast::perf_test {

inline constexpr double deleted_below_ns = 0.3;  // about a cycle: less is no operation

/// Warns by a quick sample of the body's own time, ns an operation: what others do to the machine hides nothing there.
inline void warn_if_deleted(double quick_ns, std::vector<warning>& warnings) {
    if (quick_ns >= deleted_below_ns) return;
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
