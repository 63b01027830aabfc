// SPDX-License-Identifier: Apache-2.0
// Callbacks and handlers in an executor's pool, on a strand of their connection: order, isolation, back-pressure, and
// who may end first.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "holdfast/error.hpp"
#include "holdfast/executor/thread_pool.hpp"
#include "holdfast/net/channel.hpp"
#include "holdfast/net/peer.hpp"
#include "holdfast/net/server.hpp"
#include "support/http_client.hpp"
#include "support/http_server.hpp"
#include "support/seed.hpp"
#include "support/websocket_client.hpp"

namespace {

using namespace holdfast;
using namespace std::chrono_literals;
using executor::thread_pool;
using net::channel_end;
using test::counted_by;
using test::get;
using test::http_client;
using test::running_server;
using test::text;
using test::websocket_client;

/// A gate that tasks wait at. Opens with its end, so that a test that fails does not hang.
class gate {
 public:
    ~gate() { open(); }
    void open() {
        open_ = true;
        open_.notify_all();
    }
    void pass() {
        ++waiting_;
        waiting_.notify_all();
        open_.wait(false);
    }
    /// Until so many have come to it, ever.
    void await(int comers) const {
        for (int now = waiting_; now < comers; now = waiting_) waiting_.wait(now);
    }

 private:
    std::atomic<bool> open_{false};
    std::atomic<int> waiting_{0};
};

/// What happened, told by any thread.
class story {
 public:
    void tell(std::string what) {
        const std::lock_guard guard(lock_);
        told_.push_back(std::move(what));
        more_.notify_all();
    }
    [[nodiscard]] std::vector<std::string> wait(std::size_t size) {
        std::unique_lock guard(lock_);
        more_.wait_for(guard, http_client::deadline, [&] { return told_.size() >= size; });
        return told_;
    }

 private:
    std::mutex lock_;
    std::condition_variable more_;
    std::vector<std::string> told_;
};

std::shared_ptr<thread_pool> pool_of(unsigned workers) {
    return std::make_shared<thread_pool>(executor::pool_options{.workers = workers});
}

net::server_options in_pool(const std::shared_ptr<thread_pool>& pool) {
    net::server_options options;
    options.pool = pool;
    return options;
}
net::server_options handled_in(const std::shared_ptr<thread_pool>& pool) {
    net::server_options options = in_pool(pool);
    options.handle_on_pool = [](const net::request& asked) { return asked.path() != "/loop"; };
    return options;
}

/// Each request becomes a WebSocket whose callbacks are called in the pool.
net::handler accepting(net::channel_options options) {
    options.on_pool = true;
    return [options](const net::request& asked, net::response& answer) {
        if (asked.path() == "/loop") return void(answer.body("loop"));
        static_cast<void>(answer.websocket(asked, options));
    };
}

// --- options

TEST(ServerPool, WhatCannotWorkIsRefused) {
    const auto made = [](net::server_options options) { running_server(test::echo, std::move(options)); };
    net::server_options without;
    without.handle_on_pool = [](const net::request&) { return true; };
    EXPECT_THROW(made(without), error);
    EXPECT_THROW(made(in_pool(pool_of(0))), error) << "nobody would do the work";
    net::server_options none_may_wait = in_pool(pool_of(1));
    none_may_wait.strand_waiting_max = 0;
    EXPECT_THROW(made(none_may_wait), error);

    running_server no_pool(accepting({}));
    no_pool.start();
    http_client client(no_pool.port());
    EXPECT_EQ(client.ask(get("/", test::upgrade_fields)).status, 500);
    no_pool.stop();
    EXPECT_EQ(no_pool.counters().handler_exceptions, 1U);
}

TEST(ServerPool, AServerDoesNotRunInItsOwnPool) {
    const auto pool = pool_of(1);
    running_server server(test::echo, in_pool(pool));
    std::atomic<bool> refused{false};
    pool->post([&] {
        try {
            server.get().run();
        } catch (const error&) {
            refused = true;
        }
    });
    pool->drain();
    EXPECT_TRUE(refused);
}

// --- order

TEST(ServerPool, MessagesOfEachConnectionComeInOrderAndNeverTwoAtATime) {
    constexpr int connections = 6, messages = 400;
    struct one {
        std::atomic<bool> within{false};
        int next = 0;  // of the strand
    };
    const auto pool = pool_of(4);
    std::atomic<int> wrong{0}, elsewhere{0};
    const net::handler answer = [&](const net::request& asked, net::response& to) {
        const auto state = std::make_shared<one>();
        static_cast<void>(to.websocket(asked, {.queue_bytes_max = 4U << 20U,
                                               .on_receive =
                                                   [&, state](const net::channel& from, net::received_message message) {
                                                       if (state->within.exchange(true)) ++wrong;
                                                       if (message.payload != std::to_string(state->next++)) ++wrong;
                                                       if (!pool->runs_here()) ++elsewhere;
                                                       from.send(std::string(message.payload));
                                                       state->within = false;
                                                   },
                                               .on_pool = true}));
    };
    running_server server(answer, in_pool(pool));
    server.start();
    std::vector<std::unique_ptr<websocket_client>> clients;
    for (int c = 0; c < connections; ++c) clients.push_back(std::make_unique<websocket_client>(server.port()));
    for (int i = 0; i < messages; ++i)
        for (const auto& client : clients) client->send(text(std::to_string(i)));
    for (const auto& client : clients)
        for (int i = 0; i < messages; ++i) client->expect(test::final_text, std::to_string(i));
    server.stop();
    EXPECT_EQ(wrong, 0);
    EXPECT_EQ(elsewhere, 0);
    EXPECT_EQ(server.counters().handler_exceptions, 0U);
}

TEST(ServerPool, PipelinedRequestsAreHandledAndAnsweredInOrder) {
    const auto pool = pool_of(3);
    std::vector<std::string> handled;  // of the strand; the test's once the server has ended
    running_server server(
        [&](const net::request& asked, net::response& to) {
            if (asked.path() != "/loop") {
                handled.emplace_back(asked.target());
                EXPECT_TRUE(pool->runs_here());
            }
            test::echo(asked, to);
        },
        handled_in(pool));
    server.start();
    http_client client(server.port());
    std::string sent;
    for (int i = 0; i < 40; ++i)
        sent += i % 4 == 3 ? get("/loop") : test::post(test::numbered(i), std::to_string(i * i));
    client.send(sent);
    for (int i = 0; i < 40; ++i)
        EXPECT_EQ(client.reply().body,
                  i % 4 == 3 ? "GET /loop " : "POST " + test::numbered(i) + " " + std::to_string(i * i));
    server.stop();
    std::vector<std::string> expected;
    for (int i = 0; i < 40; ++i)
        if (i % 4 != 3) expected.push_back(test::numbered(i));
    EXPECT_EQ(handled, expected);
}

// The copy of a request is what the handler gets: with all its fields, its body put together, its peer.
TEST(ServerPool, AHandlerGetsTheWholeRequest) {
    net::server_options options = handled_in(pool_of(2));
    options.identify_peers = true;
    running_server server(
        [](const net::request& asked, net::response& to) {
            to.header("X-Fields", std::to_string(asked.headers_size()))
                .header("X-Peer", asked.peer() != nullptr ? asked.peer()->address : "none")
                .header("X-Host", asked.host());
            to.body(std::string(asked.path()) + "|" + std::string(asked.query()) + "|" + std::string(asked.body()) +
                    "|" + std::string(asked.header("x-last").value_or("missing")));
        },
        options);
    server.start();
    http_client client(server.port());
    const std::string chunked =
        "PUT /a/b?c=d HTTP/1.1\r\nHost: example\r\nTransfer-Encoding: chunked\r\nX-Last: yes\r\n\r\n"
        "5;extension=1\r\nhello\r\n1\r\n \r\n5\r\nworld\r\n0\r\nX-T: t\r\n\r\n";
    for (std::size_t cut = 1; cut < chunked.size(); cut += 7) {
        client.send(std::string_view(chunked).substr(0, cut));
        client.send(std::string_view(chunked).substr(cut));
        const auto reply = client.reply();
        ASSERT_EQ(reply.body, "/a/b|c=d|hello world|yes") << cut;
        EXPECT_EQ(reply.field("X-Fields"), "3");
        EXPECT_EQ(reply.field("X-Peer"), "127.0.0.1");
        EXPECT_EQ(reply.field("X-Host"), "example");
    }
    client.send("HEAD / HTTP/1.1\r\nHost: h\r\n\r\n");
    EXPECT_EQ(client.reply(true).field("Content-Length"), std::to_string(std::string("/|||missing").size()));
    client.send(get("/close", "Connection: close\r\n"));
    EXPECT_EQ(client.reply().field("Connection"), "close");
    EXPECT_TRUE(client.ended());
}

// --- isolation

TEST(ServerPool, AHandlerThatBlocksDelaysItsOwnConnectionOnly) {
    gate held;
    const auto pool = pool_of(2);
    running_server server(
        [&](const net::request& asked, net::response& to) {
            if (asked.path() == "/block") held.pass();
            test::echo(asked, to);
        },
        handled_in(pool));
    server.start();
    http_client blocked(server.port()), other(server.port());
    blocked.send(get("/block") + get("/behind"));
    held.await(1);
    for (int i = 0; i < 20; ++i) EXPECT_EQ(other.ask(get(test::numbered(i))).body, "GET " + test::numbered(i) + " ");
    EXPECT_EQ(other.ask(get("/loop")).body, "GET /loop ");
    EXPECT_FALSE(blocked.readable(0ms));
    held.open();
    EXPECT_EQ(blocked.reply().body, "GET /block ");
    EXPECT_EQ(blocked.reply().body, "GET /behind ");
}

TEST(ServerPool, WhatThrowsIsCountedAndHarmsNobodyElse) {
    running_server server(
        [](const net::request& asked, net::response& to) {
            if (asked.path() == "/throw") throw std::runtime_error("on purpose");
            if (asked.path() == "/defer") static_cast<void>(to.defer());
            if (asked.path() == "/stream") static_cast<void>(to.stream());
            test::echo(asked, to);
        },
        handled_in(pool_of(2)));
    server.start();
    http_client client(server.port());
    client.send(get("/throw") + get("/defer") + get("/stream") + get("/good"));
    for (int i = 0; i < 3; ++i) EXPECT_EQ(client.reply().status, 500) << i;
    EXPECT_EQ(client.reply().body, "GET /good ");
    server.stop();
    EXPECT_EQ(server.counters().handler_exceptions, 3U);

    running_server sockets(accepting({.on_receive =
                                          [](const net::channel& from, net::received_message message) {
                                              if (message.payload == "throw") throw std::runtime_error("on purpose");
                                              from.send(std::string(message.payload));
                                          }}),
                           in_pool(pool_of(2)));
    sockets.start();
    websocket_client one(sockets.port()), other(sockets.port());
    one.send(text("throw") + text("behind"));
    EXPECT_EQ(one.next().code(), 1011);
    other.send(text("hello"));
    other.expect(test::final_text, "hello");
    sockets.stop();
    EXPECT_EQ(sockets.counters().handler_exceptions, 1U);
}

// --- back-pressure

TEST(ServerPool, AConnectionWithManyCallsWaitingIsNotReadFrom) {
    constexpr int messages = 300;
    gate held;
    int seen = 0;
    std::atomic<int> wrong{0};
    net::server_options options = in_pool(pool_of(2));
    options.strand_waiting_max = 4;
    running_server server(accepting({.queue_bytes_max = 4U << 20U,
                                     .on_receive =
                                         [&](const net::channel& from, net::received_message message) {
                                             if (seen == 0) held.pass();
                                             if (message.payload != std::to_string(seen++)) ++wrong;
                                             if (seen == messages) from.send(std::string("all"));
                                         }}),
                          options);
    server.start();
    websocket_client client(server.port());
    for (int i = 0; i < messages; ++i) client.send(text(std::to_string(i)));
    held.await(1);
    EXPECT_GT(counted_by(server.get(), &net::server_counters::read_pauses), 0U);
    http_client other(server.port());
    EXPECT_EQ(other.ask(get("/loop")).body, "loop");
    held.open();
    client.expect(test::final_text, "all");
    EXPECT_EQ(wrong, 0);
}

void expect_a_pause_for_calls_that_hold_much(net::server_options options) {
    constexpr int posts = 12;
    gate held;
    std::atomic<int> requests{0};
    options.limits.output_bytes_max = 10'000;
    running_server server(
        [&](const net::request& asked, net::response& to) {
            ++requests;
            held.pass();
            to.body(std::to_string(asked.body().size()));
        },
        options);
    server.start();
    http_client client(server.port());
    for (int i = 0; i < posts; ++i) client.send(test::post("/", std::string(3000, 'x')));
    held.await(1);
    EXPECT_GT(counted_by(server.get(), &net::server_counters::read_pauses), 0U);
    std::atomic<std::uint64_t> understood{0};
    ASSERT_TRUE(server.get().post([&] {
        understood = server.get().counters().requests;
        understood.notify_all();
    }));
    understood.wait(0);
    EXPECT_LE(understood, 4U) << "12 kB of bodies fill it";
    held.open();
    for (int i = 0; i < posts; ++i) EXPECT_EQ(client.reply().body, "3000");
    EXPECT_EQ(requests, posts);
}

TEST(ServerPool, SoIsOneWhoseCallsHoldMuch) { expect_a_pause_for_calls_that_hold_much(handled_in(pool_of(1))); }

// Attacks I2 of server.hpp: it lets others in between before it has filled what it may, and goes on behind them.
TEST(ServerPool, SoIsOneWhoseCallsHoldMuchAndTakeLongToHandOver) {
    net::server_options options = in_pool(pool_of(1));
    options.handle_on_pool = [](const net::request&) {
        test::compute_for(200us);
        return true;
    };
    expect_a_pause_for_calls_that_hold_much(options);
}

// Attacks I3 of server.hpp: clients that leave their work behind in the pool.
TEST(ServerPool, WorkOfConnectionsThatAreGoneCountsAsConnections) {
    gate held;
    net::server_options options = handled_in(pool_of(1));
    options.limits.connections_max = 1;
    running_server server(
        [&](const net::request& asked, net::response& to) {
            held.pass();
            test::echo(asked, to);
        },
        options);
    server.start();
    {
        http_client gone(server.port());
        gone.send(get("/block") + get("/dropped"));
        held.await(1);
        gone.reset();
    }
    ASSERT_GT(counted_by(server.get(), &net::server_counters::lost), 0U);
    EXPECT_EQ(http_client(server.port()).reply().status, 503);
    held.open();
    int status = 503;
    while (status == 503) {
        http_client again(server.port());
        if (again.send_while_possible(get("/loop")) != 0) continue;
        try {
            status = again.reply().status;
        } catch (const std::exception&) {  // refused, and reset because we had sent something
        }
    }
    EXPECT_EQ(status, 200);
    server.stop();
    EXPECT_EQ(server.counters().open, 0U);
}

TEST(ServerPool, WhatCallsHoldIsBoundedForAllTogether) {
    gate held;
    net::server_options options = in_pool(pool_of(1));
    options.limits.held_bytes_max = 50'000;
    story told;
    running_server server(accepting({.on_close = [&](channel_end) { told.tell("closed"); },
                                     .on_receive = [&](const net::channel&, net::received_message) { held.pass(); }}),
                          options);
    server.start();
    std::vector<std::unique_ptr<websocket_client>> clients;
    for (int i = 0; i < 4; ++i) {
        clients.push_back(std::make_unique<websocket_client>(server.port()));
        clients.back()->send(text(std::string(20'000, 'x')));
        held.await(1);
    }
    EXPECT_GT(counted_by(server.get(), &net::server_counters::over_held_bytes), 0U);
    held.open();
    EXPECT_GE(told.wait(1).size(), 1U);
}

TEST(ServerPool, OnDrainIsCalledThereToo) {
    const auto pool = pool_of(2);
    story told;
    std::mutex lock;
    net::channel stream;
    running_server server(
        [&](const net::request&, net::response& to) {
            const std::lock_guard guard(lock);
            stream = to.stream({.queue_bytes_max = 1000,
                                .on_close = [&](channel_end) { told.tell(pool->runs_here() ? "closed" : "elsewhere"); },
                                .on_drain =
                                    [&](const net::channel& of) {
                                        told.tell(pool->runs_here() ? "drained" : "elsewhere");
                                        static_cast<void>(of.close());
                                    },
                                .on_pool = true});
            for (int i = 0; i < 2; ++i) static_cast<void>(stream.send(std::string(900, 's')));
        },
        in_pool(pool));
    server.start();
    http_client client(server.port());
    client.send(get("/"));
    EXPECT_TRUE(client.read_to("\r\n\r\n").starts_with("HTTP/1.1 200"));
    EXPECT_EQ(client.chunk().size(), 900U);
    EXPECT_EQ(client.chunk(), "");
    EXPECT_EQ(told.wait(2), (std::vector<std::string>{"drained", "closed"}));
}

// --- ends

TEST(ServerPool, WhatAClientSaidBeforeItClosedIsHandedOverFirst) {
    gate held;
    story told;
    running_server server(
        accepting(
            {.on_close = [&](channel_end why) { told.tell(why == channel_end::client_closed ? "closed" : "lost"); },
             .on_receive =
                 [&](const net::channel&, net::received_message message) {
                     held.pass();
                     told.tell(std::string(message.payload));
                 }}),
        in_pool(pool_of(2)));
    server.start();
    websocket_client client(server.port());
    client.send(text("one") + text("two") + test::close_frame(1000));
    EXPECT_EQ(client.next().code(), 1000) << "the closing handshake does not wait for the pool";
    held.open();
    EXPECT_EQ(told.wait(3), (std::vector<std::string>{"one", "two", "closed"}));
}

TEST(ServerPool, WhatALostClientSaidIsDroppedUnlessItHasBegun) {
    gate held;
    story told;
    running_server server(
        accepting({.on_close = [&](channel_end why) { told.tell(why == channel_end::client_away ? "lost" : "closed"); },
                   .on_receive =
                       [&](const net::channel&, net::received_message message) {
                           held.pass();
                           told.tell(std::string(message.payload));
                       }}),
        in_pool(pool_of(2)));
    server.start();
    websocket_client client(server.port());
    client.send(text("one") + text("two"));
    held.await(1);
    client.reset();
    ASSERT_GT(counted_by(server.get(), &net::server_counters::lost), 0U);
    held.open();
    EXPECT_EQ(told.wait(2), (std::vector<std::string>{"one", "lost"}));
    server.stop();
    EXPECT_EQ(told.wait(2).size(), 2U);
}

// The pool ends first: whoever wants something of it is told, and each channel is still closed once.
TEST(ServerPool, APoolThatIsClosedRefusesAndStillCloses) {
    const auto pool = pool_of(2);
    story told;
    net::server_options options = handled_in(pool);
    options.handle_on_pool = [](const net::request& asked) { return asked.path() == "/task"; };
    running_server server(
        accepting({.on_close = [&](channel_end) { told.tell("closed"); },
                   .on_receive = [&](const net::channel&, net::received_message) { told.tell("message"); }}),
        options);
    server.start();
    websocket_client socket(server.port()), idle(server.port());
    pool->close();
    pool->drain();
    http_client client(server.port());
    EXPECT_EQ(client.ask(get("/task")).status, 503);
    EXPECT_EQ(client.ask(get("/loop")).body, "loop");
    socket.send(text("too late"));
    EXPECT_EQ(socket.next().code(), 1001);
    socket.send(test::close_frame(1001));
    idle.send(test::close_frame(1000));
    EXPECT_EQ(told.wait(2), (std::vector<std::string>{"closed", "closed"}));
    server.stop();
    EXPECT_EQ(told.wait(2).size(), 2U);
}

// A pool that is stopped while one call blocks and others wait for it: none is lost untold, and never two at a time.
TEST(ServerPool, APoolThatIsStoppedClosesInOrder) {
    const auto pool = pool_of(1);
    gate held;
    story told;
    running_server server(accepting({.on_close = [&](channel_end) { told.tell("closed"); },
                                     .on_receive =
                                         [&](const net::channel&, net::received_message message) {
                                             held.pass();
                                             told.tell(std::string(message.payload));
                                         }}),
                          in_pool(pool));
    server.start();
    websocket_client client(server.port());
    client.send(text("one") + text("two"));
    held.await(1);
    pool->stop_now();
    client.send(text("three"));
    EXPECT_EQ(client.next().code(), 1001);
    client.send(test::close_frame(1001));
    EXPECT_TRUE(client.ended());
    held.open();
    EXPECT_EQ(told.wait(2), (std::vector<std::string>{"one", "closed"}));
    server.stop();
    EXPECT_EQ(told.wait(2).size(), 2U);
}

// The server ends first: run() returns when nothing of it runs any more.
TEST(ServerPool, TheEndOfTheServerWaitsForWhatRuns) {
    const auto pool = pool_of(1);
    gate held;
    std::atomic<bool> over{false};
    auto used = std::make_unique<int>(0);
    running_server server(
        [&](const net::request& asked, net::response& to) {
            held.pass();
            ++*used;
            test::echo(asked, to);
        },
        handled_in(pool));
    std::jthread loop([&] {
        server.get().run();
        over = true;
        used.reset();
    });
    http_client client(server.port());
    client.send(get("/") + get("/dropped"));
    held.await(1);
    server.get().stop();
    EXPECT_TRUE(client.gone());
    EXPECT_FALSE(over);
    held.open();
    loop.join();
    EXPECT_TRUE(over);
}

TEST(ServerPool, ADrainWaitsForAnswersOfThePool) {
    gate held;
    running_server server(
        [&](const net::request& asked, net::response& to) {
            held.pass();
            test::echo(asked, to);
        },
        handled_in(pool_of(1)));
    server.start();
    http_client client(server.port());
    client.send(get("/first"));
    held.await(1);
    server.get().drain();
    for (int turns = 0; turns < 2; ++turns) {  // the drain has begun behind the first
        std::atomic<bool> passed{false};
        ASSERT_TRUE(server.get().post([&] {
            passed = true;
            passed.notify_all();
        }));
        passed.wait(false);
    }
    held.open();
    const auto reply = client.reply();
    EXPECT_EQ(reply.body, "GET /first ");
    EXPECT_EQ(reply.field("Connection"), "close");
    client.close();
    server.join();
    EXPECT_EQ(server.counters().responses[1], 1U);
}

// Attacks S2: connections end at any moment, by either side, and then the server does, or the pool.
TEST(ServerPool, EachChannelEndsOnceWhateverEndsFirst) {
    test::seeded_random random;
    for (int round = 0; round < 4; ++round) {
        const auto pool = pool_of(3);
        struct one {
            std::atomic<bool> within{false};
            std::atomic<int> ends{0};
        };
        std::mutex lock;
        std::vector<std::shared_ptr<one>> all;
        std::atomic<int> wrong{0};
        running_server server(
            [&](const net::request& asked, net::response& to) {
                const auto state = std::make_shared<one>();
                {
                    const std::lock_guard guard(lock);
                    all.push_back(state);
                }
                const auto alone = [&wrong, state](const auto& does) {
                    if (state->within.exchange(true) || state->ends != 0) ++wrong;
                    does();
                    state->within = false;
                };
                static_cast<void>(
                    to.websocket(asked, {.queue_bytes_max = 4U << 20U,
                                         .on_close = [alone, state](channel_end) { alone([&] { ++state->ends; }); },
                                         .on_receive =
                                             [alone](const net::channel& from, net::received_message message) {
                                                 alone([&] {
                                                     if (message.payload.size() % 16 == 0)
                                                         static_cast<void>(from.close());
                                                     static_cast<void>(from.send(std::string(message.payload)));
                                                 });
                                             },
                                         .on_pool = true}));
            },
            in_pool(pool));
        server.start();
        for (int i = 0; i < 40; ++i) {
            websocket_client client(server.port());
            std::string sent;
            for (std::uint64_t m = random.below(30); m > 0; --m) sent += text(std::string(1 + random.below(60), 'm'));
            static_cast<void>(client.send_while_possible(sent));
            if (round == 3 && i == 20) pool->stop_now();
            switch (random.below(3)) {
                case 0: client.reset(); break;
                case 1: static_cast<void>(client.send_while_possible(test::close_frame(1000))); break;
                default: break;
            }
        }
        if (round == 2) pool->close();
        server.stop();
        EXPECT_EQ(wrong, 0);
        for (const auto& each : all) EXPECT_EQ(each->ends, 1) << "of " << all.size();
    }
}

}  // namespace
