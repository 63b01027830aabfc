// SPDX-License-Identifier: Apache-2.0
// EXPECT: no member named .*try_get
#include "holdfast/metrics/counter_set.hpp"

// A reader maps the data read-only: it finds names and registers none.
#ifdef MUST_FAIL
using side = holdfast::counter_set_reader;
#else
using side = holdfast::counter_set;
#endif

void change(side& to) { (void)to.try_get("lookups_total"); }
