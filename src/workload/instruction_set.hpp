// SPDX-License-Identifier: Apache-2.0
// instruction_set.hpp - what a benchmark was compiled with, to be written beside its numbers.
#pragma once

#include <string>
#include <string_view>

#include "holdfast/version.hpp"

namespace holdfast::workload {

/// What the compiler was allowed to use; our searches have a path for each.
inline constexpr std::string_view instruction_set =
#if defined(__AVX2__)
    "AVX2";
#elif defined(__SSE2__)
    "SSE2";
#else
    "no vector unit";
#endif

[[nodiscard]] inline std::string own_version() {
    return std::string(version_text) + ", compiled for " + std::string(instruction_set);
}

[[nodiscard]] inline std::string standard_library_version() {
#if defined(_GLIBCXX_RELEASE)
    return "libstdc++ " + std::to_string(_GLIBCXX_RELEASE);
#elif defined(_LIBCPP_VERSION)
    return "libc++ " + std::to_string(_LIBCPP_VERSION);
#else
    return "unknown";
#endif
}

}  // namespace holdfast::workload
