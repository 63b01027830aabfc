// SPDX-License-Identifier: Apache-2.0
// contents.hpp - the numbers in a segment's body that say how much it holds, for every kind of container.
#pragma once

#include "inspect/description.hpp"

namespace holdfast::inspect {

/// Reads them. Throws: error (geometry_mismatch, version_mismatch, corrupt) when the body cannot be what the header
/// says.
[[nodiscard]] contents contents_of(const segment& s);

}  // namespace holdfast::inspect
