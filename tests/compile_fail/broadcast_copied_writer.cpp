// SPDX-License-Identifier: Apache-2.0
// EXPECT: deleted
#include <utility>

#include "holdfast/broadcast.hpp"

holdfast::broadcast_writer second(holdfast::broadcast_writer& writer) {
#ifdef MUST_FAIL
    return writer;
#else
    return std::move(writer);
#endif
}
