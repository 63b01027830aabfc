// SPDX-License-Identifier: Apache-2.0
// metrics_suite.hpp - methods for percentiles of latencies: time a record, time a query, error, memory; and two
// processes that record at once.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "workload/metrics_subject.hpp"
#include "workload/suite.hpp"

namespace holdfast::workload {

/// The kinds that need no package: ours first.
[[nodiscard]] std::vector<metrics_kind> own_metrics_kinds();

/// A suite over these kinds, the first of which the others are compared with.
[[nodiscard]] suite metrics_suite(std::vector<metrics_kind> kinds);

/// What the suite says of its target for a record. `reading_ns`: the same loop without the record, where it was timed;
/// it is told, and not taken off, because a user pays it.
[[nodiscard]] std::string record_target_text(double record_ns, std::optional<double> reading_ns);

}  // namespace holdfast::workload
