// SPDX-License-Identifier: Apache-2.0
// EXPECT: no matching (function|constructor|conversion)
#include "holdfast/sorted_index.hpp"

// What was attached read-only is read: a publisher has the lease of a segment attached read-write.
using publisher = holdfast::sorted_index_publisher<int, int>;
#ifdef MUST_FAIL
using side = publisher;
#else
using side = publisher::reader_type;
#endif

side of_prices() { return side(holdfast::segment::attach_read_only("posix:prices")); }
