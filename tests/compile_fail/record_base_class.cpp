// SPDX-License-Identifier: Apache-2.0
// EXPECT: a record has no base class
#include "holdfast/record.hpp"

struct base {
    int id;
};
#ifdef MUST_FAIL
struct session : base {
#else
struct session {
#endif
    int hits;
};

auto schema() { return holdfast::schema_of<session>(); }
