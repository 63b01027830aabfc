// SPDX-License-Identifier: Apache-2.0
// EXPECT: no matching (member )?function|constraints not satisfied
#include "holdfast/hash_table/many.hpp"

#ifdef MUST_FAIL
using field = bool;
#else
using field = unsigned;
#endif

auto add(holdfast::hash_table<int, field, holdfast::writers::many>& table) { return table.fetch_add(1, field{1}); }
