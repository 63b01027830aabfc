// SPDX-License-Identifier: Apache-2.0
// hash_map_suite.hpp - lookups of values by text, hits and misses, and values replaced.
#pragma once

#include <vector>

#include "workload/hash_map_subject.hpp"
#include "workload/suite.hpp"

namespace holdfast::workload {

/// The kinds that need no package: ours first.
[[nodiscard]] std::vector<hash_map_kind> own_hash_map_kinds();

/// A suite over these kinds, the first of which the others are compared with.
[[nodiscard]] suite hash_map_suite(std::vector<hash_map_kind> kinds);

}  // namespace holdfast::workload
