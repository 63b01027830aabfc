// SPDX-License-Identifier: Apache-2.0
#include <functional>
#include <utility>

#include "bench/peers.hpp"
#include "workload/suites.hpp"
#ifdef HOLDFAST_BENCH_HTTP
#include "http/http_suite.hpp"
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
    std::vector<absent_peer> absent;
    if (own.name == "hash_table") {
        workload::suite s = workload::hash_table_suite(hash_table_kinds(absent));
        return with_absent(std::move(s), std::move(absent));
    }
    if (own.name == "snapshot") {
        workload::suite s = workload::snapshot_suite(snapshot_kinds(absent));
        return with_absent(std::move(s), std::move(absent));
    }
    if (own.name == "sorted_index") {
        workload::suite s = workload::sorted_index_suite(sorted_index_kinds(absent));
        return with_absent(std::move(s), std::move(absent));
    }
    if (own.name == "segment") {
        workload::suite s = workload::segment_suite(segment_kinds(absent));
        return with_absent(std::move(s), std::move(absent));
    }
    if (own.name == "metrics") {
        workload::suite s = workload::metrics_suite(metrics_kinds(absent));
        return with_absent(std::move(s), std::move(absent));
    }
    return own;
}

}  // namespace

std::vector<workload::suite> suites() {
    std::vector<workload::suite> all;
    for (const workload::suite& own : workload::suites()) all.push_back(with_peers(own));
#ifdef HOLDFAST_BENCH_HTTP
    all.push_back(http::http_suite());
#endif
    return all;
}

}  // namespace holdfast::bench
