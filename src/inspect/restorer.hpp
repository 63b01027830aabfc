// SPDX-License-Identifier: Apache-2.0
// restorer.hpp - the segment that a saved file describes.
#pragma once

#include <string_view>

#include "holdfast/segment.hpp"
#include "inspect/saver.hpp"

namespace holdfast::inspect {

/// Reads the file to its end. Throws: as restore().
[[nodiscard]] segment restore_segment(saved_reader& file, std::string_view uri, const restore_options& options);

}  // namespace holdfast::inspect
