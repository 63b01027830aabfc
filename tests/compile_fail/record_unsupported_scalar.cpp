// SPDX-License-Identifier: Apache-2.0
// EXPECT: no field type for this
#include "holdfast/record.hpp"

struct session {
#ifdef MUST_FAIL
    long double balance;
#else
    double balance;
#endif
};

auto schema() { return holdfast::schema_of<session>(); }
