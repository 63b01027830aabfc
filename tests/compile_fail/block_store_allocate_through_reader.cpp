// SPDX-License-Identifier: Apache-2.0
// EXPECT: no member named .*allocate
#include "holdfast/block_store.hpp"

// A reader maps the data read-only.
#ifdef MUST_FAIL
using side = holdfast::block_store_reader;
#else
using side = holdfast::block_store;
#endif

void change(side& to) { (void)to.allocate({}); }
