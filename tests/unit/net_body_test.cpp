// SPDX-License-Identifier: Apache-2.0
// Bodies handed over in pieces: framing, back-pressure, 100-continue, early answers, and each way in which one ends.
#include "holdfast/net/body_reader.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "holdfast/error.hpp"
#include "holdfast/net/http_parser.hpp"
#include "holdfast/net/server.hpp"
#include "support/http_client.hpp"
#include "support/http_server.hpp"
#include "support/seed.hpp"

namespace {

using namespace holdfast;
using namespace std::chrono_literals;
using net::body_end;
using test::get;
using test::http_client;
using test::post;
using test::running_server;

std::string name_of(body_end why) {
    constexpr const char* names[] = {"complete", "answered",  "client_away", "timed_out",
                                     "too_long", "malformed", "cut",         "server_ended"};
    return names[static_cast<int>(why)];
}

std::string bytes_of(std::size_t size) {
    std::string text(size, '\0');
    for (std::size_t i = 0; i < size; ++i) text[i] = static_cast<char>(test::random_at(7, 5, i));
    return text;
}

std::string in_chunks(std::string_view body, std::size_t chunk, std::string_view trailers = {}) {
    std::string text;
    char size[32];
    for (; !body.empty(); body.remove_prefix(std::min(chunk, body.size()))) {
        std::snprintf(size, sizeof size, "%zx\r\n", std::min(chunk, body.size()));
        text.append(size).append(body.substr(0, chunk)).append("\r\n");
    }
    return text.append("0\r\n").append(trailers).append("\r\n");
}

std::string head(std::string_view target, std::string_view framing, std::string_view more = {}) {
    return "POST " + std::string(target) + " HTTP/1.1\r\nHost: a\r\n" + std::string(framing) + "\r\n" +
           std::string(more) + "\r\n";
}
std::string of_length(std::size_t bytes) { return "Content-Length: " + std::to_string(bytes); }
constexpr const char* chunked = "Transfer-Encoding: chunked";

/// What the server's callbacks said, for the test's thread to wait for.
class journal {
 public:
    void note(const std::string& said) {
        const std::lock_guard guard(lock_);
        said_.push_back(said);
        changed_.notify_all();
    }
    [[nodiscard]] bool has(const std::string& wanted) const {
        const std::lock_guard guard(lock_);
        return std::ranges::count(said_, wanted) != 0;
    }
    /// Whether it was said, within what a test may take.
    [[nodiscard]] bool await(const std::string& wanted) {
        std::unique_lock guard(lock_);
        return changed_.wait_for(guard, http_client::deadline, [&] { return std::ranges::count(said_, wanted) != 0; });
    }
    [[nodiscard]] std::string all() const {
        const std::lock_guard guard(lock_);
        std::string text;
        for (const auto& each : said_) text += each + "; ";
        return text;
    }

 private:
    mutable std::mutex lock_;
    std::condition_variable changed_;
    std::vector<std::string> said_;
};

/// Takes bodies below "/up", and answers with what came: bytes, how it ended, trailers.
struct uploads {
    journal said;
    std::list<net::body_reader> readers;  // of the loop
    std::list<net::channel> channels;
    std::uint64_t bytes_max = 64U << 20U;
    bool paused = false;
    std::atomic<bool> answers{true};  // at the end
    bool keeps = true;                // the bytes

    net::handler handler() {
        return [this](const net::request& asked, net::response& to) {
            if (!asked.body_follows() && asked.method() != net::method::post) {
                to.body("now");
                return;
            }
            if (asked.path() == "/refused") {
                to.problem(403, "not here");
                return;
            }
            struct upload {
                std::string bytes;
                net::channel channel;
            };
            auto taken = std::make_shared<upload>();
            net::channel_options options;
            options.on_close = [this](net::channel_end why) {
                said.note("closed " + std::to_string(static_cast<int>(why)));
            };
            taken->channel = to.defer(std::move(options));
            channels.push_back(taken->channel);
            readers.push_back(to.receive_body(
                {.bytes_max = bytes_max,
                 .paused = paused,
                 .on_piece =
                     [this, taken](const net::body_reader&, std::string_view piece) {
                         if (keeps) taken->bytes.append(piece);
                         said.note("piece");
                     },
                 .on_end =
                     [this, taken](const net::body_result& result) {
                         std::string trailers;
                         for (const auto& each : result.trailers)
                             trailers.append(each.name).append("=").append(each.value).append(",");
                         net::response late;
                         late.header("Why", name_of(result.why)).header("Bytes", std::to_string(result.bytes));
                         late.header("Trailers", trailers).body(std::move(taken->bytes));
                         if (answers) (void)taken->channel.answer(std::move(late));
                         said.note(name_of(result.why));
                     }}));
            said.note("begun");
        };
    }
    static net::server_options options() {
        net::server_options chosen;
        chosen.body_in_pieces = [](const net::request& asked) { return !asked.path().starts_with("/whole"); };
        return chosen;
    }
};

TEST(ServerBody, ComesWholeAndInOrderWhateverItsFramingAndSize) {
    uploads up;
    running_server server(up.handler(), uploads::options());
    server.start();
    http_client client(server.port());
    const std::string body = bytes_of(3U << 20U);  // three times what a whole body may have
    std::jthread sender([&] {
        client.send(head("/up", of_length(body.size())) + body + get("/next"));
        client.send(head("/up", chunked) + in_chunks(body, 70000, "Digest: x\r\n") + get("/next"));
    });
    for (const char* trailers : {"", "Digest=x,"}) {
        const auto reply = client.reply();
        EXPECT_EQ(reply.status, 200);
        EXPECT_TRUE(reply.body == body);
        EXPECT_EQ(reply.field("Why"), "complete");
        EXPECT_EQ(reply.field("Bytes"), std::to_string(body.size()));
        EXPECT_EQ(reply.field("Trailers"), trailers);
        EXPECT_EQ(client.reply().body, "now");
    }
    sender.join();
    server.stop();
    EXPECT_EQ(server.counters().requests, 4U);
}

// Attacks I1 of body_reader.hpp.
TEST(ServerBody, IsTheSameWhereverTheBytesAreCut) {
    uploads up;
    running_server server(up.handler(), uploads::options());
    server.start();
    http_client client(server.port());
    const std::string fixed = head("/up", of_length(5)) + "hello";
    const std::string coded = head("/up", chunked) + "2;x=y\r\nhe\r\n3\r\nllo\r\n0\r\nA: 1\r\nB:\t2 \r\n\r\n";
    const std::string all = fixed + get("/n") + coded + get("/n");
    const auto check = [&](const std::string& where) {
        const auto first = client.reply();
        ASSERT_EQ(first.body, "hello") << where;
        ASSERT_EQ(client.reply().body, "now") << where;
        const auto second = client.reply();
        ASSERT_EQ(second.body, "hello") << where;
        ASSERT_EQ(second.field("Trailers"), "A=1,B=2,") << where;
        ASSERT_EQ(client.reply().body, "now") << where;
    };
    for (std::size_t cut = 0; cut <= all.size(); ++cut) {
        client.send(all.substr(0, cut));
        client.send(all.substr(cut));
        check("cut at " + std::to_string(cut));
    }
    for (const char c : all) client.send({&c, 1});
    check("byte by byte");
}

TEST(ServerBody, OtherRoutesGetTheirsWhole) {
    running_server server(
        [](const net::request& asked, net::response& to) {
            EXPECT_FALSE(asked.body_follows());
            EXPECT_THROW((void)to.receive_body({}), error) << "it is here";
            test::echo(asked, to);
        },
        uploads::options());
    server.start();
    http_client client(server.port());
    EXPECT_EQ(client.ask(post("/whole", "abc")).body, "POST /whole abc");
    client.send(head("/whole", chunked) + "3\r\nabc\r\n0\r\n\r\n");
    EXPECT_EQ(client.reply().body, "POST /whole abc");
    EXPECT_EQ(client.ask(head("/whole", of_length(2U << 20U))).status, 413) << "before it is sent";
    EXPECT_TRUE(client.ended());
}

TEST(ServerBody, WithoutContentEndsAtOnce) {
    uploads up;
    running_server server(up.handler(), uploads::options());
    server.start();
    http_client client(server.port());
    for (const std::string& framing : {std::string("X: y"), of_length(0)}) {
        const auto reply = client.ask(head("/up", framing));
        EXPECT_EQ(reply.field("Why"), "complete");
        EXPECT_EQ(reply.field("Bytes"), "0");
    }
    client.send(head("/up", chunked) + "0\r\n\r\n");
    EXPECT_EQ(client.reply().field("Why"), "complete");
    EXPECT_FALSE(up.said.has("piece")) << "none are empty";
}

TEST(ServerBody, CallsThatMakeNoSenseThrow) {
    running_server server(
        [](const net::request&, net::response& to) {
            const net::body_reader first = to.receive_body({});
            EXPECT_TRUE(first.is_open());
            EXPECT_THROW((void)to.receive_body({}), error) << "twice";
            net::response other;
            EXPECT_THROW((void)other.receive_body({}), error);
            to.body("done");
        },
        uploads::options());
    server.start();
    EXPECT_EQ(http_client(server.port()).ask(post("/up", "abc")).body, "done");
    net::body_reader none;
    none.pause();
    none.resume();
    EXPECT_FALSE(none.is_open());
}

TEST(ServerBody, NoWebSocketBeginsWhereContentFollows) {
    running_server server(
        [](const net::request& asked, net::response& to) { EXPECT_FALSE(to.websocket(asked).is_open()); },
        uploads::options());
    server.start();
    http_client client(server.port());
    client.send(
        "GET /up HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nContent-Length: 3\r\n\r\nabc" +
        get("/next"));
    EXPECT_EQ(client.reply().status, 400);
}

// --- 100-continue

const std::string expects = "Expect: 100-continue\r\n";

TEST(ServerBodyContinue, IsSaidOnceTheBodyIsWanted) {
    uploads up;
    running_server server(up.handler(), uploads::options());
    server.start();
    http_client client(server.port());
    client.send(head("/up", of_length(2), expects));
    EXPECT_EQ(client.reply().status, 100);
    client.send("ok");
    EXPECT_EQ(client.reply().body, "ok");
    client.send(head("/up", of_length(2), expects) + "ok");
    EXPECT_EQ(client.reply().body, "ok") << "it has not waited";
    server.stop();
    EXPECT_EQ(server.counters().responses[0], 1U);
}

// RFC 9110 section 10.1.1: nobody knows whether the body follows a refusal, so the connection cannot go on.
TEST(ServerBodyContinue, IsNotSaidBeforeARefusal) {
    uploads up;
    running_server server(up.handler(), uploads::options());
    server.start();
    http_client client(server.port());
    const auto reply = client.ask(head("/refused", of_length(2), expects));
    EXPECT_EQ(reply.status, 403);
    EXPECT_EQ(reply.field("Connection"), "close");
    EXPECT_TRUE(client.ended());
    http_client eager(server.port());
    eager.send(head("/refused", of_length(2), expects) + "ok" + get("/next"));
    EXPECT_EQ(eager.reply().status, 403);
    EXPECT_EQ(eager.reply().body, "now") << "the body was there: the next request is known";
}

TEST(ServerBody, AClientThatResetsBesideAPausedReaderIsAway) {
    uploads up;
    up.paused = true;
    running_server server(up.handler(), uploads::options());
    server.start();
    http_client client(server.port());
    client.send(head("/up", of_length(100)) + "some of it");
    ASSERT_TRUE(up.said.await("begun"));
    EXPECT_GT(test::counted_by(server.get(), &net::server_counters::read_pauses), 0U);
    client.reset();
    EXPECT_TRUE(up.said.await("client_away")) << up.said.all();
    EXPECT_TRUE(up.said.await("closed 1")) << up.said.all();
    EXPECT_FALSE(up.said.has("piece"));
}

TEST(ServerBodyContinue, WaitsForAReaderThatBeganPaused) {
    uploads up;
    up.paused = true;
    auto options = uploads::options();
    options.limits.body_timeout_ms = 50;
    running_server server(up.handler(), std::move(options));
    server.start();
    http_client client(server.port());
    client.send(head("/up", of_length(2), expects));
    ASSERT_TRUE(up.said.await("begun"));
    EXPECT_FALSE(client.readable(120ms)) << "nor is it late: nobody has asked for it";
    server.get().post([&] { up.readers.front().resume(); });
    EXPECT_EQ(client.reply().status, 100);
}

TEST(ServerBodyContinue, KeepsItsPlaceBehindEarlierAnswers) {
    uploads up;
    up.answers = false;
    auto options = uploads::options();
    options.limits.body_timeout_ms = 1000;
    running_server server(up.handler(), std::move(options));
    server.start();
    http_client client(server.port());
    client.send(head("/up", of_length(0)) + head("/up", of_length(2), expects));
    ASSERT_TRUE(up.said.await("complete"));
    EXPECT_FALSE(client.readable(1100ms)) << "its body cannot be late: nobody has asked for it";
    server.get().post([&] {
        net::response late;
        late.body("first");
        EXPECT_EQ(up.channels.front().answer(std::move(late)), net::channel_status::ok);
    });
    EXPECT_EQ(client.reply().body, "first");
    EXPECT_EQ(client.reply().status, 100);
    client.send("ok");
    server.get().post([&] { EXPECT_EQ(up.channels.back().close(), net::channel_status::ok); });
    EXPECT_EQ(client.reply().status, 500);
}

// --- back-pressure

// Attacks I2 of body_reader.hpp.
TEST(ServerBody, APausedReaderHoldsItsClientBackAndNobodyElse) {
    uploads up;
    up.paused = true;
    up.keeps = false;
    auto options = uploads::options();
    // What a ring of 4 MiB had received before the pause took hold is kept by the engine, and counts.
    const bool ring = test::engine_of_tests::choice() == net::engine_choice::io_uring;
    options.limits.held_bytes_max = ring ? 8U << 20U : 256U << 10U;
    running_server server(up.handler(), std::move(options));
    server.start();
    http_client client(server.port());
    constexpr std::size_t size = 32U << 20U;  // more than the kernel takes for one connection
    const std::string block(1U << 16U, 'x');
    client.send(head("/up", of_length(size)));
    std::size_t sent = 0;
    const auto feed = [&] {
        const std::size_t n = client.send_now(std::string_view(block).substr(0, std::min(block.size(), size - sent)));
        sent += n;
        return n;
    };
    while (true) {
        if (feed() != 0) continue;
        EXPECT_EQ(http_client(server.port()).ask(get("/other")).body, "now");
        if (feed() == 0) break;
    }
    ASSERT_LT(sent, size);
    ASSERT_TRUE(up.said.await("begun"));
    EXPECT_FALSE(up.said.has("piece"));
    std::jthread elsewhere([&] { up.readers.front().resume(); });  // any thread may
    while (sent < size) {
        const std::size_t block_left = std::min(block.size(), size - sent);
        client.send(std::string_view(block).substr(0, block_left));
        sent += block_left;
    }
    const auto reply = client.reply();
    EXPECT_EQ(reply.field("Bytes"), std::to_string(size));
    EXPECT_EQ(reply.field("Why"), "complete");
    server.stop();
    EXPECT_EQ(server.counters().over_held_bytes, 0U);
    EXPECT_GE(server.counters().read_pauses, 1U);
}

TEST(ServerBody, PausedWithinAPieceNoneComesUntilItIsResumed) {
    std::atomic<int> while_paused{0};
    net::channel answer;
    running_server* serving = nullptr;
    running_server server(
        [&](const net::request&, net::response& to) {
            answer = to.defer();
            auto paused = std::make_shared<bool>(false);
            (void)to.receive_body({.on_piece =
                                       [&, paused](const net::body_reader& from, std::string_view) {
                                           if (*paused) ++while_paused;
                                           *paused = true;
                                           from.pause();
                                           serving->get().after(1ms, [paused, from] {
                                               *paused = false;
                                               from.resume();
                                           });
                                       },
                                   .on_end =
                                       [&](const net::body_result& result) {
                                           net::response late;
                                           late.body(std::to_string(result.bytes));
                                           (void)answer.answer(std::move(late));
                                       }});
        },
        uploads::options());
    serving = &server;
    server.start();
    http_client client(server.port());
    for (const bool coded : {false, true}) {
        const std::string body = bytes_of(300000);
        client.send(coded ? head("/up", chunked) + in_chunks(body, 1000) : head("/up", of_length(body.size())) + body);
        EXPECT_EQ(client.reply().body, "300000");
    }
    EXPECT_EQ(while_paused, 0);
}

// Both ways at once: what comes goes back as a stream, and neither queue grows beyond its bounds.
TEST(ServerBody, GoesBackAsAStreamWithBackPressureBothWays) {
    constexpr std::size_t queue = 64U << 10U;
    running_server server(
        [&](const net::request&, net::response& to) {
            struct echo {
                net::channel out;
                net::body_reader in;
                std::string kept;
                bool ended = false;
                void go_on() {
                    if (!kept.empty() && out.send(kept) == net::channel_status::full) return in.pause();
                    kept.clear();
                    if (ended) return (void)out.close();
                    in.resume();
                }
            };
            auto one = std::make_shared<echo>();
            one->out = to.stream({.queue_bytes_max = queue, .on_drain = [one](const net::channel&) { one->go_on(); }});
            one->in = to.receive_body({.bytes_max = 64U << 20U,
                                       .on_piece =
                                           [one](const net::body_reader&, std::string_view piece) {
                                               EXPECT_TRUE(one->kept.empty());
                                               EXPECT_LE(piece.size(), 64U << 10U)
                                                   << "a larger one could not be sent on";
                                               one->kept = piece;
                                               one->go_on();
                                           },
                                       .on_end =
                                           [one](const net::body_result& result) {
                                               EXPECT_EQ(result.why, body_end::complete);
                                               one->ended = true;
                                               if (one->kept.empty()) one->out.close();
                                           }});
        },
        uploads::options());
    server.start();
    http_client client(server.port(), {.receive_buffer = 16384});
    const std::string body = bytes_of(4U << 20U);
    std::jthread sender([&] { client.send(head("/up", of_length(body.size())) + body); });
    EXPECT_NE(client.read_to("\r\n\r\n").find("chunked"), std::string::npos);
    std::string back;
    for (std::string chunk = client.chunk(); !chunk.empty(); chunk = client.chunk()) back += chunk;
    EXPECT_TRUE(back == body);
    sender.join();
}

// It would wait for itself: its own exchange is all that is allowed under way.
TEST(ServerBody, IsNotHeldUpByTheExchangeThatWaitsForIt) {
    uploads up;
    auto options = uploads::options();
    options.limits.pipeline_max = 1;
    running_server server(up.handler(), std::move(options));
    server.start();
    http_client client(server.port());
    for (int i = 0; i < 3; ++i) {
        client.send(head("/up", of_length(10)) + "half");
        client.send("-other" + get("/next"));
        EXPECT_EQ(client.reply().body, "half-other");
        EXPECT_EQ(client.reply().body, "now");
    }
}

TEST(ServerBody, ThatNobodyAskedForIsReadOverWhileTheAnswerWaits) {
    journal said;
    net::channel waiting;  // of the loop
    running_server server(
        [&](const net::request& asked, net::response& to) {
            if (!asked.body_follows()) {
                to.body("now");
                return;
            }
            waiting = to.defer();
            said.note("begun");
        },
        uploads::options());
    server.start();
    http_client client(server.port());
    client.send(head("/up", chunked) + in_chunks(std::string(1000, 'x'), 100) + get("/next"));
    ASSERT_TRUE(said.await("begun"));
    EXPECT_FALSE(client.readable(10ms));
    server.get().post([&] {
        net::response late;
        late.body("late");
        EXPECT_EQ(waiting.answer(std::move(late)), net::channel_status::ok);
    });
    EXPECT_EQ(client.reply().body, "late");
    EXPECT_EQ(client.reply().body, "now");
    EXPECT_EQ(client.ask(head("/up", of_length(2U << 20U))).status, 413) << "within the limit of any body";
}

// --- answers that come before the body

TEST(ServerBody, AnEarlyAnswerReadsOverAShortRestAndClosesBehindALongOne) {
    uploads up;
    up.answers = false;
    running_server server(up.handler(), uploads::options());
    server.start();
    {
        http_client client(server.port());  // at once
        client.send(head("/refused", of_length(60000)));
        EXPECT_EQ(client.reply().field("Connection"), "");
        client.send(std::string(60000, 'x') + get("/next"));
        EXPECT_EQ(client.reply().body, "now");
    }
    for (const std::string& framing : {of_length(70000), std::string(chunked)}) {
        http_client client(server.port());
        client.send(head("/refused", framing));
        EXPECT_EQ(client.reply().field("Connection"), "close");
        (void)client.send_while_possible(std::string(70000, 'x'));
        EXPECT_TRUE(client.ended()) << "in order: what is on its way is read";
    }
    {
        http_client client(server.port());  // later, in the middle
        client.send(head("/up", of_length(1000)) + std::string(500, 'x'));
        ASSERT_TRUE(up.said.await("piece"));
        server.get().post([&] { EXPECT_EQ(up.channels.back().close(), net::channel_status::ok); });
        EXPECT_EQ(client.reply().status, 500);
        ASSERT_TRUE(up.said.await("answered"));
        client.send(std::string(500, 'x') + get("/next"));
        EXPECT_EQ(client.reply().body, "now");
    }
    http_client client(server.port());
    client.send(head("/up", of_length(1U << 20U)) + std::string(500, 'x'));
    while (true) {  // its handler has run once it is the last of three
        std::atomic<std::size_t> count{0};
        std::atomic<bool> told{false};
        server.get().post([&] { count = up.channels.size(), told = true, told.notify_all(); });
        told.wait(false);
        if (count == 2) break;
    }
    server.get().post([&] { EXPECT_EQ(up.channels.back().close(), net::channel_status::ok); });
    const auto reply = client.reply();
    EXPECT_EQ(reply.status, 500);
    EXPECT_EQ(reply.field("Connection"), "close");
    EXPECT_TRUE(client.ended());
}

// --- ways to end

TEST(ServerBody, BeyondItsLengthIs413) {
    uploads up;
    up.bytes_max = 1000;
    up.answers = false;
    running_server server(up.handler(), uploads::options());
    server.start();
    for (const bool coded : {false, true}) {
        http_client client(server.port());
        client.send(coded ? head("/up", chunked) + "3e9\r\n" : head("/up", of_length(1001), expects));
        const auto reply = client.reply();
        EXPECT_EQ(reply.status, 413);
        EXPECT_EQ(reply.field("Connection"), "close");
        EXPECT_TRUE(client.ended());
    }
    ASSERT_TRUE(up.said.await("too_long"));
    EXPECT_TRUE(up.said.has("closed " + std::to_string(static_cast<int>(net::channel_end::cut))));
    http_client client(server.port());
    up.answers = true;
    client.send(head("/up", chunked) + in_chunks(std::string(1000, 'x'), 300));
    EXPECT_EQ(client.reply().field("Why"), "complete");
    server.stop();
    EXPECT_EQ(server.counters().refused, 2U);
}

TEST(ServerBody, WhatIsNoChunkIs400) {
    for (const char* bad : {"x\r\n", "3\r\nabcd\r\n", "0\r\nContent-Length: 3\r\n\r\n", "0\r\nA b: c\r\n", "-1\r\n",
                            "0\r\n\rx", "00000000000000001\r\n"}) {
        uploads up;
        up.answers = false;
        running_server server(up.handler(), uploads::options());
        server.start();
        http_client client(server.port());
        client.send(head("/up", chunked) + "2\r\nhe\r\n" + bad + get("/never"));
        EXPECT_EQ(client.reply().status, 400) << bad;
        EXPECT_TRUE(client.ended()) << bad;
        EXPECT_TRUE(up.said.await("malformed")) << bad;
        server.stop();
        EXPECT_EQ(server.counters().requests, 1U);
    }
}

TEST(ServerBody, TooSlowIs408) {
    uploads up;
    up.answers = false;
    auto options = uploads::options();
    options.limits.body_timeout_ms = 50;
    running_server server(up.handler(), std::move(options));
    server.start();
    http_client client(server.port());
    client.send(head("/up", of_length(10)) + "half");
    const auto reply = client.reply();
    EXPECT_EQ(reply.status, 408);
    EXPECT_EQ(reply.field("Connection"), "close");
    EXPECT_TRUE(client.ended());
    EXPECT_TRUE(up.said.await("timed_out"));
    server.stop();
    EXPECT_EQ(server.counters().body_timeouts, 1U);
    EXPECT_EQ(server.counters().answer_timeouts, 0U);
}

// A byte now and then wins no time; 64 KiB do.
TEST(ServerBody, ATrickleIs408AllTheSame) {
    uploads up;
    up.answers = false;
    auto options = uploads::options();
    options.limits.body_timeout_ms = 300;
    running_server server(up.handler(), std::move(options));
    server.start();
    http_client client(server.port());
    client.send(head("/up", of_length(1U << 20U)));
    int trickled = 0;
    while (!client.readable(5ms)) {
        (void)client.send_while_possible("x");
        ASSERT_LT(++trickled, 4000);
    }
    EXPECT_EQ(client.reply().status, 408);
}

// Each piece pauses its reader for a moment: what is left of the client's time goes on behind that, and no new one.
TEST(ServerBody, APauseWinsATrickleNoTime) {
    net::channel answer;
    running_server* serving = nullptr;
    auto options = uploads::options();
    options.limits.body_timeout_ms = 300;
    running_server server(
        [&](const net::request&, net::response& to) {
            answer = to.defer();
            (void)to.receive_body({.on_piece = [&](const net::body_reader& from, std::string_view) {
                from.pause();
                (void)serving->get().post([from] { from.resume(); });
            }});
        },
        std::move(options));
    serving = &server;
    server.start();
    http_client client(server.port());
    client.send(head("/up", of_length(1U << 20U)));
    int trickled = 0;
    while (!client.readable(5ms)) {
        (void)client.send_while_possible("x");
        ASSERT_LT(++trickled, 4000);
    }
    EXPECT_EQ(client.reply().status, 408);
    server.stop();
    EXPECT_GT(server.counters().read_pauses, 3U);
    EXPECT_EQ(server.counters().body_timeouts, 1U);
}

// Nor does it take any: the time of a pause is the handler's, whether that is made by on_piece or behind it.
class ServerBodyPaused : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(, ServerBodyPaused, ::testing::Bool(),
                         [](const auto& param) { return param.param ? "AtOnce" : "Later"; });
TEST_P(ServerBodyPaused, ItsTimeStandsStill) {
    net::channel answer;
    net::body_reader reader;
    running_server* serving = nullptr;
    auto options = uploads::options();
    options.limits.body_timeout_ms = 500;
    running_server server(
        [&](const net::request&, net::response& to) {
            answer = to.defer();
            reader = to.receive_body({.on_piece =
                                          [&](const net::body_reader& from, std::string_view piece) {
                                              if (!piece.ends_with("half")) return;
                                              if (GetParam())
                                                  from.pause();
                                              else
                                                  (void)serving->get().post([from] { from.pause(); });
                                          },
                                      .on_end =
                                          [&](const net::body_result& result) {
                                              net::response late;
                                              late.body(std::to_string(result.bytes));
                                              (void)answer.answer(std::move(late));
                                          }});
        },
        std::move(options));
    serving = &server;
    server.start();
    http_client client(server.port());
    client.send(head("/up", of_length(8)) + "half");
    EXPECT_FALSE(client.readable(700ms)) << "nobody waits for it";
    client.send("done");
    server.get().post([&] { reader.resume(); });
    EXPECT_EQ(client.reply().body, "8");
    server.stop();
    EXPECT_EQ(server.counters().body_timeouts, 0U);
}

// Which of the two is told must not hang on which of two equal times, as the defaults are, is looked at first.
TEST(ServerBody, ABodyThatStallsIs408HoweverLittleTimeItsAnswerHas) {
    for (const unsigned answer_timeout_ms : {50U, 10U}) {
        uploads up;
        up.answers = false;
        auto options = uploads::options();
        options.limits.body_timeout_ms = 50;
        options.limits.answer_timeout_ms = answer_timeout_ms;
        running_server server(up.handler(), std::move(options));
        server.start();
        for (int i = 0; i < 3; ++i) {
            http_client client(server.port());
            client.send(head("/up", of_length(10)));
            EXPECT_EQ(client.reply().status, 408);
            EXPECT_TRUE(client.ended());
        }
        EXPECT_TRUE(up.said.await("timed_out"));
        server.stop();
        EXPECT_EQ(server.counters().body_timeouts, 3U);
        EXPECT_EQ(server.counters().answer_timeouts, 0U);
    }
}

TEST(ServerBody, AnAnswerThatDoesNotComeIs504WhetherTheBodyHasComeOrIsHeldBack) {
    for (const bool paused : {false, true}) {
        uploads up;
        up.answers = false;
        up.paused = paused;  // and never resumed
        auto options = uploads::options();
        options.limits.answer_timeout_ms = 80;
        running_server server(up.handler(), std::move(options));
        server.start();
        http_client client(server.port());
        client.send(head("/up", of_length(1000)) + std::string(1000, 'x'));
        EXPECT_EQ(client.reply().status, 504) << "nobody answers";
        EXPECT_TRUE(up.said.await(paused ? "answered" : "complete"));
        server.stop();
        EXPECT_EQ(server.counters().answer_timeouts, 1U);
    }
}

TEST(ServerBody, AClientThatLeavesEndsIt) {
    uploads up;
    running_server server(up.handler(), uploads::options());
    server.start();
    {
        http_client client(server.port());
        client.send(head("/up", of_length(10)) + "half");
        ASSERT_TRUE(up.said.await("piece"));
        client.shutdown_send();
        EXPECT_EQ(client.reply().status, 400) << "it was cut short";
        EXPECT_TRUE(client.ended());
        ASSERT_TRUE(up.said.await("client_away"));
    }
    uploads again;
    running_server other(again.handler(), uploads::options());
    other.start();
    http_client client(other.port());
    client.send(head("/up", of_length(10)) + "half");
    ASSERT_TRUE(again.said.await("piece"));
    client.reset();
    ASSERT_TRUE(again.said.await("client_away"));
    other.stop();
    EXPECT_EQ(other.counters().lost, 1U);
}

// It is noticed by the body, by the stream, and by what can be sent no more.
TEST(ServerBody, AClientThatLeavesIsLostOnce) {
    journal said;
    running_server server(
        [&](const net::request&, net::response& to) {
            (void)to.stream({.on_close = [&](net::channel_end) { said.note("closed"); }});
            (void)to.receive_body({.on_piece = [&](const net::body_reader&, std::string_view) { said.note("piece"); }});
        },
        uploads::options());
    server.start();
    http_client client(server.port());
    client.send(head("/up", of_length(10)) + "half");
    ASSERT_TRUE(said.await("piece"));
    client.shutdown_send();
    EXPECT_TRUE(client.gone());
    ASSERT_TRUE(said.await("closed"));
    server.stop();
    EXPECT_EQ(server.counters().lost, 1U);
}

TEST(ServerBody, AHandlerOrCallbackThatThrowsEndsIt) {
    journal said;
    running_server server(
        [&](const net::request& asked, net::response& to) {
            net::channel channel;
            if (asked.path() != "/sync") channel = to.defer();
            (void)to.receive_body(
                {.on_piece = [](const net::body_reader&, std::string_view) { throw std::runtime_error("on purpose"); },
                 .on_end = [&](const net::body_result& result) { said.note(name_of(result.why)); }});
            if (asked.path() == "/throws") throw 7;
        },
        uploads::options());
    server.start();
    http_client thrower(server.port());
    EXPECT_EQ(thrower.ask(head("/throws", of_length(2)) + "ok").status, 500);
    EXPECT_TRUE(said.await("cut"));
    EXPECT_EQ(thrower.ask(head("/sync", of_length(2)) + "ok").status, 200) << "the connection is whole";
    EXPECT_TRUE(said.await("answered"));
    EXPECT_EQ(thrower.ask(head("/piece", of_length(2)) + "ok").status, 500);
    EXPECT_TRUE(thrower.ended());
    server.stop();
    EXPECT_EQ(server.counters().handler_exceptions, 2U);
}

TEST(ServerBody, TheEndOfTheServerEndsItAndHandlesStaySafe) {
    uploads up;
    {
        running_server server(up.handler(), uploads::options());
        server.start();
        http_client client(server.port());
        client.send(head("/up", of_length(10)) + "half");
        ASSERT_TRUE(up.said.await("piece"));
        server.stop();
        EXPECT_TRUE(up.said.has("server_ended")) << up.said.all();
    }
    net::body_reader& old = up.readers.front();
    EXPECT_FALSE(old.is_open());
    old.pause();
    old.resume();
}

TEST(ServerBody, ADrainWaitsForIt) {
    uploads up;
    running_server server(up.handler(), uploads::options());
    server.start();
    http_client client(server.port());
    client.send(head("/up", of_length(10)) + "half");
    ASSERT_TRUE(up.said.await("piece"));
    server.get().drain();
    client.send("other-");
    const auto reply = client.reply();
    EXPECT_EQ(reply.body, "halfother-");
    EXPECT_EQ(reply.field("Connection"), "close");
    EXPECT_TRUE(client.ended());
    client.close();
    server.join();
}

TEST(ServerBody, TheLastRequestOfAConnectionIsReadToItsEnd) {
    uploads up;
    running_server server(up.handler(), uploads::options());
    server.start();
    http_client client(server.port());
    client.send(head("/up", of_length(4), "Connection: close\r\n"));
    ASSERT_TRUE(up.said.await("begun"));
    client.send("text" + get("/never"));
    const auto reply = client.reply();
    EXPECT_EQ(reply.body, "text");
    EXPECT_EQ(reply.field("Connection"), "close");
    EXPECT_TRUE(client.ended());
}

// --- the parser's part

// Stopped at the head and told to collect, it comes to the same verdict, wherever the bytes are cut.
TEST(RequestParser, CollectsABodyAsIfItHadNotStopped) {
    for (const std::string& text :
         {head("/a", of_length(5)) + "hello", head("/a", of_length(0)), get("/a"),
          head("/a", chunked) + in_chunks("hello", 2), head("/a", of_length(9999999)),
          head("/a", of_length(20)) + "short", head("/a", chunked) + "zz",
          head("/a", "Content-Length: 99999999999999999999999"), head("/a", chunked, "Expect: more\r\n")}) {
        for (std::size_t cut = 0; cut <= text.size(); ++cut) {
            std::string plain = text, stopped = text;
            net::request_parser a, b;
            b.stop_at_body(true);
            const auto in_two = [&](net::request_parser& parser, std::string& bytes) {
                const auto parse = [&](std::span<char> part) {
                    const auto status = parser.parse(part);
                    const bool stopped_now = status == net::parse_status::complete && parser.message().body_follows();
                    return stopped_now ? parser.collect_body(part) : status;
                };
                const auto status = parse(std::span(bytes).first(cut));
                if (status != net::parse_status::need_more) return status;
                bytes.erase(parser.kept(), cut - parser.kept());
                return parse(bytes);
            };
            const auto one = in_two(a, plain), other = in_two(b, stopped);
            ASSERT_EQ(one, other) << text << " cut at " << cut;
            if (one == net::parse_status::refused) {
                ASSERT_EQ(a.refusal_status(), b.refusal_status()) << text;
            }
            if (one == net::parse_status::complete) {
                ASSERT_EQ(a.message().body(), b.message().body()) << text;
                ASSERT_EQ(a.consumed(), b.consumed());
                ASSERT_EQ(a.message().wire_bytes(), b.message().wire_bytes()) << text;
            }
        }
    }
}

}  // namespace
