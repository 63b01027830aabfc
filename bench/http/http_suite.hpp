// SPDX-License-Identifier: Apache-2.0
// http_suite.hpp - our servers beside nginx, h2o, Boost.Beast, RESTinio, Go's net/http, hyper and may_minihttp:
// requests a second, processor time a request, latency.
//
// The servers get one set of cores and the client another (I1); with a single core they share it, which the report
// says. In every round each subject takes its turn, in an order that moves on by one (I2), so rounds are pairs. All
// answers are checked (load_generator.hpp); a wrong one ends the suite. Latency is measured by a schedule, at a half
// and at nine tenths of what each subject itself can do (I3). Whatever ends the suite, no process, segment, port or
// file of it is left (I4). Threads: one at a time; the calling thread is pinned while it runs.
#pragma once

#include <filesystem>
#include <functional>
#include <vector>

#include "http/subject.hpp"
#include "workload/suite.hpp"

namespace holdfast::bench::http {

struct suite_options {
    std::filesystem::path program;                     ///< holdfast
    std::filesystem::path own_servers;                 ///< folder of http_net_server and http_floor_server
    std::filesystem::path peers;                       ///< what peers/build made
    std::filesystem::path tools;                       ///< unpacked packages (packages/bench_tools.txt)
    std::vector<unsigned> server_cores, client_cores;  ///< empty: the first usable core, and the last
    bool validate = false;                             ///< also compare the load generator with others
};

/// Paths beside the running program's build, each replaceable: HOLDFAST_HTTP_PEERS, HOLDFAST_HTTP_TOOLS, and for the
/// cores HOLDFAST_HTTP_SERVER_CORES and HOLDFAST_HTTP_CLIENT_CORES ("0" or "0,1"); HOLDFAST_HTTP_VALIDATE=1 validates.
/// Throws: std::invalid_argument.
[[nodiscard]] suite_options options_from_environment();

/// What the suite measures unless it is told otherwise.
[[nodiscard]] std::vector<subject> all_subjects();

[[nodiscard]] workload::suite http_suite(suite_options options, std::vector<subject> subjects);
/// With options_from_environment and all_subjects, when it runs.
[[nodiscard]] workload::suite http_suite();

}  // namespace holdfast::bench::http
