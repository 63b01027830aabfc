// SPDX-License-Identifier: Apache-2.0
// EXPECT: up to 32; describe more by HOLDFAST_RECORD
#include "holdfast/record.hpp"

struct session {
    char a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, b0, b1, b2, b3, b4, b5, b6, b7, b8, b9;
    char c0, c1, c2, c3, c4, c5, c6, c7, c8, c9, d0, d1;
#ifdef MUST_FAIL
    char d2;
#endif
};

auto schema() { return holdfast::schema_of<session>(); }
