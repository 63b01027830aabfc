// SPDX-License-Identifier: Apache-2.0
// EXPECT: no match for .*operator=|no viable overloaded .*=
#include <chrono>

#include "holdfast/hash_map.hpp"

void keep(holdfast::hash_map<int>& map) {
    holdfast::hash_map_entry_options how;
#ifdef MUST_FAIL
    how.ttl = 600;
#else
    how.ttl = std::chrono::minutes(10);
#endif
    (void)map.set(1, "value", how);
}
