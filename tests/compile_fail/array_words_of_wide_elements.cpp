// SPDX-License-Identifier: Apache-2.0
// EXPECT: constraints? not satisfied|no matching function|invalid reference to function
#include "holdfast/array.hpp"

struct element {
    int a, b;
#ifdef MUST_FAIL
    int c, d;
#endif
};

auto in_place(const holdfast::array_reader<element>& elements) { return elements.words(); }
