// SPDX-License-Identifier: Apache-2.0
// EXPECT: without a default constructor is described by HOLDFAST_RECORD
#include "holdfast/record.hpp"

struct id {
#ifdef MUST_FAIL
    constexpr explicit id(int v) : value(v) {}
#endif
    int value;
};
struct session {
    id key;
    int hits;
};

auto schema() { return holdfast::schema_of<session>(); }
