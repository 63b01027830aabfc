// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include "http/load_generator.hpp"
#include "net/file_descriptor.hpp"
#include "support/http_server.hpp"

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

load_plan plan_for(std::uint16_t port) {
    load_plan plan{.port = port, .connections = 4};
    plan.warm_up = 5ms;
    plan.duration = 50ms;
    plan.spin = false;
    return plan;
}

TEST(LoadGenerator, CountsTheAnswersOfItsWindow) {
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

TEST(LoadGenerator, PipelinesAndChecksTheOrder) {
    test::running_server server(answer_record);
    server.start();
    load_plan plan = plan_for(server.port());
    plan.pipeline = 16;
    EXPECT_GT(run_load(plan, make_exchanges("t", records, false)).answers, 16U);
}

TEST(LoadGenerator, MakesAConnectionForEachRequest) {
    test::running_server server(answer_record);
    server.start();
    load_plan plan = plan_for(server.port());
    plan.connection_per_request = true;
    const load_outcome outcome = run_load(plan, make_exchanges("t", records, true));
    server.stop();
    EXPECT_GT(outcome.answers, 4U);
    EXPECT_EQ(server.counters().accepted, server.counters().requests);
}

TEST(LoadGenerator, KeepsToTheRate) {
    test::running_server server(answer_record);
    server.start();
    load_plan plan = plan_for(server.port());
    plan.rate_hz = 1000;
    plan.duration = 200ms;
    const load_outcome outcome = run_load(plan, make_exchanges("t", records, false));
    server.stop();
    EXPECT_EQ(outcome.latency_ns.size(), 200U);   // those meant to start in the window, however long they took
    EXPECT_EQ(server.counters().requests, 205U);  // and those of the warm-up
    EXPECT_EQ(server.counters().accepted, 4U);
}

// Attacks I1: while the server stands still, its only connection is taken. A client that waited for it would report one
// slow request; the users of those that were due in the meantime waited too.
TEST(LoadGenerator, CountsTheWaitOfRequestsThatWereDueWhileTheServerStood) {
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
    ASSERT_EQ(outcome.latency_ns.size(), 300U);
    const auto slow = std::ranges::count_if(outcome.latency_ns, [](std::uint32_t ns) { return ns > 10'000'000; });
    EXPECT_GE(slow, 90);  // of the 100 that were due
    EXPECT_GE(*std::ranges::max_element(outcome.latency_ns), 100'000'000U);
}

TEST(LoadGenerator, AWrongBodyEndsTheRun) {
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

TEST(LoadGenerator, AWrongStatusEndsTheRun) {
    test::running_server server([](const net::request& from, net::response& to) {
        answer_record(from, to);
        to.status(203);
    });
    server.start();
    EXPECT_THROW((void)run_load(plan_for(server.port()), make_exchanges("t", records, false)), wrong_answer);
    EXPECT_THROW(ask_once(server.port(), make_exchanges("t", records, false).front(), 5s), wrong_answer);
}

TEST(LoadGenerator, AConnectionThatIsNotKeptEndsTheRun) {
    test::running_server server([](const net::request& from, net::response& to) {
        answer_record(from, to);
        to.close();
    });
    server.start();
    EXPECT_THROW((void)run_load(plan_for(server.port()), make_exchanges("t", records, false)), server_failed);
}

TEST(LoadGenerator, AServerThatDoesNotAnswerEndsTheRun) {
    const net::file_descriptor silent(net::listen_tcp("127.0.0.1:0"));  // the kernel accepts, nobody answers
    load_plan plan = plan_for(net::bound_port(silent.get()));
    plan.patience = 50ms;
    EXPECT_THROW((void)run_load(plan, make_exchanges("t", records, false)), server_failed);
    EXPECT_THROW(ask_once(plan.port, make_exchanges("t", records, false).front(), 50ms), server_failed);
}

TEST(LoadGenerator, NobodyListeningEndsTheRun) {
    net::file_descriptor gone(net::listen_tcp("127.0.0.1:0"));
    const std::uint16_t port = net::bound_port(gone.get());
    gone.reset();
    EXPECT_THROW((void)run_load(plan_for(port), make_exchanges("t", records, false)), server_failed);
}

TEST(LoadGenerator, RefusesPlansThatMeanNothing) {
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
