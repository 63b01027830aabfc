// SPDX-License-Identifier: Apache-2.0
// load_server.hpp - `holdfast bench http URL`: loads a server and says how it answered.
#pragma once

#include <cstdint>
#include <string>

namespace holdfast::cli {

struct http_load_options {
    std::string url;
    std::uint64_t rate_hz = 0;  ///< 0: each connection asks again as soon as it is answered
    std::uint64_t connections = 64, pipeline = 1, seconds = 10;
    bool json = false;
};

/// Runs the load and prints its outcome. Returns: the exit code. Throws: workload::usage_error for what cannot be asked
/// for.
[[nodiscard]] int load_server(const http_load_options& chosen);

}  // namespace holdfast::cli
