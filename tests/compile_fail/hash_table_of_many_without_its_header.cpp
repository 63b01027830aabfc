// SPDX-License-Identifier: Apache-2.0
// EXPECT: include holdfast/hash_table/many.hpp
#include "holdfast/hash_table.hpp"

#ifdef MUST_FAIL
constexpr auto policy = holdfast::writers::many;
#else
constexpr auto policy = holdfast::writers::one;
#endif

auto writer() { return holdfast::hash_table<int, int, policy>::attach("t"); }
