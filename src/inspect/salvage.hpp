// SPDX-License-Identifier: Apache-2.0
// salvage.hpp - what is sound in a damaged container, put into the body of a new one of the same geometry.
//
// (I1) Nothing goes over that a check of its own does not vouch for, unless the log says to keep what is in doubt.
// (I2) Whatever the bytes hold, reads stay within the old body and stores within the new one, and the work is bounded
//      by their size.
// (I3) The new body is made by the containers' own writers, or stands for itself: it verifies.
// (I4) What was cut off is counted as lost: by what lies in front of it and tells, or as one item (count_cut).
#pragma once

#include <cstddef>
#include <span>

#include "inspect/damaged_segment.hpp"
#include "inspect/salvage_log.hpp"

namespace holdfast::inspect {

/// Fills a zeroed body. Throws: geometry_mismatch where the geometry is none of the kind's; corrupt where the one thing
/// that it holds is damaged; unsupported for layouts that this program does not know.
void salvage(const damaged_segment& from, std::span<std::byte> to, salvage_log& log);

// The kinds; used by salvage() only. `from` is private memory of the damaged body, which may be changed.

void salvage_array(const damaged_segment& from, std::span<std::byte> to, salvage_log& log);
void salvage_table(const damaged_segment& from, std::span<std::byte> to, salvage_log& log);
void salvage_blocks(const damaged_segment& from, std::span<std::byte> to, salvage_log& log);
void salvage_map(const damaged_segment& from, std::span<std::byte> to, salvage_log& log);
void salvage_snapshot(const damaged_segment& from, std::span<std::byte> to, salvage_log& log);
void salvage_index(const damaged_segment& from, std::span<std::byte> to, salvage_log& log);
void salvage_queue(const damaged_segment& from, std::span<std::byte> to, salvage_log& log);
void salvage_broadcast(const damaged_segment& from, std::span<std::byte> to, salvage_log& log);
void salvage_counters(const damaged_segment& from, std::span<std::byte> to, salvage_log& log);
void salvage_latencies(const damaged_segment& from, std::span<std::byte> to, salvage_log& log);

/// Counts one item as lost where the memory ends within the first so many bytes of the body: zeros in the place of what
/// was cut off there look like what nobody wrote, and nothing else tells.
void count_cut(const damaged_segment& from, std::uint64_t bytes, salvage_log& log);

/// Throws geometry_mismatch with what is wrong; nothing where that is nullptr.
void require_geometry(const damaged_segment& from, const char* wrong);

}  // namespace holdfast::inspect
