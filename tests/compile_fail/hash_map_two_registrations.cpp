// SPDX-License-Identifier: Apache-2.0
// EXPECT: deleted
#include <utility>

#include "holdfast/hash_map.hpp"

// A registered reader holds one of the places that the map was made with.
using reader = holdfast::hash_map_registered_reader<int>;

reader second(reader& first) {
#ifdef MUST_FAIL
    return first;
#else
    return std::move(first);
#endif
}
