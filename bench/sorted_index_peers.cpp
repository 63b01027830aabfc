// SPDX-License-Identifier: Apache-2.0
#include "bench/peers.hpp"
#ifdef HOLDFAST_BENCH_BOOST
#include "bench/peers/boost_flat_map.hpp"
#endif
#ifdef HOLDFAST_BENCH_ABSL
#include "bench/peers/absl_btree_map.hpp"
#endif
#ifdef HOLDFAST_BENCH_LMDB
#include "bench/peers/lmdb_index.hpp"
#endif

namespace holdfast::bench {

std::vector<workload::sorted_index_kind> sorted_index_kinds([[maybe_unused]] std::vector<absent_peer>& absent) {
    std::vector<workload::sorted_index_kind> kinds = workload::own_sorted_index_kinds();
#ifdef HOLDFAST_BENCH_BOOST
    kinds.push_back(workload::index_kind_of<boost_flat_index>());
    kinds.push_back(workload::index_kind_of<boost_hashed_index>());
#else
    absent.push_back({"boost::container::flat_map", "not compiled in: install libboost1.81-dev or newer"});
    absent.push_back({"boost::unordered_flat_map", "not compiled in: install libboost1.81-dev or newer"});
#endif
#ifdef HOLDFAST_BENCH_ABSL
    kinds.push_back(workload::index_kind_of<absl_btree_index>());
#else
    absent.push_back({"absl::btree_map", "not compiled in: install libabsl-dev"});
#endif
#ifdef HOLDFAST_BENCH_LMDB
    kinds.push_back(workload::index_kind_of<lmdb_index>());
#else
    absent.push_back({"LMDB", "not compiled in: install liblmdb-dev"});
#endif
    return kinds;
}

}  // namespace holdfast::bench
