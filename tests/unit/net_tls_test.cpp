// SPDX-License-Identifier: Apache-2.0
// A server whose listener speaks TLS, over real sockets, with OpenSSL as its client: what works as without TLS, and
// what a client may do to the handshake, to records, and to the end of a connection. Time-outs are short and waited for
// on the socket; nothing sleeps.
#include <gtest/gtest.h>

#include "support/http_server.hpp"

#ifdef HOLDFAST_TEST_WITH_TLS

#include <malloc.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "holdfast/error.hpp"
#include "holdfast/net/body_reader.hpp"
#include "holdfast/net/channel.hpp"
#include "holdfast/net/listener.hpp"
#include "holdfast/net/server.hpp"
#include "holdfast/net/tls.hpp"
#include "holdfast/net/websocket_frame.hpp"
#include "support/http_client.hpp"
#include "support/process.hpp"
#include "support/seed.hpp"
#include "support/tls_peer.hpp"

namespace {

using namespace holdfast;
using namespace std::chrono_literals;
using test::echo;
using test::get;
using test::http_client;
using test::numbered;
using test::post;
using test::tls_client;

/// A server with a listener that speaks TLS and one that does not, in a thread of the test.
class tls_server {
 public:
    explicit tls_server(net::handler answer = echo, net::server_options options = {})
        : files(folder.write_pair()),
          credentials(files),
          listener_(net::listen_tcp("127.0.0.1:0")),
          plain_listener_(net::listen_tcp("127.0.0.1:0")),
          port_(net::bound_port(listener_)),
          plain_port_(net::bound_port(plain_listener_)),
          server_({listener_, plain_listener_}, with_tls(std::move(options)), std::move(answer)) {}
    ~tls_server() { stop(); }

    tls_server& start() {
        thread_ = std::thread([this] { server_.run(); });
        return *this;
    }
    /// Ends it. Returns: what it counted.
    const net::server_counters& stop() {
        server_.stop();
        return join();
    }
    const net::server_counters& join() {
        if (thread_.joinable()) thread_.join();
        return server_.counters();
    }
    [[nodiscard]] net::server& get() noexcept { return server_; }
    [[nodiscard]] std::uint16_t port() const noexcept { return port_; }
    [[nodiscard]] std::uint16_t plain_port() const noexcept { return plain_port_; }

    test::tls_folder folder;
    net::tls_files files;
    net::tls_credentials credentials;

 private:
    net::server_options with_tls(net::server_options options) const {
        options.engine = test::engine_of_tests::choice();
        options.tls = {{.listener = listener_, .credentials = credentials}};
        return options;
    }

    int listener_, plain_listener_;
    std::uint16_t port_, plain_port_;
    net::server server_;
    std::thread thread_;
};

net::server_options with(std::uint32_t net::limits::* timeout, std::uint32_t ms) {
    net::server_options options;
    options.limits.*timeout = ms;
    return options;
}

const tls_client::options tls_1_2{.tls = {.version_max = TLS1_2_VERSION}};

std::string name_of_server(tls_client& client) {
    const test::tls_ptr<X509> certificate(SSL_get1_peer_certificate(client.end().get()));
    char name[64] = {};
    if (certificate)
        X509_NAME_get_text_by_NID(X509_get_subject_name(certificate.get()), NID_commonName, name, sizeof name);
    return name;
}

// --- what is agreed on

TEST(TlsServer, AnswersByTls13AndHttp11) {
    tls_server server;
    server.start();
    tls_client client(server.port(), {.tls = {.protocols = "h2 http/1.1"}});
    EXPECT_EQ(client.ask(get("/hello")).body, "GET /hello ");
    EXPECT_STREQ(SSL_get_version(client.end().get()), "TLSv1.3");
    const unsigned char* chosen = nullptr;
    unsigned size = 0;
    SSL_get0_alpn_selected(client.end().get(), &chosen, &size);
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(chosen), size), "http/1.1");
    EXPECT_EQ(name_of_server(client), "localhost");
    const auto& counted = server.stop();
    EXPECT_EQ(counted.tls_handshakes, 1U);
    EXPECT_EQ(counted.tls_resumed + counted.tls_failures + counted.tls_plain, 0U);
    EXPECT_EQ(counted.requests, 1U);
}

TEST(TlsServer, AnswersByTls12WithForwardSecrecy) {
    tls_server server;
    server.start();
    tls_client client(server.port(), tls_1_2);
    EXPECT_EQ(client.ask(get("/")).status, 200);
    EXPECT_STREQ(SSL_get_version(client.end().get()), "TLSv1.2");
    EXPECT_EQ(std::string(SSL_get_cipher_name(client.end().get())).substr(0, 5), "ECDHE");
    EXPECT_EQ(SSL_get_current_compression(client.end().get()), nullptr);
}

TEST(TlsServer, OlderVersionsAreRefused) {
    tls_server server;
    server.start();
    tls_client client(server.port(), {.tls = {.version_max = TLS1_1_VERSION}});
    EXPECT_FALSE(client.shake());
    EXPECT_NE(client.end().reason().find("protocol version"), std::string::npos) << client.end().reason();
    EXPECT_TRUE(client.gone());
    EXPECT_EQ(server.stop().tls_failures, 1U);
}

TEST(TlsServer, OtherProtocolsAreRefusedByName) {
    tls_server server;
    server.start();
    tls_client client(server.port(), {.tls = {.protocols = "h2 spdy/1"}});
    EXPECT_FALSE(client.shake());
    EXPECT_NE(client.end().reason().find("no application protocol"), std::string::npos) << client.end().reason();
    EXPECT_EQ(server.stop().tls_failures, 1U);
}

TEST(TlsServer, AListenerWithoutTlsStaysOne) {
    tls_server server;
    server.start();
    http_client plain(server.plain_port());
    tls_client client(server.port());
    EXPECT_EQ(plain.ask(get("/plain")).body, "GET /plain ");
    EXPECT_EQ(client.ask(get("/secret")).body, "GET /secret ");
    EXPECT_EQ(plain.ask(get("/again")).body, "GET /again ");
    EXPECT_EQ(server.stop().tls_handshakes, 1U);
}

TEST(TlsServer, AHelloAskedForAgainIsTaken) {  // HelloRetryRequest: the client's first share is of another group
    tls_server server;
    server.start();
    tls_client client(server.port(), {.tls = {.groups = "ffdhe2048:P-256"}});
    EXPECT_EQ(client.ask(get("/")).status, 200);
}

// --- exchanges

TEST(TlsServer, PipelinedRequestsAreAnsweredInOrder) {
    tls_server server;
    server.start();
    tls_client client(server.port());
    ASSERT_TRUE(client.shake());
    std::string one_record;
    for (int i = 0; i < 50; ++i) one_record += get(numbered(i));
    client.end().write(one_record);
    for (int i = 50; i < 100; ++i) client.end().write(get(numbered(i)));  // a record each, in one send
    client.push();
    for (int i = 0; i < 100; ++i) ASSERT_EQ(client.reply().body, "GET " + numbered(i) + " ");
    EXPECT_EQ(server.stop().requests, 100U);
}

TEST(TlsServer, LargeBodiesGoBothWays) {
    net::server_options options;
    options.limits.message.body_bytes_max = 8U << 20U;
    tls_server server([](const net::request& r, net::response& w) { w.body(std::string(r.body())); },
                      std::move(options));
    server.start();
    std::string body(5'000'001, ' ');
    for (std::size_t i = 0; i < body.size(); ++i) body[i] = static_cast<char>('a' + (i * 7 + i / 251) % 26);
    for (const auto& version : {tls_client::options{}, tls_1_2}) {
        tls_client client(server.port(), version);
        EXPECT_TRUE(client.ask(post("/", body)).body == body);
        EXPECT_TRUE(client.ask(post("/", "small")).body == "small");
    }
    const auto& counted = server.stop();
    EXPECT_GT(counted.bytes_sent, 10'000'000U);
    EXPECT_LT(counted.bytes_sent, 10'100'000U) << "what TLS adds is some bytes a record";
}

TEST(TlsServer, BytesMayComeOneByOne) {
    tls_server server;
    server.start();
    tls_client client(server.port());
    const auto trickle = [&] {
        const std::string bytes = client.end().take();
        for (const char& each : bytes) client.send_raw({&each, 1});
        return bytes.size();
    };
    (void)client.end().shake();
    EXPECT_GT(trickle(), 100U);
    while (!client.end().shake()) ASSERT_TRUE(client.pull());
    client.end().write(get("/bytewise"));
    EXPECT_GT(trickle(), 50U);
    EXPECT_EQ(client.reply().body, "GET /bytewise ");
}

TEST(TlsServer, LateAnswersAndStreamsWorkAsWithout) {
    std::list<std::jthread> late;
    tls_server server([&](const net::request& r, net::response& w) {
        if (r.path() == "/late") {
            late.emplace_back([channel = w.defer()] {
                net::response answer;
                answer.body("later");
                (void)channel.answer(std::move(answer));
            });
        } else if (r.path() == "/stream") {
            late.emplace_back([channel = w.stream()] {
                for (int i = 0; i < 200; ++i) (void)channel.send("message " + std::to_string(i) + "\n");
                channel.close();
            });
        } else {
            w.body("now");
        }
    });
    server.start();
    tls_client client(server.port());
    client.send(get("/late") + get("/now") + get("/stream"));
    EXPECT_EQ(client.reply().body, "later");
    EXPECT_EQ(client.reply().body, "now");
    EXPECT_NE(client.read_to("\r\n\r\n").find("chunked"), std::string::npos);
    const std::string all = client.read_to("\r\n0\r\n\r\n");
    std::size_t messages = 0;
    for (std::size_t at = 0; (at = all.find("message ", at)) != std::string::npos; ++at) ++messages;
    EXPECT_EQ(messages, 200U);
}

// A file goes out in pieces, each when the one before has left: also behind an answer of the same receive.
TEST(TlsServer, FilesGoOutWhole) {
    test::tls_folder folder;
    std::string text(1'000'003, ' ');
    for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>('a' + (i * 7 + i / 251) % 26);
    const std::string path = folder.write("file", text);
    tls_server server([&](const net::request& r, net::response& w) {
        if (r.path() == "/file")
            EXPECT_EQ(w.file(r, path), net::file_outcome::sent);
        else
            w.body("small");
    });
    server.start();
    tls_client client(server.port());
    ASSERT_TRUE(client.shake());
    for (const char* target : {"/first", "/file", "/behind", "/file"}) client.end().write(get(target));
    client.push();
    EXPECT_EQ(client.reply().body, "small");
    EXPECT_TRUE(client.reply().body == text);
    EXPECT_EQ(client.reply().body, "small");
    EXPECT_TRUE(client.reply().body == text);
}

TEST(TlsServer, WebSocketsEchoOverTls) {
    tls_server server([](const net::request& r, net::response& w) {
        (void)w.websocket(r, {.queue_bytes_max = 4U << 20U,
                              .on_receive = [](const net::channel& from, net::received_message message) {
                                  from.send(std::string(message.payload), message.kind);
                              }});
    });
    server.start();
    constexpr net::websocket_key key{0x37, 0xfa, 0x21, 0x3d};
    const auto frame = [&](std::string_view payload) {
        std::string bytes;
        net::append_websocket_frame(bytes, net::websocket_opcode::text, true, payload, &key);
        return bytes;
    };
    tls_client client(server.port());
    // A frame in the record of the request, and others behind it.
    client.send(get("/",
                    "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: "
                    "dGhlIHNhbXBsZSBub25jZQ==\r\n") +
                frame("first"));
    EXPECT_EQ(client.read_to("\r\n\r\n").substr(0, 12), "HTTP/1.1 101");
    EXPECT_EQ(client.take(7),
              "\x81\x05"
              "first");
    const std::string large(100'000, 'x');
    client.send(frame(large));
    client.send(frame("last"));
    EXPECT_EQ(client.take(10).substr(0, 2), "\x81\x7f");
    EXPECT_TRUE(client.take(large.size()) == large);
    EXPECT_EQ(client.take(6),
              "\x81\x04"
              "last");
    client.send(std::string("\x88\x82", 2) + std::string(4, '\0') + "\x03\xe8");
    EXPECT_EQ(client.take(4), "\x88\x02\x03\xe8");
    EXPECT_TRUE(client.notified());
}

// --- the handshake, attacked

TEST(TlsServer, AHandshakeCutAnywhereLeavesNothingBehind) {
    tls_server server;
    server.start();
    std::size_t cuts = 0, whole = 0;
    const auto cut_after = [&](std::size_t bytes, bool second_flight, bool reset) {
        tls_client client(server.port());
        (void)client.end().shake();
        std::string flight = client.end().take();
        if (second_flight) {
            client.send_raw(flight);
            while (!client.end().shake()) EXPECT_TRUE(client.pull());
            flight = client.end().take();
        }
        ++whole;
        if (bytes != 0 || second_flight) ++cuts;
        if (bytes >= flight.size()) return false;
        client.send_raw(std::string_view(flight).substr(0, bytes));
        if (reset)
            client.reset();
        else
            client.close();
        return true;
    };
    for (std::size_t at = 0; cut_after(at, false, at % 2 == 1); ++at) {
    }
    for (std::size_t at = 0; cut_after(at, true, at % 2 == 1); ++at) {
    }
    EXPECT_GT(cuts, 250U);
    tls_client after(server.port());
    EXPECT_EQ(after.ask(get("/", "Connection: close\r\n")).status, 200);
    EXPECT_TRUE(after.notified());
    server.get().drain();
    const auto& counted = server.join();
    EXPECT_EQ(counted.accepted, whole + 1);
    EXPECT_EQ(counted.open, 0U);
    EXPECT_EQ(counted.tls_handshakes, 1U);
    // A reset may come before the bytes are looked at, and then nothing of a handshake has been seen.
    EXPECT_LE(counted.tls_failures, cuts);
    EXPECT_GE(counted.tls_failures, cuts / 3);
}

TEST(TlsServer, AnyByteOfTheHelloMayBeWrong) {
    tls_server server;
    server.start();
    test::seeded_random random;
    std::string hello;
    for (std::size_t at = 0; at == 0 || at < hello.size(); ++at) {
        tls_client client(server.port());
        (void)client.end().shake();
        hello = client.end().take();
        hello[at] = static_cast<char>(hello[at] ^ static_cast<char>(1U << random.below(8)));
        client.send_raw(hello);
        client.shutdown_send();
        EXPECT_TRUE(client.gone());
    }
    tls_client after(server.port());
    EXPECT_EQ(after.ask(get("/")).status, 200);
    EXPECT_EQ(server.stop().tls_handshakes, 1U) << "a hello that was changed is never agreed on";
}

TEST(TlsServer, GarbageIsRefusedAndCounted) {
    tls_server server;
    server.start();
    test::seeded_random random;
    constexpr int tries = 64;
    for (int i = 0; i < tries; ++i) {
        std::string bytes(random.below(500) + 1, ' ');
        for (char& each : bytes) each = static_cast<char>(random.below(256));
        if (i % 2 == 0) bytes[0] = 22;
        if (i % 4 == 0 && bytes.size() > 2) bytes.replace(1, 2, "\x03\x01");
        if (bytes[0] >= 'A' && bytes[0] <= 'Z') bytes[0] = '\0';
        tls_client client(server.port());
        client.send_raw(bytes);
        client.shutdown_send();
        EXPECT_TRUE(client.gone());
    }
    tls_client after(server.port());
    EXPECT_EQ(after.ask(get("/")).status, 200);
    EXPECT_EQ(server.stop().tls_failures, static_cast<std::uint64_t>(tries));
}

TEST(TlsServer, ARequestWithoutTlsIsClosedInSilenceAndCounted) {
    tls_server server;
    server.start();
    http_client client(server.port());
    client.send(get("/"));
    EXPECT_TRUE(client.ended());
    const auto& counted = server.stop();
    EXPECT_EQ(counted.tls_plain, 1U);
    EXPECT_EQ(counted.requests + counted.refused + counted.tls_failures, 0U);
}

// Nine bytes must not be worth 128 KiB, nor a trickle of fragments any length.
TEST(TlsServer, AHelloThatClaimsToBeLongIsRefusedAtOnce) {
    tls_server server;
    server.start();
    http_client claims(server.port());
    claims.send(std::string_view("\x16\x03\x01\x00\x04\x01\x01\xff\x00", 9));
    EXPECT_TRUE(claims.gone());
    http_client trickles(server.port());
    std::string fragments("\x16\x03\x01\x00\x04\x01\x00\x30\x00", 9);
    for (int i = 0; i < 8000; ++i) fragments.append(std::string_view("\x16\x03\x01\x00\x01m", 6));
    (void)trickles.send_while_possible(fragments);
    EXPECT_TRUE(trickles.gone());
    EXPECT_EQ(server.stop().tls_failures, 2U);
}

TEST(TlsServer, AnEndlessHandshakeHasTheTimeOfAHead) {
    tls_server server(echo, with(&net::limits::header_timeout_ms, 50));
    server.start();
    http_client silent(server.port());
    tls_client half(server.port());
    (void)half.end().shake();
    half.send_raw(half.end().take().substr(0, 100));
    EXPECT_TRUE(half.gone());
    EXPECT_TRUE(silent.gone());
    EXPECT_EQ(server.stop().tls_timeouts, 2U);
}

TEST(TlsServer, WhoTricklesAHandshakeWinsNoTime) {
    tls_server server(echo, with(&net::limits::header_timeout_ms, 200));
    server.start();
    http_client client(server.port());
    client.send(std::string_view("\x16\x03\x01\x40\x00\x01\x00\x3f\xfc", 9));
    int trickled = 0;
    while (!client.readable(5ms)) {
        (void)client.send_while_possible("x");
        ASSERT_LT(++trickled, 4000);
    }
    EXPECT_TRUE(client.gone());
    EXPECT_EQ(server.stop().tls_timeouts, 1U);
}

// A handshake that is made ends the time for it: what follows has that of an idle connection.
TEST(TlsServer, AHandshakeThatIsMadeIsNotTimedOut) {
    tls_server server(echo, with(&net::limits::header_timeout_ms, 200));
    server.start();
    std::unique_ptr<tls_client> client;
    do {  // again where this machine stood still
        client = std::make_unique<tls_client>(server.port());
    } while (!client->shake());
    tls_client other(server.port());
    (void)other.end().shake();
    other.send_raw(other.end().take().substr(0, 50));
    EXPECT_TRUE(other.gone()) << "by now the first one would be, too";
    EXPECT_EQ(client->ask(get("/")).status, 200);
    EXPECT_GE(server.stop().tls_timeouts, 1U);
}

TEST(TlsServer, BeyondTheLimitOfConnectionsAnAlertSaysSo) {
    net::server_options options;
    options.limits.connections_max = 1;
    tls_server server(echo, std::move(options));
    server.start();
    tls_client first(server.port());
    EXPECT_EQ(first.ask(get("/")).status, 200);
    tls_client second(server.port());
    EXPECT_FALSE(second.shake());
    EXPECT_NE(second.end().reason().find("internal error"), std::string::npos) << second.end().reason();
    EXPECT_EQ(server.stop().over_connections_max, 1U);
}

// --- records, attacked

TEST(TlsServer, ARecordThatWasTamperedWithEndsTheConnection) {
    for (const auto& version : {tls_client::options{}, tls_1_2}) {
        tls_server server;
        server.start();
        tls_client client(server.port(), version);
        EXPECT_EQ(client.ask(get("/first")).status, 200);
        client.end().write(get("/second"));
        std::string bytes = client.end().take();
        client.end().write(get("/third"));
        bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
        client.send_raw(bytes + client.end().take());
        EXPECT_TRUE(client.gone());
        const auto& counted = server.stop();
        EXPECT_EQ(counted.tls_failures, 1U);
        EXPECT_EQ(counted.requests, 1U) << "nothing behind the wrong record is read";
    }
}

// What came whole before the wrong record is answered, however both were cut.
TEST(TlsServer, ARequestBeforeAWrongRecordIsAnswered) {
    tls_server server;
    server.start();
    tls_client client(server.port());
    ASSERT_TRUE(client.shake());
    client.end().write(get("/first"));
    std::string bytes = client.end().take();
    client.end().write(get("/second"));
    std::string wrong = client.end().take();
    wrong.back() = static_cast<char>(wrong.back() ^ 1);
    client.send_raw(bytes + wrong);
    EXPECT_EQ(client.reply().body, "GET /first ");
    EXPECT_TRUE(client.gone());
    const auto& counted = server.stop();
    EXPECT_EQ(counted.requests, 1U);
    EXPECT_EQ(counted.tls_failures, 1U);
}

// Bodies in pieces are cut where their record is wrong, and whole where each pause lets records pile up.
TEST(TlsServer, ABodyInPiecesEndsWhereARecordIsWrong) {
    for (const bool wrong : {false, true}) {
        constexpr std::size_t length = 400'000;
        std::atomic<std::uint64_t> bytes = 0;
        std::atomic<net::body_end> why = net::body_end::cut;
        net::server_options options;
        options.body_in_pieces = [](const net::request&) { return true; };
        tls_server server(
            [&](const net::request&, net::response& to) {
                to.receive_body({.on_piece =
                                     [&](const net::body_reader& body, std::string_view piece) {
                                         bytes += piece.size();
                                         body.pause();
                                         body.resume();
                                     },
                                 .on_end =
                                     [&, answer = to.defer()](const net::body_result& end) {
                                         why = end.why;
                                         if (end.why != net::body_end::complete) return;
                                         net::response told;
                                         told.body(std::to_string(end.bytes));
                                         EXPECT_EQ(answer.answer(std::move(told)), net::channel_status::ok);
                                     }});
            },
            std::move(options));
        server.start();
        tls_client client(server.port());
        ASSERT_TRUE(client.shake());
        client.end().write(post("/", std::string(length, 'a')));
        std::string records = client.end().take();
        if (wrong) records.back() = static_cast<char>(records.back() ^ 1);
        client.send_raw(records);
        if (wrong)
            EXPECT_TRUE(client.gone());
        else
            EXPECT_EQ(client.reply().body, std::to_string(length));
        const auto& counted = server.stop();
        EXPECT_EQ(counted.tls_failures, wrong ? 1U : 0U);
        EXPECT_EQ(why, wrong ? net::body_end::client_away : net::body_end::complete);
        if (wrong)
            EXPECT_LT(bytes, length);
        else
            EXPECT_EQ(bytes, length);
    }
}

TEST(TlsServer, ARequestWithoutTlsInsideAConnectionIsNotRead) {
    tls_server server;
    server.start();
    tls_client client(server.port());
    EXPECT_EQ(client.ask(get("/")).status, 200);
    client.send_raw(get("/injected"));
    EXPECT_TRUE(client.gone());
    EXPECT_EQ(server.stop().requests, 1U);
}

TEST(TlsServer, RenegotiationIsRefused) {
    tls_server server;
    server.start();
    tls_client client(server.port(), tls_1_2);
    EXPECT_EQ(client.ask(get("/")).status, 200);
    ASSERT_EQ(SSL_renegotiate(client.end().get()), 1);
    EXPECT_FALSE(client.shake());
    EXPECT_NE(client.end().reason().find("no renegotiation"), std::string::npos) << client.end().reason();
    EXPECT_EQ(server.stop().tls_handshakes, 1U);
}

TEST(TlsServer, KeysMayBeUpdated) {
    tls_server server;
    server.start();
    tls_client client(server.port());
    ASSERT_TRUE(client.shake());
    for (int i = 0; i < 10; ++i) {
        ASSERT_EQ(SSL_key_update(client.end().get(), SSL_KEY_UPDATE_REQUESTED), 1);
        EXPECT_EQ(client.ask(get(numbered(i))).body, "GET " + numbered(i) + " ");
    }
    EXPECT_EQ(server.stop().tls_failures, 0U);
}

// --- the end of a connection

TEST(TlsServer, CloseNotifyGoesBothWays) {
    tls_server server;
    server.start();
    tls_client client(server.port());
    EXPECT_EQ(client.ask(get("/")).status, 200);
    client.end().notify();
    client.push();
    EXPECT_TRUE(client.notified());
    tls_client other(server.port());
    EXPECT_EQ(other.ask(get("/", "Connection: close\r\n")).status, 200);
    EXPECT_TRUE(other.notified());
    EXPECT_EQ(server.stop().tls_truncated, 0U);
}

TEST(TlsServer, WhoSaysItSendsNothingMoreIsStillAnswered) {
    tls_server server;
    server.start();
    for (const auto& version : {tls_client::options{}, tls_1_2}) {
        tls_client client(server.port(), version);
        ASSERT_TRUE(client.shake());
        client.end().write(get("/1") + get("/2"));
        client.end().notify();
        client.push();
        client.shutdown_send();
        EXPECT_EQ(client.reply().body, "GET /1 ");
        EXPECT_EQ(client.reply().body, "GET /2 ");
        EXPECT_TRUE(client.notified());
    }
    EXPECT_EQ(server.stop().tls_truncated, 0U);
}

TEST(TlsServer, ATruncatedConnectionIsToldFromAClosedOne) {
    tls_server server;
    server.start();
    tls_client client(server.port());
    EXPECT_EQ(client.ask(get("/")).status, 200);
    client.shutdown_send();
    EXPECT_TRUE(client.gone());
    tls_client half(server.port());
    half.send(post("/", "body").substr(0, 30));
    half.shutdown_send();
    EXPECT_EQ(half.reply().status, 400);
    const auto& counted = server.stop();
    EXPECT_EQ(counted.tls_truncated, 2U);
    EXPECT_EQ(counted.lost, 1U);
}

TEST(TlsServer, ARequestCutByCloseNotifyIsRefused) {
    tls_server server;
    server.start();
    tls_client client(server.port());
    client.send(post("/", "body").substr(0, 30));
    client.end().notify();
    client.push();
    EXPECT_EQ(client.reply().status, 400);
    EXPECT_TRUE(client.notified());
    EXPECT_EQ(server.stop().tls_truncated, 0U);
}

TEST(TlsServer, AnIdleConnectionIsToldThatItIsClosed) {
    tls_server server(echo, with(&net::limits::idle_timeout_ms, 50));
    server.start();
    tls_client client(server.port());
    ASSERT_TRUE(client.shake());
    EXPECT_TRUE(client.notified());
    EXPECT_EQ(server.stop().idle_timeouts, 1U);
}

TEST(TlsServer, ARefusedRequestIsAnsweredBeforeTheEnd) {
    tls_server server;
    server.start();
    tls_client client(server.port());
    client.send("GET / HTTP/1.1\r\nbad field\r\n\r\n" + std::string(100'000, 'x'));
    EXPECT_EQ(client.reply().status, 400);
    EXPECT_TRUE(client.notified());
}

TEST(TlsServer, ADrainSaysGoodbyeToAll) {
    std::atomic<int> asked = 0;
    tls_server server([&](const net::request& r, net::response& w) {
        ++asked;
        echo(r, w);
    });
    server.start();
    tls_client idle(server.port()), silent(server.port());
    EXPECT_EQ(idle.ask(get("/")).status, 200);
    server.get().drain();
    EXPECT_TRUE(idle.notified());
    EXPECT_TRUE(silent.gone());
    const auto& counted = server.join();
    EXPECT_EQ(counted.open, 0U);
}

// --- slow readers

TEST(TlsServer, AStuckReaderIsReset) {
    tls_server server(
        [](const net::request& r, net::response& w) { w.body(std::string(r.path() == "/" ? 8U << 20U : 1U, 'x')); },
        with(&net::limits::write_timeout_ms, 200));
    server.start();
    tls_client client(server.port(), {.receive_buffer = 4096});
    client.send(get("/"));
    tls_client other(server.port());
    while (!client.cut_off()) ASSERT_EQ(other.ask(get("/small")).status, 200);
    EXPECT_EQ(server.stop().write_timeouts, 1U);
}

// Who asks and does not read is not read from. What it is owed is bounded, and comes in the end.
TEST(TlsServer, ASlowReaderIsPausedAndGetsEverything) {
    net::server_options options;
    options.limits.output_bytes_max = 64U << 10U;
    const std::string body(40'000, 'b');
    tls_server server([&](const net::request&, net::response& w) { w.body(body); }, std::move(options));
    server.start();
    tls_client client(server.port(), {.receive_buffer = 16384});
    ASSERT_TRUE(client.shake());
    constexpr int requests = 600;
    std::string all;
    for (int i = 0; i < requests; ++i) {
        client.end().write(get(numbered(i)));
        all += client.end().take();
    }
    std::jthread sender([&] { client.send_raw(all); });
    for (int i = 0; i < requests; ++i) ASSERT_TRUE(client.reply().body == body) << i;
    sender.join();
    const auto& counted = server.stop();
    EXPECT_EQ(counted.requests, static_cast<std::uint64_t>(requests));
    EXPECT_GT(counted.read_pauses, 5U);
}

// --- tickets, certificates

// Attacks I3 of server.hpp: records that had come when a connection's input was paused.
TEST(TlsServer, RecordsOfPausedConnectionsCountAsHeld) {
    // A receive of io_uring brings less than a record.
    if (test::engine_of_tests::choice() != net::engine_choice::epoll) return;
    std::atomic<bool> held{false}, release{false};
    std::vector<net::channel> asked;
    net::server_options options;
    options.limits.held_bytes_max = 100'000;
    options.limits.pipeline_max = 4;
    tls_server server(
        [&](const net::request& r, net::response& w) {
            if (r.target() == "/late") return asked.push_back(w.defer());
            held = true, held.notify_one();
            release.wait(false);
        },
        std::move(options));
    server.start();
    std::list<tls_client> clients;
    for (int i = 0; i < 8; ++i) ASSERT_TRUE(clients.emplace_back(server.port()).shake());
    http_client holder(server.plain_port());
    holder.send(get("/hold"));
    held.wait(false);
    std::string requests;
    while (requests.size() < 40'000) requests += get("/late");
    for (auto& client : clients) {
        for (int i = 0; i < 5; ++i) client.send(get("/late"));  // the last of them pauses
        client.send(requests);
    }
    release = true, release.notify_one();
    EXPECT_EQ(holder.reply().status, 200);
    EXPECT_GE(test::counted_by(server.get(), &net::server_counters::over_held_bytes), 1U);
}

TEST(TlsServer, AKnownClientResumesByItsTicket) {
    for (const int version : {TLS1_3_VERSION, TLS1_2_VERSION}) {
        tls_server server;
        server.start();
        tls_client first(server.port(), {.tls = {.version_max = version}});
        EXPECT_EQ(first.ask(get("/")).status, 200);
        ASSERT_NE(first.end().session(), nullptr);
        EXPECT_EQ(SSL_session_reused(first.end().get()), 0);
        tls_client second(server.port(), {.tls = {.version_max = version, .session = first.end().session()}});
        EXPECT_EQ(second.ask(get("/")).status, 200);
        EXPECT_EQ(SSL_session_reused(second.end().get()), 1);
        const auto& counted = server.stop();
        EXPECT_EQ(counted.tls_handshakes, 2U);
        EXPECT_EQ(counted.tls_resumed, 1U);
    }
}

TEST(TlsServer, ATicketOfAnotherServerCostsAWholeHandshake) {
    tls_server one, other;
    one.start();
    other.start();
    tls_client first(one.port());
    EXPECT_EQ(first.ask(get("/")).status, 200);
    tls_client second(other.port(), {.tls = {.session = first.end().session()}});
    EXPECT_EQ(second.ask(get("/")).status, 200);
    EXPECT_EQ(SSL_session_reused(second.end().get()), 0);
    EXPECT_EQ(other.stop().tls_resumed, 0U);
}

TEST(TlsServer, CertificatesAreReplacedWithoutLosingAConnection) {
    tls_server server;
    server.start();
    tls_client before(server.port());
    EXPECT_EQ(before.ask(get("/")).status, 200);
    (void)server.folder.write_pair("renewed.example");
    server.credentials.reload();
    tls_client after(server.port(), {.tls = {.session = before.end().session()}});
    EXPECT_EQ(after.ask(get("/")).status, 200);
    EXPECT_EQ(name_of_server(before), "localhost");
    EXPECT_EQ(name_of_server(after), "renewed.example");
    EXPECT_EQ(before.ask(get("/still")).body, "GET /still ");
    server.folder.write("key.pem", "rubbish");
    EXPECT_THROW(server.credentials.reload(), error);
    tls_client last(server.port());
    EXPECT_EQ(last.ask(get("/")).status, 200);
    EXPECT_EQ(name_of_server(last), "renewed.example") << "what cannot be read leaves what was there";
    const auto& counted = server.stop();
    EXPECT_EQ(counted.tls_handshakes, 3U);
    EXPECT_EQ(counted.tls_resumed, 0U) << "keys of tickets go with the certificate";
}

TEST(TlsServer, CertificatesAreReplacedWhileClientsCome) {
    tls_server server;
    server.start();
    std::atomic<bool> over = false;
    std::jthread reloader([&] {
        while (!over) server.credentials.reload();
    });
    for (int i = 0; i < 30; ++i) {
        tls_client client(server.port());
        EXPECT_EQ(client.ask(get("/")).status, 200);
    }
    over = true;
    reloader.join();
    EXPECT_EQ(server.stop().tls_handshakes, 30U);
}

// --- memory: the clients are another process

TEST(TlsServer, AnIdleConnectionKeepsNoBuffers) {
    if (::mallinfo2().uordblks == 0) GTEST_SKIP() << "needs: an allocator that counts";  // sanitizers bring their own
    if (test::engine_of_tests::choice() != net::engine_choice::epoll) return;            // sessions know no engine
    constexpr std::size_t clients = 100;
    tls_server server;
    const std::uint16_t port = server.port();
    test::child_process child([&](test::channel& talk) -> std::string {
        if (!talk.wait()) return "nobody asks";
        std::deque<tls_client> all;
        const auto stay = [&](std::string_view how, const auto& go) {
            for (std::size_t i = 0; i < clients; ++i) go(all.emplace_back(port));
            return talk.signal() && talk.wait() ? "" : std::string(how);
        };
        if (auto e = stay("silent", [](tls_client&) {}); !e.empty()) return e;
        all.clear();
        if (auto e = stay("half",
                          [](tls_client& c) {
                              (void)c.end().shake();
                              c.send_raw(c.end().take().substr(0, 100));
                          });
            !e.empty())
            return e;
        all.clear();
        if (auto e = stay("hello",
                          [](tls_client& c) {
                              (void)c.end().shake();
                              c.push();
                              while (!c.end().shake()) c.pull();
                          });
            !e.empty())
            return e;
        all.clear();
        if (auto e = stay("idle", [](tls_client& c) { (void)c.ask(get("/")); }); !e.empty()) return e;
        for (tls_client& c : all) {
            c.end().write(std::string(16000, 'x'));
            c.send_raw(c.end().take().substr(0, 15000));
        }
        return talk.signal() && talk.wait() ? "" : "last";
    });
    server.start();
    {
        tls_client warm(port), warmer(port, tls_1_2);
        EXPECT_EQ(warm.ask(get("/")).status + warmer.ask(get("/")).status, 400);
    }
    const auto memory = [&](std::size_t open) {  // on the loop, once it has met who came and who left
        for (std::size_t bytes = 0;;) {
            std::atomic<bool> looked = false;
            server.get().post([&] {
                if (server.get().counters().open == open) bytes = ::mallinfo2().uordblks;
                looked = true;
                looked.notify_one();
            });
            looked.wait(false);
            if (bytes != 0) return bytes;
        }
    };
    const std::size_t before = memory(0);
    for (const char* what :
         {"connected", "with a part of a hello", "in a handshake", "idle", "with a part of a record"}) {
        ASSERT_TRUE(child.talk().signal() && child.talk().wait());
        const std::size_t each = (memory(clients) - before) / clients;
        std::printf("[ MEMORY   ] a TLS connection %s: %zu bytes\n", what, each);
        RecordProperty(std::string("bytes ") + what, static_cast<int>(each));
        EXPECT_LT(each, 64U << 10U) << what;
    }
    child.talk().signal();
    EXPECT_TRUE(child.wait().success());
}

// --- processor time of the loop, told and not judged

TEST(TlsServer, WhatItCostsIsTold) {
    if (test::engine_of_tests::choice() != net::engine_choice::epoll) return;  // once is enough
    tls_server server;
    server.start();
    const auto spent_us = [&](const std::function<void()>& work) {  // by the loop's thread
        const auto now = [&] {
            std::atomic<double> us = -1;
            server.get().post([&] {
                timespec spent{};
                ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &spent);
                us = static_cast<double>(spent.tv_sec) * 1e6 + static_cast<double>(spent.tv_nsec) / 1e3;
                us.notify_one();
            });
            us.wait(-1);
            return us.load();
        };
        const double before = now();
        work();
        return now() - before;
    };
    constexpr int handshakes = 20, requests = 300;
    const auto shake = [&](SSL_SESSION* session) {
        for (int i = 0; i < handshakes; ++i) {
            tls_client client(server.port(), {.tls = {.session = session}});
            EXPECT_EQ(client.ask(get("/")).status, 200);
        }
    };
    tls_client client(server.port());
    http_client plain(server.plain_port());
    EXPECT_EQ(client.ask(get("/")).status + plain.ask(get("/")).status, 400);
    std::printf("[ COST     ] a handshake, P-256: %.0f us; resumed: %.0f us\n",
                spent_us([&] { shake(nullptr); }) / handshakes,
                spent_us([&] { shake(client.end().session()); }) / handshakes);
    const auto rsa = test::make_rsa_key(2048);
    server.folder.write("cert.pem", test::pem_of(test::make_certificate(rsa.get(), "rsa").get()));
    server.folder.write("key.pem", test::pem_of(rsa.get()));
    server.credentials.reload();
    std::printf("[ COST     ] a handshake, RSA of 2048 bits: %.0f us\n",
                spent_us([&] { shake(nullptr); }) / handshakes);
    const auto ask = [&](auto& who) {
        for (int i = 0; i < requests; ++i) EXPECT_EQ(who.ask(get("/")).status, 200);
    };
    std::printf("[ COST     ] a request alone, with TLS: %.2f us; without: %.2f us\n",
                spent_us([&] { ask(client); }) / requests, spent_us([&] { ask(plain); }) / requests);
}

}  // namespace

#else

TEST(TlsServer, Speaks) { GTEST_SKIP() << "needs: a build with TLS"; }

#endif
