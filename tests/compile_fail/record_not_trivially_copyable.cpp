// SPDX-License-Identifier: Apache-2.0
// EXPECT: a record must be trivially copyable: no std::string
#include <string>

#include "holdfast/record.hpp"

struct session {
    int id;
#ifdef MUST_FAIL
    std::string name;
#endif
};

auto schema() { return holdfast::schema_of<session>(); }
