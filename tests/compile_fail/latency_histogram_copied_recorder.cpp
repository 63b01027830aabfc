// SPDX-License-Identifier: Apache-2.0
// EXPECT: deleted
#include <utility>

#include "holdfast/metrics/latency_histogram.hpp"

// Two of them would count in one shard.
holdfast::latency_recorder second(holdfast::latency_recorder& recorder) {
#ifdef MUST_FAIL
    return recorder;
#else
    return std::move(recorder);
#endif
}
