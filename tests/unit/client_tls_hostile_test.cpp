// SPDX-License-Identifier: Apache-2.0
// Servers that break TLS off, break its rules, or stand still; and ends of connections that may be anybody's. Attacks
// I6 of client.hpp: whatever comes, no request leaves before the certificate is believed, each has one end, and no body
// is told as whole that was cut.
#include <gtest/gtest.h>

#ifdef HOLDFAST_TEST_WITH_TLS

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "net/client_transport.hpp"
#include "net/tls_session.hpp"
#include "support/scale.hpp"
#include "support/seed.hpp"
#include "support/tls_client_rig.hpp"

namespace {

using namespace holdfast;
using namespace std::chrono_literals;
using net::client_error;
using net::client_stage;
using test::driven_client;
using test::scripted_peer;
using test::scripted_tls_server;
using test::tls_speaker;
using test::words_of;

std::string answer(std::string_view body) {
    std::string made = "HTTP/1.1 200 OK\r\nContent-Length: ";
    return made.append(std::to_string(body.size())).append("\r\n\r\n").append(body);
}

constexpr std::string_view with_length = "HTTP/1.1 200 OK\r\nA: b\r\nContent-Length: 5\r\n\r\nhello";
constexpr std::string_view chunked =
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\nT: 1\r\n\r\n";
constexpr std::string_view to_the_end = "HTTP/1.1 200 OK\r\n\r\nhello";

// Every one where that costs little, else every so many, begun anywhere: over many runs all are tried.
std::size_t stride() { return test::sanitized ? 41 : 5; }

struct ClientTlsHostile : ::testing::Test {
    test::tls_world world;

    net::client_options hasty() const {
        auto options = world.options();
        options.timeouts.connect = 20s;
        return options;
    }
};

// What a server says first, up to where it waits for the client.
std::string first_flight(tls_speaker& tls, scripted_peer& peer) {
    tls.end().feed(peer.some());
    while (!tls.end().shake() && !tls.end().failed()) {
        std::string flight = tls.end().take();
        if (!flight.empty()) return flight;
        tls.end().feed(peer.some());
    }
    return {};
}

TEST_F(ClientTlsHostile, AHandshakeCutAnywhereIsToldAsThat) {
    test::seeded_random random;
    for (const int version : {TLS1_3_VERSION, TLS1_2_VERSION}) {
        std::atomic<std::size_t> cut{0}, whole{SIZE_MAX};
        std::atomic<bool> asked{false};
        scripted_tls_server server(world,
                                   [&](tls_speaker& tls, scripted_peer& peer, int number) {
                                       const std::string flight = first_flight(tls, peer);
                                       whole = flight.size();
                                       // Signatures differ in length: this flight may be shorter than the last.
                                       const std::size_t bytes = std::min<std::size_t>(cut, flight.size() - 1);
                                       peer.send(std::string_view(flight).substr(0, bytes));
                                       if (number % 4 == 0) return peer.reset();
                                       peer.shutdown_send();
                                       while (true) {
                                           const std::string more = peer.some();
                                           if (more.empty()) return;
                                           tls.end().feed(more);
                                           if (tls.end().shake() && !tls.end().open().empty()) asked = true;
                                       }
                                   },
                                   {.version = version});
        driven_client client(hasty());
        for (cut = random.below(stride()); cut < whole; cut += 1 + random.below(2 * stride() - 1)) {
            const auto result = client.get(server.url());
            ASSERT_EQ(result.error, client_error::tls_failed) << cut << " of " << whole << ": " << words_of(result);
            ASSERT_EQ(result.stage, client_stage::securing);
            ASSERT_FALSE(result.sent);
            ASSERT_EQ(client.counters().open, 0U);
        }
        EXPECT_GT(whole, 500U);
        EXPECT_FALSE(asked);
        EXPECT_EQ(client.counters().tls_failures, client.counters().started);
    }
}

TEST_F(ClientTlsHostile, AnyByteOfTheHandshakeMayBeWrong) {
    test::seeded_random random;
    for (const int version : {TLS1_3_VERSION, TLS1_2_VERSION}) {
        std::atomic<std::size_t> wrong{0}, whole{SIZE_MAX};
        std::atomic<unsigned> bit{0};
        scripted_tls_server server(
            world,
            [&](tls_speaker& tls, scripted_peer& peer, int) {
                std::string flight = first_flight(tls, peer);
                whole = flight.size();
                if (wrong < flight.size()) flight[wrong] = static_cast<char>(flight[wrong] ^ (1 << bit));
                peer.send(flight);
                peer.shutdown_send();  // who waits for what a wrong length promises hears that nothing comes
                peer.gone();
            },
            {.version = version});
        driven_client client(hasty());
        for (wrong = random.below(stride()); wrong < whole; wrong += 1 + random.below(2 * stride() - 1)) {
            bit = static_cast<unsigned>(random.below(8));
            const auto result = client.get(server.url());
            // TLS 1.3: the client believes it is through when the flight is. A byte that counts for nothing (the
            // version of the first record) leaves it so; then the end comes, and no answer.
            ASSERT_FALSE(result.ok());
            ASSERT_TRUE(result.error == client_error::tls_failed || result.error == client_error::not_trusted ||
                        result.error == client_error::closed_unanswered)
                << wrong << " of " << whole << ": " << words_of(result);
        }
        EXPECT_GT(whole, 500U);
    }
}

TEST_F(ClientTlsHostile, WhatIsNotTlsIsToldAsThat) {
    test::seeded_random random;
    std::string bytes;
    std::mutex lock;
    test::scripted_server server([&](scripted_peer& peer, int) {
        peer.some();
        {
            const std::lock_guard guard(lock);
            peer.send(bytes);
        }
        peer.shutdown_send();
        peer.gone();
    });
    driven_client client(hasty());
    const auto told = [&](std::string said) {
        {
            const std::lock_guard guard(lock);
            bytes = std::move(said);
        }
        const auto result = client.get(server.url("/", "https://localhost:"));
        EXPECT_EQ(result.error, client_error::tls_failed) << words_of(result);
        EXPECT_FALSE(result.sent);
        return result.detail;
    };
    const std::string http = told("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
    EXPECT_NE(http.find("does not speak TLS"), std::string::npos) << http;
    EXPECT_NE(told("").find("closed the connection"), std::string::npos);
    EXPECT_NE(told(std::string("\x15\x03\x03\x00\x02\x02\x46", 7)).find("neither TLS 1.3 nor 1.2"), std::string::npos);
    EXPECT_NE(told(std::string("\x15\x03\x03\x00\x02\x02\x78", 7)).find("HTTP/1.1"), std::string::npos);
    EXPECT_NE(told(std::string("\x15\x03\x03\x00\x02\x02\x70", 7)).find("no host localhost"), std::string::npos);
    for (int i = 0; i < 50; ++i) {
        std::string garbage(1 + random.below(300), ' ');
        for (char& c : garbage) c = static_cast<char>(random.below(256));
        told(garbage);
    }
}

TEST_F(ClientTlsHostile, AHandshakeThatStandsHasTheTimeToConnect) {
    scripted_tls_server server(world, [](tls_speaker& tls, scripted_peer& peer, int number) {
        if (number == 0) return void(peer.gone());
        std::string flight = first_flight(tls, peer);
        flight.pop_back();
        peer.send(flight);
        peer.gone();
    });
    driven_client client(world.options());
    for (int i = 0; i < 2; ++i) {
        net::client_request asked{.url = server.url()};
        asked.timeouts.connect = 50ms;
        const auto result = client.ask(asked);
        EXPECT_EQ(result.error, client_error::connect_timeout);
        // On a machine that stands still the time may be over before the connection stands.
        EXPECT_TRUE(result.stage == client_stage::securing || result.stage == client_stage::connecting);
        EXPECT_FALSE(result.sent);
    }
    EXPECT_EQ(client.counters().open, 0U);
}

TEST_F(ClientTlsHostile, AHandshakeWithoutEndIsBounded) {
    test::scripted_server server([](scripted_peer& peer, int number) {
        peer.some();
        // Changes of cipher, empty records of a handshake, a message of 16 MiB, one that is said to be long.
        const std::string change("\x14\x03\x03\x00\x01\x01", 6), empty("\x16\x03\x03\x00\x00", 5);
        std::string claims("\x16\x03\x03\x40\x00\x02\xff\xff\xff", 9);
        claims.append(16380, 'x');
        std::string certificate("\x16\x03\x03\x40\x00\x0b\x01\x80\x00", 9);
        certificate.append(16380, 'x');
        const std::string* const all[] = {&change, &empty, &claims, &certificate};
        const std::string& each = *all[number % 4];
        for (std::size_t sent = 0; sent < (8U << 20U); sent += each.size())
            if (!peer.send(each)) return;
        peer.gone();
    });
    driven_client client(hasty());
    for (int i = 0; i < 4; ++i) {
        const auto result = client.get(server.url("/", "https://localhost:"));
        EXPECT_EQ(result.error, client_error::tls_failed) << i << words_of(result);
    }
}

TEST_F(ClientTlsHostile, CancelsAndEndsInTheMiddleOfAHandshake) {
    std::atomic<int> reached{0};
    scripted_tls_server server(world, [&](tls_speaker& tls, scripted_peer& peer, int number) {
        const std::string flight = first_flight(tls, peer);
        peer.send(std::string_view(flight).substr(0, number == 0 ? 0 : flight.size() / 2));
        ++reached;
        peer.gone();
    });
    net::client_result last;
    {
        driven_client client(world.options());
        for (int i = 0; i < 2; ++i) {
            const auto id = client.start({.url = server.url()});
            client.turn_until([&] { return reached == i + 1; });
            client.get().turn();
            EXPECT_TRUE(client.get().cancel(id));
            const auto result = client.end_of(id);
            EXPECT_EQ(result.error, client_error::cancelled);
            EXPECT_EQ(result.stage, client_stage::securing);
            EXPECT_EQ(client.counters().open, 0U);
        }
    }
    {
        net::client client(world.options());
        client.get(server.url(), [&](net::client_result&& result) { last = std::move(result); });
        while (reached != 3) client.turn();
    }
    EXPECT_EQ(last.error, client_error::client_ended);
}

TEST_F(ClientTlsHostile, AnEndWithoutAnEndOfTlsIsNone) {
    for (const bool notified : {true, false})
        for (const std::string_view whole : {with_length, chunked, to_the_end}) {
            std::atomic<std::size_t> cut{0};
            scripted_tls_server server(world, [&](tls_speaker& tls, scripted_peer&, int) {
                tls.request();
                if (cut != 0) tls.send(whole.substr(0, cut));
                if (notified) tls.notify();
            });
            driven_client client(world.options());
            std::uint64_t cuts = 0;
            for (cut = 0; cut <= whole.size(); cut += test::sanitized && cut < whole.size() - 3 ? 3 : 1) {
                const auto result = client.get(server.url());
                const std::size_t head = whole.find("\r\n\r\n") + 4;
                const bool complete = whole == to_the_end ? notified && cut >= head : cut == whole.size();
                ASSERT_EQ(result.ok(), complete) << cut << " of " << whole << words_of(result);
                if (complete) {
                    ASSERT_EQ(result.response.body(),
                              std::string_view("hello").substr(0, cut - head + (whole == to_the_end ? 0 : 5)));
                    continue;
                }
                ASSERT_EQ(result.error, cut == 0 ? client_error::closed_unanswered : client_error::truncated);
                if (!notified) {
                    ++cuts;
                    ASSERT_NE(result.detail.find("close_notify"), std::string::npos) << result.detail;
                }
            }
            EXPECT_EQ(client.counters().tls_truncated, cuts);
        }
}

TEST_F(ClientTlsHostile, RecordsThatWereTamperedWithEndTheAnswer) {
    std::atomic<std::size_t> wrong{0}, whole{1};
    scripted_tls_server server(world, [&](tls_speaker& tls, scripted_peer& peer, int) {
        tls.request();
        tls.send("HTTP/1.1 200 OK\r\n\r\nhel");
        std::string record = tls.end().seal("lo");
        whole = record.size();
        record[wrong] = static_cast<char>(record[wrong] ^ 1);
        peer.send(record + tls.end().seal_end());
        peer.shutdown_send();
        peer.gone();
    });
    driven_client client(world.options());
    for (wrong = 0; wrong < whole; ++wrong) {
        const auto result = client.get(server.url());
        ASSERT_EQ(result.error, client_error::truncated) << wrong << ": " << words_of(result);
        ASSERT_EQ(result.response.body(), "hel") << wrong;
    }
    EXPECT_EQ(client.counters().open, 0U);
}

TEST_F(ClientTlsHostile, ReadsRecordsThatComeByteByByte) {
    scripted_tls_server server(world, [](tls_speaker& tls, scripted_peer& peer, int) {
        const std::string flight = first_flight(tls, peer);
        for (const char c : flight) peer.send({&c, 1});
        for (const std::string_view whole : {with_length, chunked, with_length}) {
            tls.request();
            for (const char c : tls.end().seal(whole)) peer.send({&c, 1});
        }
        peer.gone();
    });
    driven_client client(world.options());
    for (int i = 0; i < 3; ++i) {
        const auto result = client.get(server.url());
        ASSERT_TRUE(result.ok()) << words_of(result);
        EXPECT_EQ(result.response.body(), "hello");
    }
    EXPECT_EQ(client.counters().connected, 1U);
}

TEST_F(ClientTlsHostile, TakesNothingThatNobodyAskedFor) {
    // In the record of the answer; in one of its own behind it; later; half of one later.
    std::atomic<int> sent{0}, told{0};
    scripted_tls_server server(world, [&](tls_speaker& tls, scripted_peer& peer, int number) {
        tls.request();
        const std::string own = answer("own " + std::to_string(number));
        if (number == 0) tls.send(own + answer("poison"));
        if (number == 1) {
            const std::string first = tls.end().seal(own);
            peer.send(first + tls.end().seal(answer("poison")));
        }
        if (number >= 2) tls.send(own);
        if (number == 2 || number == 3) {
            while (told < number) std::this_thread::yield();
            const std::string poison = tls.end().seal(answer("poison"));
            peer.send(std::string_view(poison).substr(0, number == 2 ? poison.size() : poison.size() / 2));
            sent = number;
        }
        peer.gone();
    });
    driven_client client(world.options());
    for (int i = 0; i < 5; ++i) {
        const auto result = client.get(server.url());
        EXPECT_EQ(result.response.body(), "own " + std::to_string(i)) << words_of(result);
        EXPECT_EQ(client.counters().open, i < 2 ? 0U : 1U) << i;
        if (i == 2 || i == 3) {
            told = i;
            while (sent != i) std::this_thread::yield();
        }
    }
    EXPECT_EQ(client.counters().connected, 5U);
    EXPECT_EQ(client.counters().unasked_bytes, 3U);
}

TEST_F(ClientTlsHostile, TicketsThatComeLateLeaveAnIdleConnectionAsItIs) {
    std::atomic<int> sent{0};
    scripted_tls_server server(world, [&](tls_speaker& tls, scripted_peer& peer, int) {
        for (int i = 1;; ++i) {
            tls.request();
            tls.send(answer("own"));
            const std::string ticket = tls.end().seal_ticket();
            peer.send(ticket + tls.end().seal_key_update(true));
            sent = i;
        }
    });
    driven_client client(world.options());
    for (int i = 1; i <= 6; ++i) {
        EXPECT_EQ(client.get(server.url()).response.body(), "own");
        while (sent != i) std::this_thread::yield();
        if (i % 2 == 0)
            for (int turns = 0; turns < 3; ++turns) client.get().turn();  // or found by the next request
    }
    EXPECT_EQ(client.counters().connected, 1U);
    EXPECT_EQ(client.counters().closed_idle + client.counters().unasked_bytes, 0U);
}

TEST_F(ClientTlsHostile, AnIdleConnectionThatEndsIsGivenUp) {
    std::atomic<int> ended{0};
    scripted_tls_server server(world, [&](tls_speaker& tls, scripted_peer& peer, int number) {
        tls.request();
        tls.send(answer("own"));
        if (number % 2 == 0) tls.notify();
        peer.close();
        ++ended;
    });
    driven_client client(world.options());
    for (int i = 1; i <= 4; ++i) {
        const auto result = client.get(server.url());
        EXPECT_TRUE(result.ok()) << words_of(result);
        EXPECT_EQ(result.attempts, 1U);
        while (ended != i) std::this_thread::yield();
    }
    EXPECT_EQ(client.counters().connected, 4U);
    EXPECT_EQ(client.counters().tls_truncated, 0U) << "nothing was cut";
}

TEST_F(ClientTlsHostile, SaysItsEnd) {
    std::atomic<int> said{0}, gone{0};
    scripted_tls_server server(world, [&](tls_speaker& tls, scripted_peer&, int) {
        tls.request();
        tls.send(answer("x"));
        said += tls.client_notifies() ? 1 : 0;
        ++gone;
    });
    {
        driven_client client(world.options());
        EXPECT_TRUE(client.ask({.url = server.url(), .close = true}).ok());
        EXPECT_TRUE(client.get(server.url()).ok());
    }
    while (gone != 2) std::this_thread::yield();
    EXPECT_EQ(said, 2);
}

// A handshake made over a pair of sockets, of which the test has both ends.
struct secured_pair {
    explicit secured_pair(const test::tls_world& world) : context(test::make_server_context(world.pair)) {
        int ends[2];
        if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
            throw std::runtime_error("no pair of sockets");
        peer = std::make_unique<scripted_peer>(ends[0]);
        own = ends[1];
        server = std::make_unique<test::tls_server_end>(context.get());
        transport = net::make_tls_transport(own, net::tls_session::connect(world.trust, "localhost", nullptr));
        while (transport->begin() == EAGAIN) {
            server->feed(peer->some());
            (void)server->shake();
            peer->send(server->take());
        }
        server->feed(peer->some());
        if (!server->shake()) throw std::runtime_error("no handshake");
        peer->send(server->take());
    }
    ~secured_pair() {
        transport.reset();
        ::close(own);
    }
    secured_pair(const secured_pair&) = delete;
    secured_pair& operator=(const secured_pair&) = delete;

    test::tls_ptr<SSL_CTX> context;
    std::unique_ptr<scripted_peer> peer;
    std::unique_ptr<test::tls_server_end> server;
    std::unique_ptr<net::client_transport> transport;
    int own = -1;
};

TEST_F(ClientTlsHostile, WhatHasNotLeftDoesNotCountAsSent) {
    secured_pair pair(world);
    std::string body(1U << 20U, 'b');
    const iovec part{body.data(), body.size()};
    net::client_transport::moved moved;
    while (moved.error == 0) moved = pair.transport->send({&part, 1});
    EXPECT_EQ(moved.error, EAGAIN);
    EXPECT_EQ(pair.transport->wants(), static_cast<std::uint32_t>(EPOLLOUT));
    pair.peer->close();
    EXPECT_EQ(pair.transport->flush(), EPIPE);
    EXPECT_EQ(pair.transport->send({&part, 1}).error, EPIPE) << "the record in flight was lost";
    EXPECT_EQ(pair.transport->wants(), 0U);
}

// A server that wants its key updates answered and reads no answer: at the transport, where nothing is a matter of
// time.
TEST_F(ClientTlsHostile, AnswersOfTlsItselfThatNobodyTakesAreBounded) {
    secured_pair pair(world);
    std::string into(65536, ' ');
    int code = EAGAIN;
    for (int updates = 0; updates < 100'000 && code == EAGAIN; ++updates) {
        pair.peer->send(pair.server->seal_key_update(true));
        code = pair.transport->receive(into).error;
    }
    EXPECT_EQ(code, net::tls_broken);
    EXPECT_NE(pair.transport->reason().find("key updates"), std::string::npos) << pair.transport->reason();
}

TEST_F(ClientTlsHostile, NeverMixesAnswersUpWhateverAServerDoes) {
    test::seeded_random random;
    std::mutex lock;
    const auto draw = [&](std::size_t below) {
        const std::lock_guard guard(lock);
        return static_cast<unsigned>(random.below(below));
    };
    scripted_tls_server server(world, [&](tls_speaker& tls, scripted_peer& peer, int) {
        while (true) {
            const std::string head = tls.request();
            const std::string own = answer(head.substr(5, head.find(' ', 5) - 5));
            if (draw(3) == 0) peer.send(tls.end().seal_key_update(draw(2) == 0));
            if (draw(3) == 0) peer.send(tls.end().seal_ticket());
            std::string record = tls.end().seal(own);
            const std::size_t own_bytes = record.size();
            switch (draw(12)) {
                case 0: record += tls.end().seal(answer("poison")); break;
                case 1: record += answer("poison"); break;
                case 2:
                    record[draw(record.size())] ^= 4;
                    peer.send(record);
                    return;
                case 3: peer.send(std::string_view(record).substr(0, draw(record.size()))); return;
                case 4: tls.notify(); return;
                case 5: peer.reset(); return;
                case 6: record += tls.end().seal_end(); break;
                default: break;
            }
            // What comes behind an answer comes with its end, or no client could tell it from the next one.
            const std::size_t at = draw(own_bytes);
            if (!peer.send(std::string_view(record).substr(0, at)) || !peer.send(std::string_view(record).substr(at)))
                return;
        }
    });
    auto options = world.options();
    options.limits.connections_per_origin_max = 4;
    options.timeouts = {.connect = 20s, .first_byte = 2s, .silence = 2s, .whole = 20s};
    driven_client client(options);
    const int most = static_cast<int>(test::scaled(400));
    int right = 0;
    for (int begun = 0; begun < most;) {
        std::vector<std::pair<int, net::request_id>> asked;
        for (int i = 0; i < 8 && begun < most; ++i, ++begun)
            asked.emplace_back(begun, client.start({.url = server.url("/" + std::to_string(begun))}));
        for (const auto& [number, id] : asked) {
            const auto result = client.end_of(id);
            if (!result.ok()) continue;
            ++right;
            ASSERT_EQ(result.response.body(), std::to_string(number));
        }
    }
    EXPECT_GT(right, most / 3);
}

}  // namespace

#else

TEST(ClientTlsHostile, Withstands) { GTEST_SKIP() << "needs: a build with TLS"; }

#endif
