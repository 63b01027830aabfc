// SPDX-License-Identifier: Apache-2.0
// sorted_index_suite.hpp - exact lookups, covering ranges and scans over sorted records that are built once.
#pragma once

#include <vector>

#include "workload/sorted_index_subject.hpp"
#include "workload/suite.hpp"

namespace holdfast::workload {

/// The kinds that need no package: ours first, then std::lower_bound over arrays and std::map.
[[nodiscard]] std::vector<sorted_index_kind> own_sorted_index_kinds();

/// A suite over these kinds, the first of which the others are compared with.
[[nodiscard]] suite sorted_index_suite(std::vector<sorted_index_kind> kinds);

}  // namespace holdfast::workload
