// SPDX-License-Identifier: Apache-2.0
// EXPECT: no matching (function|constructor|conversion)
#include "holdfast/queue.hpp"

// What was attached read-only is read: a writer needs a segment that was attached read-write.
#ifdef MUST_FAIL
using side = holdfast::queue_producer;
#else
using side = holdfast::queue_consumer;
#endif

side of_prices() { return side(holdfast::segment::attach_read_only("posix:prices")); }
