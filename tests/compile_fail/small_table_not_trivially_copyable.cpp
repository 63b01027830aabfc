// SPDX-License-Identifier: Apache-2.0
// EXPECT: constraints? not satisfied|template constraint failure|static assertion failed|static_assert
#include <string>

#include "holdfast/small_table.hpp"

struct person {
    int id;
#ifdef MUST_FAIL
    std::string name;  // its bytes mean nothing in another process
#endif
};

auto view() { return holdfast::small_table_reader<int, person>::attach("t"); }
