// SPDX-License-Identifier: Apache-2.0
// EXPECT: deleted (function|constructor)
#include <utility>

#include "holdfast/small_table.hpp"

holdfast::small_table<int, int> second(holdfast::small_table<int, int>& writer) {
#ifdef MUST_FAIL
    return writer;
#else
    return std::move(writer);
#endif
}
