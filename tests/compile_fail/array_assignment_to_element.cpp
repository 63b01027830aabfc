// SPDX-License-Identifier: Apache-2.0
// EXPECT: lvalue required|expression is not assignable
#include "holdfast/array.hpp"

void change(holdfast::array<int>& numbers) {
#ifdef MUST_FAIL
    numbers[0] = 1;
#else
    numbers.store(0, 1);
#endif
}
