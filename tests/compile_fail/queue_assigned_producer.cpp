// SPDX-License-Identifier: Apache-2.0
// EXPECT: deleted
#include "holdfast/queue.hpp"

#include <utility>

void assign(holdfast::queue<int>::producer& to, holdfast::queue<int>::producer& from) {
#ifdef MUST_FAIL
    to = from;
#else
    to = std::move(from);
#endif
}
