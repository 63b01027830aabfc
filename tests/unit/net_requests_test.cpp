// SPDX-License-Identifier: Apache-2.0
// The table of requests over connections: what the parser says of a row has to be what a client is answered, once, and
// with silence while the row is not whole.
#include <gtest/gtest.h>

#include <cstdint>
#include <list>
#include <string>
#include <string_view>

#include "holdfast/net/server.hpp"
#include "http_requests.hpp"
#include "support/http_client.hpp"
#include "support/http_server.hpp"

namespace {

using namespace holdfast;
using test::get;
using test::http_client;
using test::request_case;
using test::running_server;

// An interim answer may come before the other.
test::http_reply final_reply(http_client& client, bool to_head) {
    auto reply = client.reply(to_head);
    return reply.status == 100 ? client.reply(to_head) : reply;
}

TEST(ServerRequestTable, WhatIsRefusedIsAnsweredOnceAndEndsTheConnection) {
    running_server server(test::echo);
    server.start();
    for (const request_case& c : test::request_cases) {
        if (c.expected <= 0) continue;
        SCOPED_TRACE(std::string(c.name));
        http_client client(server.port());
        (void)client.send_while_possible(std::string(c.bytes) + get("/behind"));
        const auto reply = client.reply(c.bytes.starts_with("HEAD "));
        EXPECT_EQ(reply.status, c.expected);
        EXPECT_EQ(reply.field("Connection"), "close");
        EXPECT_TRUE(client.ended());
    }
    server.stop();
    EXPECT_EQ(server.counters().requests, 0U);
}

TEST(ServerRequestTable, WhatIsUnderstoodIsAnsweredAndNothingOfItIsLeft) {
    running_server server(test::echo);
    server.start();
    for (const request_case& c : test::request_cases) {
        if (c.expected != 0) continue;
        SCOPED_TRACE(std::string(c.name));
        http_client client(server.port());
        client.send(std::string(c.bytes) + get("/behind"));
        const auto reply = final_reply(client, c.bytes.starts_with("HEAD "));
        EXPECT_EQ(reply.status, c.bytes.starts_with("CONNECT ") ? 501 : 200) << reply.body;
        if (reply.field("Connection") != "close") {
            EXPECT_EQ(client.reply().body, "GET /behind ");
        } else {
            EXPECT_TRUE(client.ended());
        }
    }
}

// The time-out answers each: whoever had not waited would have answered otherwise.
TEST(ServerRequestTable, WhatIsNotWholeIsWaitedFor) {
    net::server_options options;
    options.limits.header_timeout_ms = options.limits.body_timeout_ms = 100;
    options.limits.idle_timeout_ms = 2000;
    running_server server(test::echo, options);
    server.start();
    struct waiting {
        waiting(const request_case& which, std::uint16_t port) : row(which), client(port) { client.send(row.bytes); }
        const request_case& row;
        http_client client;
    };
    std::list<waiting> all;
    for (const request_case& c : test::request_cases)
        if (c.expected < 0) all.emplace_back(c, server.port());
    EXPECT_GE(all.size(), 15U);
    for (auto& [row, client] : all) {
        SCOPED_TRACE(std::string(row.name));
        if (row.bytes != "\r") {  // which begins none
            EXPECT_EQ(client.reply().status, 408);
        }
        EXPECT_TRUE(client.ended());
    }
    server.stop();
    EXPECT_EQ(server.counters().idle_timeouts, 1U);
}

}  // namespace
