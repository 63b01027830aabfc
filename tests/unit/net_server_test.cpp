// SPDX-License-Identifier: Apache-2.0
// What a server answers: order, framing, persistence, handlers. What it withstands: net_limits_test.cpp.
#include "holdfast/net/server.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "holdfast/error.hpp"
#include "support/http_client.hpp"
#include "support/http_server.hpp"
#include "support/scale.hpp"
#include "support/seed.hpp"

namespace {

using namespace holdfast;
using namespace std::chrono_literals;
using test::echo;
using test::get;
using test::http_client;
using test::post;
using test::running_server;

TEST(Server, AnswersSeveralRequestsOnOneConnection) {
    running_server server(echo);
    server.start();
    http_client client(server.port());
    EXPECT_EQ(client.ask(get("/a")).body, "GET /a ");
    EXPECT_EQ(client.ask(post("/b", "body")).body, "POST /b body");
    const auto reply = client.ask(get("/c"));
    EXPECT_EQ(reply.status, 200);
    EXPECT_EQ(reply.field("Content-Type"), "text/plain");
    EXPECT_EQ(reply.field("Connection"), "");
    EXPECT_EQ(reply.field("Date").size(), std::string("Sun, 06 Nov 1994 08:49:37 GMT").size());
    server.stop();
    EXPECT_EQ(server.counters().accepted, 1U);
    EXPECT_EQ(server.counters().requests, 3U);
    EXPECT_EQ(server.counters().responses[1], 3U);
    EXPECT_EQ(server.counters().open, 0U);
}

// Attacks I1 of server.hpp.
TEST(Server, AnswersPipelinedRequestsInOrder) {
    running_server server(echo);
    server.start();
    http_client client(server.port());
    constexpr int count = 5000;
    using test::numbered;
    std::jthread sender([&] {
        std::string all;
        for (int i = 0; i < count; ++i) all += i % 3 == 0 ? post(numbered(i), "x") : get(numbered(i));
        client.send(all);
    });
    for (int i = 0; i < count; ++i) {
        const std::string wanted = i % 3 == 0 ? "POST " + numbered(i) + " x" : "GET " + numbered(i) + " ";
        ASSERT_EQ(client.reply().body, wanted);
    }
}

TEST(Server, ReadsARequestThatComesByteByByte) {
    running_server server(echo);
    server.start();
    http_client client(server.port());
    for (const char c : post("/slow", "abc") + get("/next")) client.send({&c, 1});
    EXPECT_EQ(client.reply().body, "POST /slow abc");
    EXPECT_EQ(client.reply().body, "GET /next ");
}

TEST(Server, JoinsChunkedBodies) {
    running_server server(echo);
    server.start();
    http_client client(server.port());
    client.send("POST /c HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nwiki\r\n");
    client.send("5;x=y\r\npedia\r\n0\r\nT: t\r\n\r\n" + get("/behind"));
    EXPECT_EQ(client.reply().body, "POST /c wikipedia");
    EXPECT_EQ(client.reply().body, "GET /behind ");
}

TEST(Server, TakesABodyLargerThanAnyBuffer) {
    running_server server([](const net::request& r, net::response& w) { w.body(r.body()); });
    server.start();
    std::string body(1U << 20U, '\0');
    for (std::size_t i = 0; i < body.size(); ++i) body[i] = static_cast<char>(test::random_at(1, 2, i));
    http_client client(server.port());
    std::jthread sender([&] { client.send(post("/", body)); });
    EXPECT_TRUE(client.reply().body == body);
}

TEST(Server, HeadHasTheLengthButNoBody) {
    running_server server(echo);
    server.start();
    http_client client(server.port());
    client.send("HEAD /h HTTP/1.1\r\nHost: a\r\n\r\n" + get("/g"));
    const auto head = client.reply(true);
    EXPECT_EQ(head.field("Content-Length"), std::to_string(std::string("HEAD /h ").size()));
    EXPECT_EQ(client.reply().body, "GET /g ");
}

// RFC 9110 section 9.3.2: whoever asked by HEAD takes what follows the head for the next answer.
TEST(Server, ARefusedHeadHasNoBodyEither) {
    net::server_options options;
    options.limits.header_timeout_ms = 50;
    running_server server(echo, options);
    server.start();
    for (const char* refused :
         {"HEAD /h HTTP/1.1\r\nHost: a\r\nbad field: x\r\n\r\n", "HEAD /h HTTP/1.1\r\n\r\n",
          "HEAD /h HTTP/1.1\r\nHost: a\r\nExpect: more\r\n\r\n", "HEAD /h HTTP/1.1\r\nHost: a\r\nX: slow"}) {
        http_client client(server.port());
        client.send(refused);
        const auto reply = client.reply(true);
        EXPECT_GE(reply.status, 400) << refused;
        EXPECT_NE(reply.field("Content-Length"), "0");
        EXPECT_TRUE(client.ended()) << refused;
    }
    // A refusal before any method is known is no answer to the HEAD that went before.
    http_client client(server.port());
    client.send("HEAD /h HTTP/1.1\r\nHost: a\r\n\r\n\x01");
    EXPECT_EQ(client.reply(true).status, 200);
    const auto reply = client.reply();
    EXPECT_EQ(reply.status, 400);
    EXPECT_NE(reply.body, "");
}

TEST(Server, BodilessStatusesSendNoBodyAndNoLength) {
    running_server server([](const net::request& r, net::response& w) {
        w.status(r.path() == "/204" ? 204 : r.path() == "/304" ? 304 : 200).body("text");
    });
    server.start();
    http_client client(server.port());
    client.send(get("/204") + get("/304") + get("/200"));
    for (const int status : {204, 304}) {
        const auto reply = client.reply();
        EXPECT_EQ(reply.status, status);
        EXPECT_EQ(reply.field("Content-Length"), "");
    }
    EXPECT_EQ(client.reply().body, "text");
}

TEST(Server, SendsContinueOnlyToAClientThatWaits) {
    running_server server(echo);
    server.start();
    http_client client(server.port());
    const std::string head = "POST /e HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n";
    client.send(head);
    EXPECT_EQ(client.reply().status, 100);
    client.send("ok");
    EXPECT_EQ(client.reply().body, "POST /e ok");
    client.send(head + "ok");
    EXPECT_EQ(client.reply().body, "POST /e ok") << "the body came along: nothing to wait for";
    server.stop();
    EXPECT_EQ(server.counters().responses[0], 1U);
}

TEST(Server, RefusesABodyThatIsTooLongBeforeItIsSent) {
    running_server server(echo);
    server.start();
    http_client client(server.port());
    const auto reply =
        client.ask("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 99999999\r\n\r\n");
    EXPECT_EQ(reply.status, 413);
    EXPECT_TRUE(client.ended());
}

TEST(Server, ClosesWhenTheClientAsks) {
    running_server server(echo);
    server.start();
    http_client client(server.port());
    const auto reply = client.ask(get("/", "Connection: close\r\n"));
    EXPECT_EQ(reply.field("Connection"), "close");
    EXPECT_TRUE(client.ended());
}

TEST(Server, ClosesWhenTheHandlerAsksAndIgnoresWhatFollows) {
    running_server server([](const net::request& r, net::response& w) {
        echo(r, w);
        if (r.path() == "/last") w.close();
    });
    server.start();
    http_client client(server.port());
    client.send(get("/first") + get("/last") + get("/never"));
    EXPECT_EQ(client.reply().body, "GET /first ");
    const auto last = client.reply();
    EXPECT_EQ(last.body, "GET /last ");
    EXPECT_EQ(last.field("Connection"), "close");
    EXPECT_TRUE(client.ended());
    server.stop();
    EXPECT_EQ(server.counters().requests, 2U);
}

TEST(Server, KeepsHttp10OnlyIfAsked) {
    running_server server(echo);
    server.start();
    http_client kept(server.port());
    const auto reply = kept.ask("GET /1 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    EXPECT_EQ(reply.field("Connection"), "keep-alive");
    EXPECT_EQ(kept.ask("GET /2 HTTP/1.0\r\n\r\n").field("Connection"), "close");
    EXPECT_TRUE(kept.ended());
}

TEST(Server, AnswersAMalformedRequestOnceAndCloses) {
    running_server server(echo);
    server.start();
    http_client client(server.port());
    client.send(get("/good") + "GET / HTTP/1.1\r\nHost : a\r\n\r\n" + get("/smuggled"));
    EXPECT_EQ(client.reply().body, "GET /good ");
    const auto bad = client.reply();
    EXPECT_EQ(bad.status, 400);
    EXPECT_EQ(bad.field("Connection"), "close");
    EXPECT_EQ(bad.field("Content-Type"), "application/problem+json");
    EXPECT_EQ(bad.body,
              R"({"type":"about:blank","title":"Bad Request","status":400,"detail":"malformed header field name"})"
              "\n");
    EXPECT_TRUE(client.ended());
    server.stop();
    EXPECT_EQ(server.counters().refused, 1U);
    EXPECT_EQ(server.counters().requests, 1U);
}

// The reply must survive although the client is still sending: closing at once would reset it away.
TEST(Server, RefusalReachesAClientThatIsStillSending) {
    running_server server(echo);
    server.start();
    for (int round = 0; round < 20; ++round) {
        http_client client(server.port());
        client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2000000\r\n\r\n");
        (void)client.send_while_possible(std::string(2000000, 'x'));
        ASSERT_EQ(client.reply().status, 413);
    }
}

TEST(Server, RefusesConnect) {
    running_server server(echo);
    server.start();
    http_client client(server.port());
    EXPECT_EQ(client.ask("CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n").status, 501);
    EXPECT_TRUE(client.ended());
}

// Attacks I5 of server.hpp.
TEST(Server, AnswersAThrowingHandlerWith500AndGoesOn) {
    running_server server([](const net::request& r, net::response& w) {
        w.header("X-Half", "done").body("half");
        if (r.path() == "/throw") throw std::runtime_error("secret detail");
        if (r.path() == "/odd") throw 7;
    });
    server.start();
    http_client client(server.port());
    for (const char* path : {"/throw", "/odd"}) {
        const auto reply = client.ask(get(path));
        EXPECT_EQ(reply.status, 500);
        EXPECT_EQ(reply.field("Content-Type"), "application/problem+json");
        EXPECT_EQ(reply.field("X-Half"), "");
        EXPECT_EQ(reply.body.find("secret"), std::string::npos);
    }
    EXPECT_EQ(client.ask(get("/fine")).body, "half");
    server.stop();
    EXPECT_EQ(server.counters().handler_exceptions, 2U);
}

TEST(Server, AnswersAClientThatHasShutItsSide) {
    running_server server(echo);
    server.start();
    http_client client(server.port());
    client.send(get("/1") + get("/2"));
    client.shutdown_send();
    EXPECT_EQ(client.reply().body, "GET /1 ");
    EXPECT_EQ(client.reply().body, "GET /2 ");
    EXPECT_TRUE(client.ended());
}

TEST(Server, AnswersARequestCutShortByTheClientsEnd) {
    running_server server(echo);
    server.start();
    for (const std::string& part :
         {std::string("GET / HT"), std::string("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nab")}) {
        http_client client(server.port());
        client.send(part);
        client.shutdown_send();
        EXPECT_EQ(client.reply().status, 400);
        EXPECT_TRUE(client.ended());
    }
    http_client silent(server.port());
    silent.send("\r\n");
    silent.shutdown_send();
    EXPECT_TRUE(silent.ended()) << "an empty line is not a request";
}

TEST(Server, ReportsEachResponse) {
    std::vector<net::response_event> events;
    net::server_options options;
    options.on_response = [&](const net::response_event& e) { events.push_back(e); };
    running_server server([](const net::request&, net::response& w) { w.route(7).status(404).body("no"); },
                          std::move(options));
    server.start();
    http_client client(server.port());
    const std::string request = get("/x");
    const auto reply = client.ask(request);
    EXPECT_EQ(client.ask("BAD\r\n").status, 400);
    server.stop();
    ASSERT_EQ(events.size(), 2U);
    EXPECT_EQ(events[0].route, 7);
    EXPECT_EQ(events[0].status, 404);
    EXPECT_TRUE(events[0].parsed);
    EXPECT_EQ(events[0].method, net::method::get);
    EXPECT_EQ(events[0].request_bytes, request.size());
    EXPECT_EQ(events[0].response_bytes, reply.head.size() + reply.body.size());
    EXPECT_GT(events[0].latency_ns, 0U);
    EXPECT_LT(events[0].latency_ns, 20'000'000'000U);
    EXPECT_FALSE(events[1].parsed);
    EXPECT_EQ(events[1].status, 400);
    EXPECT_EQ(server.counters().responses[3], 2U);
}

TEST(Server, ServesSeveralListeners) {
    const int first = net::listen_tcp("127.0.0.1:0");
    const int second = net::listen_tcp("[::1]:0");
    const std::uint16_t port = net::bound_port(first);
    EXPECT_NE(net::bound_port(second), 0);
    net::server server({first, second}, {}, echo);
    std::thread loop([&] { server.run(); });
    EXPECT_EQ(http_client(port).ask(get("/a")).status, 200);
    server.stop();
    loop.join();
}

TEST(Server, TakesAListenerThatBlocks) {
    const int listener = net::listen_tcp("127.0.0.1:0");
    const std::uint16_t port = net::bound_port(listener);
    ASSERT_EQ(::fcntl(listener, F_SETFL, 0), 0);
    net::server server({listener}, {}, echo);
    std::thread loop([&] { server.run(); });
    EXPECT_EQ(http_client(port).ask(get("/a")).status, 200);
    EXPECT_EQ(http_client(port).ask(get("/b")).status, 200) << "the loop is not stuck in accept";
    server.stop();
    loop.join();
    EXPECT_THROW(net::server({-1}, {}, echo), error);
}

TEST(Server, CallsWatchersUntilUnwatched) {
    const int event = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    ASSERT_GE(event, 0);
    std::atomic<int> calls{0};
    running_server server(echo);
    net::server& loop = server.get();
    loop.watch(event, [&] {
        std::uint64_t count = 0;
        EXPECT_EQ(::read(event, &count, sizeof count), static_cast<ssize_t>(sizeof count));
        if (++calls == 3) loop.unwatch(event);
    });
    server.start();
    const std::uint64_t one = 1;
    http_client client(server.port());
    for (int i = 1; i <= 3; ++i) {
        ASSERT_EQ(::write(event, &one, sizeof one), static_cast<ssize_t>(sizeof one));
        while (calls != i) std::this_thread::yield();
    }
    ASSERT_EQ(::write(event, &one, sizeof one), static_cast<ssize_t>(sizeof one));
    EXPECT_EQ(client.ask(get("/")).status, 200);  // the loop has gone round since
    server.stop();
    EXPECT_EQ(calls, 3);
    ::close(event);
}

TEST(Server, TicksWithoutTraffic) {
    std::atomic<int> ticks{0};
    net::server_options options;
    options.tick_interval = 1ms;
    options.on_tick = [&] { ++ticks; };
    running_server server(echo, std::move(options));
    server.start();
    while (ticks < 5) std::this_thread::yield();
    server.stop();
    EXPECT_GE(ticks, 5);
}

TEST(Server, StopsBeforeAndDuringRun) {
    running_server early(echo);
    early.get().stop();
    early.start();
    early.join();
    running_server late(echo);
    late.start();
    http_client client(late.port());
    EXPECT_EQ(client.ask(get("/")).status, 200);
    late.stop();
    EXPECT_TRUE(client.gone());
}

TEST(Server, RefusesOptionsThatMakeNoSense) {
    const auto make = [](auto change, net::handler answer) {
        net::server_options options;
        change(options);
        net::server server({}, std::move(options), std::move(answer));
    };
    EXPECT_THROW(make([](auto& o) { o.limits.idle_timeout_ms = 0; }, echo), error);
    EXPECT_THROW(make([](auto& o) { o.limits.connections_max = 0; }, echo), error);
    EXPECT_THROW(make([](auto& o) { o.tick_interval = 1ms; }, echo), error);
    EXPECT_THROW(make([](auto&) {}, nullptr), error);
    EXPECT_NO_THROW(make([](auto&) {}, echo));
}

}  // namespace
