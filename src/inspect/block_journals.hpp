// SPDX-License-Identifier: Apache-2.0
// block_journals.hpp - the journals of a block store at rest, made anew for the values that stand: of a restored store
// and of a repaired one, of one writer and of many.
#pragma once

#include <cstdint>
#include <span>

#include "holdfast/block_store/many_view.hpp"

namespace holdfast::inspect {

/// So many last serials does a store have: one for each writer slot, or that of its one writer.
[[nodiscard]] inline std::uint64_t journals_of(const layout::block_store_geometry& g) noexcept {
    return g.writer_slots == 0 ? 1 : g.writer_slots;
}

/// Writes that the last operation of each writer is complete and did nothing, with the counts that the words have, and
/// with the last serial that each has given out (0: none). The counts of many writers are a sum: the first slot has
/// them all. Requires: nobody else has the bytes; journals_of(geometry) serials.
void write_journals(const detail::block_view<std::byte>& view, std::span<const std::uint64_t> serials);

}  // namespace holdfast::inspect
