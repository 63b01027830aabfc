// SPDX-License-Identifier: Apache-2.0
// EXPECT: deleted (function|constructor|copy constructor)
#include <utility>

#include "holdfast/snapshot.hpp"

holdfast::snapshot<int> second(holdfast::snapshot<int>& writer) {
#ifdef MUST_FAIL
    return writer;
#else
    return std::move(writer);
#endif
}
