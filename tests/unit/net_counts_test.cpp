// SPDX-License-Identifier: Apache-2.0
// What a server counts of what clients do to it, beside what the tests of each part ask for.
#include <gtest/gtest.h>

#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "holdfast/net/channel.hpp"
#include "holdfast/net/server.hpp"
#include "support/http_client.hpp"
#include "support/http_server.hpp"
#include "support/websocket_client.hpp"

namespace {

using namespace holdfast;
using net::server_counters;
using test::counted_by;
using test::get;
using test::http_client;
using test::running_server;

TEST(ServerCounts, RequestsThatComeInParts) {
    running_server server(test::echo);
    server.start();
    http_client client(server.port());
    client.send("GET /in-par");
    EXPECT_EQ(counted_by(server.get(), &server_counters::partial_requests), 1U);
    const std::string rest = "ts HTTP/1.1\r\nHost: a\r\n\r\n";
    client.send(rest + get("/whole") + test::post("/whole", "body"));
    for (int i = 0; i < 3; ++i) EXPECT_EQ(client.reply().status, 200);
    server.stop();
    EXPECT_EQ(server.counters().partial_requests, 1U);
}

TEST(ServerCounts, ClientsThatEndTheirSendingInTheMiddle) {
    std::mutex lock;
    net::channel late;
    running_server server([&](const net::request& asked, net::response& to) {
        if (asked.path() != "/late") return test::echo(asked, to);
        const std::lock_guard guard(lock);
        late = to.defer({.answers_half_closed = true});
    });
    server.start();
    {
        http_client idle(server.port());
        EXPECT_EQ(idle.ask(get("/")).status, 200);
        idle.shutdown_send();
        EXPECT_TRUE(idle.ended());
    }
    http_client client(server.port());
    client.send(get("/late"));
    client.shutdown_send();
    EXPECT_EQ(counted_by(server.get(), &server_counters::half_closed), 1U);
    {
        const std::lock_guard guard(lock);
        net::response answer;
        answer.body("all the same");
        EXPECT_EQ(late.answer(std::move(answer)), net::channel_status::ok);
    }
    EXPECT_EQ(client.reply().body, "all the same");
    http_client cut(server.port());
    cut.send("GET / HT");
    cut.shutdown_send();
    EXPECT_EQ(cut.reply().status, 400);
    server.stop();
    EXPECT_EQ(server.counters().half_closed, 2U);
}

TEST(ServerCounts, MessagesThatChannelsDropAndChannelsThatOverflow) {
    running_server server([](const net::request& asked, net::response& to) {
        const auto policy = asked.path() == "/oldest"   ? net::when_full::drop_oldest
                            : asked.path() == "/newest" ? net::when_full::drop_newest
                            : asked.path() == "/close"  ? net::when_full::close
                                                        : net::when_full::refuse;
        const net::channel stream = to.stream({.queue_bytes_max = 10, .when_full = policy});
        for (int i = 0; i < 5; ++i) static_cast<void>(stream.send(std::string("12345")));
        static_cast<void>(stream.close());
    });
    server.start();
    for (const std::string_view path : {"/oldest", "/newest", "/refuse"}) {
        http_client client(server.port());
        client.send(get(path));
        EXPECT_TRUE(client.read_to("\r\n\r\n").starts_with("HTTP/1.1 200"));
        for (int i = 0; i < 2; ++i) EXPECT_EQ(client.chunk(), "12345");
        EXPECT_EQ(client.chunk(), "");
    }
    http_client client(server.port());
    client.send(get("/close"));
    EXPECT_TRUE(client.gone());
    server.stop();
    EXPECT_EQ(server.counters().messages_dropped, 3U + 3U);
    EXPECT_EQ(server.counters().channel_overflows, 1U);
}

TEST(ServerCounts, WebSocketsWhoseClientBreaksARule) {
    running_server server(
        [](const net::request& asked, net::response& to) { static_cast<void>(to.websocket(asked, {})); });
    server.start();
    {
        test::websocket_client orderly(server.port());
        orderly.send(test::close_frame(1000));
        EXPECT_EQ(orderly.next().code(), 1000);
    }
    for (const std::string& wrong : {test::text("\xFF"), test::frame(net::websocket_opcode::ping, "x", false)}) {
        test::websocket_client client(server.port());
        client.send(wrong);
        EXPECT_NE(client.next().code(), 1000);
    }
    server.stop();
    EXPECT_EQ(server.counters().websockets_refused, 2U);
}

}  // namespace
