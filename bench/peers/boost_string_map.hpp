// SPDX-License-Identifier: Apache-2.0
// boost_string_map.hpp - boost::unordered_flat_map of text in private memory, room reserved, looked up by a view.
#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <boost/version.hpp>
#include <functional>
#include <string>
#include <string_view>

#include "workload/hash_map_own.hpp"

namespace holdfast::bench {

struct boost_string_map_traits {
    static constexpr std::string_view name = "boost::unordered_flat_map<std::string, std::string>";
    static std::string version() {
        return "Boost " + std::to_string(BOOST_VERSION / 100000) + "." + std::to_string(BOOST_VERSION / 100 % 1000);
    }
};
using boost_string_map = workload::private_string_map<
    boost::unordered_flat_map<std::string, std::string, workload::text_hash, std::equal_to<>>, boost_string_map_traits>;

}  // namespace holdfast::bench
