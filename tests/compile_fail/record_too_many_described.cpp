// SPDX-License-Identifier: Apache-2.0
// EXPECT: a record has at most 64 fields
#include "holdfast/record.hpp"

struct session {
    char a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, b0, b1, b2, b3, b4, b5, b6, b7, b8, b9, c0, c1;
    char d0, d1, d2, d3, d4, d5, d6, d7, d8, d9, e0, e1, e2, e3, e4, e5, e6, e7, e8, e9, f0, f1;
    char g0, g1, g2, g3, g4, g5, g6, g7, g8, g9, h0, h1, h2, h3, h4, h5, h6, h7, h8, h9, i0, i1;
};
#ifdef MUST_FAIL
#define ONE_MORE , i0
#else
#define ONE_MORE
#endif
HOLDFAST_RECORD(session, a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, b0, b1, b2, b3, b4, b5, b6, b7, b8, b9, c0, c1, d0, d1,
                d2, d3, d4, d5, d6, d7, d8, d9, e0, e1, e2, e3, e4, e5, e6, e7, e8, e9, f0, f1, g0, g1, g2, g3, g4, g5,
                g6, g7, g8, g9, h0, h1, h2, h3, h4, h5, h6, h7, h8, h9 ONE_MORE)

auto schema() { return holdfast::schema_of<session>(); }
