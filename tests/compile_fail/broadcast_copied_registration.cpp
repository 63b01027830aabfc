// SPDX-License-Identifier: Apache-2.0
// EXPECT: deleted
#include <utility>

#include "holdfast/broadcast.hpp"

// A registered reader holds a place among those that the writer waits for.
holdfast::broadcast_reliable_reader second(holdfast::broadcast_reliable_reader& writer) {
#ifdef MUST_FAIL
    return writer;
#else
    return std::move(writer);
#endif
}
