// SPDX-License-Identifier: Apache-2.0
// peer_asio.cpp - Boost.Beast (beast_server.cpp) and RESTinio (restinio_server.cpp), the servers in C++ that Debian
// packages and that are made for many connections a thread: both on asio, a loop and a listener a core.
#include <unistd.h>

#include <utility>

#include "http/subject.hpp"

namespace holdfast::bench::http {

namespace {

std::filesystem::path find_compiled_peer(const site& where, const char* program) {
    if (::access((where.own_servers / program).c_str(), X_OK) == 0) return where.own_servers / program;
    throw unavailable("it is not built; ./dev bench http does that where its library is there");
}

std::string version_of(const site& where, const char* program) {
    std::string text = output_of({.arguments = {find_compiled_peer(where, program), "version"},
                                  .environment = {},
                                  .cores = {},
                                  .log = where.scratch / (std::string(program) + "_version.log")});
    return text.substr(0, text.find('\n'));
}

running_server start(const site& where, answer_kind kind, const char* program) {
    return start_announcing({.arguments = {find_compiled_peer(where, program), word_of(kind), where.csv,
                                           std::to_string(where.server_cores.size())},
                             .environment = {},
                             .cores = where.server_cores,
                             .log = where.scratch / (std::string(program) + ".log")});
}

subject compiled_peer(std::string name, const char* program) {
    return {.name = std::move(name),
            .how = {{answer_kind::computed, "a handler that computes user and name from the id and writes the JSON"},
                    {answer_kind::lookup,
                     "a handler that looks the entry up in a boost::unordered_flat_map and writes its JSON"}},
            .version = [program](const site& where) { return version_of(where, program); },
            .start = [program](const site& where, answer_kind kind) { return start(where, kind, program); }};
}

}  // namespace

subject boost_beast() { return compiled_peer("Boost.Beast", "http_beast_server"); }
subject restinio() { return compiled_peer("RESTinio", "http_restinio_server"); }

}  // namespace holdfast::bench::http
