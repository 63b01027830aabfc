// SPDX-License-Identifier: Apache-2.0
// own_servers.cpp - our two subjects: `holdfast serve` as users run it, and a server written with the library.
#include <charconv>

#include "http/subject.hpp"

namespace holdfast::bench::http {

namespace {

std::vector<std::string> registry(const site& where) {
    return {"HOLDFAST_REGISTRY=" + (where.scratch / "registry").string()};
}

std::string version_of(const site& where) {
    std::string text = output_of({.arguments = {where.program, "version"},
                                  .environment = {},
                                  .cores = {},
                                  .log = where.scratch / "holdfast.log"});
    return text.substr(0, text.find('\n'));
}

running_server start_serve(const site& where, answer_kind) {
    running_server server;
    server.process = std::make_unique<child_process>(
        child_options{.arguments = {where.program, "serve", where.table, "--listen", "127.0.0.1:0", "--workers",
                                    std::to_string(where.server_cores.size()), "--counters", where.table + "-counts"},
                      .environment = registry(where),
                      .cores = where.server_cores,
                      .log = where.scratch / "holdfast_serve.log"});
    const std::string line = server.process->read_line(std::chrono::seconds(20));
    const std::size_t address = line.find("127.0.0.1:");
    const char* const digits =
        line.data() + std::min(line.size(), address == std::string::npos ? address : address + 10);
    if (std::from_chars(digits, line.data() + line.size(), server.port).ec != std::errc{})
        throw child_failed("holdfast serve should say where it listens, and said: " + line);
    return server;
}

running_server start_net(const site& where, answer_kind kind) {
    return start_announcing(
        {.arguments = {where.own_servers / "http_net_server", kind == answer_kind::fixed ? "fixed" : "lookup",
                       where.table, json_of(where.records.front()), std::to_string(where.server_cores.size())},
         .environment = registry(where),
         .cores = where.server_cores,
         .log = where.scratch / "holdfast_net.log"});
}

}  // namespace

subject holdfast_serve() {
    return {.name = "holdfast serve",
            .ours = true,
            .how_fixed = "looks the one entry up in the shared table, counts and times the request",
            .how_lookup = "looks the entry up in the shared table, counts and times the request",
            .version = version_of,
            .start = start_serve};
}

subject holdfast_net() {
    return {.name = "holdfast::net",
            .ours = true,
            .how_fixed = "a handler that answers a constant",
            .how_lookup = "a handler that looks the entry up in the shared hash_table and writes its JSON",
            .version = version_of,
            .start = start_net};
}

}  // namespace holdfast::bench::http
