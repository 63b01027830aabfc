// SPDX-License-Identifier: Apache-2.0
// EXPECT: deleted (function|constructor)
#include <string_view>
#include <utility>

#include "holdfast/hash_map/many.hpp"

using map = holdfast::hash_map<std::string_view, holdfast::writers::many>;

map second(map& writer) {
#ifdef MUST_FAIL
    return writer;
#else
    return std::move(writer);
#endif
}
