// SPDX-License-Identifier: Apache-2.0
// peer_go.cpp - Go's net/http (peers/go): the standard library's server, and a map for the lookup. The collector runs a
// quarter as often as by default (GOGC), as servers with memory to spare are tuned.
#include "http/subject.hpp"

namespace holdfast::bench::http {

namespace {

std::string version_of(const site& where) {
    std::string text = output_of({.arguments = {find_built_peer(where, "go_net_http"), "version"},
                                  .environment = {},
                                  .cores = {},
                                  .log = where.scratch / "go_version.log"});
    return text.substr(0, text.find('\n'));
}

running_server start(const site& where, answer_kind kind) {
    return start_announcing({.arguments = {find_built_peer(where, "go_net_http"), word_of(kind), where.csv},
                             .environment = {"GOMAXPROCS=" + std::to_string(where.server_cores.size()), "GOGC=400"},
                             .cores = where.server_cores,
                             .log = where.scratch / "go.log"});
}

}  // namespace

subject go_net_http() {
    return {.name = "Go net/http",
            .how = {{answer_kind::computed, "a handler that computes user and name from the id and writes the JSON"},
                    {answer_kind::lookup, "a handler that looks the entry up in a map and writes its JSON"}},
            .version = version_of,
            .start = start};
}

}  // namespace holdfast::bench::http
