// SPDX-License-Identifier: Apache-2.0
// executor_suite.hpp - tasks in order for each key, on a pool of threads: how many a second, and who waits for whom.
#pragma once

#include <vector>

#include "workload/executor_subject.hpp"
#include "workload/suite.hpp"

namespace holdfast::workload {

/// The kinds that need no package: ours first.
[[nodiscard]] std::vector<executor_kind> own_executor_kinds();

/// A suite over these kinds, the first of which the others are compared with.
[[nodiscard]] suite executor_suite(std::vector<executor_kind> kinds);

}  // namespace holdfast::workload
