// SPDX-License-Identifier: Apache-2.0
// header_rebuild.hpp - the header of a segment as it was before it was damaged, where that can be proved.
#pragma once

#include <cstdint>
#include <optional>

#include "holdfast/layout/segment_header.hpp"

namespace holdfast::inspect {

/// Gives back what follows from elsewhere (magic, versions, sizes, what a kind has) and, beside that, up to two
/// neighbouring bytes, as the header's checksum proves. `memory_bytes`: of the segment. Returns: a header whose
/// checksum holds; nothing where none can be proved. Cost: some ten milliseconds.
[[nodiscard]] std::optional<layout::segment_header> rebuild_header(const layout::segment_header& damaged,
                                                                   std::uint64_t memory_bytes);

}  // namespace holdfast::inspect
