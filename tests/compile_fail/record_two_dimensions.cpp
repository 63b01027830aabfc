// SPDX-License-Identifier: Apache-2.0
// EXPECT: an array in a record has one dimension
#include "holdfast/record.hpp"

struct session {
#ifdef MUST_FAIL
    int board[3][3];
#else
    int board[9];
#endif
};

auto schema() { return holdfast::schema_of<session>(); }
