// SPDX-License-Identifier: Apache-2.0
// EXPECT: constraints? not satisfied|template constraint failure
#include "holdfast/hash_map.hpp"

#ifdef MUST_FAIL
using key = const char*;
#else
using key = int;
#endif

auto view() { return holdfast::hash_map_reader<key>::attach("m"); }
