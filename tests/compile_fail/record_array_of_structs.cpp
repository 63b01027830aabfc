// SPDX-License-Identifier: Apache-2.0
// EXPECT: a record cannot hold an array of structs
#include "holdfast/record.hpp"

struct point {
    int x, y;
};
struct session {
#ifdef MUST_FAIL
    point path[4];
#else
    point here;
#endif
};

auto schema() { return holdfast::schema_of<session>(); }
