// SPDX-License-Identifier: Apache-2.0
// EXPECT: deleted
#include <utility>

#include "holdfast/snapshot.hpp"

// A view holds a version for as long as it lives; a copy would let go of it a second time.
holdfast::snapshot_view second(holdfast::snapshot_view& writer) {
#ifdef MUST_FAIL
    return writer;
#else
    return std::move(writer);
#endif
}
