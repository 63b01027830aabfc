// SPDX-License-Identifier: Apache-2.0
// boost_flat_map.hpp - boost::container::flat_map: a sorted array of pairs, filled in order with room reserved; and
// boost::unordered_flat_map, for exact keys, because a hash table is what one would otherwise take for them.
#pragma once

#include <boost/container/flat_map.hpp>
#include <boost/unordered/unordered_flat_map.hpp>
#include <boost/version.hpp>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "workload/sorted_index_own.hpp"

namespace holdfast::bench {

template <class K>
using boost_flat_map_type =
    boost::container::flat_map<K, workload::index_value<K>, std::less<K>,
                               workload::pool_allocator<std::pair<K, workload::index_value<K>>>>;

template <class K>
class boost_flat_index : public workload::map_index<K, boost_flat_map_type<K>> {
 public:
    static constexpr std::string_view name = "boost::container::flat_map";
    static std::string version() {
        return "Boost " + std::to_string(BOOST_VERSION / 100000) + "." + std::to_string(BOOST_VERSION / 100 % 1000);
    }
    boost_flat_index(const workload::index_records<K>& records, workload::page_choice pages)
        : workload::map_index<K, boost_flat_map_type<K>>(pages) {
        this->map_.reserve(records.keys.size());
        this->append(records);
    }
};

template <class K>
class boost_hashed_index {
 public:
    using key = K;
    static constexpr std::string_view name = "boost::unordered_flat_map";
    static std::string version() { return boost_flat_index<K>::version(); }
    boost_hashed_index(const workload::index_records<K>& records, workload::page_choice pages)
        : pool_(pages), map_(typename map::allocator_type(pool_)) {
        map_.reserve(records.keys.size());
        for (std::size_t i = 0; i < records.keys.size(); ++i) map_.emplace(records.keys[i], records.values[i]);
    }
    bool find(K wanted, workload::index_value<K>& out) {
        const auto at = map_.find(wanted);
        if (at == map_.end()) return false;
        out = at->second;
        return true;
    }
    [[nodiscard]] workload::memory_use memory() const { return pool_.use(); }

 private:
    using map = boost::unordered_flat_map<K, workload::index_value<K>, boost::hash<K>, std::equal_to<>,
                                          workload::pool_allocator<std::pair<const K, workload::index_value<K>>>>;
    workload::memory_pool pool_;
    map map_;
};

}  // namespace holdfast::bench
