// SPDX-License-Identifier: Apache-2.0
// boost_unordered_flat_map.hpp - boost::unordered_flat_map: open addressing in groups of 15, private memory, entries
// move when it grows. Reserved, so that nothing grows under the clock; its own hash and its own load.
#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <boost/version.hpp>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "bench/peers/map_table.hpp"

namespace holdfast::bench {

template <class Value>
using boost_flat_map = boost::unordered_flat_map<std::uint64_t, Value, boost::hash<std::uint64_t>, std::equal_to<>,
                                                 workload::pool_allocator<std::pair<const std::uint64_t, Value>>>;

template <class Value>
class boost_flat_table : public map_table<boost_flat_map<Value>, Value> {
 public:
    static constexpr std::string_view name = "boost::unordered_flat_map";
    static std::string version() {
        return "Boost " + std::to_string(BOOST_VERSION / 100000) + "." + std::to_string(BOOST_VERSION / 100 % 1000);
    }
    explicit boost_flat_table(const workload::table_request& request)
        : map_table<boost_flat_map<Value>, Value>(request) {}
};

/// The other load that it can have: its room doubles, so half of the first.
template <class Value>
class boost_roomy_table : public map_table<boost_flat_map<Value>, Value> {
 public:
    static constexpr std::string_view name = "boost::unordered_flat_map, reserved for twice as many";
    static std::string version() { return boost_flat_table<Value>::version(); }
    explicit boost_roomy_table(const workload::table_request& request)
        : map_table<boost_flat_map<Value>, Value>({.entries = 2 * request.entries, .pages = request.pages}) {}
};

}  // namespace holdfast::bench
