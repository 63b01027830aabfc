// SPDX-License-Identifier: Apache-2.0
// empty_view.hpp - a table without entries, for a handle whose own one is not to answer.
//
// One bucket of zeros, which is an empty table (layout, I2). Nobody stores to it, so that a search ends at the home
// bucket and never comes to a node, of which there is none here. Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "holdfast/hash_table/view.hpp"
#include "holdfast/layout/hash_table_layout.hpp"

namespace holdfast::detail {

inline constexpr std::size_t empty_table_journal = layout::line_bytes;
inline constexpr std::size_t empty_table_digest = empty_table_journal + layout::journal_image_offset;
alignas(64) inline constexpr std::byte empty_table[empty_table_digest + sizeof(std::uint64_t)]{};

/// An empty table of one writer with the keys and values of `of`.
template <class Node>
[[nodiscard]] table_view<const std::byte, Node> empty_view(const layout::hash_table_geometry& of,
                                                           Node description) noexcept {
    layout::hash_table_geometry g = of;
    g.buckets = 1;
    g.pairs_max = 0;
    g.lines_offset = g.nodes_offset = 0;
    g.journal_offset = empty_table_journal;
    g.digests_offset = empty_table_digest;
    g.writer_slots = 0;
    table_view<const std::byte, Node> view(std::span<const std::byte>(empty_table), g, description);
    view.prefetches = false;
    return view;
}

}  // namespace holdfast::detail
