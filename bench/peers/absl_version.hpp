// SPDX-License-Identifier: Apache-2.0
// absl_version.hpp - which Abseil this is.
#pragma once

#include <absl/base/config.h>

#include <string>

namespace holdfast::bench {

[[nodiscard]] inline std::string absl_version() {
#if defined(ABSL_LTS_RELEASE_VERSION)
    return "Abseil " + std::to_string(ABSL_LTS_RELEASE_VERSION);
#else
    return "Abseil, no release";
#endif
}

}  // namespace holdfast::bench
