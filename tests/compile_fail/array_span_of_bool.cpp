// SPDX-License-Identifier: Apache-2.0
// EXPECT: constraints? not satisfied|no matching function|invalid reference to function
#include "holdfast/array.hpp"

#ifdef MUST_FAIL
using flag = bool;
#else
using flag = unsigned char;
#endif

auto in_place(const holdfast::array<flag>& flags) { return flags.span(); }
