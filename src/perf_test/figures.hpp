// SPDX-License-Identifier: Apache-2.0
// figures.hpp - the numbers of a result that can be compared with the same numbers of another run.
//
// (I1) The name of a figure says how it was measured: two figures of one test and one name may be compared, others not.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "holdfast/perf_test/result.hpp"

namespace holdfast::perf_test {

enum class figure_kind : std::uint8_t {
    time,  ///< the middle of a distribution
    tail,  ///< a high percentile, which differs from run to run by more than a median does
    count  ///< the same on every run
};

struct figure {
    std::string name;  ///< "median", "latency p99", "2000/s response p50", "4 threads median", "instructions"
    figure_kind kind = figure_kind::time;
    summary numbers;  ///< count, median and median_95 alone; a median of 0 where nothing is left to measure
};

/// None for a failure, and for a result whose percentiles have no bounds.
[[nodiscard]] std::vector<figure> figures_of(const result& found);

}  // namespace holdfast::perf_test
