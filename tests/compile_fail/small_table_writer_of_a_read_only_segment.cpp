// SPDX-License-Identifier: Apache-2.0
// EXPECT: no matching (function|constructor|conversion)
#include <memory>
#include <utility>

#include "holdfast/small_table.hpp"

// What was attached read-only is read: a writer needs the segment itself, attached read-write.
#ifdef MUST_FAIL
using side = holdfast::small_table<int, int>;
#else
using side = holdfast::small_table_reader<int, int>;
#endif

side on(std::shared_ptr<const holdfast::segment> mapping) { return side(std::move(mapping)); }
