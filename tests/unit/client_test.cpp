// SPDX-License-Identifier: Apache-2.0
// What a client does: requests, kept connections, streams, time-outs, within another loop and in a thread. What it
// withstands: client_hostile_test.cpp.
#include "holdfast/net/client.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "holdfast/error.hpp"
#include "holdfast/net/channel.hpp"
#include "support/driven_client.hpp"
#include "support/http_client.hpp"
#include "support/http_server.hpp"
#include "support/scripted_server.hpp"
#include "support/unique_name.hpp"

namespace {

using namespace holdfast;
using namespace std::chrono_literals;
using net::client_error;
using net::client_stage;
using net::upload_step;
using test::driven_client;
using test::echo;
using test::running_server;
using test::scripted_peer;
using test::scripted_server;

constexpr std::string_view ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

std::string url_of(const running_server& server, std::string_view target = "/") {
    std::string made = "http://127.0.0.1:";
    made.append(std::to_string(server.port())).append(target);
    return made;
}

std::string name_of(const net::client_result& r) {
    return std::string(net::client_error_name(r.error)) + (r.detail.empty() ? "" : ": " + r.detail);
}

net::server_options with_long_bodies() {
    net::server_options options;
    options.limits.message.body_bytes_max = 16U << 20U;
    return options;
}

TEST(Client, SendsEachMethodAndReadsTheAnswer) {
    running_server server(echo);
    server.start();
    driven_client client;
    for (const std::string method : {"GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"}) {
        net::client_request asked;
        asked.method = method;
        asked.url = url_of(server, "/a?b#c");
        asked.body = "body";
        const auto result = client.ask(asked);
        ASSERT_TRUE(result.ok()) << name_of(result);
        EXPECT_EQ(result.stage, client_stage::done);
        EXPECT_EQ(result.response.status(), 200);
        EXPECT_EQ(result.response.reason(), "OK");
        EXPECT_EQ(result.response.body(), method + " /a?b body");
        EXPECT_EQ(result.response.header("content-TYPE"), "text/plain");
        EXPECT_EQ(result.response.header_count("Date"), 1U);
        EXPECT_EQ(result.response.header("X-Absent"), std::nullopt);
        EXPECT_GE(result.response.headers().size(), 3U);
        EXPECT_EQ(result.attempts, 1U);
    }
    EXPECT_EQ(client.counters().connected, 1U);
    EXPECT_EQ(client.counters().reused, 5U);
    EXPECT_EQ(client.counters().answered, 6U);
}

TEST(Client, TakesNoBodyForHeadAndStatusesWithoutOne) {
    running_server server([](const net::request& r, net::response& w) {
        w.body("twelve bytes");
        if (r.path() == "/204") w.status(204);
        if (r.path() == "/304") w.status(304);
    });
    server.start();
    driven_client client;
    for (int round = 0; round < 2; ++round) {
        const auto head = client.ask({.method = "HEAD", .url = url_of(server)});
        EXPECT_EQ(head.response.header("Content-Length"), "12");
        EXPECT_EQ(head.response.body(), "");
        EXPECT_EQ(client.get(url_of(server, "/204")).response.status(), 204);
        EXPECT_EQ(client.get(url_of(server, "/304")).response.status(), 304);
        EXPECT_EQ(client.get(url_of(server)).response.body(), "twelve bytes");
    }
    EXPECT_EQ(client.counters().connected, 1U);
}

TEST(Client, PassesOverInterimAnswersAndHandsOverTrailers) {
    scripted_server server([](scripted_peer& peer, int) {
        peer.request();
        peer.send(
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
            "HTTP/1.1 200 Fine enough\r\nTransfer-Encoding: chunked\r\nA: 1\r\nA: 2\r\n\r\n"
            "3\r\nabc\r\n0\r\nDigest: 7\r\n\r\n");
        peer.gone();
    });
    driven_client client;
    const auto result = client.get(server.url());
    ASSERT_TRUE(result.ok()) << name_of(result);
    EXPECT_EQ(result.response.reason(), "Fine enough");
    EXPECT_EQ(result.response.header("A"), "1");
    EXPECT_EQ(result.response.header_count("a"), 2U);
    EXPECT_EQ(result.response.header("Link"), std::nullopt);
    EXPECT_EQ(result.response.header("Digest"), std::nullopt);
    EXPECT_EQ(result.response.trailer("digest"), "7");
    EXPECT_EQ(result.response.body(), "abc");
}

TEST(Client, TellsOfRedirectsAndFollowsNone) {
    scripted_server server([](scripted_peer& peer, int) {
        peer.request();
        peer.send("HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n");
        peer.gone();
    });
    driven_client client;
    const auto result = client.get(server.url());
    EXPECT_EQ(result.response.status(), 302);
    EXPECT_TRUE(result.response.is_redirect());
    EXPECT_EQ(result.response.header("Location"), "http://127.0.0.1:1/");
    EXPECT_EQ(client.counters().connected, 1U);
}

TEST(Client, TellsByOnDoneWhatMayNotBeSent) {
    driven_client client;
    for (const net::client_request& asked :
         std::vector<net::client_request>{{.url = "ftp://a/"},
                                          {.url = "http://127.0.0.1:1/", .headers = {{"A", "b\r\nC: d"}}},
                                          {.method = "GET\r\n", .url = "http://127.0.0.1:1/"},
                                          {.url = "http://127.0.0.1:1/", .unix_socket = std::string(200, 'x')},
                                          {.url = "http://127.0.0.1:1/", .timeouts = {.whole = -1ms}}}) {
        const auto id = client.start(asked);
        EXPECT_FALSE(client.has_ended(id)) << "a callback inside start()";
        const auto result = client.end_of(id);
        EXPECT_EQ(result.error, client_error::invalid_request) << asked.url;
        EXPECT_NE(result.detail, "");
        EXPECT_FALSE(result.sent);
    }
    EXPECT_EQ(client.counters().open, 0U);
    EXPECT_THROW((void)client.get().start({}, {}), error);
    EXPECT_THROW(net::client({.limits = {.connections_max = 0}}), error);
    EXPECT_THROW(net::client({.timeouts = {.connect = 0ms, .first_byte = 1s, .silence = 1s, .whole = 1s}}), error);
}

TEST(Client, KeepsConnectionsWithinItsLimits) {
    std::atomic<int> under_way{0}, most{0};
    net::server* loop = nullptr;
    running_server server([&](const net::request& r, net::response& w) {
        const int now = ++under_way;
        if (now > most) most = now;
        const net::channel later = w.defer();
        loop->after(1ms, [&under_way, later, target = std::string(r.target())] {
            --under_way;
            net::response answer;
            answer.body(target);
            static_cast<void>(later.answer(std::move(answer)));
        });
    });
    loop = &server.get();
    server.start();
    driven_client client({.limits = {.connections_per_origin_max = 3}});
    std::vector<net::request_id> asked;
    for (int i = 0; i < 60; ++i) asked.push_back(client.start({.url = url_of(server, test::numbered(i))}));
    for (int i = 0; i < 60; ++i)
        EXPECT_EQ(client.end_of(asked[static_cast<std::size_t>(i)]).response.body(), test::numbered(i));
    EXPECT_EQ(client.counters().connected, 3U);
    EXPECT_EQ(client.counters().open, 3U);
    EXPECT_LE(most, 3);
}

TEST(Client, GivesIdleConnectionsUpForOtherOrigins) {
    running_server one(echo), two(echo), three(echo);
    one.start(), two.start(), three.start();
    driven_client client({.limits = {.connections_max = 2}});
    for (int round = 0; round < 3; ++round)
        for (const running_server* server : {&one, &two, &three}) {
            EXPECT_TRUE(client.get(url_of(*server)).ok());
            EXPECT_LE(client.counters().open, 2U);
        }
    // The one that was unused for the longest went, each time just before it would have been of use.
    EXPECT_EQ(client.counters().connected, 9U);
    std::vector<net::request_id> asked;
    for (const running_server* server : {&one, &two, &three, &one, &two, &three})
        asked.push_back(client.start({.url = url_of(*server)}));
    for (const auto& id : asked) EXPECT_TRUE(client.end_of(id).ok());
    EXPECT_LE(client.counters().open, 2U);
}

TEST(Client, ClosesConnectionsThatAreIdleForLong) {
    running_server server(echo);
    server.start();
    driven_client client({.limits = {.idle = 10ms}});
    EXPECT_TRUE(client.get(url_of(server)).ok());
    client.turn_until([&] { return client.counters().open == 0; });
    EXPECT_EQ(client.counters().closed_idle, 0U);
}

TEST(Client, RefusesToQueueWithoutBound) {
    scripted_server server([](scripted_peer& peer, int) { peer.gone(); });
    driven_client client({.limits = {.connections_per_origin_max = 1, .waiting_max = 2}});
    const auto first = client.start({.url = server.url()});
    client.turn_until([&] { return client.counters().open == 1; });
    const auto second = client.start({.url = server.url()});
    const auto third = client.start({.url = server.url()});
    EXPECT_EQ(client.end_of(client.start({.url = server.url()})).error, client_error::overloaded);
    for (const auto& id : {first, second, third}) EXPECT_TRUE(client.get().cancel(id));
    for (const auto& id : {first, second, third}) EXPECT_EQ(client.end_of(id).error, client_error::cancelled);
}

TEST(Client, CancelsAtEveryStageAndEachHandleOnce) {
    scripted_server server([](scripted_peer& peer, int) {
        peer.request();
        peer.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhi");
        EXPECT_TRUE(peer.gone());
    });
    driven_client client;
    const auto early = client.start({.url = server.url()});
    EXPECT_TRUE(client.get().cancel(early));
    EXPECT_FALSE(client.get().cancel(early));
    EXPECT_FALSE(client.has_ended(early)) << "a callback inside cancel()";
    EXPECT_EQ(client.end_of(early).stage, client_stage::waiting);
    EXPECT_FALSE(client.get().cancel(early));

    int pieces = 0;
    net::request_id self{};
    net::client_callbacks calls;
    calls.on_body = [&](std::string_view) {
        ++pieces;
        EXPECT_TRUE(client.get().cancel(self));
    };
    self = client.start({.url = server.url()}, std::move(calls));
    const auto result = client.end_of(self);
    EXPECT_EQ(result.error, client_error::cancelled);
    EXPECT_EQ(result.stage, client_stage::receiving);
    EXPECT_EQ(result.response.status(), 200);
    EXPECT_EQ(pieces, 1);
    EXPECT_EQ(client.counters().open, 0U);
    EXPECT_FALSE(client.get().cancel(net::request_id{}));
    EXPECT_FALSE(client.get().pause(self));
    EXPECT_FALSE(client.get().resume(self));
}

TEST(Client, StreamsABodyAsItComesAndPauses) {
    constexpr std::size_t whole = 8U << 20U;
    running_server server([](const net::request&, net::response& w) { w.body(std::string(whole, 'x')); });
    server.start();
    driven_client client;
    std::size_t come = 0;
    bool paused = false;
    int heads = 0;
    net::request_id id{};
    net::client_callbacks calls;
    calls.on_head = [&](const net::client_response& r) { heads += r.status() == 200; };
    calls.on_body = [&](std::string_view piece) {
        EXPECT_FALSE(paused) << "a piece within a pause";
        come += piece.size();
        paused = client.get().pause(id);
    };
    id = client.start({.url = url_of(server)}, std::move(calls));
    int pauses = 0;
    while (!client.has_ended(id)) {
        client.turn_until([&] { return paused || client.has_ended(id); });
        client.get().turn();
        client.get().turn();
        ++pauses;
        paused = false;
        client.get().resume(id);
    }
    const auto result = client.end_of(id);
    EXPECT_TRUE(result.ok()) << name_of(result);
    EXPECT_EQ(result.response.body(), "");
    EXPECT_EQ(come, whole);
    EXPECT_EQ(heads, 1);
    EXPECT_GT(pauses, 10);
    EXPECT_TRUE(client.get(url_of(server)).reused);
}

TEST(Client, LetsAPauseHoldTheServerBack) {
    std::atomic<bool> sent_all{false};
    scripted_server server([&](scripted_peer& peer, int) {
        peer.request();
        peer.send("HTTP/1.1 200 OK\r\n\r\n");
        const std::string piece(1U << 20U, 'x');
        for (int i = 0; i < 64; ++i)
            if (!peer.send(piece)) return;
        sent_all = true;
    });
    driven_client client;
    net::request_id id{};
    std::size_t come = 0;
    net::client_callbacks calls;
    bool paused = false;
    calls.on_head = [&](const net::client_response&) { paused = client.get().pause(id); };
    calls.on_body = [&](std::string_view piece) { come += piece.size(); };
    id = client.start({.url = server.url(), .body_bytes_max = 100U << 20U}, std::move(calls));
    client.turn_until([&] { return paused; });
    for (int i = 0; i < 20; ++i) client.get().turn();
    EXPECT_EQ(come, 0U);
    EXPECT_FALSE(sent_all) << "64 MiB in the buffers of a socket";
    client.get().resume(id);
    const auto result = client.end_of(id);
    EXPECT_TRUE(result.ok()) << name_of(result);
    EXPECT_EQ(come, 64U << 20U);
}

TEST(Client, UploadsWithAndWithoutATotal) {
    running_server server(echo, with_long_bodies());
    server.start();
    driven_client client;
    const std::string line(100'000, 'u');
    for (const bool told : {false, true}) {
        int pieces = 0;
        net::request_id id{};
        net::client_request asked;
        asked.method = "PUT";
        asked.url = url_of(server);
        asked.upload = [&](std::string& piece) {
            if (++pieces == 31) {
                piece = "end";
                return upload_step::end;
            }
            piece = line;
            if (pieces % 10 != 0) return upload_step::more;
            client.get().after(1ms, [&] { EXPECT_TRUE(client.get().continue_upload(id)); });
            return upload_step::wait;
        };
        if (told) asked.upload_bytes = 30 * line.size() + 3;
        id = client.start(std::move(asked));
        const auto result = client.end_of(id);
        ASSERT_TRUE(result.ok()) << name_of(result);
        EXPECT_EQ(result.response.body().size(), 6 + 30 * line.size() + 3);
        EXPECT_TRUE(result.response.body().ends_with("uend"));
    }
    EXPECT_EQ(client.counters().connected, 1U);
}

TEST(Client, EndsAnUploadWhoseSourceFailsOrMiscounts) {
    scripted_server server([](scripted_peer& peer, int) { EXPECT_TRUE(peer.gone()); });
    driven_client client;
    const auto uploading = [&](std::uint64_t told, std::string given, upload_step step) {
        net::client_request asked;
        asked.method = "PUT";
        asked.url = server.url();
        asked.upload = [given = std::move(given), step](std::string& piece) {
            if (step == upload_step::fail) throw std::runtime_error("a source that throws");
            piece = given;
            return step;
        };
        asked.upload_bytes = told;
        return client.ask(std::move(asked)).error;
    };
    EXPECT_EQ(uploading(5, "1234", upload_step::end), client_error::upload_failed);
    EXPECT_EQ(uploading(5, "123456", upload_step::end), client_error::upload_failed);
    EXPECT_EQ(uploading(5, "123", upload_step::more), client_error::upload_failed);
    EXPECT_EQ(uploading(5, "", upload_step::fail), client_error::upload_failed);
    EXPECT_EQ(client.counters().open, 0U);
    EXPECT_EQ(client.counters().callback_exceptions, 1U);
}

TEST(Client, TakesARefusalInTheMiddleOfAnUpload) {
    scripted_server server([](scripted_peer& peer, int) {
        peer.request();
        peer.send("HTTP/1.1 413 Too much\r\nContent-Length: 3\r\n\r\nno!");
        peer.gone();
    });
    driven_client client;
    net::client_request asked;
    asked.method = "PUT";
    asked.url = server.url();
    asked.upload = [](std::string& piece) {
        piece.assign(1U << 16U, 'u');
        return upload_step::more;
    };
    const auto result = client.ask(std::move(asked));
    ASSERT_TRUE(result.ok()) << name_of(result);
    EXPECT_EQ(result.response.status(), 413);
    EXPECT_EQ(result.response.body(), "no!");
    EXPECT_EQ(client.counters().open, 0U) << "the server waits for the rest there";
}

TEST(Client, RetriesOnlyWhatMayBeSentTwice) {
    // The first connection answers once, then ends behind the next request.
    scripted_server server([](scripted_peer& peer, int number) {
        peer.request();
        peer.send(ok);
        peer.request();
        if (number % 2 == 0) return;
        peer.send(ok);
        peer.gone();
    });
    const auto second_of = [&](net::client_request asked) {
        driven_client client;
        EXPECT_TRUE(client.get(server.url()).ok());
        asked.url = server.url();
        auto result = client.ask(std::move(asked));
        EXPECT_EQ(client.counters().retried, result.ok() ? 1U : 0U);
        return result;
    };
    const auto got = second_of({});
    EXPECT_TRUE(got.ok()) << name_of(got);
    EXPECT_EQ(got.attempts, 2U);
    EXPECT_FALSE(got.reused);
    // The retry took connection 1 and left it at its second request: the next client begins with an even number again.
    const auto posted = second_of({.method = "POST", .body = "x"});
    EXPECT_EQ(posted.error, client_error::closed_unanswered) << name_of(posted);
    EXPECT_TRUE(posted.sent);
    EXPECT_TRUE(posted.reused);
    EXPECT_EQ(posted.attempts, 1U);
}

TEST(Client, DoesNotRetryForeverNorOnAFreshConnection) {
    scripted_server server([](scripted_peer& peer, int number) {
        if (number == 0) {
            peer.request();
            peer.send(ok);
        }
        peer.request();
    });
    driven_client client;
    EXPECT_TRUE(client.get(server.url()).ok());
    const auto again = client.get(server.url());
    EXPECT_EQ(again.error, client_error::closed_unanswered);
    EXPECT_EQ(again.attempts, 2U);
    const auto fresh = client.get(server.url());
    EXPECT_EQ(fresh.error, client_error::closed_unanswered);
    EXPECT_EQ(fresh.attempts, 1U);
    EXPECT_EQ(server.connections(), 3);
}

TEST(Client, EndsEachWaitInTime) {
    std::mutex lock;
    std::condition_variable changed;
    bool over = false;
    int looking = 0;
    net::client_options options;
    options.resolve = [&](const std::string&) {
        std::unique_lock guard(lock);
        ++looking;
        changed.wait(guard, [&] { return over; });
        --looking;
        changed.notify_all();
        return std::vector<std::string>{};
    };
    scripted_server server([](scripted_peer& peer, int) {
        const std::string head = peer.request();
        if (head.starts_with("GET /silent ")) peer.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhi");
        if (head.starts_with("GET /slow ")) {
            peer.send("HTTP/1.1 200 OK\r\n\r\n");
            while (peer.send("x")) std::this_thread::yield();
        }
        peer.gone();
    });
    {
        driven_client client(std::move(options));
        const auto ended = [&](std::string url, net::client_timeouts timeouts) {
            net::client_request asked{.url = std::move(url), .timeouts = timeouts};
            asked.body_bytes_max = 1U << 30U;
            return client.ask(std::move(asked), {.on_done = {}, .on_body = [](std::string_view) {}});
        };
        const auto hung = ended("http://hangs.test/", {.connect = 20ms});
        EXPECT_EQ(hung.error, client_error::connect_timeout);
        EXPECT_EQ(hung.stage, client_stage::resolving);
        const auto first = ended(server.url("/nothing"), {.first_byte = 20ms});
        EXPECT_EQ(first.error, client_error::first_byte_timeout);
        EXPECT_EQ(first.stage, client_stage::awaiting);
        EXPECT_TRUE(first.sent);
        const auto silent = ended(server.url("/silent"), {.silence = 20ms});
        EXPECT_EQ(silent.error, client_error::silence_timeout);
        EXPECT_EQ(silent.response.status(), 200);
        const auto slow = ended(server.url("/slow"), {.whole = 40ms});
        EXPECT_EQ(slow.error, client_error::whole_timeout);
        EXPECT_EQ(client.counters().open, 0U);
    }
    // The client is gone beside a look-up that hangs.
    std::unique_lock guard(lock);
    over = true;
    changed.notify_all();
    changed.wait(guard, [&] { return looking == 0; });
}

TEST(Client, EndsAnUploadThatNobodyReads) {
    std::promise<void> seen;
    std::shared_future<void> over = seen.get_future().share();
    scripted_server server([over](scripted_peer& peer, int) {
        peer.request();
        over.wait();
    });
    driven_client client;
    net::client_request asked;
    asked.method = "PUT";
    asked.url = server.url();
    asked.timeouts.silence = 50ms;
    asked.upload = [](std::string& piece) {
        piece.assign(1U << 20U, 'u');
        return upload_step::more;
    };
    const auto result = client.ask(std::move(asked));
    EXPECT_EQ(result.error, client_error::silence_timeout) << name_of(result);
    EXPECT_EQ(result.stage, client_stage::sending);
    seen.set_value();
}

TEST(Client, FindsNamesWithoutHoldingUpTheLoop) {
    running_server server(echo);
    server.start();
    std::atomic<int> looked_up{0};
    net::client_options options;
    options.resolve = [&](const std::string& name) -> std::vector<std::string> {
        ++looked_up;
        if (name == "none.test") return {};
        if (name == "throws.test") throw std::runtime_error("no such luck");
        return {"not an address", "127.0.0.1"};
    };
    driven_client client(std::move(options));
    const std::string port = std::to_string(server.port());
    const auto found = client.get("http://found.test:" + port + "/x");
    EXPECT_EQ(found.response.body(), "GET /x ") << name_of(found);
    EXPECT_TRUE(client.get("http://FOUND.test:" + port + "/").reused);
    EXPECT_EQ(looked_up, 1);
    EXPECT_EQ(client.get("http://none.test:" + port + "/").error, client_error::not_resolved);
    const auto thrown = client.get("http://throws.test:" + port + "/");
    EXPECT_EQ(thrown.error, client_error::not_resolved);
    EXPECT_NE(thrown.detail.find("no such luck"), std::string::npos);
    EXPECT_EQ(looked_up, 3);
    EXPECT_TRUE(client.get("http://localhost:" + port + "/").ok());
    EXPECT_TRUE(client.get("http://127.0.0.1:" + port + "/").ok());
    EXPECT_EQ(looked_up, 3);
}

TEST(Client, TriesEachAddressOfAName) {
    running_server server(echo);
    server.start();
    net::client_options options;
    options.resolve = [](const std::string&) { return std::vector<std::string>{"127.0.0.77", "::1", "127.0.0.1"}; };
    driven_client client(std::move(options));
    const auto result = client.get("http://several.test:" + std::to_string(server.port()) + "/");
    EXPECT_TRUE(result.ok()) << name_of(result);
    const int closed = net::listen_tcp("127.0.0.1:0");
    const std::uint16_t port = net::bound_port(closed);
    ::close(closed);
    const auto refused = client.get("http://several.test:" + std::to_string(port) + "/");
    EXPECT_EQ(refused.error, client_error::not_connected);
    EXPECT_FALSE(refused.sent);
}

// Who is told of a failure asks again at once, the same server or another one.
TEST(Client, WhatFailsAtOnceKeepsNoTurnToItself) {
    constexpr int most = 200;
    const test::unique_directory folder;
    for (const int servers : {1, 2}) {
        driven_client client;
        int ended = 0;
        std::function<void()> ask = [&] {
            const std::string path = folder.path() + test::numbered(ended % servers);
            (void)client.get().start({.url = "http://inside.test/", .unix_socket = path},
                                     {.on_done = [&](net::client_result&& r) {
                                         EXPECT_EQ(r.error, client_error::not_connected) << name_of(r);
                                         if (++ended < most) ask();
                                     }});
        };
        ask();
        client.get().turn();
        EXPECT_LT(ended, 20) << "in one turn";
        client.turn_until([&] { return ended == most; });
    }
}

TEST(Client, SpeaksOverUnixSocketsAndIpv6) {
    const test::unique_directory folder;
    const std::string path = folder.path() + "/s";
    net::server server({net::listen_unix(path)}, {}, echo);
    std::thread thread([&] { server.run(); });
    driven_client client;
    const auto result = client.ask({.url = "http://inside.test/x", .unix_socket = path});
    EXPECT_EQ(result.response.body(), "GET /x ") << name_of(result);
    EXPECT_TRUE(client.ask({.url = "http://inside.test/y", .unix_socket = path}).reused);
    server.stop();
    thread.join();
    EXPECT_EQ(client.ask({.url = "http://inside.test/x", .unix_socket = path + "2"}).error,
              client_error::not_connected);

    int listener = -1;
    try {
        listener = net::listen_tcp("[::1]:0");
    } catch (const error&) {
        GTEST_SKIP() << "no IPv6 here";
    }
    const std::uint16_t port = net::bound_port(listener);
    net::server v6({listener}, {}, [](const net::request& r, net::response& w) { w.body(std::string(r.host())); });
    std::thread v6_thread([&] { v6.run(); });
    const std::string authority = "[::1]:" + std::to_string(port);
    EXPECT_EQ(client.get("http://" + authority).response.body(), authority);
    v6.stop();
    v6_thread.join();
}

// A handler that asks another server and answers later, on one loop and without a thread.
TEST(Client, LivesInTheLoopOfAServer) {
    running_server behind([](const net::request& r, net::response& w) { w.body("behind " + std::string(r.target())); });
    behind.start();
    net::client client;
    running_server front([&](const net::request& r, net::response& w) {
        const net::channel later = w.defer();
        client.get(url_of(behind, r.target()), [later](net::client_result&& got) {
            net::response answer;
            answer.status(got.ok() ? got.response.status() : 502).body("front of " + got.response.body());
            static_cast<void>(later.answer(std::move(answer)));
        });
    });
    front.get().watch(client.fd(), [&] { client.turn(); });
    front.start();
    test::http_client browser(front.port());
    std::string all;
    for (int i = 0; i < 40; ++i) all += test::get(test::numbered(i));
    browser.send(all);
    for (int i = 0; i < 40; ++i) EXPECT_EQ(browser.reply().body, "front of behind " + test::numbered(i));
    behind.stop();
    EXPECT_EQ(browser.ask(test::get("/late")).status, 502);
    front.stop();
    EXPECT_EQ(client.counters().answered, 40U);
}

TEST(Client, RunsInAThreadOfItsOwn) {
    running_server server(echo);
    server.start();
    net::client_thread client;
    std::vector<std::thread> threads;
    std::atomic<int> right{0};
    for (int t = 0; t < 4; ++t)
        threads.emplace_back([&, t] {
            for (int i = 0; i < 25; ++i) {
                const auto result = client.ask({.url = url_of(server, test::numbered(t * 100 + i))});
                right += result.response.body() == "GET " + test::numbered(t * 100 + i) + " ";
            }
        });
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(right, 100);
    std::atomic<bool> refused{false};
    EXPECT_TRUE(client.post([&](net::client&) {
        try {
            (void)client.ask({.url = url_of(server)});
        } catch (const error&) {
            refused = true;
        }
    }));
    EXPECT_TRUE(client.ask({.url = url_of(server)}).ok());
    EXPECT_TRUE(refused);
}

TEST(Client, EndsWhatIsUnderWayWhenItEnds) {
    scripted_server server([](scripted_peer& peer, int) { peer.gone(); });
    std::atomic<int> ended{0};
    {
        net::client_thread client;
        for (int i = 0; i < 20; ++i)
            (void)client.start({.url = server.url()}, {.on_done = [&](net::client_result&& r) {
                                   ended += r.error == client_error::client_ended;
                               }});
    }
    EXPECT_EQ(ended, 20);
    {
        auto client = std::make_unique<net::client>();
        net::client* const its = client.get();
        for (int i = 0; i < 3; ++i)
            its->get(server.url(), [&, its](net::client_result&&) {
                ++ended;
                EXPECT_EQ(its->get(server.url(), [](net::client_result&&) { FAIL(); }).number, 0U);
            });
        its->turn();
        client.reset();
    }
    EXPECT_EQ(ended, 23);
}

TEST(Client, RunsTimersInTheirOrder) {
    driven_client client;
    std::string order;
    // Far enough from each other that a machine which stands still for a while does not change their order.
    client.get().after(300ms, [&] { order += 'c'; });
    client.get().after(1ms, [&] { order += 'a'; });
    const net::timer_id never = client.get().after(150ms, [&] { order += 'b'; });
    client.get().after(300ms, [&] { order += 'd'; });
    EXPECT_TRUE(client.get().cancel(never));
    EXPECT_FALSE(client.get().cancel(never));
    client.turn_until([&] { return order.size() == 3; });
    EXPECT_EQ(order, "acd");
    EXPECT_THROW((void)client.get().after(1ms, {}), error);
}

TEST(Client, SurvivesCallbacksThatThrow) {
    running_server server(echo);
    server.start();
    driven_client client;
    net::client_callbacks calls;
    calls.on_head = [](const net::client_response&) { throw std::runtime_error("head"); };
    calls.on_body = [](std::string_view) { throw std::runtime_error("body"); };
    EXPECT_TRUE(client.ask({.url = url_of(server)}, std::move(calls)).ok());
    client.get().get(url_of(server), [](net::client_result&&) { throw std::runtime_error("done"); });
    client.turn_until([&] { return client.counters().callback_exceptions == 3; });
    EXPECT_TRUE(client.get(url_of(server)).reused);
}

}  // namespace
