// SPDX-License-Identifier: Apache-2.0
// EXPECT: a record cannot hold references
#include "holdfast/record.hpp"

struct session {
    int id;
#ifdef MUST_FAIL
    int& counter;
#endif
};

auto schema() { return holdfast::schema_of<session>(); }
