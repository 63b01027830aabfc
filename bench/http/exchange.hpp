// SPDX-License-Identifier: Apache-2.0
// exchange.hpp - the one template of all workloads: the requests that every subject is sent and the answers that it
// must give.
//
// Records are (id, user, name); the answer to a request for one is the JSON text that `holdfast serve` gives for the
// entry of a table. Requests and bodies are the same bytes for every subject (I1).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "http/load.hpp"

namespace holdfast::bench::http {

struct record {
    std::uint64_t id = 0, user = 0;
    std::string name;  ///< 1 to 8 lower-case letters
};

/// `count` records with ids 1 to count; what else is in them follows from the id (computed.hpp).
[[nodiscard]] std::vector<record> make_records(std::size_t count);
/// "id,user,name", a line each: what the subjects load.
[[nodiscard]] std::string csv_of(const std::vector<record>& records);
[[nodiscard]] std::string json_of(const record& r);
[[nodiscard]] std::string path_of(const std::string& table, const record& r);

/// A request for each record. `close`: with "Connection: close".
[[nodiscard]] std::vector<exchange> make_exchanges(const std::string& table, const std::vector<record>& records,
                                                   bool close);

}  // namespace holdfast::bench::http
