// SPDX-License-Identifier: Apache-2.0
// EXPECT: anonymous union
#include "holdfast/record.hpp"

struct session {
    int kind;
#ifdef MUST_FAIL
    union {
        int whole;
        float real;
    };
#endif
};

auto schema() { return holdfast::schema_of<session>(); }
