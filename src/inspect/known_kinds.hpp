// SPDX-License-Identifier: Apache-2.0
// known_kinds.hpp - what the headers of each kind of container have in common.
#pragma once

#include <array>
#include <cstdint>

#include "holdfast/block_store.hpp"
#include "holdfast/broadcast.hpp"
#include "holdfast/hash_map.hpp"
#include "holdfast/layout/array_layout.hpp"
#include "holdfast/metrics/counter_set.hpp"
#include "holdfast/metrics/latency_histogram.hpp"
#include "holdfast/queue.hpp"
#include "holdfast/snapshot.hpp"
#include "holdfast/sorted_index.hpp"

namespace holdfast::inspect {

struct known_kind {
    container_kind kind;
    std::uint32_t version;  ///< of the body's layout, that this program reads
    writers policy;
};

inline constexpr std::array known_kinds{
    known_kind{container_kind::array, layout::array_version, writers::one},
    known_kind{container_kind::queue, queue_layout_version, writers::one},
    known_kind{container_kind::broadcast, broadcast_layout_version, writers::one},
    known_kind{container_kind::snapshot, snapshot_layout_version, writers::one},
    known_kind{container_kind::hash_table, layout::hash_table_version, writers::one},
    known_kind{container_kind::hash_table, layout::hash_table_version, writers::many},
    known_kind{container_kind::block_store, layout::block_store_version, writers::one},
    known_kind{container_kind::block_store, layout::block_store_many_version, writers::many},
    known_kind{container_kind::hash_map, layout::hash_map_version, writers::one},
    known_kind{container_kind::hash_map, layout::hash_map_many_version, writers::many},
    known_kind{container_kind::sorted_index, sorted_index_layout_version, writers::one},
    known_kind{container_kind::latency_histogram, detail::latency_histogram_version, writers::many},
    known_kind{container_kind::counter_set, detail::counter_set_version, writers::many},
};

}  // namespace holdfast::inspect
