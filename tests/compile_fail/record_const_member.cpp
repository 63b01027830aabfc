// SPDX-License-Identifier: Apache-2.0
// EXPECT: a record cannot hold references, nor const
#include "holdfast/record.hpp"

struct session {
    int id = 0;
#ifdef MUST_FAIL
    const int limit = 3;
#endif
};

auto schema() { return holdfast::schema_of<session>(); }
