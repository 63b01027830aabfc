// SPDX-License-Identifier: Apache-2.0
// peer_hyper.cpp - hyper on tokio (peers/hyper), the server beneath most of what Rust answers HTTP with: a
// single-threaded runtime and a listener a core, and a HashMap for the lookup.
#include "http/subject.hpp"

namespace holdfast::bench::http {

namespace {

std::string version_of(const site& where) {
    std::string text = output_of({.arguments = {find_built_peer(where, "hyper_peer"), "version"},
                                  .environment = {},
                                  .cores = {},
                                  .log = where.scratch / "hyper_version.log"});
    return text.substr(0, text.find('\n'));
}

running_server start(const site& where, answer_kind kind) {
    return start_announcing({.arguments = {find_built_peer(where, "hyper_peer"), word_of(kind), where.csv,
                                           std::to_string(where.server_cores.size())},
                             .environment = {},
                             .cores = where.server_cores,
                             .log = where.scratch / "hyper.log"});
}

}  // namespace

subject hyper() {
    return {.name = "hyper",
            .how = {{answer_kind::computed, "a service that computes user and name from the id and writes the JSON"},
                    {answer_kind::lookup, "a service that looks the entry up in a HashMap and writes its JSON"}},
            .version = version_of,
            .start = start};
}

}  // namespace holdfast::bench::http
