// SPDX-License-Identifier: Apache-2.0
#include "workload/hash_table_own.hpp"

#include "workload/hash_table_suite.hpp"

namespace holdfast::workload {

std::vector<hash_table_kind> own_hash_table_kinds() { return {kind_of<own_table>(), kind_of<standard_table>()}; }

}  // namespace holdfast::workload
