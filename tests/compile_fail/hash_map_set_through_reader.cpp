// SPDX-License-Identifier: Apache-2.0
// EXPECT: no member named .*set|has no member named .*set
#include <string_view>

#include "holdfast/hash_map.hpp"

void change() {
#ifdef MUST_FAIL
    auto map = holdfast::hash_map_reader<std::string_view>::attach("m");
#else
    auto map = holdfast::hash_map<std::string_view>::attach("m");
#endif
    (void)map.set("key", "value");
}
