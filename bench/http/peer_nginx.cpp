// SPDX-License-Identifier: Apache-2.0
// peer_nginx.cpp - nginx. The answers are `return`ed from its configuration, which is the shortest way through it: no
// file is touched. The lookup is its `map`, a hash table in memory whose values are finished answers.
#include <unistd.h>

#include "http/subject.hpp"

namespace holdfast::bench::http {

namespace {

std::string version_of(const site& where) {
    const auto log = where.scratch / "nginx_version.log";  // it writes its version to standard error
    std::filesystem::remove(log);
    child_process asked({.arguments = {find_program(where, "nginx"), "-v"},
                         .environment = {library_path(where)},
                         .cores = {},
                         .log = log});
    (void)asked.read_all(std::chrono::seconds(10));
    return asked.log_text();
}

std::string configuration(const site& where, answer_kind kind, std::uint16_t port,
                          const std::filesystem::path& folder) {
    std::string text = ::geteuid() == 0 ? "user root;\n" : "";
    text += "daemon off;\nworker_processes " + std::to_string(where.server_cores.size()) +
            ";\nworker_rlimit_nofile 4096;\n";
    text += "pid " + (folder / "pid").string() + ";\nerror_log stderr crit;\n";
    // One worker a core and a listener each: nothing to take turns for.
    text += "events { worker_connections 2048; use epoll; multi_accept on; accept_mutex off; }\nhttp {\n";
    text +=
        "access_log off; server_tokens off; etag off; default_type application/json; add_header Cache-Control "
        "no-store;\n";
    text +=
        "keepalive_requests 1000000000; keepalive_timeout 600s; tcp_nodelay on; sendfile on; reset_timedout_connection "
        "on;\n";
    for (const char* const name : {"client_body", "proxy", "fastcgi", "uwsgi", "scgi"})
        text.append(name).append("_temp_path ").append((folder / name).string()).append(";\n");
    if (kind == answer_kind::lookup) {
        text += "map_hash_max_size 262144; map_hash_bucket_size 128;\nmap $uri $found {\n";
        for (const record& r : where.records) text += path_of(where.table, r) + " '" + json_of(r) + "';\n";
        text += "}\n";
    }
    const std::string answer = kind == answer_kind::lookup ? std::string("$found") : json_of(where.records.front());
    text.append("server { listen 127.0.0.1:").append(std::to_string(port)).append(" reuseport backlog=4096;\n");
    text.append("location / { return 200 '").append(answer).append("'; } }\n}\n");
    return text;
}

running_server start(const site& where, answer_kind kind) {
    const auto folder = where.scratch / "nginx";
    std::filesystem::create_directories(folder);
    running_server server;
    server.port = free_port();
    write_file(folder / "nginx.conf", configuration(where, kind, server.port, folder));
    server.process = std::make_unique<child_process>(
        child_options{.arguments = {find_program(where, "nginx"), "-p", folder.string() + "/", "-e", "stderr", "-c",
                                    (folder / "nginx.conf").string()},
                      .environment = {library_path(where)},
                      .cores = where.server_cores,
                      .log = folder / "log"});
    return server;
}

}  // namespace

subject nginx() {
    return {.name = "nginx",
            .how = {{answer_kind::computed, "returns a constant from its configuration; it cannot compute"},
                    {answer_kind::lookup, "map of the path to a finished answer, in memory; no JSON is written"}},
            .version = version_of,
            .start = start};
}

}  // namespace holdfast::bench::http
