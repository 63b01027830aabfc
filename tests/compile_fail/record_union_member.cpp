// SPDX-License-Identifier: Apache-2.0
// EXPECT: no field type for this
#include "holdfast/record.hpp"

union number {
    int whole;
    float real;
};
struct session {
#ifdef MUST_FAIL
    number value;
#else
    int value;
#endif
};

auto schema() { return holdfast::schema_of<session>(); }
