// SPDX-License-Identifier: Apache-2.0
// EXPECT: include holdfast/block_store/many.hpp
#include "holdfast/block_store.hpp"

#ifdef MUST_FAIL
constexpr auto policy = holdfast::writers::many;
#else
constexpr auto policy = holdfast::writers::one;
#endif

auto writer() { return holdfast::basic_block_store<policy>::attach("t"); }
