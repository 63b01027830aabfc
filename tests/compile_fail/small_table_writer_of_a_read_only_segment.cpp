// SPDX-License-Identifier: Apache-2.0
// EXPECT: no matching (function|constructor|conversion)
#include "holdfast/small_table.hpp"

// What was attached read-only is read: a writer needs a segment that was attached read-write.
#ifdef MUST_FAIL
using side = holdfast::small_table<int, int>;
#else
using side = holdfast::small_table_reader<int, int>;
#endif

side of_prices() { return side(holdfast::segment::attach_read_only("posix:prices")); }
