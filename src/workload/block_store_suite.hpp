// SPDX-License-Identifier: Apache-2.0
// block_store_suite.hpp - values of any size behind handles: read, looked at where they lie, replaced.
#pragma once

#include <vector>

#include "workload/block_store_subject.hpp"
#include "workload/suite.hpp"

namespace holdfast::workload {

/// The kinds that need no package: ours first.
[[nodiscard]] std::vector<block_store_kind> own_block_store_kinds();

/// A suite over these kinds, the first of which the others are compared with.
[[nodiscard]] suite block_store_suite(std::vector<block_store_kind> kinds);

}  // namespace holdfast::workload
