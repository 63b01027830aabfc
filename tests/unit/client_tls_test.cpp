// SPDX-License-Identifier: Apache-2.0
// What a client does over TLS: all that it does without, kept connections of one trust alone, shorter handshakes, ends
// that are told apart. Which certificates it believes: client_tls_trust_test.cpp. What it withstands:
// client_tls_hostile_test.cpp.
#include <gtest/gtest.h>

#ifdef HOLDFAST_TEST_WITH_TLS

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "holdfast/net/channel.hpp"
#include "support/tls_client_rig.hpp"

namespace {

using namespace holdfast;
using namespace std::chrono_literals;
using net::client_error;
using net::client_stage;
using net::upload_step;
using test::driven_client;
using test::echo;
using test::running_tls_server;
using test::scripted_peer;
using test::scripted_tls_server;
using test::tls_speaker;
using test::words_of;

constexpr std::string_view ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

struct ClientTls : ::testing::Test {
    test::tls_world world;
};

net::server_options with_long_bodies() {
    net::server_options options;
    options.limits.message.body_bytes_max = 16U << 20U;
    return options;
}

std::string long_body(std::size_t bytes) {
    std::string made(bytes, ' ');
    std::uint32_t state = 1;
    for (char& c : made) c = static_cast<char>((state = state * 1664525U + 1013904223U) >> 24U);
    return made;
}

TEST_F(ClientTls, AsksAndKeepsTheConnection) {
    running_tls_server server(world, echo);
    {
        driven_client client(world.options());
        for (const std::string method : {"GET", "POST", "PUT", "DELETE"}) {
            const auto result = client.ask({.method = method, .url = server.url("/a?b#c"), .body = "body"});
            ASSERT_TRUE(result.ok()) << words_of(result);
            EXPECT_EQ(result.response.body(), method + " /a?b body");
            EXPECT_EQ(result.stage, client_stage::done);
        }
        EXPECT_EQ(client.counters().connected, 1U);
        EXPECT_EQ(client.counters().reused, 3U);
        EXPECT_EQ(client.counters().tls_handshakes, 1U);
        EXPECT_EQ(client.counters().tls_failures, 0U);
    }
    const auto& counted = server.stop();
    EXPECT_EQ(counted.tls_handshakes, 1U);
    EXPECT_EQ(counted.tls_truncated, 0U) << "the client says close_notify";
    EXPECT_EQ(counted.requests, 4U);
}

TEST_F(ClientTls, VerifiesNamesAndAddresses) {
    running_tls_server server(world, echo);
    driven_client client(world.options());
    for (const char* const host : {"localhost", "127.0.0.1", "some.host.test"})
        EXPECT_TRUE(client.get(server.url("/", host)).ok()) << host;
    EXPECT_EQ(client.counters().connected, 3U);
    const auto wrong = client.get(server.url("/", "some.where.test"));
    EXPECT_EQ(wrong.error, client_error::not_trusted);
    EXPECT_EQ(wrong.stage, client_stage::securing);
    EXPECT_FALSE(wrong.sent);
    for (const char* const words :
         {"https://some.where.test port ", "is for localhost, *.host.test, 127.0.0.1, ::1, not for some.where.test"})
        EXPECT_NE(wrong.detail.find(words), std::string::npos) << wrong.detail;
    EXPECT_EQ(client.counters().tls_failures, 1U);
    EXPECT_EQ(client.counters().open, 3U);
}

TEST_F(ClientTls, DoesNotBelieveAnybodyUnasked) {
    running_tls_server server(world, echo);
    net::client_options options;
    driven_client client(options);
    const auto refused = client.get(server.url());
    EXPECT_TRUE(refused.error == client_error::not_trusted || refused.error == client_error::tls_failed)
        << words_of(refused);
    EXPECT_FALSE(refused.sent);
    net::client_request asked{.url = server.url()};
    asked.tls = net::tls_trust({.insecurely_believe_anyone = true});
    EXPECT_TRUE(client.ask(asked).ok());
    EXPECT_FALSE(client.get(server.url()).ok()) << "a connection of another trust was used";
    EXPECT_EQ(server.stop().requests, 1U);
}

TEST_F(ClientTls, KeepsConnectionsOfTrustsAndSchemesApart) {
    // One port for both: the first byte tells.
    const auto context = test::make_server_context(world.pair);
    std::atomic<int> secure{0};
    test::scripted_server server([&](scripted_peer& peer, int) {
        const std::string first = peer.some();
        if (first.front() != 22) {
            while (peer.send(ok) && !peer.request().empty()) {
            }
            return;
        }
        ++secure;
        tls_speaker tls(peer, context.get());
        tls.end().feed(first);
        while (!tls.request().empty()) tls.send(ok);
    });
    driven_client client(world.options());
    const std::string plain = server.url("/", "http://localhost:"), safe = server.url("/", "https://localhost:");
    net::client_request other{.url = safe};
    other.tls = net::tls_trust({.issuers_file = world.issuers});
    for (int round = 0; round < 3; ++round) {
        EXPECT_TRUE(client.get(plain).ok());
        EXPECT_TRUE(client.get(safe).ok());
        const auto result = client.ask(other);
        EXPECT_TRUE(result.ok()) << words_of(result);
        EXPECT_EQ(result.reused, round != 0);
    }
    EXPECT_EQ(client.counters().connected, 3U);
    EXPECT_EQ(client.counters().tls_handshakes, 2U);
    EXPECT_EQ(client.counters().tls_resumed, 0U) << "by what was given under another trust";
    EXPECT_EQ(secure, 2);
}

TEST_F(ClientTls, ResumesByTicketsWithinOneOrigin) {
    running_tls_server server(world, echo);
    driven_client client(world.options());
    const auto once = [&](const char* host) { return client.ask({.url = server.url("/", host), .close = true}); };
    for (int i = 0; i < 4; ++i) EXPECT_TRUE(once("localhost").ok());
    EXPECT_EQ(client.counters().tls_handshakes, 4U);
    EXPECT_EQ(client.counters().tls_resumed, 3U);
    EXPECT_TRUE(once("127.0.0.1").ok());
    EXPECT_EQ(client.counters().tls_resumed, 3U) << "by another origin's ticket";
    server.credentials.reload();  // forgets its keys
    EXPECT_TRUE(once("localhost").ok());
    EXPECT_EQ(client.counters().tls_resumed, 3U);
    EXPECT_TRUE(once("localhost").ok());
    EXPECT_EQ(client.counters().tls_resumed, 4U);
    EXPECT_EQ(server.stop().tls_resumed, 4U);
}

TEST_F(ClientTls, LargeBodiesGoBothWays) {
    running_tls_server server(
        world, [](const net::request& r, net::response& w) { w.body(std::string(r.body())); }, with_long_bodies());
    driven_client client(world.options());
    const std::string body = long_body(5'000'001);
    for (int round = 0; round < 2; ++round) {
        const auto result = client.ask({.method = "POST", .url = server.url(), .body = body});
        ASSERT_TRUE(result.ok()) << words_of(result);
        EXPECT_TRUE(result.response.body() == body);
    }
    EXPECT_EQ(client.counters().connected, 1U);
}

TEST_F(ClientTls, UploadsInPiecesWithAndWithoutATotal) {
    running_tls_server server(
        world, [](const net::request& r, net::response& w) { w.body(std::string(r.body())); }, with_long_bodies());
    driven_client client(world.options());
    const std::string whole = long_body(300'000);
    for (const bool total : {false, true}) {
        std::size_t at = 0;
        bool waits = false;
        net::client_request asked{.method = "PUT", .url = server.url()};
        net::request_id id{};
        asked.upload = [&](std::string& piece) {
            if ((waits = !waits)) {
                client.get().after(std::chrono::milliseconds(1), [&] { client.get().continue_upload(id); });
                return upload_step::wait;
            }
            const std::size_t bytes = std::min<std::size_t>(70'001, whole.size() - at);
            piece.append(whole, at, bytes);
            at += bytes;
            return at == whole.size() ? upload_step::end : upload_step::more;
        };
        if (total) asked.upload_bytes = whole.size();
        id = client.start(std::move(asked));
        const auto result = client.end_of(id);
        ASSERT_TRUE(result.ok()) << words_of(result);
        EXPECT_TRUE(result.response.body() == whole);
    }
}

TEST_F(ClientTls, LetsAPauseHoldTheServerBack) {
    std::atomic<bool> sent_all{false};
    scripted_tls_server server(world, [&](tls_speaker& tls, scripted_peer&, int) {
        tls.request();
        tls.send("HTTP/1.1 200 OK\r\n\r\n");
        const std::string piece(1U << 20U, 'x');
        for (int i = 0; i < 32; ++i)
            if (!tls.send(piece)) return;
        tls.notify();
        sent_all = true;
    });
    driven_client client(world.options());
    net::request_id id{};
    std::size_t come = 0;
    bool paused = false;
    net::client_callbacks calls;
    calls.on_head = [&](const net::client_response&) { paused = client.get().pause(id); };
    calls.on_body = [&](std::string_view piece) { come += piece.size(); };
    id = client.start({.url = server.url(), .body_bytes_max = 100U << 20U}, std::move(calls));
    client.turn_until([&] { return paused; });
    for (int i = 0; i < 20; ++i) client.get().turn();
    EXPECT_EQ(come, 0U);
    EXPECT_FALSE(sent_all) << "32 MiB in the buffers of a socket";
    client.get().resume(id);
    const auto result = client.end_of(id);
    EXPECT_TRUE(result.ok()) << words_of(result);
    EXPECT_EQ(come, 32U << 20U);
}

TEST_F(ClientTls, StreamsThroughManyPauses) {
    const std::string body = long_body(1'000'000);
    running_tls_server server(world, [&](const net::request&, net::response& w) { w.body(body); });
    driven_client client(world.options());
    std::string got;
    net::request_id id{};
    id = client.start({.url = server.url()}, {.on_done = {}, .on_body = [&](std::string_view piece) {
                                                  got += piece;
                                                  client.get().pause(id);
                                                  client.get().after(std::chrono::microseconds(1),
                                                                     [&] { client.get().resume(id); });
                                              }});
    const auto result = client.end_of(id);
    EXPECT_TRUE(result.ok()) << words_of(result);
    EXPECT_TRUE(got == body);
}

TEST_F(ClientTls, KeysAreUpdatedInTheMiddleOfEverything) {
    scripted_tls_server server(world, [](tls_speaker& tls, scripted_peer& peer, int) {
        while (!tls.request().empty()) {
            for (const char c : ok) {
                peer.send(tls.end().seal_key_update(true));
                tls.send({&c, 1});
            }
            peer.send(tls.end().seal_key_update(true));
            peer.send(tls.end().seal_ticket());
        }
    });
    driven_client client(world.options());
    for (int i = 0; i < 5; ++i) {
        const auto result = client.ask({.method = "POST", .url = server.url(), .body = ""});
        ASSERT_TRUE(result.ok()) << words_of(result);
        ASSERT_EQ(result.response.body(), "ok");
    }
    EXPECT_EQ(client.counters().connected, 1U) << "tickets and key updates are nobody's answer";
    EXPECT_EQ(client.counters().unasked_bytes, 0U);
}

TEST_F(ClientTls, ShowsItsOwnCertificate) {
    const test::tls_authority clients("clients");
    scripted_tls_server server(world,
                               [](tls_speaker& tls, scripted_peer& peer, int) {
                                   tls.request();
                                   tls.send(ok);
                                   peer.gone();
                               },
                               {.clients_issuer = clients.certificate()});
    driven_client client(world.options());
    net::client_request asked{.url = server.url()};
    asked.tls = net::tls_trust({.issuers_file = world.issuers,
                                .own = world.folder.write_pair("me", clients.issue("me", {.usage = "clientAuth"}))});
    EXPECT_TRUE(client.ask(asked).ok());
    // By TLS 1.3 the client is through, and may have sent, before it hears that it is not welcome.
    const auto without = client.get(server.url());
    EXPECT_TRUE(without.error == client_error::closed_unanswered || without.error == client_error::tls_failed)
        << words_of(without);
}

TEST_F(ClientTls, SpeaksOverUnixSockets) {
    const std::string path = world.folder.path("socket");
    const int listener = net::listen_unix(path);
    net::server_options options;
    options.tls = {{.listener = listener, .credentials = net::tls_credentials(world.files)}};
    net::server server({listener}, options, echo);
    std::thread thread([&] { server.run(); });
    {
        driven_client client(world.options());
        net::client_request asked{.url = "https://a.host.test/x", .unix_socket = path};
        EXPECT_EQ(client.ask(asked).response.body(), "GET /x ");
        EXPECT_TRUE(client.ask(asked).reused);
        asked.url = "https://b.host.test/x";
        EXPECT_FALSE(client.ask(asked).reused) << "verified for another host";
        asked.url = "https://elsewhere/x";
        EXPECT_EQ(client.ask(asked).error, client_error::not_trusted);
    }
    server.stop();
    thread.join();
}

TEST_F(ClientTls, LivesInTheLoopOfAServerAndInAThread) {
    running_tls_server behind(world, echo);
    net::client_thread client(world.options());
    const auto result = client.ask({.url = behind.url("/thread")});
    EXPECT_EQ(result.response.body(), "GET /thread ") << words_of(result);

    net::client within(world.options());
    const int listener = net::listen_tcp("127.0.0.1:0");
    const std::uint16_t port = net::bound_port(listener);
    net::server_options options;
    options.tls = {{.listener = listener, .credentials = net::tls_credentials(world.files)}};
    net::server front({listener}, options, [&](const net::request& r, net::response& w) {
        const net::channel later = w.defer();
        within.get(behind.url(r.path()), [later](net::client_result&& got) {
            net::response answer;
            answer.body("front of " + got.response.take_body());
            static_cast<void>(later.answer(std::move(answer)));
        });
    });
    front.watch(within.fd(), [&] { within.turn(); });
    std::thread thread([&] { front.run(); });
    EXPECT_EQ(client.ask({.url = "https://localhost:" + std::to_string(port) + "/x"}).response.body(),
              "front of GET /x ");
    front.stop();
    thread.join();
}

}  // namespace

#else

TEST(ClientTls, Asks) { GTEST_SKIP() << "needs: a build with TLS"; }

#endif
