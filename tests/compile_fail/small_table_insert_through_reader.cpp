// SPDX-License-Identifier: Apache-2.0
// EXPECT: no member named .*try_insert
#include "holdfast/small_table.hpp"

// A reader maps the data read-only.
#ifdef MUST_FAIL
using side = holdfast::small_table_reader<int, int>;
#else
using side = holdfast::small_table<int, int>;
#endif

void change(side& to) { (void)to.try_insert(1, 2); }
