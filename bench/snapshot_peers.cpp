// SPDX-License-Identifier: Apache-2.0
#include "bench/peers.hpp"
#include "bench/peers/sequence_lock.hpp"
#ifdef HOLDFAST_BENCH_BOOST
#include "bench/peers/boost_interprocess.hpp"
#endif
#ifdef HOLDFAST_BENCH_URCU
#include "bench/peers/userspace_rcu.hpp"
#endif

namespace holdfast::bench {

std::vector<workload::snapshot_kind> snapshot_kinds([[maybe_unused]] std::vector<absent_peer>& absent) {
    std::vector<workload::snapshot_kind> kinds = workload::own_snapshot_kinds();
    kinds.push_back(workload::snapshot_kind_of<sequence_lock>());
#ifdef HOLDFAST_BENCH_BOOST
    kinds.push_back(workload::snapshot_kind_of<interprocess_snapshot>());
#else
    absent.push_back({"boost::interprocess mutex and a copy", "not compiled in: install libboost1.81-dev or newer"});
#endif
#ifdef HOLDFAST_BENCH_URCU
    kinds.push_back(workload::snapshot_kind_of<rcu_snapshot>());
#else
    absent.push_back({"liburcu, memb", "not compiled in: install liburcu-dev"});
#endif
    return kinds;
}

std::vector<workload::segment_kind> segment_kinds([[maybe_unused]] std::vector<absent_peer>& absent) {
    std::vector<workload::segment_kind> kinds = workload::own_segment_kinds();
#ifdef HOLDFAST_BENCH_BOOST
    kinds.push_back(workload::segment_kind_of<interprocess_segment>());
#else
    absent.push_back(
        {"boost::interprocess::managed_shared_memory", "not compiled in: install libboost1.81-dev or newer"});
#endif
    return kinds;
}

}  // namespace holdfast::bench
