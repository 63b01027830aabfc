// SPDX-License-Identifier: Apache-2.0
// require.hpp - what a fuzz target holds to: where it does not hold, the program says so and aborts, in every build.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <source_location>

namespace holdfast::fuzz {

inline void require(bool holds, const char* what = "a fact",
                    std::source_location at = std::source_location::current()) {
    if (holds) return;
    std::fprintf(stderr, "broken: %s, %s:%u\n", what, at.file_name(), static_cast<unsigned>(at.line()));
    std::abort();
}

}  // namespace holdfast::fuzz
