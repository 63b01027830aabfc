// SPDX-License-Identifier: Apache-2.0
// array_suite.hpp - single elements of an array: read alone, read beside a writer in another process, stored.
#pragma once

#include <vector>

#include "workload/array_subject.hpp"
#include "workload/suite.hpp"

namespace holdfast::workload {

/// The kinds that need no package: ours first.
[[nodiscard]] std::vector<array_kind> own_array_kinds();

/// A suite over these kinds, the first of which the others are compared with.
[[nodiscard]] suite array_suite(std::vector<array_kind> kinds);

}  // namespace holdfast::workload
