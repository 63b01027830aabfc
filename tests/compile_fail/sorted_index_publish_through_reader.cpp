// SPDX-License-Identifier: Apache-2.0
// EXPECT: no member named .*publish
#include "holdfast/sorted_index.hpp"

// A reader maps the data read-only.
using publisher = holdfast::sorted_index_publisher<int, int>;
#ifdef MUST_FAIL
using side = publisher::reader_type;
#else
using side = publisher;
#endif

void change(side& to, publisher::builder& records) { (void)to.publish(records); }
