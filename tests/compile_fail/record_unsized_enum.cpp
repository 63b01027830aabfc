// SPDX-License-Identifier: Apache-2.0
// EXPECT: an enum in a record names its integer
#include "holdfast/record.hpp"

#ifdef MUST_FAIL
enum color { red, green };
#else
enum color : unsigned char { red, green };
#endif
struct session {
    color shown;
};

auto schema() { return holdfast::schema_of<session>(); }
