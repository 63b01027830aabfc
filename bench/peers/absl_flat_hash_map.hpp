// SPDX-License-Identifier: Apache-2.0
// absl_flat_hash_map.hpp - absl::flat_hash_map: open addressing in groups of 16, private memory, entries move when it
// grows. Reserved; its own hash and its own load.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "bench/peers/absl_version.hpp"
#include "bench/peers/map_table.hpp"

namespace holdfast::bench {

template <class Value>
using absl_map = absl::flat_hash_map<std::uint64_t, Value, absl::container_internal::hash_default_hash<std::uint64_t>,
                                     absl::container_internal::hash_default_eq<std::uint64_t>,
                                     workload::pool_allocator<std::pair<const std::uint64_t, Value>>>;

template <class Value>
class absl_table : public map_table<absl_map<Value>, Value> {
 public:
    static constexpr std::string_view name = "absl::flat_hash_map";
    static std::string version() { return absl_version(); }
    explicit absl_table(const workload::table_request& request) : map_table<absl_map<Value>, Value>(request) {}
};

}  // namespace holdfast::bench
