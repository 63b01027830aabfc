// SPDX-License-Identifier: Apache-2.0
#include "workload/suites.hpp"

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
#include "workload/udp_suite.hpp"

namespace holdfast::workload {

const std::vector<suite>& suites() {
    static const std::vector<suite> all = {
        hash_table_suite(own_hash_table_kinds()),     snapshot_suite(own_snapshot_kinds()),
        sorted_index_suite(own_sorted_index_kinds()), segment_suite(own_segment_kinds()),
        metrics_suite(own_metrics_kinds()),           queue_suite(own_queue_kinds()),
        broadcast_suite(own_broadcast_kinds()),       array_suite(own_array_kinds()),
        block_store_suite(own_block_store_kinds()),   hash_map_suite(own_hash_map_kinds()),
        executor_suite(own_executor_kinds()),         udp_suite(),
        connections_suite(own_connection_subjects()),
    };
    return all;
}

}  // namespace holdfast::workload
