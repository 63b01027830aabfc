// SPDX-License-Identifier: Apache-2.0
// The peers of the suite executor.
#include <vector>

#include "bench/peers.hpp"
#ifdef HOLDFAST_BENCH_BOOST
#include "bench/peers/boost_asio_strand.hpp"
#endif

namespace holdfast::bench {

std::vector<workload::executor_kind> executor_kinds([[maybe_unused]] std::vector<absent_peer>& absent) {
    std::vector<workload::executor_kind> kinds = workload::own_executor_kinds();
#ifdef HOLDFAST_BENCH_BOOST
    kinds.push_back(workload::executor_kind_of<asio_strands>());
#else
    absent.push_back({"boost::asio::strand", "not compiled in: install libboost1.81-dev or newer"});
#endif
    return kinds;
}

}  // namespace holdfast::bench
