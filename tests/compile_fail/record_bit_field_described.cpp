// SPDX-License-Identifier: Apache-2.0
// EXPECT: bit-field
#include "holdfast/record.hpp"

struct session {
#ifdef MUST_FAIL
    int flags : 3;
#else
    int flags;
#endif
};
HOLDFAST_RECORD(session, flags)

auto schema() { return holdfast::schema_of<session>(); }
