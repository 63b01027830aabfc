// SPDX-License-Identifier: Apache-2.0
// http_server.hpp - a server on a free loopback port, running in a thread of the test.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "holdfast/net/listener.hpp"
#include "holdfast/net/server.hpp"

namespace holdfast::test {

/// What a handler does that computes for so long.
inline void compute_for(std::chrono::microseconds work) {
    const auto begun = std::chrono::steady_clock::now();
    while (std::chrono::steady_clock::now() - begun < work) {
    }
}

/// HOLDFAST_TEST_ENGINE=io_uring runs the servers of a program's tests on that engine, and skips the tests where this
/// process may not have it.
class engine_of_tests final : public ::testing::Environment {
 public:
    [[nodiscard]] static net::engine_choice choice() {
        const char* const wanted = std::getenv("HOLDFAST_TEST_ENGINE");
        return wanted != nullptr && std::string_view(wanted) == "io_uring" ? net::engine_choice::io_uring
                                                                           : net::engine_choice::epoll;
    }
    void SetUp() override {
        if (choice() == net::engine_choice::epoll) return;
        if (const std::string lack = net::io_uring_lack(); !lack.empty())
            GTEST_SKIP() << "[  SKIPPED ] " << lack;  // ctest looks for this
    }
};
inline ::testing::Environment* const registered_engine_of_tests =
    ::testing::AddGlobalTestEnvironment(std::make_unique<engine_of_tests>().release());

class running_server {
 public:
    explicit running_server(net::handler answer, net::server_options options = {}, net::listen_options listening = {})
        : listener_(net::listen_tcp("127.0.0.1:0", listening)),
          port_(net::bound_port(listener_)),
          server_({listener_}, on_engine_of_tests(std::move(options)), std::move(answer)) {}
    ~running_server() { stop(); }

    /// The server, before start() or after stop(); its stop() and drain() at any time.
    [[nodiscard]] net::server& get() noexcept { return server_; }
    void start() {
        thread_ = std::thread([this] { server_.run(); });
    }
    void stop() {
        server_.stop();
        join();
    }
    void join() {
        if (thread_.joinable()) thread_.join();
    }

    [[nodiscard]] std::uint16_t port() const noexcept { return port_; }
    /// Only once the loop has ended.
    [[nodiscard]] const net::server_counters& counters() const noexcept { return server_.counters(); }

 private:
    static net::server_options on_engine_of_tests(net::server_options options) {
        options.engine = engine_of_tests::choice();
        return options;
    }

    int listener_;
    std::uint16_t port_;
    net::server server_;
    std::thread thread_;
};

/// What a running server counts, as soon as that is not 0; 0 when it stays so for that long.
[[nodiscard]] inline std::uint64_t counted_by(net::server& server, std::uint64_t net::server_counters::* which,
                                              std::chrono::nanoseconds patience = std::chrono::seconds(20)) {
    const auto last = std::chrono::steady_clock::now() + patience;
    std::uint64_t count = 0;
    while (count == 0 && std::chrono::steady_clock::now() < last) {
        const auto told = std::make_shared<std::promise<std::uint64_t>>();  // the loop's, too
        auto answer = told->get_future();
        if (!server.post([&server, which, told] { told->set_value(server.counters().*which); })) return 0;
        count = answer.get();
    }
    return count;
}

/// Answers with method, target and body, so that a reply tells which request it answers.
inline void echo(const net::request& r, net::response& w) {
    w.header("Content-Type", "text/plain");
    w.body_buffer().append(net::method_name(r.method())).append(" ").append(r.target()).append(" ").append(r.body());
}

/// "/7": a target that tells requests apart.
[[nodiscard]] inline std::string numbered(int number) { return std::string("/").append(std::to_string(number)); }

[[nodiscard]] inline std::string get(std::string_view target, std::string_view fields = {}) {
    return std::string("GET ").append(target).append(" HTTP/1.1\r\nHost: test\r\n").append(fields).append("\r\n");
}
[[nodiscard]] inline std::string post(std::string_view target, std::string_view body, std::string_view fields = {}) {
    return "POST " + std::string(target) + " HTTP/1.1\r\nHost: test\r\nContent-Length: " + std::to_string(body.size()) +
           "\r\n" + std::string(fields) + "\r\n" + std::string(body);
}

}  // namespace holdfast::test
