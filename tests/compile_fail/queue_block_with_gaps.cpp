// SPDX-License-Identifier: Apache-2.0
// EXPECT: has gaps behind
#include "holdfast/queue.hpp"

#ifdef MUST_FAIL
using element = unsigned;
#else
using element = unsigned long;
#endif

std::size_t count(holdfast::queue<element>::consumer& from) { return from.front_block().values.size(); }
