// SPDX-License-Identifier: Apache-2.0
// EXPECT: a record cannot hold bit-fields
#include "holdfast/record.hpp"

struct session {
    int id;
#ifdef MUST_FAIL
    int flags : 3;
#endif
};

auto schema() { return holdfast::schema_of<session>(); }
