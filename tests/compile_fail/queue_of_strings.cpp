// SPDX-License-Identifier: Apache-2.0
// EXPECT: constraint
#include "holdfast/queue.hpp"

#include <string>

#ifdef MUST_FAIL
using element = std::string;  // not trivially copyable: its bytes mean nothing in another process
#else
using element = char;
#endif

holdfast::outcome look(holdfast::queue<element>::consumer& from) { return from.front().status; }
