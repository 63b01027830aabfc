// SPDX-License-Identifier: Apache-2.0
// EXPECT: a record cannot hold a pointer
#include "holdfast/record.hpp"

struct session {
    int id;
#ifdef MUST_FAIL
    const char* name;
#endif
};

auto schema() { return holdfast::schema_of<session>(); }
