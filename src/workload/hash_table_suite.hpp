// SPDX-License-Identifier: Apache-2.0
// hash_table_suite.hpp - lookups, changes and memory of hash tables, over small and large sets of random keys.
#pragma once

#include <vector>

#include "workload/hash_table_subject.hpp"
#include "workload/suite.hpp"

namespace holdfast::workload {

/// The kinds that need no package: ours first, then std::unordered_map.
[[nodiscard]] std::vector<hash_table_kind> own_hash_table_kinds();

/// A suite over these kinds, the first of which the others are compared with.
[[nodiscard]] suite hash_table_suite(std::vector<hash_table_kind> kinds);

}  // namespace holdfast::workload
