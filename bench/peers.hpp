// SPDX-License-Identifier: Apache-2.0
// peers.hpp - the suites with everything that this machine has to compare with.
//
// One adapter file a peer lies in peers/. Which of them are compiled is decided by CMakeLists.txt: a peer whose package
// is not installed is left out, and the suite says so.
#pragma once

#include <string>
#include <vector>

#include "workload/array_suite.hpp"
#include "workload/block_store_suite.hpp"
#include "workload/broadcast_suite.hpp"
#include "workload/connections_suite.hpp"
#include "workload/executor_suite.hpp"
#include "workload/hash_map_suite.hpp"
#include "workload/hash_table_suite.hpp"
#include "workload/metrics_suite.hpp"
#include "workload/queue_suite.hpp"
#include "workload/segment_suite.hpp"
#include "workload/snapshot_suite.hpp"
#include "workload/sorted_index_suite.hpp"
#include "workload/suite.hpp"

namespace holdfast::bench {

/// A peer that is not here, and what would bring it.
struct absent_peer {
    std::string name, reason;
};

/// What each suite compares: ours first, then everything that is here. Adds what is not to `absent`.
[[nodiscard]] std::vector<workload::hash_table_kind> hash_table_kinds(std::vector<absent_peer>& absent);
[[nodiscard]] std::vector<workload::snapshot_kind> snapshot_kinds(std::vector<absent_peer>& absent);
[[nodiscard]] std::vector<workload::sorted_index_kind> sorted_index_kinds(std::vector<absent_peer>& absent);
[[nodiscard]] std::vector<workload::segment_kind> segment_kinds(std::vector<absent_peer>& absent);
[[nodiscard]] std::vector<workload::metrics_kind> metrics_kinds(std::vector<absent_peer>& absent);
[[nodiscard]] std::vector<workload::channel_kind> queue_kinds(std::vector<absent_peer>& absent);
[[nodiscard]] std::vector<workload::channel_kind> broadcast_kinds(std::vector<absent_peer>& absent);
[[nodiscard]] std::vector<workload::array_kind> array_kinds(std::vector<absent_peer>& absent);
[[nodiscard]] std::vector<workload::block_store_kind> block_store_kinds(std::vector<absent_peer>& absent);
[[nodiscard]] std::vector<workload::hash_map_kind> hash_map_kinds(std::vector<absent_peer>& absent);
[[nodiscard]] std::vector<workload::executor_kind> executor_kinds(std::vector<absent_peer>& absent);
[[nodiscard]] std::vector<workload::connections::subject> connection_subjects(std::vector<absent_peer>& absent);

/// The suites of the program, each with its peers, and those that there are only here.
[[nodiscard]] std::vector<workload::suite> suites();

}  // namespace holdfast::bench
