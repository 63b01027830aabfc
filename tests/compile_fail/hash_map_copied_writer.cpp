// SPDX-License-Identifier: Apache-2.0
// EXPECT: deleted (function|constructor)
#include <string_view>
#include <utility>

#include "holdfast/hash_map.hpp"

holdfast::hash_map<std::string_view> second(holdfast::hash_map<std::string_view>& writer) {
#ifdef MUST_FAIL
    return writer;
#else
    return std::move(writer);
#endif
}
