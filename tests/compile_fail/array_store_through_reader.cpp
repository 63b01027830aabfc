// SPDX-License-Identifier: Apache-2.0
// EXPECT: no member named .*store|has no member named .*store
#include "holdfast/array.hpp"

void change() {
#ifdef MUST_FAIL
    auto numbers = holdfast::array_reader<int>::attach("a");
#else
    auto numbers = holdfast::array<int>::attach("a");
#endif
    numbers.store(0, 1);
}
