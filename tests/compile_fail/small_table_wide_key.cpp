// SPDX-License-Identifier: Apache-2.0
// EXPECT: keys of up to 8 bytes
#include <cstdint>

#include "holdfast/small_table.hpp"

#ifdef MUST_FAIL
using key = holdfast::fixed_text<16>;
#else
using key = std::uint64_t;
#endif

holdfast::outcome change(holdfast::small_table<key, double>& table) { return table.update(key{}, 1.5); }
