// SPDX-License-Identifier: Apache-2.0
// EXPECT: private members or constructors is described by HOLDFAST_RECORD
#include "holdfast/record.hpp"

class session {
 public:
    int id;
#ifdef MUST_FAIL
 private:
#endif
    int hits;
};

auto schema() { return holdfast::schema_of<session>(); }
