// SPDX-License-Identifier: Apache-2.0
// load_url.hpp - the URL of a server to load, taken apart.
#pragma once

#include <string>
#include <string_view>

#include "net/socket_address.hpp"

namespace holdfast::workload::http {

struct load_url {
    net::socket_address server{};
    std::string authority;  ///< as it was given: what the requests name in Host
    std::string target;     ///< path and query, "/" where there is none

    /// A GET over a connection that is kept.
    [[nodiscard]] std::string request() const;
};

/// Of "http://127.0.0.1:8080/v1/tables/t/1", "http://[::1]:8080" or "http://localhost"; the port is 80 unless given.
/// Throws: usage_error (command.hpp) that says what to write instead.
[[nodiscard]] load_url parse_load_url(std::string_view text);

}  // namespace holdfast::workload::http
