// SPDX-License-Identifier: Apache-2.0
// EXPECT: constraints? not satisfied|template constraint failure|static assertion failed|static_assert
#include "holdfast/hash_table.hpp"

// Keys are compared by their bytes: a gap would be part of the key.
struct place {
    int row;
#ifdef MUST_FAIL
    char column;
#else
    int column;
#endif
};

auto view() { return holdfast::hash_table_reader<place, int>::attach("t"); }
