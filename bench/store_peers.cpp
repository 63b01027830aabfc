// SPDX-License-Identifier: Apache-2.0
#include "bench/peers.hpp"
#ifdef HOLDFAST_BENCH_BOOST
#include "bench/peers/boost_interprocess_stores.hpp"
#include "bench/peers/boost_string_map.hpp"
#endif
#ifdef HOLDFAST_BENCH_ABSL
#include "bench/peers/absl_string_map.hpp"
#endif
#ifdef HOLDFAST_BENCH_LMDB
#include "bench/peers/lmdb_store.hpp"
#include "bench/peers/lmdb_string_map.hpp"
#endif

namespace holdfast::bench {

std::vector<workload::array_kind> array_kinds([[maybe_unused]] std::vector<absent_peer>& absent) {
    std::vector<workload::array_kind> kinds = workload::own_array_kinds();
#ifdef HOLDFAST_BENCH_BOOST
    kinds.push_back(workload::array_kind_of<interprocess_array>());
#else
    absent.push_back({"boost::interprocess mutex and an array", "not compiled in: install libboost1.81-dev or newer"});
#endif
    return kinds;
}

std::vector<workload::block_store_kind> block_store_kinds([[maybe_unused]] std::vector<absent_peer>& absent) {
    std::vector<workload::block_store_kind> kinds = workload::own_block_store_kinds();
#ifdef HOLDFAST_BENCH_BOOST
    kinds.push_back(workload::block_store_kind_of<interprocess_store>());
#else
    absent.push_back(
        {"boost::interprocess::managed_shared_memory", "not compiled in: install libboost1.81-dev or newer"});
#endif
#ifdef HOLDFAST_BENCH_LMDB
    kinds.push_back(workload::block_store_kind_of<lmdb_store>());
#else
    absent.push_back({"LMDB", "not compiled in: install liblmdb-dev"});
#endif
    return kinds;
}

std::vector<workload::hash_map_kind> hash_map_kinds([[maybe_unused]] std::vector<absent_peer>& absent) {
    std::vector<workload::hash_map_kind> kinds = workload::own_hash_map_kinds();
#ifdef HOLDFAST_BENCH_BOOST
    kinds.push_back(workload::hash_map_kind_of<boost_string_map>());
#else
    absent.push_back(
        {"boost::unordered_flat_map<std::string, std::string>", "not compiled in: install libboost1.81-dev or newer"});
#endif
#ifdef HOLDFAST_BENCH_ABSL
    kinds.push_back(workload::hash_map_kind_of<absl_string_map>());
#else
    absent.push_back({"absl::flat_hash_map<std::string, std::string>", "not compiled in: install libabsl-dev"});
#endif
#ifdef HOLDFAST_BENCH_LMDB
    kinds.push_back(workload::hash_map_kind_of<lmdb_string_map>());
#else
    absent.push_back({"LMDB", "not compiled in: install liblmdb-dev"});
#endif
    return kinds;
}

}  // namespace holdfast::bench
