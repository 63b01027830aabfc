// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "http/exchange.hpp"
#include "http/load.hpp"
#include "net/file_descriptor.hpp"
#include "support/http_server.hpp"
#include "workload/command.hpp"
#include "workload/http_load/load_ring.hpp"
#include "workload/http_load/load_url.hpp"

namespace {

using namespace holdfast;
using namespace holdfast::bench::http;
using namespace std::chrono_literals;

const std::vector<record> records = make_records(100);

/// The right answer to a request of make_exchanges.
void answer_record(const net::request& from, net::response& to) {
    const std::string_view path = from.path();
    to.header("Content-Type", "application/json");
    to.body(json_of(records.at(std::stoul(std::string(path.substr(path.rfind('/') + 1))) - 1)));
}

bool by_ring = true;

/// Each test by io_uring and by epoll.
class LoadGenerator : public testing::TestWithParam<bool> {
 protected:
    void SetUp() override {
        by_ring = GetParam();
        if (by_ring && !workload::http::load_ring::make(1)) GTEST_SKIP() << "no io_uring: " << net::io_uring_lack();
    }
};
class TolerantLoad : public LoadGenerator {};

std::string name_of(const testing::TestParamInfo<bool>& one) { return one.param ? "io_uring" : "epoll"; }
INSTANTIATE_TEST_SUITE_P(By, LoadGenerator, testing::Bool(), name_of);
INSTANTIATE_TEST_SUITE_P(By, TolerantLoad, testing::Bool(), name_of);

load_plan plan_for(std::uint16_t port) {
    load_plan plan{.server = loopback(port), .connections = 4};
    plan.ring = by_ring;
    plan.warm_up = 5ms;
    plan.duration = 50ms;
    plan.spin = false;
    return plan;
}

TEST_P(LoadGenerator, CountsTheAnswersOfItsWindow) {
    test::running_server server(answer_record);
    server.start();
    int begins = 0, ends = 0;
    const load_outcome outcome = run_load(plan_for(server.port()), make_exchanges("t", records, false),
                                          [&](bool begin) { ++(begin ? begins : ends); });
    server.stop();
    EXPECT_EQ(begins, 1);
    EXPECT_EQ(ends, 1);
    EXPECT_GE(outcome.seconds, 0.05);
    EXPECT_GT(outcome.answers, 4U);
    EXPECT_LE(outcome.answers, server.counters().requests);
    EXPECT_EQ(server.counters().accepted, 4U);
    EXPECT_EQ(server.counters().lost, 0U);  // those under way at the end were awaited
}

TEST_P(LoadGenerator, PipelinesAndChecksTheOrder) {
    test::running_server server(answer_record);
    server.start();
    load_plan plan = plan_for(server.port());
    plan.pipeline = 16;
    EXPECT_GT(run_load(plan, make_exchanges("t", records, false)).answers, 16U);
}

// More than one message of the kernel's buffers, and answers that end anywhere in them.
TEST_P(LoadGenerator, PutsAnswersTogetherThatComeInParts) {
    test::running_server server([](const net::request& from, net::response& to) {
        answer_record(from, to);
        to.body(std::string(30'000, 'x') + to.body());
    });
    server.start();
    std::vector<exchange> large = make_exchanges("t", records, false);
    for (exchange& each : large) each.body.insert(0, std::string(30'000, 'x'));
    for (const unsigned pipeline : {1U, 7U}) {
        load_plan plan = plan_for(server.port());
        plan.pipeline = pipeline;
        EXPECT_GT(run_load(plan, large).answers, 8U);
    }
}

TEST_P(LoadGenerator, MakesAConnectionForEachRequest) {
    test::running_server server(answer_record);
    server.start();
    load_plan plan = plan_for(server.port());
    plan.connection_per_request = true;
    const load_outcome outcome = run_load(plan, make_exchanges("t", records, true));
    server.stop();
    EXPECT_GT(outcome.answers, 4U);
    EXPECT_EQ(server.counters().accepted, server.counters().requests);
}

TEST_P(LoadGenerator, KeepsToTheRate) {
    test::running_server server(answer_record);
    server.start();
    load_plan plan = plan_for(server.port());
    plan.rate_hz = 1000;
    plan.duration = 200ms;
    const load_outcome outcome = run_load(plan, make_exchanges("t", records, false));
    server.stop();
    EXPECT_EQ(outcome.latency_ns.total(), 200U);  // those meant to start in the window, however long they took
    EXPECT_EQ(server.counters().requests, 205U);  // and those of the warm-up
    EXPECT_EQ(server.counters().accepted, 4U);
}

// Attacks I1: while the server stands still, its only connection is taken. A client that waited for it would report one
// slow request; the users of those that were due in the meantime waited too.
TEST_P(LoadGenerator, CountsTheWaitOfRequestsThatWereDueWhileTheServerStood) {
    std::atomic<int> asked{0};
    test::running_server server([&](const net::request& from, net::response& to) {
        // relaxed: a count of one thread
        if (asked.fetch_add(1, std::memory_order_relaxed) == 50) std::this_thread::sleep_for(100ms);
        answer_record(from, to);
    });
    server.start();
    load_plan plan = plan_for(server.port());
    plan.connections = 1;
    plan.rate_hz = 1000;
    plan.warm_up = 0ms;
    plan.duration = 300ms;
    const load_outcome outcome = run_load(plan, make_exchanges("t", records, false));
    ASSERT_EQ(outcome.latency_ns.total(), 300U);
    const std::vector<std::uint64_t> fast = outcome.latency_ns.cumulative(std::array{std::uint64_t{1} << 23U});
    EXPECT_LE(fast.front(), 210U);  // 8.4 ms: of the 100 that were due while it stood, 90 took longer
    EXPECT_GE(outcome.latency_ns.greatest_noted(), 100'000'000U);
}

TEST_P(LoadGenerator, AWrongBodyEndsTheRun) {
    std::atomic<int> asked{0};
    test::running_server server([&](const net::request& from, net::response& to) {
        answer_record(from, to);
        // relaxed: a count of one thread
        if (asked.fetch_add(1, std::memory_order_relaxed) == 20) to.body(to.body() + " ");
    });
    server.start();
    try {
        (void)run_load(plan_for(server.port()), make_exchanges("t", records, false));
        FAIL() << "the wrong answer was not seen";
    } catch (const wrong_answer& e) {
        EXPECT_NE(std::string(e.what()).find("GET /v1/tables/t/"), std::string::npos) << e.what();
    }
}

TEST_P(LoadGenerator, AWrongStatusEndsTheRun) {
    test::running_server server([](const net::request& from, net::response& to) {
        answer_record(from, to);
        to.status(203);
    });
    server.start();
    EXPECT_THROW((void)run_load(plan_for(server.port()), make_exchanges("t", records, false)), wrong_answer);
    EXPECT_THROW(ask_once(loopback(server.port()), make_exchanges("t", records, false).front(), 5s), wrong_answer);
}

TEST_P(LoadGenerator, AConnectionThatIsNotKeptEndsTheRun) {
    test::running_server server([](const net::request& from, net::response& to) {
        answer_record(from, to);
        to.close();
    });
    server.start();
    EXPECT_THROW((void)run_load(plan_for(server.port()), make_exchanges("t", records, false)), server_failed);
}

TEST_P(LoadGenerator, AServerThatDoesNotAnswerEndsTheRun) {
    const net::file_descriptor silent(net::listen_tcp("127.0.0.1:0"));  // the kernel accepts, nobody answers
    load_plan plan = plan_for(net::bound_port(silent.get()));
    plan.patience = 50ms;
    EXPECT_THROW((void)run_load(plan, make_exchanges("t", records, false)), server_failed);
    EXPECT_THROW(ask_once(plan.server, make_exchanges("t", records, false).front(), 50ms), server_failed);
}

TEST_P(LoadGenerator, NobodyListeningEndsTheRun) {
    net::file_descriptor gone(net::listen_tcp("127.0.0.1:0"));
    const std::uint16_t port = net::bound_port(gone.get());
    gone.reset();
    EXPECT_THROW((void)run_load(plan_for(port), make_exchanges("t", records, false)), server_failed);
}

load_plan tolerant_plan_for(std::uint16_t port) {
    load_plan plan = plan_for(port);
    plan.tolerant = true;
    plan.warm_up = 0ms;
    plan.patience = 500ms;
    return plan;
}

TEST_P(TolerantLoad, CountsAnswersByStatus) {
    std::atomic<int> asked{0};
    test::running_server server([&](const net::request& from, net::response& to) {
        answer_record(from, to);
        // relaxed: a count of one thread
        if (asked.fetch_add(1, std::memory_order_relaxed) % 4 == 3) to.status(500);
    });
    server.start();
    load_plan plan = tolerant_plan_for(server.port());
    plan.rate_hz = 1000;
    plan.duration = 200ms;
    plan.patience = 5000ms;
    const load_outcome outcome = run_load(plan, make_exchanges("t", records, false));
    server.stop();
    EXPECT_EQ(server.counters().requests, 200U);
    EXPECT_EQ(outcome.latency_ns.total(), 200U);
    EXPECT_EQ(outcome.failures.sum(), 0U);
    EXPECT_EQ(outcome.starts, 200U);
    ASSERT_TRUE(outcome.statuses.contains(200) && outcome.statuses.contains(500));
    EXPECT_EQ(outcome.statuses.at(200) + outcome.statuses.at(500), outcome.answers);
    EXPECT_GT(outcome.cpu_ns, 0U);
}

// A server that closes after each answer costs a connection each, and no request.
TEST_P(TolerantLoad, AClosedConnectionIsMadeAnew) {
    test::running_server server([](const net::request& from, net::response& to) {
        answer_record(from, to);
        to.close();
    });
    server.start();
    load_plan plan = tolerant_plan_for(server.port());
    plan.rate_hz = 500;
    plan.duration = 200ms;
    plan.patience = 5000ms;
    const load_outcome outcome = run_load(plan, make_exchanges("t", records, false));
    server.stop();
    EXPECT_EQ(outcome.latency_ns.total(), 100U);
    EXPECT_EQ(outcome.failures.sum(), 0U);
    EXPECT_GE(server.counters().accepted, 100U);
}

TEST_P(TolerantLoad, RequestsBehindAClosingAnswerAreCounted) {
    test::running_server server([](const net::request& from, net::response& to) {
        answer_record(from, to);
        to.close();
    });
    server.start();
    load_plan plan = tolerant_plan_for(server.port());
    plan.connections = 1;
    plan.pipeline = 4;
    const load_outcome outcome = run_load(plan, make_exchanges("t", records, false));
    EXPECT_GT(outcome.latency_ns.total(), 0U);
    EXPECT_EQ(outcome.failures.sum(), outcome.failures.closed);
    EXPECT_EQ(outcome.failures.closed, 3 * (outcome.latency_ns.total() + 1));  // the first is asked before the window
}

TEST_P(TolerantLoad, ASilentServerTimesOut) {
    const net::file_descriptor silent(net::listen_tcp("127.0.0.1:0"));  // the kernel accepts, nobody answers
    load_plan plan = tolerant_plan_for(net::bound_port(silent.get()));
    plan.patience = 30ms;
    const load_outcome closed = run_load(plan, make_exchanges("t", records, false));
    EXPECT_EQ(closed.answers, 0U);
    EXPECT_GE(closed.failures.timed_out, 4U);
    EXPECT_EQ(closed.failures.sum(), closed.failures.timed_out);
    EXPECT_EQ(closed.latency_ns.total(), 0U);
    plan.rate_hz = 1000;
    plan.duration = 100ms;
    const load_outcome open = run_load(plan, make_exchanges("t", records, false));
    EXPECT_EQ(open.failures.timed_out + open.failures.not_sent, 100U);  // each of the schedule is told of
    EXPECT_GT(open.failures.not_sent, 0U);
}

TEST_P(TolerantLoad, AnswersThatNobodyCanReadAreCounted) {
    const net::file_descriptor listener(net::listen_tcp("127.0.0.1:0"));
    std::atomic<bool> ended{false};
    std::thread babbler([&] {
        while (!ended.load()) {
            const net::file_descriptor one(::accept(listener.get(), nullptr, nullptr));
            if (!one) continue;
            char request[512];
            if (::recv(one.get(), request, sizeof request, 0) > 0)
                (void)::send(one.get(), "SSH-2.0-x\r\n", 11, MSG_NOSIGNAL);
        }
    });
    load_plan plan = tolerant_plan_for(net::bound_port(listener.get()));
    plan.connections = 1;
    const load_outcome outcome = run_load(plan, make_exchanges("t", records, false));
    ended.store(true);
    (void)::shutdown(listener.get(), SHUT_RDWR);
    babbler.join();
    EXPECT_GE(outcome.failures.unreadable, 1U);
    EXPECT_EQ(outcome.answers, 0U);
}

TEST_P(TolerantLoad, NobodyListeningInTheBeginningEndsTheRun) {
    net::file_descriptor gone(net::listen_tcp("127.0.0.1:0"));
    const std::uint16_t port = net::bound_port(gone.get());
    gone.reset();
    EXPECT_THROW((void)run_load(tolerant_plan_for(port), make_exchanges("t", records, false)), server_failed);
}

TEST(LoadUrl, IsTakenApart) {
    const auto whole = workload::http::parse_load_url("http://127.0.0.1:8080/v1/x?a=b#part");
    EXPECT_EQ(whole.request(),
              "GET /v1/x?a=b HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nUser-Agent: holdfast-bench\r\nAccept: */*\r\n\r\n");
    const net::socket_address same = loopback(8080);
    EXPECT_EQ(std::memcmp(&whole.server.storage, &same.storage, sizeof(sockaddr_in)), 0);
    const auto v6 = workload::http::parse_load_url("http://[::1]");
    EXPECT_EQ(v6.server.storage.ss_family, AF_INET6);
    EXPECT_EQ(ntohs(reinterpret_cast<const sockaddr_in6&>(v6.server.storage).sin6_port), 80);
    EXPECT_EQ(workload::http::parse_load_url("http://[::1]:8080/").authority, "[::1]:8080");
    EXPECT_EQ(workload::http::parse_load_url("http://localhost:81?x").target, "/?x");
}

TEST(LoadUrl, RefusalsNameTheCure) {
    const std::vector<std::pair<std::string, std::string>> all{
        {"https://127.0.0.1/", "name a listener without TLS"},
        {"127.0.0.1:8080", "write one as http://"},
        {"", "write one as http://"},
        {"http://", "names are not looked up"},
        {"http://example.org/", "write the address"},
        {"http://127.0.0.1:99999/", "write the address"},
        {"http://127.0.0.1:/", "write the address"},
        {"http://me:secret@127.0.0.1/", "leave out what stands before the @"},
        {"http://127.0.0.1/a b", "%20"},
        {"http://127.0.0.1/\r\nX: y", "control characters"},
    };
    for (const auto& [url, cure] : all) {
        try {
            (void)workload::http::parse_load_url(url);
            ADD_FAILURE() << url << " was taken";
        } catch (const workload::usage_error& e) {
            EXPECT_NE(std::string(e.what()).find(cure), std::string::npos) << e.what();
        }
    }
}

TEST_P(LoadGenerator, RefusesPlansThatMeanNothing) {
    const auto exchanges = make_exchanges("t", records, false);
    load_plan plan = plan_for(1);
    plan.connections = 0;
    EXPECT_THROW((void)run_load(plan, exchanges), std::invalid_argument);
    plan = plan_for(1);
    plan.connection_per_request = true;
    plan.pipeline = 2;
    EXPECT_THROW((void)run_load(plan, exchanges), std::invalid_argument);
    EXPECT_THROW((void)run_load(plan_for(1), {}), std::invalid_argument);
}

}  // namespace
