// SPDX-License-Identifier: Apache-2.0
// websocket_suite.hpp - WebSocket echo and fan-out: our server on either engine beside those of packages and
// registries.
//
// Every server has one thread on a core of its own, and the client has another. Echo goes by the rounds of the http
// suite (http/rounds.hpp): every connection has one message under way. Fan-out has turns of its own
// (fan_out_rounds.hpp). Latency of both is measured at half of what the slowest can do, the same rate for all, and at
// 50 and 90 % of what each can do itself.
// Threads: one at a time; the calling thread is pinned while it runs.
#pragma once

#include <vector>

#include "http/http_suite.hpp"
#include "workload/suite.hpp"

namespace holdfast::bench::websocket {

[[nodiscard]] workload::suite websocket_suite(http::suite_options options, std::vector<http::subject> subjects);
/// With the options of the http suite from the environment, HOLDFAST_WEBSOCKET_PEERS for the folder of peers, and all
/// subjects, when it runs.
[[nodiscard]] workload::suite websocket_suite();

}  // namespace holdfast::bench::websocket
