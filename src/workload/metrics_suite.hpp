// SPDX-License-Identifier: Apache-2.0
// metrics_suite.hpp - methods for percentiles of latencies: time a record, time a query, error, memory; and two
// processes that record at once.
#pragma once

#include <vector>

#include "workload/metrics_subject.hpp"
#include "workload/suite.hpp"

namespace holdfast::workload {

/// The kinds that need no package: ours first.
[[nodiscard]] std::vector<metrics_kind> own_metrics_kinds();

/// A suite over these kinds, the first of which the others are compared with.
[[nodiscard]] suite metrics_suite(std::vector<metrics_kind> kinds);

}  // namespace holdfast::workload
