// SPDX-License-Identifier: Apache-2.0
// EXPECT: cannot be filled with bytes of another process
#include "holdfast/array.hpp"

#ifdef MUST_FAIL
using flag = bool;
#else
using flag = unsigned char;
#endif

void copy(const holdfast::array_reader<flag>& flags, std::span<flag> out) { flags.load_range(0, out); }
