// SPDX-License-Identifier: Apache-2.0
// EXPECT: include holdfast/hash_map/many.hpp
#include <string_view>

#include "holdfast/hash_map.hpp"

#ifdef MUST_FAIL
constexpr auto policy = holdfast::writers::many;
#else
constexpr auto policy = holdfast::writers::one;
#endif

auto writer() { return holdfast::hash_map<std::string_view, policy>::attach("t"); }
