// SPDX-License-Identifier: Apache-2.0
#include "net/load_client.hpp"

#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <map>
#include <set>
#include <string>
#include <thread>

#include "holdfast/error.hpp"
#include "net/response_reader.hpp"
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

// --- response_reader

// All responses of a stream fed in pieces of `step` bytes.
std::string read_in_steps(std::string_view stream, std::size_t step) {
    net::response_reader reader;
    std::string text;
    for (std::size_t at = 0; at <= stream.size(); at += step) {
        const bool ended = at + step > stream.size();
        reader.buffer().append(stream.substr(at, step));
        while (true) {
            const auto status = reader.next(false, ended);
            if (status == net::response_reader::status::malformed) return text + "malformed";
            if (status == net::response_reader::status::need_more) break;
            text +=
                std::to_string(reader.code()) + (reader.closes() ? "!" : "") + "[" + std::string(reader.body()) + "]";
            reader.drop();
            if (reader.buffer().empty()) break;
        }
    }
    return text;
}

TEST(ResponseReader, ReadsEveryFramingHoweverCut) {
    const std::pair<std::string_view, std::string_view> cases[] = {
        {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhiHTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
         "200[hi]404[]"},
        {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n", "204[]"},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n1\r\n!\r\n0\r\n\r\nHTTP/1.1 304 x\r\n\r\n",
         "200[hi!]304[]"},
        {"HTTP/1.1 200 OK\r\n\r\nto the end", "200![to the end]"},
        {"HTTP/1.1 503 Busy\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx", "503![x]"},
        {"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", "malformed"},
        {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n", "malformed"},
        {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", "malformed"},
        {"HTTP/1.1 OK\r\n\r\n", "malformed"},
        {"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "malformed"},
    };
    for (const auto& [stream, expected] : cases)
        for (std::size_t step = 1; step <= stream.size() + 1; ++step)
            ASSERT_EQ(read_in_steps(stream, step), expected) << stream << " in steps of " << step;
}

// --- load_client

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

// A drain under load must not cost a client a single request.
TEST(LoadClient, DrainLosesNothing) {
    const int first = net::listen_tcp("127.0.0.1:0", {.reuse_port = true});
    const std::uint16_t port = net::bound_port(first);
    ledger book(UINT64_MAX);
    std::atomic<std::uint64_t> answered{0};
    const auto record = book.result();
    net::load_client client({.port = port, .connections = 16}, book.next(),
                            [&](const net::load_result& r) { record(r), ++answered; });
    auto server = std::make_unique<net::server>(std::vector{first}, net::server_options{}, echo);
    std::thread loop([running = server.get()] { running->run(); });
    std::thread load([&] { client.run(); });
    for (int round = 0; round < 3; ++round) {
        const std::uint64_t mark = answered + 300;
        while (answered < mark) std::this_thread::yield();
        // The successor listens before the predecessor leaves.
        auto successor = std::make_unique<net::server>(
            std::vector{net::listen_tcp("127.0.0.1:" + std::to_string(port), {.reuse_port = true})},
            net::server_options{}, echo);
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
