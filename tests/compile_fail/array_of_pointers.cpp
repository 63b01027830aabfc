// SPDX-License-Identifier: Apache-2.0
// EXPECT: constraints? not satisfied|template constraint failure
#include "holdfast/array.hpp"

#ifdef MUST_FAIL
using element = const char*;
#else
using element = int;
#endif

auto view() { return holdfast::array_reader<element>::attach("a"); }
