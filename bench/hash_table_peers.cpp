// SPDX-License-Identifier: Apache-2.0
#include "bench/peers.hpp"
#include "bench/peers/level_table.hpp"
#ifdef HOLDFAST_BENCH_BOOST
#include "bench/peers/boost_unordered_flat_map.hpp"
#endif
#ifdef HOLDFAST_BENCH_ABSL
#include "bench/peers/absl_flat_hash_map.hpp"
#endif
#ifdef HOLDFAST_BENCH_TSL
#include "bench/peers/tsl_robin_map.hpp"
#endif
#ifdef HOLDFAST_BENCH_LMDB
#include "bench/peers/lmdb_table.hpp"
#endif

namespace holdfast::bench {

std::vector<workload::hash_table_kind> hash_table_kinds([[maybe_unused]] std::vector<absent_peer>& absent) {
    std::vector<workload::hash_table_kind> kinds = workload::own_hash_table_kinds();
#ifdef HOLDFAST_BENCH_BOOST
    kinds.push_back(workload::kind_of<boost_flat_table>());
    kinds.push_back(workload::kind_of<boost_roomy_table>());
    kinds.back().entry_extra = 100;  // of 64 bytes; of 16 it is 20
#else
    for (const char* peer : {"boost::unordered_flat_map", "boost::unordered_flat_map, reserved for twice as many"})
        absent.push_back({peer, "not compiled in: install libboost1.81-dev or newer"});
#endif
#ifdef HOLDFAST_BENCH_ABSL
    kinds.push_back(workload::kind_of<absl_table>());
#else
    absent.push_back({"absl::flat_hash_map", "not compiled in: install libabsl-dev"});
#endif
#ifdef HOLDFAST_BENCH_TSL
    kinds.push_back(workload::kind_of<robin_table>());
#else
    absent.push_back({"tsl::robin_map", "not compiled in: install robin-map-dev"});
#endif
    kinds.push_back(workload::kind_of<classic_table>());
    kinds.push_back(workload::kind_of<geometric_table>());
#ifdef HOLDFAST_BENCH_LMDB
    kinds.push_back(workload::kind_of<lmdb_table>());
#else
    absent.push_back({"LMDB", "not compiled in: install liblmdb-dev"});
#endif
    return kinds;
}

}  // namespace holdfast::bench
