// SPDX-License-Identifier: Apache-2.0
// tsl_robin_map.hpp - tsl::robin_map: linear probing with robin hood displacement, private memory, entries move. At its
// own load, at most a half, where it is fastest. Its buckets are a power of two, so the hash must be good in the low
// bits: the keys of the suites are random.
#pragma once

#include <tsl/robin_map.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "bench/peers/map_table.hpp"

namespace holdfast::bench {

template <class Value>
using robin_map = tsl::robin_map<std::uint64_t, Value, std::hash<std::uint64_t>, std::equal_to<std::uint64_t>,
                                 workload::pool_allocator<std::pair<std::uint64_t, Value>>>;

template <class Value>
class robin_table : public map_table<robin_map<Value>, Value> {
 public:
    static constexpr std::string_view name = "tsl::robin_map";
    static std::string version() {
#if defined(TSL_RH_VERSION_MAJOR)
        return "robin-map " + std::to_string(TSL_RH_VERSION_MAJOR) + "." + std::to_string(TSL_RH_VERSION_MINOR);
#else
        return "robin-map, before 1.3";
#endif
    }
    explicit robin_table(const workload::table_request& request) : map_table<robin_map<Value>, Value>(request) {}
};

}  // namespace holdfast::bench
