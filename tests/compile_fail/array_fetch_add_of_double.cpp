// SPDX-License-Identifier: Apache-2.0
// EXPECT: constraints? not satisfied|no matching function|invalid reference to function
#include "holdfast/array.hpp"

#ifdef MUST_FAIL
using number = double;
#else
using number = long;
#endif

number add(holdfast::array<number>& numbers) { return numbers.fetch_add(0, 1); }
