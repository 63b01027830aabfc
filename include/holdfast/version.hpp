// SPDX-License-Identifier: Apache-2.0
// version.hpp - the version of this API. The layout version of segments is apart from it: layout/segment_header.hpp.
#pragma once

#define HOLDFAST_VERSION_MAJOR 0
#define HOLDFAST_VERSION_MINOR 1
#define HOLDFAST_VERSION_PATCH 0

namespace holdfast {

/// The version of the API as text, "major.minor.patch".
inline constexpr const char* version_text = "0.1.0";

}  // namespace holdfast
