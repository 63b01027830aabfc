// SPDX-License-Identifier: Apache-2.0
// The client of the connections suite against servers that behave and that do not, and what is planned before it runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "holdfast/net/listener.hpp"
#include "holdfast/net/range.hpp"
#include "holdfast/net/server.hpp"
#include "workload/connections/byte_exchange.hpp"
#include "workload/connections/connection_client.hpp"
#include "workload/connections/idle_calendar.hpp"
#include "workload/connections/machine_limits.hpp"
#include "workload/connections/memory_use.hpp"
#include "workload/http_load/load_generator.hpp"
#include "workload/shared_pages.hpp"

namespace {

using namespace holdfast;
using namespace holdfast::workload::connections;
using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::IsEmpty;

/// A server in a thread, until the end of the test.
class served {
 public:
    explicit served(net::handler answer, std::size_t connections_max = 1000) {
        net::server_options options;
        options.limits.connections_max = connections_max;
        const int listener = net::listen_tcp("127.0.0.1:0");
        port_ = net::bound_port(listener);
        server_ = std::make_unique<net::server>(std::vector<int>{listener}, options, std::move(answer));
        loop_ = std::thread([this] { server_->run(); });
    }
    ~served() {
        server_->stop();
        loop_.join();
    }
    served(const served&) = delete;
    served& operator=(const served&) = delete;
    [[nodiscard]] client_plan plan(std::size_t connections) const {
        return {
            .server = workload::http::loopback(port_), .connections = connections, .idle = {.least = 1ms, .most = 9ms}};
    }

 private:
    std::uint16_t port_ = 0;
    std::unique_ptr<net::server> server_;
    std::thread loop_;
};

void answer_rightly(const net::request& asked, net::response& to) {
    static const std::string bytes = random_bytes();
    to.body(std::string_view(bytes));
    net::answer_representation(asked, {}, "application/octet-stream", to);
}

/// Runs the client until `enough` holds.
void run_until(const client_plan& plan, board& told, const std::function<bool()>& enough) {
    std::thread watcher([&] {
        while (!enough()) std::this_thread::yield();
        told.to_all().stop.store(1);
    });
    told.to_all().begin.store(1);
    run_client(plan, told);
    watcher.join();
}

TEST(ConnectionClient, HoldsAllAndAsksAgainAndAgain) {
    const served server(answer_rightly);
    board told(1);
    told.to_all().interval.store(2);
    client_words& words = told.of(0);
    run_until(server.plan(100), told, [&] { return words.answers.read() >= 1000; });
    EXPECT_EQ(words.opened.read(), 100U);
    EXPECT_EQ(words.refused.read() + words.lost.read() + words.timed_out.read(), 0U);
    EXPECT_EQ(told.latencies(2).total(), words.answers.read() - 100);  // all but the first of each
    EXPECT_EQ(told.latencies(0).total(), 0U);
    const double mean = static_cast<double>(words.body_bytes.read()) / static_cast<double>(words.answers.read());
    EXPECT_NEAR(mean, 2048.5, 300);  // 1000 draws have a standard error of 37
}

TEST(ConnectionClient, EndsWithAWrongAnswer) {
    std::atomic<int> count{0};
    const served server([&count](const net::request& asked, net::response& to) {
        answer_rightly(asked, to);
        if (++count == 20) to.body_buffer().back() ^= 1;
    });
    board told(1);
    told.to_all().begin.store(1);
    EXPECT_THROW(run_client(server.plan(5), told), workload::http::wrong_answer);
}

TEST(ConnectionClient, EndsWithAnAnswerThatIsNotARange) {
    const served server([](const net::request&, net::response& to) { to.body("all of it"); });
    board told(1);
    told.to_all().begin.store(1);
    EXPECT_THROW(run_client(server.plan(1), told), workload::http::wrong_answer);
}

TEST(ConnectionClient, CountsThoseThatAreRefused) {
    const served server(answer_rightly, 3);
    board told(1);
    client_words& words = told.of(0);
    run_until(server.plan(8), told,
              [&] { return words.opened.read() + words.refused.read() + words.lost.read() >= 8; });
    EXPECT_EQ(words.opened.read(), 3U);
    EXPECT_EQ(words.refused.read() + words.lost.read(), 5U);
}

TEST(ConnectionClient, CountsThoseThatAreLost) {
    std::atomic<int> count{0};
    const served server([&count](const net::request& asked, net::response& to) {
        answer_rightly(asked, to);
        if (++count % 10 == 0) to.close();
    });
    board told(1);
    client_words& words = told.of(0);
    run_until(server.plan(10), told, [&] { return words.lost.read() >= 4; });
    EXPECT_EQ(words.refused.read() + words.timed_out.read(), 0U);
}

TEST(ConnectionClient, CountsThoseThatNobodyListensTo) {
    std::uint16_t port = 0;
    {
        const int listener = net::listen_tcp("127.0.0.1:0");
        port = net::bound_port(listener);
        ::close(listener);
    }
    board told(1);
    client_words& words = told.of(0);
    const client_plan plan{.server = workload::http::loopback(port), .connections = 5};
    run_until(plan, told, [&] { return words.refused.read() == 5; });
    EXPECT_EQ(words.refusal.load(), ECONNREFUSED);
}

TEST(IdleCalendar, GivesEachOnceAtItsSlotOrTheNext) {
    idle_calendar calendar(1000, 5000, 10, 400);
    quick_random random(1);
    std::vector<std::uint64_t> wanted(1000);
    for (std::uint32_t i = 0; i < 1000; ++i) calendar.add(i, wanted[i] = 5000 + random.below(400));
    std::vector<int> seen(1000);
    for (std::uint64_t now = 5000; now <= 5410; now += 7) {
        calendar.advance(now, [&](std::uint32_t i, std::uint64_t at) {
            ++seen[i];
            EXPECT_LE(wanted[i], at);
            EXPECT_LT(at, wanted[i] + 10);
            EXPECT_LE(at, now);
        });
        EXPECT_GT(calendar.next_ns(now + 1000), now);
    }
    EXPECT_THAT(seen, testing::Each(1));
    EXPECT_EQ(calendar.next_ns(9999), 9999U);
}

TEST(IdleCalendar, TakesInAgainWhatItGives) {
    idle_calendar calendar(1, 0, 10, 100);
    calendar.add(0, 3);
    int times = 0;
    for (std::uint64_t now = 0; now < 5000; now += 5)
        calendar.advance(now, [&](std::uint32_t i, std::uint64_t at) {
            ++times;
            calendar.add(i, at + 97);
        });
    EXPECT_EQ(times, 50);
}

TEST(ConnectionPlan, SpreadsOverAsManyProcessesAsTheLimitAsksFor) {
    const process_plan plan = plan_processes(600'000, 20'000, 2);
    EXPECT_EQ(plan.server_holds, 19'936U);
    EXPECT_EQ(plan.servers, 38U);  // with a quarter to spare
    EXPECT_EQ(plan.clients, 31U);
    EXPECT_EQ(plan_processes(5'000, 1U << 20U, 4).servers, 4U);
    EXPECT_EQ(plan_processes(5'000, 1U << 20U, 4).clients, 4U);
    EXPECT_GT(plan_processes(5'000, 10, 1).servers, 50U);  // and never a division by nothing
}

TEST(ConnectionPlan, SaysWhatIsLackingAndTheCure) {
    const process_plan plan = plan_processes(1'000'000, 20'000, 2);
    machine_facts there{.memory_bytes = 64ULL << 30U,
                        .files_open = 2'000,
                        .files_max = 4'000'000,
                        .watches_max = 5'000'000,
                        .ports = 28'232,
                        .queue_max = 4'096};
    EXPECT_THAT(lacks_of(plan, there), IsEmpty());
    EXPECT_THAT(lacks_of(plan, {}), IsEmpty());  // what the system does not tell is not held against it
    there.files_max = 2'000'000;
    EXPECT_THAT(lacks_of(plan, there), testing::ElementsAre(HasSubstr("sysctl -w fs.file-max=2012000")));
    there.memory_bytes = 8ULL << 30U;
    there.tracked_max = 65'536;
    there.ports = 100;
    EXPECT_THAT(lacks_of(plan, there),
                testing::ElementsAre(HasSubstr("of memory"), HasSubstr("file-max"),
                                     HasSubstr("nf_conntrack_max=1000000"), HasSubstr("ip_local_port_range")));
    EXPECT_THAT(lacks_of(plan_processes(1'000'000, 1'024, 2), {}), testing::ElementsAre(HasSubstr("ulimit -Hn")));
}

TEST(MemoryUse, IsThatOfTheProcessAndOfTheKernel) {
    const std::vector<pid_t> me{::getpid()};
    const std::uint64_t before = user_bytes(me);
    const workload::shared_pages more(std::size_t{8} << 20U);  // new pages: the heap may have some left
    std::ranges::fill(more.bytes(), std::byte{1});
    EXPECT_GE(user_bytes(me), before + (std::uint64_t{6} << 20U));
    EXPECT_GT(kernel_bytes_now().slab, 0U);
    EXPECT_THROW((void)user_bytes({1 << 30}), std::runtime_error);
    EXPECT_EQ(growth_text({{"a", 100}, {"b", 5}}, {{"a", 400}, {"b", 6}, {"c", 90}}, 3), "a 100, c 30");
}

}  // namespace
