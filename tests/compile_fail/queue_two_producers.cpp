// SPDX-License-Identifier: Apache-2.0
// EXPECT: deleted
#include "holdfast/queue.hpp"

#include <utility>

// Two producers would write one tail: a handle is moved, never copied.
holdfast::queue_producer second(holdfast::queue_producer& first) {
#ifdef MUST_FAIL
    return first;
#else
    return std::move(first);
#endif
}
