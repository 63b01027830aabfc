// SPDX-License-Identifier: Apache-2.0
// absl_string_map.hpp - absl::flat_hash_map of text in private memory, room reserved, looked up by a view; its own
// hash.
#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/strings/string_view.h>

#include <string>
#include <string_view>

#include "bench/peers/absl_version.hpp"
#include "workload/hash_map_own.hpp"

namespace holdfast::bench {

struct absl_string_map_traits {
    using view = absl::string_view;
    static constexpr std::string_view name = "absl::flat_hash_map<std::string, std::string>";
    static std::string version() { return absl_version(); }
};
using absl_string_map =
    workload::private_string_map<absl::flat_hash_map<std::string, std::string>, absl_string_map_traits>;

}  // namespace holdfast::bench
