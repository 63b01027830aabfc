// SPDX-License-Identifier: Apache-2.0
// EXPECT: deleted
#include "holdfast/queue.hpp"

#include <utility>

holdfast::queue<int>::consumer second(holdfast::queue<int>::consumer& first) {
#ifdef MUST_FAIL
    return first;
#else
    return std::move(first);
#endif
}
