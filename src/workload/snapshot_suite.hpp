// SPDX-License-Identifier: Apache-2.0
// snapshot_suite.hpp - whole objects that one writer publishes and readers copy or look at, with and without the writer
// at work.
#pragma once

#include <vector>

#include "workload/snapshot_subject.hpp"
#include "workload/suite.hpp"

namespace holdfast::workload {

/// The kinds that need no package: ours first.
[[nodiscard]] std::vector<snapshot_kind> own_snapshot_kinds();

/// A suite over these kinds, the first of which the others are compared with.
[[nodiscard]] suite snapshot_suite(std::vector<snapshot_kind> kinds);

}  // namespace holdfast::workload
