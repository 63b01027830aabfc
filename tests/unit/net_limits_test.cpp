// SPDX-License-Identifier: Apache-2.0
// What a server withstands: slow, greedy and vanishing clients, its own limits, and running out of descriptors.
// Time-outs are short here and waited for on the socket; nothing sleeps.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <list>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "holdfast/net/server.hpp"
#include "support/http_client.hpp"
#include "support/http_server.hpp"
#include "support/process.hpp"

namespace {

using namespace holdfast;
using namespace std::chrono_literals;
using test::echo;
using test::get;
using test::http_client;
using test::post;
using test::running_server;

net::server_options with(std::uint32_t net::limits::* timeout, std::uint32_t ms) {
    net::server_options options;
    options.limits.*timeout = ms;
    return options;
}

// --- time-outs

TEST(ServerTimeout, SlowHeadIsAnswered408) {
    running_server server(echo, with(&net::limits::header_timeout_ms, 50));
    server.start();
    http_client client(server.port());
    client.send("GET / HTTP/1.1\r\nHost: a\r\n");
    EXPECT_EQ(client.reply().status, 408);
    EXPECT_TRUE(client.ended());
    server.stop();
    EXPECT_EQ(server.counters().header_timeouts, 1U);
}

// A client that sends a byte now and then must not win time by it.
TEST(ServerTimeout, TricklingHeadIsAnswered408AllTheSame) {
    running_server server(echo, with(&net::limits::header_timeout_ms, 400));
    server.start();
    http_client client(server.port());
    client.send("GET / HTTP/1.1\r\nHost: a\r\nX: ");
    int trickled = 0;
    while (!client.readable(5ms)) {
        (void)client.send_while_possible("x");
        ASSERT_LT(++trickled, 4000);
    }
    EXPECT_EQ(client.reply().status, 408);
    EXPECT_GT(trickled, 3);
}

TEST(ServerTimeout, SlowBodyIsAnswered408) {
    running_server server(echo, with(&net::limits::body_timeout_ms, 50));
    server.start();
    http_client client(server.port());
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc");
    EXPECT_EQ(client.reply().status, 408);
    EXPECT_TRUE(client.ended());
    server.stop();
    EXPECT_EQ(server.counters().body_timeouts, 1U);
}

// Each request has a time of its own: who sends the end of one with the beginning of the next, again and again, is slow
// with none.
TEST(ServerTimeout, RequestsThatOverlapAreTimedOneByOne) {
    net::server_options options = with(&net::limits::header_timeout_ms, 800);
    options.limits.body_timeout_ms = 800;
    running_server server(echo, std::move(options));
    server.start();
    const std::string head = get("/"), body = post("/", std::string(20, 'b'));
    const std::size_t in_head = head.size() - 10, in_body = body.size() - 10;
    http_client with_heads(server.port()), with_bodies(server.port());
    with_heads.send(head.substr(0, in_head));
    with_bodies.send(body.substr(0, in_body));
    for (const auto begin = std::chrono::steady_clock::now(); std::chrono::steady_clock::now() - begin < 2s;) {
        ASSERT_EQ(with_heads.ask(head.substr(in_head) + head.substr(0, in_head)).status, 200);
        ASSERT_EQ(with_bodies.ask(body.substr(in_body) + body.substr(0, in_body)).status, 200);
    }
    server.stop();
    EXPECT_EQ(server.counters().header_timeouts + server.counters().body_timeouts, 0U);
}

TEST(ServerTimeout, IdleConnectionIsClosedInSilence) {
    running_server server(echo, with(&net::limits::idle_timeout_ms, 50));
    server.start();
    http_client fresh(server.port());
    http_client used(server.port());
    EXPECT_EQ(used.ask(get("/")).status, 200);
    EXPECT_TRUE(fresh.ended());
    EXPECT_TRUE(used.ended());
    server.stop();
    EXPECT_EQ(server.counters().idle_timeouts, 2U);
}

TEST(ServerTimeout, RequestsKeepAConnectionFromBeingIdle) {
    running_server server(echo, with(&net::limits::idle_timeout_ms, 400));
    server.start();
    http_client client(server.port()), other(server.port());
    const auto begin = std::chrono::steady_clock::now();
    while (std::chrono::steady_clock::now() - begin < 900ms) {
        ASSERT_EQ(client.ask(get("/")).status, 200);
        ASSERT_EQ(other.ask(get("/") + "\r\n").status, 200) << "an empty line behind it changes nothing";
    }
    server.stop();
    EXPECT_EQ(server.counters().idle_timeouts, 0U);
}

// One that stands before a request is allowed, and begins none.
TEST(ServerTimeout, AnEmptyLineKeepsNoConnectionFromBeingIdle) {
    running_server server(echo, with(&net::limits::idle_timeout_ms, 2000));
    server.start();
    http_client client(server.port());
    EXPECT_EQ(client.ask(get("/")).status, 200);
    EXPECT_FALSE(client.readable(500ms));
    client.send("\r");
    EXPECT_FALSE(client.readable(500ms));
    client.send("\n");
    const auto sent = std::chrono::steady_clock::now();
    EXPECT_TRUE(client.ended());
    EXPECT_LT(std::chrono::steady_clock::now() - sent, 1900ms) << "half of its time was over";
    server.stop();
    EXPECT_EQ(server.counters().idle_timeouts, 1U);
}

// A client that takes nothing of its reply is cut; one that takes it slowly is not.
TEST(ServerTimeout, StuckReaderIsReset) {
    // Longer than a busy machine keeps a client that reads from reading.
    net::server_options options = with(&net::limits::write_timeout_ms, 500);
    running_server server([](const net::request&, net::response& w) { w.body(std::string(8U << 20U, 'x')); },
                          std::move(options));
    server.start();
    http_client client(server.port(), {.receive_buffer = 4096});
    client.send(get("/"));
    http_client other(server.port());
    EXPECT_EQ(other.ask(get("/")).body.size(), 8U << 20U);
    // Nothing is read from `client`: the server has to give up on its own.
    while (true) {
        http_client probe(server.port());
        EXPECT_EQ(probe.ask(get("/")).status, 200);
        if (client.send_while_possible(get("/")) != 0) break;
    }
    server.stop();
    EXPECT_EQ(server.counters().write_timeouts, 1U);
}

TEST(ServerTimeout, AReaderThatHasCaughtUpIsNotStuck) {
    running_server server(
        [](const net::request& asked, net::response& w) {
            w.body(std::string(asked.path() == "/large" ? 8U << 20U : 1, 'x'));  // more than the kernel has room for
        },
        with(&net::limits::write_timeout_ms, 500));
    server.start();
    http_client client(server.port()), other(server.port());
    EXPECT_EQ(client.ask(get("/large")).body.size(), 8U << 20U);
    const auto begin = std::chrono::steady_clock::now();
    while (std::chrono::steady_clock::now() - begin < 1s) ASSERT_EQ(other.ask(get("/")).status, 200);
    EXPECT_EQ(client.ask(get("/")).status, 200);
    server.stop();
    EXPECT_EQ(server.counters().write_timeouts, 0U);
}

// --- limits

TEST(ServerLimit, EachBreachHasItsStatus) {
    net::server_options options;
    options.limits.message = {.target_bytes_max = 32, .header_bytes_max = 256, .headers_max = 4, .body_bytes_max = 64};
    running_server server(echo, std::move(options));
    server.start();
    const auto status = [&](std::string_view bytes) {
        http_client client(server.port());
        client.send(bytes);
        const int code = client.reply().status;
        EXPECT_TRUE(code == 200 || client.ended());
        return code;
    };
    EXPECT_EQ(status(get("/fits")), 200);
    EXPECT_EQ(status(get("/" + std::string(64, 'a'))), 414);
    EXPECT_EQ(status(get("/", "X: " + std::string(256, 'a') + "\r\n")), 431);
    EXPECT_EQ(status(get("/", "A: 1\r\nB: 2\r\nC: 3\r\nD: 4\r\n")), 431);
    EXPECT_EQ(status(post("/", std::string(65, 'x'))), 413);
    EXPECT_EQ(status("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n41\r\n"), 413);
}

TEST(ServerLimit, ConnectionTooManyIsTold503) {
    net::server_options options;
    options.limits.connections_max = 2;
    running_server server(echo, std::move(options));
    server.start();
    auto first = std::make_unique<http_client>(server.port());
    http_client second(server.port());
    EXPECT_EQ(first->ask(get("/")).status, 200);
    EXPECT_EQ(second.ask(get("/")).status, 200);
    http_client third(server.port());
    const auto refused = third.reply();
    EXPECT_EQ(refused.status, 503);
    EXPECT_EQ(refused.field("Content-Type"), "application/problem+json");
    EXPECT_EQ(refused.field("Retry-After"), "1");
    EXPECT_NE(refused.body.find("\"status\":503,\"detail\":\"the server has no room"), std::string::npos)
        << refused.body;
    EXPECT_TRUE(third.gone());
    EXPECT_EQ(second.ask(get("/")).status, 200);
    first->send(get("/", "Connection: close\r\n"));
    EXPECT_EQ(first->reply().status, 200);
    EXPECT_TRUE(first->ended());
    EXPECT_EQ(http_client(server.port()).ask(get("/")).status, 200) << "the place is free again";
    server.stop();
    EXPECT_EQ(server.counters().over_connections_max, 1U);
}

// Attacks I3 of server.hpp: unfinished requests of many connections together.
TEST(ServerLimit, UnfinishedRequestsTogetherAreBounded) {
    net::server_options options;
    options.limits.held_bytes_max = 100'000;
    running_server server(echo, std::move(options));
    server.start();
    std::list<http_client> clients;
    int refused = 0;
    for (int i = 0; i < 8; ++i) {
        auto& client = clients.emplace_back(server.port());
        client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 40000\r\n\r\n" + std::string(30'000, 'x'));
        EXPECT_EQ(http_client(server.port()).ask(get("/")).status, 200) << "others are served";
    }
    for (auto& client : clients) {
        if (client.readable(0ms)) {
            EXPECT_EQ(client.reply().status, 503);
            ++refused;
        } else {
            client.send(std::string(10'000, 'x'));
            EXPECT_EQ(client.reply().status, 200);
        }
    }
    EXPECT_EQ(refused, 5);
    server.stop();
    EXPECT_EQ(server.counters().over_held_bytes, 5U);
}

// Attacks I3 of server.hpp: who comes with little is not turned away for those that hold much.
TEST(ServerLimit, WhoHoldsMostGoesFirst) {
    constexpr std::size_t much = 30'000, little = 5'000;
    const auto half_of = [](std::size_t bytes) {
        return "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: " + std::to_string(2 * bytes) + "\r\n\r\n" +
               std::string(bytes, 'x');
    };
    net::server_options options;
    options.limits.held_bytes_max = 100'000;
    running_server server(echo, std::move(options));
    server.start();
    std::list<http_client> holders, others;
    for (int i = 0; i < 3; ++i) holders.emplace_back(server.port()).send(half_of(much));
    EXPECT_EQ(http_client(server.port()).ask(get("/")).status, 200);  // the three have been read
    for (int i = 0; i < 10; ++i) others.emplace_back(server.port()).send(half_of(little));
    EXPECT_EQ(http_client(server.port()).ask(get("/")).status, 200);
    for (auto& other : others) {
        other.send(std::string(little, 'y'));
        EXPECT_EQ(other.reply().status, 200);
    }
    int refused = 0;
    for (auto& holder : holders) {
        if (!holder.readable(0ms)) {
            holder.send(std::string(much, 'y'));
            EXPECT_EQ(holder.reply().status, 200);
        } else {
            EXPECT_EQ(holder.reply().status, 503);
            ++refused;
        }
    }
    EXPECT_EQ(refused, 2) << "as many as make room for ten";
    server.stop();
    EXPECT_EQ(server.counters().over_held_bytes, 2U);
    EXPECT_EQ(server.counters().requests, 13U);
}

// --- back-pressure

// A request that waits behind others for a slow reader waits all the same: latency that leaves it out looks best when
// the server is worst.
TEST(ServerBackPressure, LatencyCountsTheWaitOfRequestsThatWereHeldBack) {
    constexpr int requests = 3;
    constexpr std::size_t body_bytes = 4U << 20U;
    std::atomic<int> asked = 0;
    std::vector<std::uint64_t> latencies;
    net::server_options options;
    options.limits.output_bytes_max = 64U << 10U;
    options.on_response = [&](const net::response_event& event) { latencies.push_back(event.latency_ns); };
    running_server server(
        [&](const net::request&, net::response& w) {
            w.body(std::string(body_bytes, 'x'));  // more than the kernel takes for one connection
            ++asked;
        },
        std::move(options));
    server.start();
    http_client client(server.port(), {.receive_buffer = 8192});
    std::string pipeline;
    for (int i = 0; i < requests; ++i) pipeline += get(test::numbered(i));
    client.send(pipeline);
    while (asked == 0) std::this_thread::yield();
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i + 1 < requests; ++i) ASSERT_EQ(client.reply().body.size(), body_bytes);
    const auto waited = std::chrono::steady_clock::now() - begin;
    ASSERT_EQ(client.reply().status, 200);
    server.stop();
    ASSERT_EQ(latencies.size(), static_cast<std::size_t>(requests));
    // It was answered when nearly all of those before it had left.
    EXPECT_GT(latencies.back(), static_cast<std::uint64_t>(std::chrono::nanoseconds(waited).count()) / 2);
}

// Attacks I2 of server.hpp: a client that pipelines but does not read. The server must stop reading, keep serving
// others, and lose nothing once the client reads.
TEST(ServerBackPressure, PausesInputUntilOutputHasLeft) {
    net::server_options options;
    options.limits.output_bytes_max = 256U << 10U;
    running_server server(
        [](const net::request& r, net::response& w) {
            w.body(std::string(32U << 10U, 'x')).body_buffer().append(r.target());
        },
        std::move(options));
    server.start();
    http_client client(server.port(), {.receive_buffer = 8192});
    // Far more than every buffer between us holds of requests, so that the kernel must push back in the end.
    std::string pipeline;
    int made = 0;
    std::size_t taken = 0;
    const auto feed = [&] {
        if (pipeline.size() - taken < 65536)
            for (int i = 0; i < 100; ++i)
                pipeline += get(test::numbered(made++), "X: " + std::string(7000, 'y') + "\r\n");
        const std::size_t n = client.send_now(std::string_view(pipeline).substr(taken));
        taken += n;
        return n;
    };
    do {
        while (feed() != 0) continue;
    } while (test::counted_by(server.get(), &net::server_counters::read_pauses, 10ms) == 0);
    while (feed() != 0) continue;  // nobody reads from it any more: what lies between fills up
    EXPECT_EQ(http_client(server.port()).ask(get("/other")).status, 200);
    std::jthread sender([&, rest = pipeline.substr(taken)] { client.send(rest), client.shutdown_send(); });
    int answered = 0;
    for (; auto reply = client.receive(); ++answered) {
        ASSERT_EQ(reply->status, 200);
        ASSERT_EQ(reply->body.substr(32U << 10U), test::numbered(answered));
    }
    EXPECT_EQ(answered, made);
    server.stop();
    EXPECT_GE(server.counters().read_pauses, 1U);
    EXPECT_EQ(server.counters().requests, static_cast<std::uint64_t>(made) + server.counters().accepted - 1);
}

// Attacks I2: a client that asks in one go for much, or for what takes long, and is there before everybody else.
void expect_others_in_between(const std::string& body, std::chrono::microseconds work, int first_max) {
    constexpr int requests = 12;
    std::vector<std::string> order;
    running_server server([&](const net::request& r, net::response& w) {
        test::compute_for(work);
        w.body(body);
        order.emplace_back(r.target());
    });
    http_client greedy(server.port()), modest(server.port());
    std::string pipeline;
    for (int i = 0; i < requests; ++i) pipeline += get("/greedy");
    greedy.send(pipeline);
    modest.send(get("/modest"));
    server.start();
    EXPECT_EQ(modest.reply().status, 200);
    for (int i = 0; i < requests; ++i) ASSERT_EQ(greedy.reply().body.size(), body.size()) << i;
    server.stop();
    const auto modest_came = std::find(order.begin(), order.end(), "/modest");
    EXPECT_LE(modest_came - order.begin(), first_max) << "requests that were answered first";
    EXPECT_EQ(order.size(), requests + 1U);
}

TEST(ServerBackPressure, WhoAsksForMuchAtOnceLetsOthersInBetween) {
    expect_others_in_between(std::string(40U << 10U, 'x'), 0us, 2);
}

// Two in each of the two parts of a turn: time counts from behind the first.
TEST(ServerBackPressure, WhoAsksForWhatTakesLongLetsOthersInBetween) { expect_others_in_between("x", 200us, 4); }

// --- clients that vanish

TEST(ServerLoss, ResetsAtAnyPointHarmNobodyElse) {
    running_server server([](const net::request&, net::response& w) { w.body(std::string(1U << 20U, 'x')); });
    server.start();
    http_client witness(server.port());
    const std::string request = post("/", std::string(100, 'b'));
    for (std::size_t sent = 0; sent <= request.size() * 3; sent += 7) {
        http_client client(server.port(), {.receive_buffer = 4096});
        client.send((request + request + request).substr(0, sent));
        client.reset();
        if (sent % 49 == 0) {
            EXPECT_EQ(witness.ask(get("/")).status, 200);
        }
    }
    EXPECT_EQ(witness.ask(get("/")).status, 200);
    witness.close();
    server.stop();
    EXPECT_GT(server.counters().lost, 0U);
    EXPECT_EQ(server.counters().open, 0U);
}

// Thousands of requests lie in one receive, and nobody is there any more who reads the answers: they are not made.
TEST(ServerLoss, RequestsOfAClientThatHasGoneAreNotAnswered) {
    std::atomic<int> answered{0};
    std::atomic<bool> held{false}, release{false};
    running_server server([&](const net::request& r, net::response& w) {
        if (r.target() == "/hold") {
            held = true, held.notify_one();
            release.wait(false);
        }
        ++answered;
        w.body(std::string(128U << 10U, 'x'));
    });
    server.start();
    http_client gone(server.port());
    EXPECT_EQ(gone.ask(get("/")).status, 200);  // the loop knows it
    http_client holder(server.port());
    holder.send(get("/hold"));
    held.wait(false);
    std::string pipeline;
    while (pipeline.size() < 50'000) pipeline += get("/");
    gone.send(pipeline);
    gone.reset();
    release = true, release.notify_one();
    EXPECT_EQ(holder.reply().status, 200);
    EXPECT_EQ(holder.ask(get("/")).status, 200);
    holder.close();
    server.stop();
    EXPECT_LT(answered, 20) << "of " << pipeline.size() / get("/").size();
    EXPECT_EQ(server.counters().lost, 1U);
}

// --- drain

TEST(ServerDrain, FinishesWhatIsUnderWayAndEnds) {
    std::atomic<int> served{0};
    net::server_options options;
    options.limits.drain_idle_ms = 50;
    running_server server([&](const net::request& r, net::response& w) { echo(r, w), ++served; }, std::move(options));
    server.start();
    http_client idle(server.port());
    EXPECT_EQ(idle.ask(get("/")).status, 200);
    http_client busy(server.port());
    const std::string request = post("/busy", "0123456789");
    busy.send(request.substr(0, request.size() - 5));
    http_client queued(server.port());
    queued.send(get("/queued"));
    EXPECT_EQ(queued.reply().status, 200);  // all three are known to the loop by now
    server.get().drain();
    EXPECT_TRUE(idle.ended());
    busy.send(request.substr(request.size() - 5));
    const auto reply = busy.reply();
    EXPECT_EQ(reply.body, "POST /busy 0123456789");
    EXPECT_EQ(reply.field("Connection"), "close");
    EXPECT_TRUE(busy.ended());
    busy.close();
    server.join();
    EXPECT_EQ(served, 3);
    EXPECT_THROW(http_client(server.port()), std::system_error) << "nobody listens any more";
}

TEST(ServerDrain, AConnectionWithAnEmptyLineIsIdle) {
    net::server_options options;
    options.limits.drain_idle_ms = 50;
    running_server server(echo, std::move(options));
    server.start();
    http_client client(server.port());
    EXPECT_EQ(client.ask(get("/") + "\r\n").status, 200);
    server.get().drain();
    EXPECT_TRUE(client.ended());
    server.join();
}

TEST(ServerDrain, AnswersWhatWaitsInTheKernelsQueue) {
    net::server_options options;
    options.limits.drain_idle_ms = 2000;
    running_server server(echo, std::move(options));
    std::list<http_client> clients;
    for (int i = 0; i < 20; ++i) clients.emplace_back(server.port()).send(get(test::numbered(i)));
    server.get().drain();  // before the loop has accepted a single one
    server.start();
    for (int i = 0; auto& client : clients) {
        const auto reply = client.reply();
        EXPECT_EQ(reply.body, "GET " + test::numbered(i++) + " ");
        EXPECT_EQ(reply.field("Connection"), "close");
    }
    clients.clear();
    server.join();
}

TEST(ServerDrain, CutsWhatDoesNotEnd) {
    net::server_options options;
    options.limits.drain_timeout_ms = 60;
    running_server server(echo, std::move(options));
    server.start();
    http_client stuck(server.port());
    stuck.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n");
    EXPECT_EQ(http_client(server.port()).ask(get("/")).status, 200);
    server.get().drain();
    server.join();
    EXPECT_TRUE(stuck.gone());
}

// --- descriptors

double cpu_seconds_of_this_process() {
    timespec used{};
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) / 1e9;
}

// The child has room for a dozen connections. Those beyond are told 503 at once, the loop does not spin, and when
// descriptors are free again connections are served again.
TEST(ServerDescriptors, ExhaustionIsAnsweredAndPasses) {
    test::child_process child([](test::channel& talk) -> std::string {
        const int listener = net::listen_tcp("127.0.0.1:0");
        net::server_options options;
        options.engine = test::engine_of_tests::choice();
        options.limits.linger_timeout_ms = 50;
        net::server server({listener}, std::move(options), echo);
        server.watch(talk.read_fd(), [&] { server.stop(); });
        const int next = ::dup(0);  // the lowest free descriptor
        ::close(next);
        const rlimit few{static_cast<rlim_t>(next) + 12, static_cast<rlim_t>(next) + 12};
        if (::setrlimit(RLIMIT_NOFILE, &few) != 0) return "setrlimit failed";
        talk.send(net::bound_port(listener));
        server.run();
        const double cpu = cpu_seconds_of_this_process();
        talk.send(server.counters());
        return cpu < 5 ? std::string() : "the loop spun: " + std::to_string(cpu) + " s of CPU";
    });
    const auto port = child.talk().receive<std::uint16_t>();
    ASSERT_TRUE(port);
    std::list<http_client> clients;
    int refused = 0;
    for (int i = 0; i < 40; ++i) {
        auto& client = clients.emplace_back(*port);
        client.send(get("/"));
        refused += client.reply().status == 503 ? 1 : 0;
    }
    EXPECT_EQ(refused, 28);
    EXPECT_EQ(clients.front().ask(get("/still")).status, 200);
    clients.clear();
    // The places come free as the server sees the closes, which is no later than it sees this connection.
    int status = 0;
    for (int i = 0; i < 100 && status != 200; ++i) status = http_client(*port).ask(get("/again")).status;
    EXPECT_EQ(status, 200);
    child.talk().signal();
    const auto counters = child.talk().receive<net::server_counters>();
    EXPECT_TRUE(child.wait().success()) << child.wait().text();
    ASSERT_TRUE(counters);
    EXPECT_GE(counters->over_descriptors, 28U);
}

}  // namespace
