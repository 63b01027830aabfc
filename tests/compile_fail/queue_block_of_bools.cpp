// SPDX-License-Identifier: Apache-2.0
// EXPECT: must not be read in place
#include "holdfast/queue.hpp"

#ifdef MUST_FAIL
using element = bool;
#else
using element = char;
#endif

std::size_t count(holdfast::queue<element>::consumer& from) { return from.front_block().values.size(); }
