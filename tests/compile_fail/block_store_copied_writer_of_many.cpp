// SPDX-License-Identifier: Apache-2.0
// EXPECT: deleted (function|constructor)
#include <utility>

#include "holdfast/block_store/many.hpp"

using store = holdfast::basic_block_store<holdfast::writers::many>;

store second(store& writer) {
#ifdef MUST_FAIL
    return writer;
#else
    return std::move(writer);
#endif
}
