// SPDX-License-Identifier: Apache-2.0
#include "net/load_client.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <map>
#include <set>
#include <string>
#include <thread>

#include "holdfast/error.hpp"
#include "holdfast/memory/descriptor.hpp"
#include "support/http_server.hpp"
#include "support/process.hpp"
#include "support/scale.hpp"

namespace {

using namespace holdfast;
using namespace std::chrono_literals;
using net::load_outcome;
using test::echo;
using test::get;
using test::numbered;
using test::running_server;

// Attacks I1: each request must have exactly one outcome, and its response must be its own.
class ledger {
 public:
    explicit ledger(std::uint64_t most) : most_(most) {}

    net::load_client::next_request next() {
        return [this](unsigned, std::string& bytes) -> std::optional<std::uint64_t> {
            if (made_ == most_) return std::nullopt;
            bytes += get(numbered(static_cast<int>(made_)));
            return made_++;
        };
    }
    net::load_client::on_result result() {
        return [this](const net::load_result& r) {
            EXPECT_TRUE(seen_.insert(r.tag).second) << "two outcomes for request " << r.tag;
            ++outcomes_[r.outcome];
            unsent_ += r.sent ? 0 : 1;
            if (r.outcome != load_outcome::response) return;
            EXPECT_TRUE(r.sent);
            EXPECT_EQ(r.status, 200);
            EXPECT_EQ(r.body, "GET " + numbered(static_cast<int>(r.tag)) + " ");
        };
    }
    [[nodiscard]] std::uint64_t made() const { return made_; }
    [[nodiscard]] std::uint64_t accounted() const { return seen_.size(); }
    [[nodiscard]] std::uint64_t count(load_outcome outcome) { return outcomes_[outcome]; }
    [[nodiscard]] std::uint64_t unsent() const { return unsent_; }

 private:
    std::uint64_t most_;
    std::uint64_t made_ = 0;
    std::uint64_t unsent_ = 0;
    std::set<std::uint64_t> seen_;
    std::map<load_outcome, std::uint64_t> outcomes_;
};

TEST(LoadClient, AccountsForEveryRequest) {
    for (const unsigned pipeline : {1U, 7U}) {
        running_server server(echo);
        server.start();
        ledger book(test::scaled(5000));
        net::load_client client({.port = server.port(), .connections = 9, .pipeline = pipeline}, book.next(),
                                book.result());
        EXPECT_TRUE(client.run());
        EXPECT_EQ(book.accounted(), book.made());
        EXPECT_EQ(book.count(load_outcome::response), book.made());
        EXPECT_EQ(client.counters().connected, 9U);
        EXPECT_EQ(client.counters().lost, 0U);
    }
}

TEST(LoadClient, ReconnectsWhenTheServerClosesInOrder) {
    int count = 0;
    running_server server([&](const net::request& r, net::response& w) {
        echo(r, w);
        if (++count % 10 == 0) w.close();
    });
    server.start();
    ledger book(500);
    net::load_client client({.port = server.port(), .connections = 4}, book.next(), book.result());
    EXPECT_TRUE(client.run());
    EXPECT_EQ(book.count(load_outcome::response), 500U);
    EXPECT_EQ(client.counters().closed_idle, 50U);
    EXPECT_GE(client.counters().connected, 50U);
}

TEST(LoadClient, ReportsRefusalsAndGoesOnTrying) {
    const int listener = net::listen_tcp("127.0.0.1:0");
    const std::uint16_t port = net::bound_port(listener);
    ::close(listener);
    ledger book(10);
    net::load_client* stop = nullptr;
    int refusals = 0;
    net::load_client client({.port = port, .connections = 2}, book.next(), book.result(), [&](unsigned, int code) {
        EXPECT_EQ(code, ECONNREFUSED);
        if (++refusals == 20) stop->stop();
    });
    stop = &client;
    EXPECT_FALSE(client.run());
    EXPECT_EQ(book.made(), 0U) << "a refused connection is no request";
    EXPECT_GE(client.counters().refused, 20U);
}

TEST(LoadClient, ReportsTimeOutsAndNonsense) {
    running_server server([](const net::request&, net::response& w) { w.body(std::string(64U << 20U, 'x')); });
    server.start();
    int timed_out = 0;
    net::load_client slow(
        {.port = server.port(), .connections = 1, .request_timeout = 1ms},
        [made = 0](unsigned, std::string& bytes) mutable -> std::optional<std::uint64_t> {
            if (made++ == 1) return std::nullopt;
            bytes += get("/");
            return 1;
        },
        [&](const net::load_result& r) { timed_out += r.outcome == load_outcome::timed_out ? 1 : 0; });
    EXPECT_TRUE(slow.run());
    EXPECT_EQ(timed_out, 1);
}

TEST(LoadClient, FinishLetsRequestsInFlightEnd) {
    running_server server(echo);
    server.start();
    ledger book(UINT64_MAX);
    std::atomic<std::uint64_t> answered{0};
    const auto record = book.result();
    net::load_client client({.port = server.port(), .connections = 8, .pipeline = 4}, book.next(),
                            [&](const net::load_result& r) { record(r), ++answered; });
    std::jthread ender([&] {
        while (answered < 500) std::this_thread::yield();
        client.finish();
    });
    EXPECT_TRUE(client.run());
    EXPECT_EQ(book.count(load_outcome::response), book.made());
}

TEST(LoadClient, RefusesNonsense) {
    ledger book(1);
    EXPECT_THROW(net::load_client({.host = "localhost", .port = 1}, book.next(), book.result()), error);
    EXPECT_THROW(net::load_client({.port = 0}, book.next(), book.result()), error);
    EXPECT_THROW(net::load_client({.port = 1, .pipeline = 0}, book.next(), book.result()), error);
}

// A drain under load must not cost a client a single request. All take from one queue, held by the test as a supervisor
// holds it: a queue of its own that each closes would reset who comes between the last accept and the close.
TEST(LoadClient, DrainLosesNothing) {
    const memory::descriptor listener(net::listen_tcp("127.0.0.1:0"));
    const std::uint16_t port = net::bound_port(listener.get());
    const auto serving = [&] {
        return std::make_unique<net::server>(std::vector{::dup(listener.get())}, net::server_options{}, echo);
    };
    ledger book(UINT64_MAX);
    std::atomic<std::uint64_t> answered{0};
    const auto record = book.result();
    net::load_client client({.port = port, .connections = 16}, book.next(),
                            [&](const net::load_result& r) { record(r), ++answered; });
    auto server = serving();
    std::thread loop([running = server.get()] { running->run(); });
    std::thread load([&] { client.run(); });
    for (int round = 0; round < 3; ++round) {
        const std::uint64_t mark = answered + 300;
        while (answered < mark) std::this_thread::yield();
        // The successor listens before the predecessor leaves.
        auto successor = serving();
        std::thread next_loop([running = successor.get()] { running->run(); });
        server->drain();
        loop.join();
        server = std::move(successor);
        loop = std::move(next_loop);
    }
    client.finish();
    load.join();
    server->stop();
    loop.join();
    EXPECT_EQ(client.counters().lost, 0U);
    EXPECT_EQ(book.count(load_outcome::response), book.made());
    EXPECT_EQ(client.counters().refused, 0U);
}

// What a kill may cost: at most what was in flight, each such request named, and nothing answered wrongly.
TEST(LoadClient, KillLosesOnlyWhatIsInFlight) {
    const int listener = net::listen_tcp("127.0.0.1:0");
    const std::uint16_t port = net::bound_port(listener);
    const auto serve = [&] {
        net::server server({::dup(listener)}, {}, echo);
        server.run();
    };
    ledger book(UINT64_MAX);
    std::atomic<std::uint64_t> answered{0};
    const auto record = book.result();
    net::load_client client({.port = port, .connections = 8, .pipeline = 2}, book.next(),
                            [&](const net::load_result& r) {
                                record(r);
                                if (r.outcome == load_outcome::response) ++answered;
                            });
    test::child_process first(serve);
    std::thread load([&] { client.run(); });
    const auto more = [&] {
        const std::uint64_t mark = answered + 500;
        while (answered < mark) std::this_thread::yield();
    };
    more();
    EXPECT_EQ(first.kill().signal, SIGKILL);
    for (int round = 0; round < 3; ++round) {
        test::child_process next(serve);  // takes over the queue that filled meanwhile
        more();
        EXPECT_EQ(next.kill().signal, SIGKILL);
    }
    test::child_process last(serve);
    more();
    client.finish();
    load.join();
    EXPECT_EQ(book.accounted(), book.made());
    EXPECT_EQ(book.count(load_outcome::malformed), 0U);
    EXPECT_LE(book.count(load_outcome::lost), 4U * 8U * 2U);
    EXPECT_EQ(book.count(load_outcome::response) + book.count(load_outcome::lost), book.made());
    ::close(listener);
}

}  // namespace
