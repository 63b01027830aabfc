// SPDX-License-Identifier: Apache-2.0
// EXPECT: static assertion failed|static_assert
#include "holdfast/hash_map.hpp"

#ifdef MUST_FAIL
using field = bool;
#else
using field = unsigned;
#endif

auto add(holdfast::hash_map<int>& map) { return map.fetch_add<field>(1, 0, field{1}); }
