// SPDX-License-Identifier: Apache-2.0
// EXPECT: no member named .*make_recorder
#include "holdfast/metrics/latency_histogram.hpp"

// A reader maps the data read-only.
#ifdef MUST_FAIL
using side = holdfast::latency_histogram_reader;
#else
using side = holdfast::latency_histogram;
#endif

void change(side& to) { to.make_recorder().record(5); }
