// SPDX-License-Identifier: Apache-2.0
// EXPECT: constraints? not satisfied|no matching function|invalid reference to function
#include "holdfast/array.hpp"

struct element {
    int a, b;
#ifdef MUST_FAIL
    int c;  // elements of 12 bytes lie 16 bytes apart
#endif
};

auto in_place(const holdfast::array<element>& elements) { return elements.span(); }
