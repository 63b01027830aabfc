// SPDX-License-Identifier: Apache-2.0
// absl_btree_map.hpp - absl::btree_map, filled in order, so that its nodes are full.
#pragma once

#include <absl/container/btree_map.h>

#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "bench/peers/absl_version.hpp"
#include "workload/sorted_index_own.hpp"

namespace holdfast::bench {

template <class K>
using absl_btree = absl::btree_map<K, workload::index_value<K>, std::less<K>,
                                   workload::pool_allocator<std::pair<const K, workload::index_value<K>>>>;

template <class K>
class absl_btree_index : public workload::map_index<K, absl_btree<K>> {
 public:
    static constexpr std::string_view name = "absl::btree_map";
    static std::string version() { return absl_version(); }
    absl_btree_index(const workload::index_records<K>& records, workload::page_choice pages)
        : workload::map_index<K, absl_btree<K>>(pages) {
        this->append(records);
    }
};

}  // namespace holdfast::bench
