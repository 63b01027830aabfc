// SPDX-License-Identifier: Apache-2.0
// EXPECT: no member named .*try_insert
#include "holdfast/hash_table.hpp"

// A reader maps the data read-only.
#ifdef MUST_FAIL
using side = holdfast::hash_table_reader<int, int>;
#else
using side = holdfast::hash_table<int, int>;
#endif

void change(side& to) { (void)to.try_insert(1, 2); }
