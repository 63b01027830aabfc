// SPDX-License-Identifier: Apache-2.0
// own_subjects.cpp - holdfast::net as a program of one's own uses it: a process each worker, a listener each, a
// handler.
#include <unistd.h>

#include <string_view>
#include <utility>

#include "holdfast/net/listener.hpp"
#include "holdfast/net/range.hpp"
#include "holdfast/net/server.hpp"
#include "holdfast/version.hpp"
#include "workload/connections/byte_exchange.hpp"
#include "workload/connections/connection_subject.hpp"
#include "workload/connections/forked_process.hpp"

namespace holdfast::workload::connections {

namespace {

void serve(int listener, net::engine_choice engine, std::size_t connections) {
    raise_descriptors();
    net::server_options options;
    options.engine = engine;
    options.limits.connections_max = connections;
    options.limits.idle_timeout_ms = 600'000;
    const std::string bytes = random_bytes();
    net::server server({listener}, options, [&bytes](const net::request& asked, net::response& answer) {
        if (asked.path() != bytes_path) {
            answer.problem(404, "there is only /bytes");
            return;
        }
        answer.body(std::string_view(bytes));
        net::answer_representation(asked, {}, "application/octet-stream", answer);
    });
    server.run();
}

class own_server final : public running_server {
 public:
    own_server(net::engine_choice engine, const server_place& place) {
        std::string address = "127.0.0.1:0";
        for (std::size_t i = 0; i < place.workers; ++i) {
            const int listener = net::listen_tcp(address, {.reuse_port = true});
            port_ = net::bound_port(listener);
            address = "127.0.0.1:" + std::to_string(port_);
            workers_.push_back(std::make_unique<forked_process>([&] { serve(listener, engine, place.connections); }));
            ::close(listener);
        }
    }
    [[nodiscard]] std::uint16_t port() const override { return port_; }
    [[nodiscard]] std::vector<pid_t> processes() const override {
        std::vector<pid_t> all;
        for (const auto& one : workers_) all.push_back(one->pid());
        return all;
    }
    [[nodiscard]] std::string complaint() override {
        for (const auto& one : workers_)
            if (one->ended()) return "a worker has ended: " + one->complaint();
        return {};
    }

 private:
    std::uint16_t port_ = 0;
    std::vector<std::unique_ptr<forked_process>> workers_;
};

subject net_subject(std::string name, net::engine_choice engine) {
    return {.name = std::move(name),
            .ours = true,
            .how = "a handler that answers ranges of bytes in memory",
            .version =
                [engine] {
                    if (engine == net::engine_choice::io_uring)
                        if (const std::string lack = net::io_uring_lack(); !lack.empty()) throw unavailable(lack);
                    return "holdfast " + std::string(version_text);
                },
            .start = [engine](const server_place& place) { return std::make_unique<own_server>(engine, place); }};
}

}  // namespace

subject net_epoll() { return net_subject("holdfast::net, epoll", net::engine_choice::epoll); }
subject net_io_uring() { return net_subject("holdfast::net, io_uring", net::engine_choice::io_uring); }

}  // namespace holdfast::workload::connections
