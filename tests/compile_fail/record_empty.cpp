// SPDX-License-Identifier: Apache-2.0
// EXPECT: a record or array in it is empty
#include "holdfast/record.hpp"

struct session {
#ifndef MUST_FAIL
    int id;
#endif
};

auto schema() { return holdfast::schema_of<session>(); }
