// SPDX-License-Identifier: Apache-2.0
// EXPECT: deleted (function|constructor)
#include <utility>

#include "holdfast/hash_table/many.hpp"

using table = holdfast::hash_table<int, int, holdfast::writers::many>;

table second(table& writer) {
#ifdef MUST_FAIL
    return writer;
#else
    return std::move(writer);
#endif
}
