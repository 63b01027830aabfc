// SPDX-License-Identifier: Apache-2.0
#include <functional>
#include <utility>

#include "bench/peers.hpp"
#include "workload/suites.hpp"
#ifdef HOLDFAST_BENCH_HTTP
#include "http/http_suite.hpp"
#include "rings/rings_suite.hpp"
#include "websocket/websocket_suite.hpp"
#endif

namespace holdfast::bench {

namespace {

/// The suite, which first says which peers it lacks.
[[nodiscard]] workload::suite with_absent(workload::suite s, std::vector<absent_peer> absent) {
    s.run = [run = std::move(s.run), absent = std::move(absent)](workload::recorder& to) {
        for (const absent_peer& peer : absent) to.skip(peer.name, peer.reason);
        run(to);
    };
    return s;
}

[[nodiscard]] workload::suite with_peers(const workload::suite& own) {
    // Made by the suite's own function over our kinds and everything that is here.
    const auto over = [](auto make_suite, auto kinds_of) {
        std::vector<absent_peer> absent;
        workload::suite s = make_suite(kinds_of(absent));
        return with_absent(std::move(s), std::move(absent));
    };
    if (own.name == "hash_table") return over(workload::hash_table_suite, hash_table_kinds);
    if (own.name == "snapshot") return over(workload::snapshot_suite, snapshot_kinds);
    if (own.name == "sorted_index") return over(workload::sorted_index_suite, sorted_index_kinds);
    if (own.name == "segment") return over(workload::segment_suite, segment_kinds);
    if (own.name == "metrics") return over(workload::metrics_suite, metrics_kinds);
    if (own.name == "queue") return over(workload::queue_suite, queue_kinds);
    if (own.name == "broadcast") return over(workload::broadcast_suite, broadcast_kinds);
    if (own.name == "array") return over(workload::array_suite, array_kinds);
    if (own.name == "block_store") return over(workload::block_store_suite, block_store_kinds);
    if (own.name == "hash_map") return over(workload::hash_map_suite, hash_map_kinds);
    if (own.name == "executor") return over(workload::executor_suite, executor_kinds);
    if (own.name == "connections") return over(workload::connections_suite, connection_subjects);
    return own;
}

}  // namespace

std::vector<workload::suite> suites() {
    std::vector<workload::suite> all;
    for (const workload::suite& own : workload::suites()) all.push_back(with_peers(own));
#ifdef HOLDFAST_BENCH_HTTP
    all.push_back(http::http_suite());
    all.push_back(websocket::websocket_suite());
    all.push_back(rings::rings_suite());
#endif
    return all;
}

}  // namespace holdfast::bench
