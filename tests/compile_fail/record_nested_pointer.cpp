// SPDX-License-Identifier: Apache-2.0
// EXPECT: a record cannot hold a pointer
#include "holdfast/record.hpp"

struct inner {
    int x;
#ifdef MUST_FAIL
    int* y;
#endif
};
struct middle {
    inner first;
};
struct session {
    int id;
    middle second;
};

auto schema() { return holdfast::schema_of<session>(); }
