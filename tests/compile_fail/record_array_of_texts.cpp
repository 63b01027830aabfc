// SPDX-License-Identifier: Apache-2.0
// EXPECT: an array in a record has one dimension and no texts
#include <array>

#include "holdfast/record.hpp"

struct session {
#ifdef MUST_FAIL
    std::array<char[8], 4> names;
#else
    std::array<char, 8> name;
#endif
};

auto schema() { return holdfast::schema_of<session>(); }
