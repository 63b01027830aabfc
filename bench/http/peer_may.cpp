// SPDX-License-Identifier: Apache-2.0
// peer_may.cpp - may_minihttp (peers/may), the fastest of the Rust servers in round-ups of small answers: coroutines on
// a thread a core. It knows no "Connection: close", so it has no part in connections of one request.
#include "http/subject.hpp"

namespace holdfast::bench::http {

namespace {

std::string version_of(const site& where) {
    std::string text = output_of({.arguments = {find_built_peer(where, "may_peer"), "version"},
                                  .environment = {},
                                  .cores = {},
                                  .log = where.scratch / "may_version.log"});
    return text.substr(0, text.find('\n'));
}

running_server start(const site& where, answer_kind kind) {
    running_server server;
    server.port = free_port();
    server.process = std::make_unique<child_process>(
        child_options{.arguments = {find_built_peer(where, "may_peer"), word_of(kind), where.csv,
                                    std::to_string(server.port), std::to_string(where.server_cores.size())},
                      .environment = {},
                      .cores = where.server_cores,
                      .log = where.scratch / "may.log"});
    return server;
}

}  // namespace

subject may_minihttp() {
    return {.name = "may_minihttp",
            .only_kept = true,
            .how = {{answer_kind::computed, "a service that computes user and name from the id and writes the JSON"},
                    {answer_kind::lookup, "a service that looks the entry up in a HashMap and writes its JSON"}},
            .version = version_of,
            .start = start};
}

}  // namespace holdfast::bench::http
