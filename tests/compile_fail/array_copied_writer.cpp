// SPDX-License-Identifier: Apache-2.0
// EXPECT: deleted (function|constructor)
#include <utility>

#include "holdfast/array.hpp"

holdfast::array<int> second(holdfast::array<int>& writer) {
#ifdef MUST_FAIL
    return writer;
#else
    return std::move(writer);
#endif
}
