// SPDX-License-Identifier: Apache-2.0
// EXPECT: no member named .*publish
#include "holdfast/snapshot.hpp"

#ifdef MUST_FAIL
using handle = holdfast::snapshot<int>::reader;
#else
using handle = holdfast::snapshot<int>;
#endif

void change(handle& limits) { limits.publish(1); }
