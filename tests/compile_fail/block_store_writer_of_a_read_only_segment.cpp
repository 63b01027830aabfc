// SPDX-License-Identifier: Apache-2.0
// EXPECT: no matching (function|constructor|conversion)
#include <memory>
#include <utility>

#include "holdfast/block_store.hpp"

// What was attached read-only is read: a writer needs the segment itself, attached read-write.
#ifdef MUST_FAIL
using side = holdfast::block_store;
#else
using side = holdfast::block_store_reader;
#endif

side on(std::shared_ptr<const holdfast::segment> mapping) { return side(std::move(mapping)); }
