// SPDX-License-Identifier: Apache-2.0
// EXPECT: no member named .*pop
#include "holdfast/queue.hpp"

// Who only looks takes nothing.
#ifdef MUST_FAIL
using side = holdfast::queue_observer;
#else
using side = holdfast::queue_consumer;
#endif

bool take(side& from) { return from.pop(); }
