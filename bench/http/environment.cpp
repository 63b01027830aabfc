// SPDX-License-Identifier: Apache-2.0
// environment.cpp - where the suite finds what it runs, unless it is told.
#include <charconv>
#include <cstdlib>

#include "http/http_suite.hpp"

namespace holdfast::bench::http {

namespace {

std::string variable(const char* name) {
    const char* const value = std::getenv(name);
    return value != nullptr ? value : "";
}

std::vector<unsigned> cores_of(const char* name) {
    const std::string text = variable(name);
    std::vector<unsigned> cores;
    const char* at = text.data();
    const char* const end = at + text.size();
    while (at != end) {
        unsigned core = 0;
        const auto [next, code] = std::from_chars(at, end, core);
        if (code != std::errc{} || (next != end && (*next != ',' || next + 1 == end)))
            throw std::invalid_argument(std::string(name) + "=" + text + " is no list of cores, as 0 or 0,1");
        cores.push_back(core);
        at = next == end ? end : next + 1;
    }
    return cores;
}

}  // namespace

suite_options options_from_environment() {
    const auto own = std::filesystem::read_symlink("/proc/self/exe").parent_path();
    suite_options options;
    options.own_servers = own;
    // The build puts our programs into BUILD/bin, and ./dev the rest beside the builds: build/release/bin, build/peers.
    options.program = own / "holdfast";
    const auto given = [&](const char* name, const char* otherwise) {
        const std::string text = variable(name);
        return text.empty() ? own.parent_path().parent_path() / otherwise : std::filesystem::absolute(text);
    };
    options.peers = given("HOLDFAST_HTTP_PEERS", "peers/http");
    options.tools = given("HOLDFAST_HTTP_TOOLS", "bench_tools");
    options.server_cores = cores_of("HOLDFAST_HTTP_SERVER_CORES");
    options.client_cores = cores_of("HOLDFAST_HTTP_CLIENT_CORES");
    options.validate = variable("HOLDFAST_HTTP_VALIDATE") == "1";
    return options;
}

}  // namespace holdfast::bench::http
