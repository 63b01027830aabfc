// SPDX-License-Identifier: Apache-2.0
// EXPECT: deleted
#include <utility>

#include "holdfast/snapshot.hpp"

holdfast::snapshot_writer second(holdfast::snapshot_writer& writer) {
#ifdef MUST_FAIL
    return writer;
#else
    return std::move(writer);
#endif
}
