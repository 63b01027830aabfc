// SPDX-License-Identifier: Apache-2.0
// EXPECT: no member named .*publish
#include "holdfast/broadcast.hpp"

// A reader maps the data read-only.
#ifdef MUST_FAIL
using side = holdfast::broadcast_reader;
#else
using side = holdfast::broadcast_writer;
#endif

void change(side& to) { (void)to.publish({}); }
