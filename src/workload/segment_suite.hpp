// SPDX-License-Identifier: Apache-2.0
// segment_suite.hpp - what it costs to make named shared memory, and to come to it by name.
#pragma once

#include <vector>

#include "workload/segment_subject.hpp"
#include "workload/suite.hpp"

namespace holdfast::workload {

/// The kinds that need no package: ours first, then the bare system calls.
[[nodiscard]] std::vector<segment_kind> own_segment_kinds();

/// A suite over these kinds, the first of which the others are compared with.
[[nodiscard]] suite segment_suite(std::vector<segment_kind> kinds);

}  // namespace holdfast::workload
