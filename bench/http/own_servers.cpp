// SPDX-License-Identifier: Apache-2.0
// own_servers.cpp - our subjects: `holdfast serve` as users run it, a server written with the library on either engine,
// and the floor beneath all.
#include <charconv>
#include <utility>

#include "holdfast/net/server.hpp"
#include "http/http_targets.hpp"
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

running_server start_serve(const site& where, const char* engine) {
    const std::string workers = std::to_string(where.server_cores.size());
    return start_serving(where, {where.table, "--engine", engine, "--workers", workers, "--counters",
                                 where.table + "-counts-" + engine + "-" + workers});
}

running_server start_net(const site& where, answer_kind kind, const char* engine) {
    return start_announcing({.arguments = {where.own_servers / "http_net_server", engine, word_of(kind), where.table,
                                           std::to_string(where.server_cores.size())},
                             .environment = registry(where),
                             .cores = where.server_cores,
                             .log = where.scratch / "holdfast_net.log"});
}

subject net_subject(std::string name, const char* engine) {
    return {.name = std::move(name),
            .ours = true,
            .how = {{answer_kind::computed,
                     "a handler that computes user and name from the id in the path and writes the JSON"},
                    {answer_kind::lookup,
                     "a handler that looks the entry up in the shared hash_table and writes its JSON"}},
            .version = version_of,
            .start = [engine](const site& where, answer_kind kind) { return start_net(where, kind, engine); }};
}

subject serve_subject(std::string name, const char* engine) {
    const char* const how = "looks the entry up in the shared table, counts and times the request";
    return {.name = std::move(name),
            .ours = true,
            .how = {{answer_kind::computed, how}, {answer_kind::lookup, how}},
            .version = version_of,
            .start = [engine](const site& where, answer_kind) { return start_serve(where, engine); }};
}

subject needing_io_uring(subject made) {
    made.version = [](const site& where) {
        if (const std::string lack = net::io_uring_lack(); !lack.empty()) throw unavailable(lack);
        return version_of(where);
    };
    return made;
}

running_server start_bare_loop(const site& where, answer_kind) {
    const std::vector<record> first{where.records.front()};
    return start_announcing(
        {.arguments = {where.own_servers / "http_floor_server", json_of(first.front()),
                       std::to_string(make_exchanges(where.table, first, false).front().request.size()),
                       std::to_string(where.server_cores.size())},
         .environment = {},
         .cores = where.server_cores,
         .log = where.scratch / "bare_loop.log"});
}

}  // namespace

running_server start_serving(const site& where, std::vector<std::string> words) {
    words.insert(words.begin(), {where.program, "serve", "--listen", "127.0.0.1:0"});
    running_server server;
    server.process = std::make_unique<child_process>(child_options{.arguments = std::move(words),
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

subject holdfast_serve_epoll() { return serve_subject(serve_epoll_name, "epoll"); }
subject holdfast_serve_io_uring() { return needing_io_uring(serve_subject(serve_io_uring_name, "io_uring")); }
subject holdfast_net_epoll() { return net_subject(net_epoll_name, "epoll"); }
subject holdfast_net_io_uring() { return needing_io_uring(net_subject(net_io_uring_name, "io_uring")); }

subject bare_loop() {
    return {
        .name = floor_name,
        .only_kept = true,
        .how = {{answer_kind::computed, "epoll_wait, recv and send of a constant; it looks at no byte of a request"}},
        .lack = "it reads no request, so it has one answer and never closes",
        .version = version_of,
        .start = start_bare_loop};
}

}  // namespace holdfast::bench::http
