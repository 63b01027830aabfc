// SPDX-License-Identifier: Apache-2.0
// EXPECT: deleted
#include <utility>

#include "holdfast/sorted_index.hpp"

holdfast::sorted_index_publisher<int, int> second(holdfast::sorted_index_publisher<int, int>& writer) {
#ifdef MUST_FAIL
    return writer;
#else
    return std::move(writer);
#endif
}
