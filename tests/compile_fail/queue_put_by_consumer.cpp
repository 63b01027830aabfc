// SPDX-License-Identifier: Apache-2.0
// EXPECT: no member named .*try_push
#include "holdfast/queue.hpp"

// A consumer maps the data read-only.
#ifdef MUST_FAIL
using side = holdfast::queue_consumer;
#else
using side = holdfast::queue_producer;
#endif

bool put(side& to) { return static_cast<bool>(to.try_push({})); }
