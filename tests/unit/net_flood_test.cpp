// SPDX-License-Identifier: Apache-2.0
// Well-behaved clients beside hostile ones that speak HTTP and WebSocket (support/flood_rig.hpp).
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <list>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <utility>

#include "holdfast/net/server.hpp"
#include "holdfast/net/websocket_frame.hpp"
#include "support/flood_rig.hpp"
#include "support/http_client.hpp"
#include "support/http_server.hpp"
#include "support/process.hpp"
#include "support/websocket_client.hpp"

namespace {

using namespace holdfast;
using namespace std::chrono_literals;
using test::flooded;
using test::get;
using test::http_client;
using test::withstand;

// --- attacks: each is one wave of about a tenth of a second and more, from a process of its own

// Requests that come a byte at a time and never end, on many connections, until each has been told 408.
void slow_heads_and_bodies(const flooded& at) {
    std::list<http_client> clients;
    for (int i = 0; i < 150; ++i) {
        clients.emplace_back(at.port).send("GET / HTTP/1.1\r\nHost: a\r\nX: ");
        clients.emplace_back(at.port).send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n");
    }
    while (!clients.empty())
        clients.remove_if([](http_client& c) { return c.readable(0ms) || c.send_while_possible("x") != 0; });
}

// Everything a head or a body can be too big in.
void oversized_requests(const flooded& at) {
    const std::string long_text(64U << 10U, 'a');
    std::string many_fields = "GET / HTTP/1.1\r\nHost: a\r\n";
    for (int i = 0; i < 4000; ++i) many_fields += "X: y\r\n";
    std::string extensions = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1;" + long_text;
    for (int i = 0; i < 3; ++i) {
        for (const std::string& bytes :
             {"GET /" + long_text, "GET / HTTP/1.1\r\nHost: a\r\nX: " + long_text, many_fields, extensions,
              "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999\r\n\r\n" + long_text, long_text})
            (void)http_client(at.port).send_while_possible(bytes);
        // Within the limits each, and together beyond what is held for all.
        std::list<http_client> clients;
        for (int k = 0; k < 40; ++k)
            (void)clients.emplace_back(at.port).send_while_possible(
                "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n" + std::string(900'000, 'b'));
    }
}

// Far more connections than the server takes, held for a moment, with nothing on them.
void connections_without_end(const flooded& at) {
    std::list<http_client> clients;
    for (int i = 0; i < 700; ++i) clients.emplace_back(at.port);
    (void)clients.back().readable(http_client::deadline);  // that there is no room: all of them have been seen
}

// Requests, whole and half, whose senders reset the connection at once.
void resets(const flooded& at) {
    const std::string bytes = get("/a") + get("/big") + get("/b");
    for (std::size_t i = 0; i < 200; ++i) {
        http_client client(at.port);
        (void)client.send_while_possible(std::string_view(bytes).substr(0, i % (bytes.size() + 1)));
        client.reset();
    }
}

// Many connections at once that are reset before the server has come to most of them: some wait to be accepted.
void bursts_of_resets(const flooded& at) {
    const std::string bytes = get("/a") + get("/big");
    for (int round = 0; round < 5; ++round) {
        std::list<http_client> clients;
        for (std::size_t i = 0; i < 120; ++i)
            (void)clients.emplace_back(at.port).send_while_possible(
                std::string_view(bytes).substr(0, i % (bytes.size() + 1)));
        for (http_client& client : clients) client.reset();
    }
}

// Processes that die while answers are on their way to them.
void deaths_in_the_middle(const flooded& at) {
    for (int i = 0; i < 5; ++i) {
        test::child_process victim([port = at.port] {
            std::string requests;  // for more than the kernel takes
            for (int k = 0; k < 160; ++k) requests += get("/big");
            std::list<http_client> clients;
            for (int k = 0; k < 12; ++k)
                clients.emplace_back(port, http_client::options{.receive_buffer = 4096}).send(requests);
            for (http_client& client : clients) (void)client.readable(http_client::deadline);
            ::kill(::getpid(), SIGKILL);
        });
        (void)victim.wait();
    }
}

// Processes that die wherever they are: in the middle of each request, behind it, with some of the answer read.
void deaths_at_any_point(const flooded& at) {
    const std::string first = test::post("/", std::string(200, 'b'));
    const std::string bytes = first + get("/big") + get("/socket", test::upgrade_fields) + test::text("never whole");
    constexpr std::size_t victims = 12, clients_each = 12;
    for (std::size_t i = 0; i < victims; ++i) {
        test::child_process victim([&] {
            std::list<http_client> clients;
            for (std::size_t k = 0; k < clients_each; ++k) {
                auto& client = clients.emplace_back(at.port, http_client::options{.receive_buffer = 4096});
                const std::size_t sent = 1 + (k * victims + i) * (bytes.size() - 1) / (victims * clients_each);
                client.send(std::string_view(bytes).substr(0, sent));
                if (k % 2 == 0 && sent >= first.size()) (void)client.take(1);
            }
            ::kill(::getpid(), SIGKILL);
        });
        (void)victim.wait();
    }
}

// Clients that ask for ever and read nothing, until the server has given each of them up.
void readers_of_nothing(const flooded& at) {
    std::list<http_client> clients;
    std::string requests;
    for (int i = 0; i < 160; ++i) requests += get("/big");
    for (int i = 0; i < 150; ++i)
        clients.emplace_back(at.port, http_client::options{.receive_buffer = 4096}).send(requests);
    while (!clients.empty()) {
        const std::size_t before = clients.size();
        clients.remove_if([](const http_client& c) { return c.cut(); });
        if (clients.size() == before) std::this_thread::sleep_for(1ms);
    }
}

// Pings as fast as they can be sent, whose answers nobody reads, until each has been given up.
void pings_without_end(const flooded& at) {
    std::string pings;
    for (int i = 0; i < 4000; ++i) pings += test::frame(net::websocket_opcode::ping, std::string(125, 'p'));
    std::list<http_client> clients;
    for (int i = 0; i < 20; ++i) {
        auto& client = clients.emplace_back(at.port, http_client::options{.receive_buffer = 4096});
        client.send(get("/socket", test::upgrade_fields));
        (void)client.reply();
    }
    while (!clients.empty()) {
        const std::size_t before = clients.size();
        clients.remove_if([&](http_client& c) { return c.cut() || (c.send_now(pings), false); });
        if (clients.size() == before) std::this_thread::sleep_for(1ms);
    }
}

// Answers to pings that nobody sent, which cost a server its time alone.
void pongs_without_end(const flooded& at) {
    std::string pongs;
    for (int i = 0; i < 4000; ++i) pongs += test::frame(net::websocket_opcode::pong, std::string(125, 'p'));
    std::list<std::pair<http_client, std::size_t>> clients;  // and how much of `pongs` each has sent
    for (int i = 0; i < 20; ++i) {
        auto& client =
            clients.emplace_back(std::piecewise_construct, std::forward_as_tuple(at.port), std::tuple(0U)).first;
        client.send(get("/socket", test::upgrade_fields));
        (void)client.reply();
    }
    const auto end = std::chrono::steady_clock::now() + 150ms;
    while (std::chrono::steady_clock::now() < end)
        for (auto& [client, sent] : clients)
            sent = (sent + client.send_now(std::string_view(pongs).substr(sent))) % pongs.size();
}

// Messages that come a byte at a time and never end, until each connection has been ended.
void slow_messages(const flooded& at) {
    const std::string begun = test::frame(net::websocket_opcode::binary, std::string(100'000, 'x')).substr(0, 20'000);
    std::list<http_client> clients;
    for (int i = 0; i < 100; ++i) {
        auto& client = clients.emplace_back(at.port);
        client.send(get("/socket", test::upgrade_fields));
        (void)client.reply();
        client.send(begun);
    }
    while (!clients.empty()) {
        clients.remove_if([](http_client& c) { return c.readable(0ms) || c.send_while_possible("x") != 0; });
        std::this_thread::sleep_for(1ms);
    }
}

// Frames that break each rule, in the middle of good ones, and words that are none.
void broken_frames(const flooded& at) {
    std::string unmasked;
    net::append_websocket_frame(unmasked, net::websocket_opcode::text, true, "x");
    const std::string broken[] = {unmasked,
                                  test::text("\xCE\xBA\xED\xA0\x80"),
                                  test::frame(static_cast<net::websocket_opcode>(3), "x"),
                                  test::frame(net::websocket_opcode::ping, std::string(126, 'x')),
                                  test::frame(net::websocket_opcode::continuation, "x"),
                                  test::close_frame(1005),
                                  "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
                                  std::string(10'000, '\0')};
    for (int i = 0; i < 40; ++i)
        for (const std::string& bytes : broken) {
            http_client client(at.port);
            (void)client.send_while_possible(get("/socket", test::upgrade_fields) + test::text("good") + bytes +
                                             test::text("never read"));
            if (i % 2 == 0)
                (void)client.gone();
            else
                client.reset();
        }
}

// Messages in ever so many pieces, and ones that begin and never end.
void endless_messages(const flooded& at) {
    std::string pieces = test::frame(net::websocket_opcode::text, "", false);
    for (int i = 0; i < 5000; ++i) pieces += test::frame(net::websocket_opcode::continuation, "", false);
    const std::string large = test::frame(net::websocket_opcode::binary, std::string(400'000, 'x'),
                                          false);  // kept until the message is whole
    std::list<http_client> clients;
    for (int i = 0; i < 100; ++i) {
        auto& client = clients.emplace_back(at.port);
        if (client.send_while_possible(get("/socket", test::upgrade_fields)) == 0)
            (void)client.send_while_possible(i % 2 == 0 ? pieces : large);
    }
    for (auto& client : clients) (void)client.gone();  // each had its time, or was refused for what is held
}

// A large body and the first byte of what follows: what the one needed is not kept for the other.
void much_and_then_little(const flooded& at) {
    const std::string much = test::post("/", std::string(1U << 20U, 'x'));
    std::list<http_client> clients;
    for (int i = 0; i < 60; ++i) {
        auto& client = clients.emplace_back(at.port);
        client.send(much + "G");
        if (client.reply().status != 200) throw std::runtime_error("a body was refused");
    }
    for (auto& client : clients) (void)client.gone();
}

TEST(ServerFlood, SlowHeadsAndBodies) {
    const auto counters = withstand(slow_heads_and_bodies);
    EXPECT_GE(counters.header_timeouts, 100U);
    EXPECT_GE(counters.body_timeouts, 100U);
}
TEST(ServerFlood, OversizedRequests) {
    const auto counters = withstand(oversized_requests, {250, 250ms});
    EXPECT_GE(counters.refused, 18U);
    EXPECT_GE(counters.over_held_bytes, 1U);
}
TEST(ServerFlood, ConnectionsWithoutEnd) { EXPECT_GE(withstand(connections_without_end).over_connections_max, 400U); }
TEST(ServerFlood, Resets) {
    const auto counters = withstand(resets);
    EXPECT_GE(counters.accepted, 200U);
    EXPECT_GE(counters.lost, counters.accepted / 2);  // all but those that had been answered
}
TEST(ServerFlood, BurstsOfResets) {
    const auto counters = withstand(bursts_of_resets);
    EXPECT_GE(counters.accepted, 600U);
    EXPECT_GE(counters.lost, counters.accepted / 2);
}
TEST(ServerFlood, DeathsInTheMiddle) {
    const auto counters = withstand(deaths_in_the_middle, {10, 100ms});
    EXPECT_GE(counters.lost, 1U);
    EXPECT_GE(counters.lost + counters.write_timeouts + counters.over_held_bytes, 60U);
}
TEST(ServerFlood, DeathsAtAnyPoint) { EXPECT_GE(withstand(deaths_at_any_point).lost, 50U); }
TEST(ServerFlood, ReadersOfNothing) {
    const auto counters = withstand(readers_of_nothing, {10, 250ms});
    EXPECT_GE(counters.write_timeouts + counters.over_held_bytes, 150U);
}

TEST(ServerFlood, PingsWithoutEnd) {
    const auto counters = withstand(pings_without_end);
    EXPECT_GE(counters.read_pauses, 10U);
    EXPECT_GE(counters.write_timeouts + counters.over_held_bytes, 10U);
}
TEST(ServerFlood, BrokenFrames) { EXPECT_GE(withstand(broken_frames).websockets_refused, 160U); }
TEST(ServerFlood, PongsWithoutEnd) { EXPECT_GE(withstand(pongs_without_end, {50, 100ms}).bytes_received, 10U << 20U); }
TEST(ServerFlood, SlowMessages) { EXPECT_GE(withstand(slow_messages).body_timeouts, 100U); }
TEST(ServerFlood, MuchAndThenLittle) {
    const auto counters = withstand(much_and_then_little, {250, 250ms});
    EXPECT_GE(counters.responses[1], 60U);
    EXPECT_GE(counters.header_timeouts, 60U);
}
TEST(ServerFlood, EndlessMessages) {
    const auto counters = withstand(endless_messages, {400, 250ms});
    EXPECT_GE(counters.responses[0], 100U);  // became WebSockets
    EXPECT_GE(counters.over_held_bytes, 1U);
}

}  // namespace
