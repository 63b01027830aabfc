// SPDX-License-Identifier: Apache-2.0
// EXPECT: deleted
#include <utility>

#include "holdfast/hash_table.hpp"

holdfast::hash_table<int, int> second(holdfast::hash_table<int, int>& writer) {
#ifdef MUST_FAIL
    return writer;
#else
    return std::move(writer);
#endif
}
