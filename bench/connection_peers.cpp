// SPDX-License-Identifier: Apache-2.0
// connection_peers.cpp - nginx as a subject of the connections suite. It answers from one file that it opens once, by
// sendfile; ranges are its own. A worker process for each of ours, and a listener each.
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bench/peers.hpp"
#ifdef HOLDFAST_BENCH_HTTP
#include "http/http_suite.hpp"
#include "http/load.hpp"
#include "http/scratch.hpp"
#include "http/subject.hpp"
#include "workload/connections/byte_exchange.hpp"
#endif
#include "workload/connections_suite.hpp"

namespace holdfast::bench {

#ifdef HOLDFAST_BENCH_HTTP

namespace {

using workload::connections::server_place;

/// Where the programs of the http suite are looked for.
http::site site_of(const http::scratch& scratch) {
    http::site where;
    where.scratch = scratch.folder();
    where.tools = http::options_from_environment().tools;
    return where;
}

std::string configuration(const server_place& place, std::uint16_t port, const std::filesystem::path& folder) {
    const std::string connections = std::to_string(place.connections);
    std::string text = ::geteuid() == 0 ? "user root;\n" : "";
    text += "daemon off;\nworker_processes " + std::to_string(place.workers) + ";\n";
    text += "worker_rlimit_nofile " + std::to_string(place.descriptors) + ";\n";
    text += "pid " + (folder / "pid").string() + ";\nerror_log stderr crit;\n";
    text += "events { worker_connections " + connections + "; use epoll; multi_accept on; accept_mutex off; }\n";
    text += "http {\naccess_log off; server_tokens off; etag off; default_type application/octet-stream;\n";
    text +=
        "keepalive_requests 1000000000; keepalive_timeout 600s; tcp_nodelay on; sendfile on; reset_timedout_connection "
        "on;\nopen_file_cache max=16 inactive=86400s; open_file_cache_valid 86400s;\n";
    for (const char* const name : {"client_body", "proxy", "fastcgi", "uwsgi", "scgi"})
        text.append(name).append("_temp_path ").append((folder / name).string()).append(";\n");
    text.append("server { listen 127.0.0.1:").append(std::to_string(port)).append(" reuseport backlog=4096;\nroot ");
    return text.append(folder.string()).append("; }\n}\n");
}

class nginx_server final : public workload::connections::running_server {
 public:
    explicit nginx_server(const server_place& place) {
        http::adopt_orphans();
        const http::site where = site_of(scratch_);
        const std::string bytes = workload::connections::random_bytes();
        http::write_file(where.scratch / "bytes", bytes);
        server_.port = http::free_port();
        http::write_file(where.scratch / "nginx.conf", configuration(place, server_.port, where.scratch));
        server_.process = std::make_unique<http::child_process>(
            http::child_options{.arguments = {http::find_program(where, "nginx"), "-p", where.scratch.string() + "/",
                                              "-e", "stderr", "-c", (where.scratch / "nginx.conf").string()},
                                .environment = {http::library_path(where)},
                                .cores = {},
                                .log = where.scratch / "log"});
        http::await_answer(server_, {.request = std::string("GET ") + workload::connections::bytes_path +
                                                " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
                                     .body = bytes});
        // It answers as soon as the first of its workers is there.
        const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
        while (server_.process->note_processes(), server_.process->processes().size() <= place.workers) {
            http::check_interruption();
            if (std::chrono::steady_clock::now() > end) throw http::child_failed("its workers did not all start");
            std::this_thread::sleep_for(std::chrono::milliseconds(2));
        }
    }
    [[nodiscard]] std::uint16_t port() const override { return server_.port; }
    [[nodiscard]] std::vector<pid_t> processes() const override { return server_.process->processes(); }
    [[nodiscard]] std::string complaint() override {
        return server_.process->ended() ? "it has ended: " + server_.process->log_text() : std::string();
    }

 private:
    http::scratch scratch_;
    http::running_server server_;
};

std::string version_of_nginx() {
    const http::scratch scratch;
    try {
        return http::nginx().version(site_of(scratch));
    } catch (const http::unavailable& reason) {
        throw workload::connections::unavailable(reason.what());
    }
}

}  // namespace

std::vector<workload::connections::subject> connection_subjects(std::vector<absent_peer>& /*absent*/) {
    std::vector<workload::connections::subject> all = workload::own_connection_subjects();
    all.push_back({.name = "nginx",
                   .how = "a file that stays open, by sendfile",
                   .version = version_of_nginx,
                   .start = [](const server_place& place) { return std::make_unique<nginx_server>(place); }});
    return all;
}

#else

std::vector<workload::connections::subject> connection_subjects(std::vector<absent_peer>& absent) {
    absent.push_back({"nginx", "this build has no suite of HTTP servers"});
    return workload::own_connection_subjects();
}

#endif

}  // namespace holdfast::bench
