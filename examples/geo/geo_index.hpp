// SPDX-License-Identifier: Apache-2.0
// geo_index.hpp - the served indexes as a C++ program reads them: typed, in place, from its own process.
#pragma once

#include <cstdint>

#include "holdfast/record.hpp"
#include "holdfast/sorted_index.hpp"

namespace geo {

struct range_v4 {
    holdfast::ipv4 high;
    char country[2];
};
struct range_v6 {
    holdfast::ipv6 high;
    char country[2];
};

using index_v4 = holdfast::sorted_index<holdfast::ipv4, range_v4, &range_v4::high>::reader;
using index_v6 = holdfast::sorted_index<holdfast::ipv6, range_v6, &range_v6::high>::reader;

/// Lookups of random addresses by one thread for about half a second.
[[nodiscard]] double lookups_per_second(index_v4& index, std::uint64_t seed);
[[nodiscard]] double lookups_per_second(index_v6& index, std::uint64_t seed);

}  // namespace geo
