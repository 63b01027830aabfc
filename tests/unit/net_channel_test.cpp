// SPDX-License-Identifier: Apache-2.0
// What reaches a server's loop from elsewhere and later: posted tasks, timers, late answers, streams.
#include "holdfast/net/channel.hpp"

#include <gtest/gtest.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "holdfast/error.hpp"
#include "holdfast/net/event_stream.hpp"
#include "holdfast/net/server.hpp"
#include "support/http_client.hpp"
#include "support/http_server.hpp"
#include "support/seed.hpp"

namespace {

using namespace holdfast;
using namespace std::chrono_literals;
using test::counted_by;
using test::echo;
using test::get;
using test::http_client;
using test::running_server;

/// Waits until the flag is set; the test's own time-out ends a wait in vain.
void await(const std::atomic<bool>& flag) { flag.wait(false); }
void set(std::atomic<bool>& flag) {
    flag = true;
    flag.notify_all();
}

/// Whether no connection is left, within what a test may take.
bool all_gone(net::server& server) {
    const auto last = std::chrono::steady_clock::now() + http_client::deadline;
    std::atomic<bool> gone{false};
    while (!gone && std::chrono::steady_clock::now() < last) {
        std::atomic<bool> passed{false};
        EXPECT_TRUE(server.post([&] {
            gone = server.counters().open == 0;
            set(passed);
        }));
        await(passed);
    }
    return gone;
}

/// Lets the loop go round once with everything posted so far behind it.
void pass_a_turn(net::server& server) {
    std::atomic<bool> passed{false};
    ASSERT_TRUE(server.post([&] { set(passed); }));
    await(passed);
}

// --- tasks

// Attacks I6 of server.hpp.
TEST(ServerPost, TasksOfEachThreadRunOnceAndInOrder) {
    constexpr int threads = 4, tasks = 5000;
    running_server server(echo);
    std::array<std::vector<int>, threads> ran;  // of the loop
    std::atomic<int> left{threads * tasks};
    std::atomic<bool> done{false};
    server.start();
    std::vector<std::jthread> posters;
    posters.reserve(threads);
    for (std::size_t t = 0; t < threads; ++t)
        posters.emplace_back([&, t] {
            for (int i = 0; i < tasks; ++i)
                ASSERT_TRUE(server.get().post([&, t, i] {
                    ran[t].push_back(i);
                    if (--left == 0) set(done);
                }));
        });
    await(done);
    posters.clear();
    server.stop();
    for (const auto& of_thread : ran) {
        ASSERT_EQ(of_thread.size(), static_cast<std::size_t>(tasks));
        for (int i = 0; i < tasks; ++i) ASSERT_EQ(of_thread[static_cast<std::size_t>(i)], i);
    }
}

TEST(ServerPost, TasksThatPostTasksLetConnectionsHaveTheirTurn) {
    running_server server(echo);
    std::atomic<bool> stop{false}, stopped{false};
    std::function<void()> again = [&] {
        if (stop)
            set(stopped);
        else
            EXPECT_TRUE(server.get().post(again));
    };
    EXPECT_TRUE(server.get().post(again));  // before run()
    server.start();
    http_client client(server.port());
    for (int i = 0; i < 3; ++i) EXPECT_EQ(client.ask(get("/")).status, 200);
    stop = true;
    await(stopped);
}

TEST(ServerPost, ATaskThatThrowsIsCountedAndTheNextOneRuns) {
    running_server server(echo);
    server.start();
    EXPECT_TRUE(server.get().post([] { throw std::runtime_error("on purpose"); }));
    EXPECT_TRUE(server.get().post([] { throw 7; }));
    pass_a_turn(server.get());
    server.stop();
    EXPECT_EQ(server.counters().handler_exceptions, 2U);
}

TEST(ServerPost, AfterTheEndTasksAreRefusedAndThoseLeftAreDestroyed) {
    auto held = std::make_shared<int>(0);
    running_server server(echo);
    server.get().stop();
    EXPECT_TRUE(server.get().post([held] { ADD_FAILURE() << "a stop came first"; }));
    EXPECT_EQ(held.use_count(), 2);
    server.start();
    server.join();
    EXPECT_EQ(held.use_count(), 1);
    EXPECT_FALSE(server.get().post([held] {}));
    EXPECT_EQ(held.use_count(), 1);
    {
        running_server never_run(echo);
        EXPECT_TRUE(never_run.get().post([held] {}));
    }
    EXPECT_EQ(held.use_count(), 1);
    EXPECT_THROW(server.get().post({}), error);
}

// A loop that ends while others post: each task has run or is gone, and whoever was told so is right.
TEST(ServerPost, PostersBesideTheEndLoseNothingUntold) {
    for (int round = 0; round < 4; ++round) {
        auto held = std::make_shared<std::atomic<int>>(0);
        running_server server(echo);
        server.start();
        std::vector<std::jthread> posters;
        for (int t = 0; t < 2; ++t)
            posters.emplace_back([&] {
                while (server.get().post([held] { ++*held; })) {
                }
            });
        pass_a_turn(server.get());
        server.stop();
        posters.clear();
        EXPECT_EQ(held.use_count(), 1);
    }
}

// --- timers

TEST(ServerTimer, RunInTheOrderOfTheirDeadlinesAndNeverEarly) {
    running_server server(echo);
    std::vector<int> ran;
    std::atomic<bool> done{false};
    const auto begin = std::chrono::steady_clock::now();
    server.get().after(60ms, [&] {
        ran.push_back(60);
        EXPECT_GE(std::chrono::steady_clock::now() - begin, 60ms);
        set(done);
    });
    server.get().after(20ms, [&] {
        ran.push_back(20);
        EXPECT_GE(std::chrono::steady_clock::now() - begin, 20ms);
    });
    server.get().after(-5s, [&] { ran.push_back(0); });
    server.start();
    await(done);
    server.stop();
    EXPECT_EQ(ran, (std::vector<int>{0, 20, 60}));
}

TEST(ServerTimer, CancelledOnesNeverRunAndNothingIsCancelledTwice) {
    running_server server(echo);
    std::atomic<bool> done{false};
    net::server& loop = server.get();
    const net::timer_id dead = loop.after(1ms, [] { ADD_FAILURE() << "was cancelled"; });
    EXPECT_TRUE(loop.cancel(dead));
    EXPECT_FALSE(loop.cancel(dead));
    EXPECT_FALSE(loop.cancel({}));
    net::timer_id own;
    own = loop.after(2ms, [&] { EXPECT_FALSE(loop.cancel(own)) << "it runs"; });
    loop.after(3ms, [&] {
        EXPECT_FALSE(loop.cancel(own)) << "it has run";
        throw std::runtime_error("on purpose");
    });
    net::timer_id victim;
    loop.after(4ms, [&] { EXPECT_TRUE(loop.cancel(victim)); });
    victim = loop.after(4s, [] { ADD_FAILURE() << "was cancelled by another"; });
    loop.after(10ms, [&] { set(done); });
    server.start();
    await(done);
    server.stop();
    EXPECT_EQ(server.counters().handler_exceptions, 1U);
    EXPECT_THROW(loop.after(1ms, {}), error);
}

// A timer that makes the next one must not keep the loop to itself.
TEST(ServerTimer, OnesThatMakeOthersLetConnectionsHaveTheirTurn) {
    running_server server(echo);
    std::atomic<bool> stop{false}, stopped{false};
    std::function<void()> again = [&] {
        if (stop)
            set(stopped);
        else
            server.get().after(0ns, again);
    };
    server.get().after(0ns, again);
    server.start();
    http_client client(server.port());
    for (int i = 0; i < 3; ++i) EXPECT_EQ(client.ask(get("/")).status, 200);
    stop = true;
    await(stopped);
}

// --- channels

/// Where handlers leave channels for the test, and callbacks what they were told; by the request's target.
class waiting_room {
 public:
    void leave(const std::string& target, net::channel made) {
        const std::lock_guard guard(lock_);
        channels_.insert_or_assign(target, std::move(made));
        changed_.notify_all();
    }
    /// Waits for it.
    net::channel take(const std::string& target) {
        std::unique_lock guard(lock_);
        changed_.wait(guard, [&] { return channels_.contains(target); });
        net::channel found = channels_.at(target);
        channels_.erase(target);
        return found;
    }
    [[nodiscard]] std::size_t size() {
        const std::lock_guard guard(lock_);
        return channels_.size();
    }
    [[nodiscard]] std::function<void(net::channel_end)> on_close(std::string target) {
        return [this, target = std::move(target)](net::channel_end why) {
            const std::lock_guard guard(lock_);
            ends_[target].push_back(why);
            changed_.notify_all();
        };
    }
    /// Waits for the first one.
    net::channel_end end_of(const std::string& target) {
        std::unique_lock guard(lock_);
        changed_.wait(guard, [&] { return ends_.contains(target); });
        return ends_.at(target).front();
    }
    [[nodiscard]] std::size_t ends_of(const std::string& target) {
        const std::lock_guard guard(lock_);
        return ends_.contains(target) ? ends_.at(target).size() : 0;
    }

 private:
    std::mutex lock_;
    std::condition_variable changed_;
    std::map<std::string, net::channel> channels_;
    std::map<std::string, std::vector<net::channel_end>> ends_;
};

[[nodiscard]] net::response saying(std::string_view text) {
    net::response made;
    made.body(text);
    return made;
}

/// Defers what begins with /late, streams what begins with /stream, answers all else at once.
[[nodiscard]] net::handler leaves_for_later(waiting_room& room, net::channel_options options = {}) {
    return [&room, options](const net::request& r, net::response& w) {
        const std::string target(r.target());
        net::channel_options chosen = options;
        chosen.on_close = room.on_close(target);
        if (target.starts_with("/late"))
            room.leave(target, w.defer(chosen));
        else if (target.starts_with("/stream"))
            room.leave(target, w.header("X-Kind", "stream").stream(chosen));
        else
            echo(r, w);
    };
}

using enum net::channel_status;
using net::channel_end;

// Attacks K1: four pipelined requests, each kind of which may answer at once, answered in each order.
TEST(LateAnswer, EveryOrderOfAnsweringGivesTheOrderOfTheRequests) {
    waiting_room room;
    running_server server(leaves_for_later(room));
    server.start();
    http_client client(server.port());
    for (unsigned late = 0; late < 16; ++late) {
        std::array<int, 4> order{0, 1, 2, 3};
        do {
            std::array<std::string, 4> targets;
            std::string pipeline;
            for (unsigned i = 0; i < 4; ++i) {
                targets[i] = ((late >> i & 1U) != 0 ? "/late" : "/now") + std::to_string(i);
                pipeline += get(targets[i]);
            }
            client.send(pipeline);
            for (const int i : order) {
                const std::string& target = targets[static_cast<std::size_t>(i)];
                if (!target.starts_with("/late")) continue;
                ASSERT_EQ(room.take(target).answer(saying(target)), ok);
            }
            for (const std::string& target : targets) {
                const auto reply = client.reply();
                ASSERT_EQ(reply.status, 200);
                ASSERT_EQ(reply.body, target.starts_with("/late") ? target : "GET " + target + " ");
            }
        } while (late == 15 && std::next_permutation(order.begin(), order.end()));
    }
    client.send(get("/late-last") + get("/now"));
    EXPECT_FALSE(client.readable(20ms)) << "the second answer must wait for the first";
    EXPECT_EQ(room.take("/late-last").answer(saying("there")), ok);
    EXPECT_EQ(client.reply().body, "there");
    EXPECT_EQ(client.reply().body, "GET /now ");
}

TEST(LateAnswer, IsTakenAsAHandlersResponseIs) {
    waiting_room room;
    running_server server(leaves_for_later(room));
    server.start();
    http_client client(server.port());
    client.send("HEAD /late1 HTTP/1.1\r\nHost: a\r\n\r\n");
    EXPECT_EQ(room.take("/late1").answer(saying("12345")), ok);
    const auto head = client.reply(true);
    EXPECT_EQ(head.field("Content-Length"), "5");
    EXPECT_EQ(head.field("Date").size(), std::string("Sun, 06 Nov 1994 08:49:37 GMT").size());
    client.send(get("/late2"));
    net::response none;
    none.status(204);
    EXPECT_EQ(room.take("/late2").answer(std::move(none)), ok);
    EXPECT_EQ(client.reply().status, 204);
    client.send(get("/late3"));
    EXPECT_EQ(room.take("/late3").close(), ok);
    EXPECT_EQ(client.reply().status, 500) << "somebody gave up";
    client.send("GET /late4 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    EXPECT_EQ(room.take("/late4").answer(saying("x")), ok);
    EXPECT_EQ(client.reply().field("Connection"), "keep-alive");
    client.send(get("/late5", "Connection: close\r\n") + get("/never"));
    EXPECT_EQ(room.take("/late5").answer(saying("x")), ok);
    EXPECT_EQ(client.reply().field("Connection"), "close");
    EXPECT_TRUE(client.ended());
    EXPECT_EQ(room.end_of("/late5"), channel_end::finished);
}

TEST(LateAnswer, MayComeBeforeTheHandlerReturns) {
    running_server server([](const net::request&, net::response& w) {
        w.body("not this");
        EXPECT_EQ(w.defer().answer(saying("this")), ok);
    });
    server.start();
    EXPECT_EQ(http_client(server.port()).ask(get("/")).body, "this");
}

TEST(LateAnswer, IsGivenOnce) {
    waiting_room room;
    running_server server(leaves_for_later(room));
    server.start();
    http_client client(server.port());
    client.send(get("/late"));
    const net::channel channel = room.take("/late");
    EXPECT_TRUE(channel.is_open());
    EXPECT_EQ(channel.send(std::string("part")), misused);
    EXPECT_EQ(channel.answer(saying("first")), ok);
    EXPECT_FALSE(channel.is_open());
    EXPECT_EQ(channel.answer(saying("second")), closed);
    EXPECT_EQ(channel.close(), closed);
    EXPECT_EQ(client.reply().body, "first");
    EXPECT_EQ(client.ask(get("/now")).body, "GET /now ");
    EXPECT_EQ(room.ends_of("/late"), 1U);
}

TEST(LateAnswer, ThatClosesCutsWhatIsBehindIt) {
    waiting_room room;
    running_server server(leaves_for_later(room));
    server.start();
    http_client client(server.port());
    client.send(get("/late1") + get("/now") + get("/late2"));
    const net::channel behind = room.take("/late2");
    EXPECT_EQ(room.take("/late1").answer(std::move(saying("last").close())), ok);
    const auto reply = client.reply();
    EXPECT_EQ(reply.body, "last");
    EXPECT_EQ(reply.field("Connection"), "close");
    EXPECT_TRUE(client.ended());
    EXPECT_EQ(room.end_of("/late2"), channel_end::cut);
    EXPECT_EQ(behind.answer(saying("never")), closed);
}

TEST(LateAnswer, ThatDoesNotComeIs504) {
    waiting_room room;
    running_server server(leaves_for_later(room, {.answer_timeout = 30ms}));
    server.start();
    http_client client(server.port());
    client.send(get("/late1") + get("/now") + get("/late2"));
    const net::channel channel = room.take("/late1");
    EXPECT_EQ(client.reply().status, 504);
    EXPECT_EQ(client.reply().body, "GET /now ");
    EXPECT_EQ(client.reply().status, 504);
    EXPECT_EQ(room.end_of("/late1"), channel_end::timed_out);
    EXPECT_EQ(channel.answer(saying("late indeed")), closed);
    EXPECT_EQ(client.ask(get("/now")).status, 200);
    server.stop();
    EXPECT_EQ(room.ends_of("/late1"), 1U);
    EXPECT_EQ(server.counters().answer_timeouts, 2U);
}

TEST(LateAnswer, MayTakeForEver) {
    waiting_room room;
    running_server server(leaves_for_later(room, {.answer_timeout = std::chrono::milliseconds::max()}));
    server.start();
    http_client client(server.port());
    client.send(get("/late1"));
    const net::channel channel = room.take("/late1");
    std::this_thread::sleep_for(50ms);
    EXPECT_EQ(channel.answer(saying("here")), net::channel_status::ok);
    EXPECT_EQ(client.reply().status, 200);
    server.stop();
    EXPECT_EQ(server.counters().answer_timeouts, 0U);
}

TEST(LateAnswer, AClientThatLeavesEndsAllItsChannelsOnce) {
    for (const bool by_reset : {true, false}) {
        waiting_room room;
        running_server server(leaves_for_later(room));
        server.start();
        http_client client(server.port());
        client.send(get("/late1") + get("/now") + get("/stream") + get("/late2"));
        std::vector<net::channel> channels;
        const std::array<std::string, 3> targets{"/late1", "/stream", "/late2"};
        for (const auto& target : targets) channels.push_back(room.take(target));
        by_reset ? client.reset() : client.close();
        for (const auto& target : targets) EXPECT_EQ(room.end_of(target), channel_end::client_away);
        for (const auto& channel : channels) {
            EXPECT_FALSE(channel.is_open());
            EXPECT_EQ(channel.close(), closed);
        }
        server.stop();
        for (const auto& target : targets) EXPECT_EQ(room.ends_of(target), 1U);
        EXPECT_EQ(server.counters().lost, 1U);
        EXPECT_EQ(server.counters().open, 0U);
    }
}

TEST(LateAnswer, AClientThatLeavesOneForLaterAndOneInTheMiddleIsLostOnce) {
    waiting_room room;
    running_server server(leaves_for_later(room));
    server.start();
    http_client client(server.port());
    client.send(get("/late") + get("/now").substr(0, 10));
    const net::channel answer = room.take("/late");
    pass_a_turn(server.get());
    client.shutdown_send();
    EXPECT_EQ(room.end_of("/late"), channel_end::client_away);
    EXPECT_TRUE(client.gone());
    server.stop();
    EXPECT_EQ(server.counters().lost, 1U);
}

// Of the network that the calling thread is in.
bool switch_loopback(bool on) {
    const int any = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    ifreq request{};
    std::string_view("lo").copy(request.ifr_name, sizeof request.ifr_name - 1);
    request.ifr_flags = on ? IFF_UP : 0;
    const bool done = ::ioctl(any, SIOCSIFFLAGS, &request) == 0;
    ::close(any);
    return done;
}

// Neither an end nor a reset comes from it: one is found out by the kernel's probes, one by what it does not take.
TEST(LateAnswer, AClientWhoseNetworkGoesIsAway) {
    bool alone = true;
    std::thread([&] {
        alone = ::unshare(CLONE_NEWNET) == 0;  // this thread's own network, and of those it makes
        if (!alone) return;
        ASSERT_TRUE(switch_loopback(true));
        waiting_room room;
        running_server server(leaves_for_later(room), {}, {.silence_max_s = 1});
        server.start();
        http_client asks(server.port()), listens(server.port());
        asks.send(get("/late1"));
        listens.send(get("/stream"));
        const net::channel answer = room.take("/late1"), stream = room.take("/stream");
        EXPECT_EQ(stream.send("heard"), ok);
        EXPECT_FALSE(listens.read_to("heard").empty());
        ASSERT_TRUE(switch_loopback(false));
        EXPECT_EQ(stream.send("lost"), ok);
        EXPECT_EQ(room.end_of("/late1"), channel_end::client_away);
        EXPECT_EQ(room.end_of("/stream"), channel_end::client_away);
        server.stop();
        EXPECT_EQ(server.counters().lost, 2U);
    }).join();
    if (!alone) GTEST_SKIP() << "needs: CAP_SYS_ADMIN, for a network of its own";
}

TEST(LateAnswer, ReachesAHalfClosedClientWhereThatIsAskedFor) {
    waiting_room room;
    running_server server(leaves_for_later(room, {.answers_half_closed = true}));
    server.start();
    http_client client(server.port());
    client.send(get("/late1") + get("/late2"));
    client.shutdown_send();
    EXPECT_EQ(room.take("/late2").answer(saying("two")), ok);
    pass_a_turn(server.get());
    EXPECT_EQ(room.take("/late1").answer(saying("one")), ok);
    EXPECT_EQ(client.reply().body, "one");
    EXPECT_EQ(client.reply().body, "two");
    EXPECT_TRUE(client.ended());
}

TEST(LateAnswer, AHandlerThatThrowsBehindItsDeferringIs500) {
    net::channel kept;
    std::atomic<int> ends{0};
    running_server server([&](const net::request& r, net::response& w) {
        if (r.target() == "/now") return echo(r, w);
        net::channel_options options;
        options.on_close = [&](channel_end why) {
            EXPECT_EQ(why, channel_end::cut);
            ++ends;
        };
        kept = w.defer(std::move(options));
        if (r.target() == "/twice") static_cast<void>(w.defer());  // throws
        throw std::runtime_error("on purpose");
    });
    server.start();
    http_client client(server.port());
    EXPECT_EQ(client.ask(get("/")).status, 500);
    EXPECT_EQ(client.ask(get("/twice")).status, 500);
    EXPECT_EQ(client.ask(get("/now")).status, 200);
    server.stop();
    EXPECT_FALSE(kept.is_open());
    EXPECT_EQ(kept.answer(saying("x")), closed);
    EXPECT_EQ(ends, 2);
    EXPECT_THROW(static_cast<void>(net::response().defer()), error) << "no server waits for that one";
}

TEST(LateAnswer, BoundsTheExchangesUnderWay) {
    waiting_room room;
    net::server_options options;
    options.limits.pipeline_max = 4;
    running_server server(leaves_for_later(room), std::move(options));
    server.start();
    http_client client(server.port());
    constexpr int count = 50;
    std::string pipeline;
    for (int i = 0; i < count; ++i) pipeline += get("/late" + std::to_string(i));
    client.send(pipeline);
    for (int i = 0; i < count; ++i) {
        const net::channel channel = room.take("/late" + std::to_string(i));
        EXPECT_LE(room.size(), 3U);
        EXPECT_EQ(channel.answer(saying(std::to_string(i))), ok);
        EXPECT_EQ(client.reply().body, std::to_string(i));
    }
    EXPECT_EQ(client.ask(get("/now")).status, 200);
    server.stop();
    EXPECT_GE(server.counters().read_pauses, 1U);
}

// Answers that are ready and wait for their turn are memory, too.
TEST(LateAnswer, BoundsTheBytesThatWaitForTheirTurn) {
    waiting_room room;
    net::server_options options;
    options.limits.output_bytes_max = 10'000;
    std::atomic<int> made{0};
    running_server server(
        [&](const net::request& r, net::response& w) {
            if (r.target() == "/late") return room.leave("/late", w.defer());
            ++made;
            w.body(std::string(1000, 'x'));
        },
        std::move(options));
    server.start();
    http_client client(server.port());
    std::string pipeline = get("/late");
    for (int i = 0; i < 100; ++i) pipeline += get("/now");
    client.send(pipeline);
    const net::channel channel = room.take("/late");
    EXPECT_EQ(http_client(server.port()).ask(get("/now")).status, 200);
    EXPECT_LE(made, 1 + 10);
    EXPECT_EQ(channel.answer(saying("first")), ok);
    EXPECT_EQ(client.reply().body, "first");
    for (int i = 0; i < 100; ++i) EXPECT_EQ(client.reply().body.size(), 1000U);
}

// A stream that has nothing to say, and behind it more than may be under way: nothing is read, and nothing sent.
TEST(LateAnswer, AClientThatIsNotReadFromAndResetsIsAway) {
    waiting_room room;
    net::server_options options;
    options.limits.pipeline_max = 4;
    running_server server(leaves_for_later(room), std::move(options));
    server.start();
    http_client client(server.port());
    std::string pipeline = get("/stream");
    for (int i = 0; i < 8; ++i) pipeline += get("/late" + std::to_string(i));
    client.send(pipeline);
    EXPECT_GT(counted_by(server.get(), &net::server_counters::read_pauses), 0U);
    client.reset();
    for (const char* target : {"/stream", "/late0", "/late1", "/late2"})
        EXPECT_EQ(room.end_of(target), channel_end::client_away) << target;
    server.stop();
    EXPECT_EQ(server.counters().lost, 1U);
}

// What a request lacks may have come, and lie unread behind answers that wait: its client is not late.
TEST(LateAnswer, ARequestThatIsHeldBackIsNotLate) {
    const std::string body = test::post("/now", "0123456789");
    for (const std::string& third : {get("/now"), body}) {
        waiting_room room;
        net::server_options options;
        options.limits.output_bytes_max = 4096;
        options.limits.header_timeout_ms = options.limits.body_timeout_ms = 500;
        running_server server(leaves_for_later(room), std::move(options));
        server.start();
        http_client client(server.port());
        client.send(get("/late1") + get("/late2") + third.substr(0, third.size() - 5));
        const net::channel first = room.take("/late1");
        EXPECT_EQ(room.take("/late2").answer(saying(std::string(8192, 'x'))), ok);
        pass_a_turn(server.get());
        client.send(third.substr(third.size() - 5));
        EXPECT_GT(counted_by(server.get(), &net::server_counters::read_pauses), 0U);
        EXPECT_FALSE(client.readable(700ms));
        EXPECT_EQ(first.answer(saying("one")), ok);
        EXPECT_EQ(client.reply().body, "one");
        EXPECT_EQ(client.reply().body.size(), 8192U);
        EXPECT_EQ(client.reply().status, 200);
        server.stop();
        EXPECT_EQ(server.counters().header_timeouts + server.counters().body_timeouts, 0U);
    }
}

// Its last words out, a connection reads on until its client has gone, also one that was not read from.
TEST(LateAnswer, ARefusalEndsAPauseWithTheConnection) {
    waiting_room room;
    net::server_options options;
    options.limits.pipeline_max = 2;
    options.limits.held_bytes_max = 3000;  // what waits behind the first counts 1 KiB each, the refusal as well
    options.limits.linger_timeout_ms = 60'000;
    running_server server(leaves_for_later(room), std::move(options));
    server.start();
    http_client client(server.port());
    client.send(get("/late1") + get("/late2"));
    const net::channel first = room.take("/late1");
    EXPECT_EQ(room.take("/late2").answer(saying("two")), ok);
    pass_a_turn(server.get());
    client.send(get("/now", "X: " + std::string(4000, 'x') + "\r\n"));
    EXPECT_GT(counted_by(server.get(), &net::server_counters::over_held_bytes), 0U);
    EXPECT_EQ(first.answer(saying("one")), ok);
    EXPECT_EQ(client.reply().body, "one");
    EXPECT_EQ(client.reply().body, "two");
    EXPECT_EQ(client.reply().status, 503);
    EXPECT_TRUE(client.ended());
    client.close();
    EXPECT_TRUE(all_gone(server.get())) << "long before it has lingered";
}

// What waits has next to no bytes, and is something all the same.
TEST(LateAnswer, ManyThatWaitForLongAreHeldToTheBytesOfAll) {
    waiting_room room;
    net::server_options options;
    options.limits.held_bytes_max = 256 << 10;
    running_server server(leaves_for_later(room), std::move(options));
    server.start();
    std::list<http_client> clients;
    for (int i = 0; i < 20; ++i) {
        std::string many;
        for (int j = 0; j < 60; ++j) many += get("/late" + std::to_string(60 * i + j));
        clients.emplace_back(server.port()).send(many);
        pass_a_turn(server.get());
    }
    const auto open = [&] { return counted_by(server.get(), &net::server_counters::open); };
    for (int i = 0; i < 500 && open() > 4; ++i) std::this_thread::sleep_for(10ms);
    EXPECT_LE(open(), 4U) << "of 59 KiB each";
    EXPECT_GE(counted_by(server.get(), &net::server_counters::over_held_bytes), 16U);
    http_client another(server.port());
    another.send(get("/late_alone"));
    EXPECT_EQ(room.take("/late_alone").answer(saying("there is room for one")), ok);
    EXPECT_EQ(another.reply().body, "there is room for one");
}

TEST(LateAnswer, AConnectionThatWaitsForOneIsNotIdle) {
    waiting_room room;
    net::server_options options;
    options.limits.idle_timeout_ms = 30;
    running_server server(leaves_for_later(room), std::move(options));
    server.start();
    http_client client(server.port());
    client.send(get("/late"));
    const net::channel channel = room.take("/late");
    EXPECT_TRUE(http_client(server.port()).ended());  // a whole idle time-out of another
    EXPECT_EQ(channel.answer(saying("x")), ok);
    EXPECT_EQ(client.reply().body, "x");
    EXPECT_TRUE(client.ended()) << "now it is";
}

TEST(LateAnswer, ContinuesAndRefusalsKeepTheirOrder) {
    waiting_room room;
    net::server_options options;
    options.limits.body_timeout_ms = 50;
    running_server server(leaves_for_later(room), std::move(options));
    server.start();
    http_client client(server.port());
    client.send(get("/late") + "POST /e HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    const net::channel channel = room.take("/late");
    EXPECT_FALSE(client.readable(100ms)) << "its body cannot be late: nobody has asked for it";
    EXPECT_EQ(channel.answer(saying("x")), ok);
    EXPECT_EQ(client.reply().body, "x");
    EXPECT_EQ(client.reply().status, 100);
    client.send("ok" + get("/late") + "BAD\r\n\r\n");
    EXPECT_EQ(client.reply().body, "POST /e ok");
    const net::channel second = room.take("/late");
    EXPECT_FALSE(client.readable(10ms));
    EXPECT_EQ(second.answer(saying("y")), ok);
    EXPECT_EQ(client.reply().body, "y");
    EXPECT_EQ(client.reply().status, 400);
    EXPECT_TRUE(client.ended());
}

// Who does not wait to be told to go on has begun its body, and its time.
TEST(LateAnswer, ABodyThatDidNotWaitForItsContinueIsTimed) {
    waiting_room room;
    net::server_options options;
    options.limits.body_timeout_ms = 50;
    running_server server(leaves_for_later(room), std::move(options));
    server.start();
    http_client client(server.port());
    client.send(get("/late") + "POST /e HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nok");
    const net::channel channel = room.take("/late");
    EXPECT_FALSE(client.readable(150ms));
    EXPECT_EQ(channel.answer(saying("x")), ok);
    EXPECT_EQ(client.reply().body, "x");
    EXPECT_EQ(client.reply().status, 100);
    EXPECT_EQ(client.reply().status, 408);
    EXPECT_TRUE(client.ended());
    server.stop();
    EXPECT_EQ(server.counters().body_timeouts, 1U);
}

TEST(LateAnswer, IsWaitedForByADrain) {
    waiting_room room;
    net::server_options options;
    options.limits.drain_idle_ms = 10;
    running_server server(leaves_for_later(room), std::move(options));
    server.start();
    http_client idle(server.port());
    EXPECT_EQ(idle.ask(get("/now")).status, 200);
    http_client client(server.port());
    client.send(get("/late1") + get("/late2"));
    const net::channel first = room.take("/late1"), second = room.take("/late2");
    server.get().drain();
    EXPECT_TRUE(idle.ended());
    EXPECT_EQ(second.answer(saying("two")), ok);
    EXPECT_EQ(first.answer(saying("one")), ok);
    const auto one = client.reply();
    EXPECT_EQ(one.body, "one");
    EXPECT_EQ(one.field("Connection"), "");
    const auto two = client.reply();
    EXPECT_EQ(two.body, "two");
    EXPECT_EQ(two.field("Connection"), "close");
    EXPECT_TRUE(client.ended());
    client.close();
    server.join();
}

// Attacks K4: thousands of connections have had its place since.
TEST(LateAnswer, AnOldHandleIsClosedAndHarmsNoSuccessor) {
    waiting_room room;
    running_server server(leaves_for_later(room));
    server.start();
    std::vector<net::channel> old;
    for (int i = 0; i < 2000; ++i) {
        http_client client(server.port());
        client.send(get("/late"));
        const net::channel channel = room.take("/late");
        for (const auto& each : old) ASSERT_EQ(each.answer(saying("of another")), closed);
        if (i % 2 == 0) {
            ASSERT_EQ(channel.answer(saying("mine")), ok);
            ASSERT_EQ(client.reply().body, "mine");
        }
        client.reset();
        if (old.size() < 8) old.push_back(channel);
        while (i < 8 && channel.is_open()) std::this_thread::yield();
    }
}

TEST(LateAnswer, AHandleMayOutliveTheServer) {
    net::channel answer, stream;
    std::atomic<int> ends{0};
    std::atomic<bool> both{false};
    {
        running_server server([&](const net::request& r, net::response& w) {
            net::channel_options options;
            options.on_close = [&](channel_end why) {
                EXPECT_EQ(why, channel_end::server_ended);
                ++ends;
            };
            (r.target() == "/a" ? answer : stream) =
                r.target() == "/a" ? w.defer(std::move(options)) : w.stream(std::move(options));
            if (r.target() == "/s") set(both);
        });
        server.start();
        http_client client(server.port());
        client.send(get("/a") + get("/s"));
        await(both);
        EXPECT_TRUE(stream.is_open());
        server.stop();
        EXPECT_EQ(ends, 2);
        EXPECT_EQ(answer.answer(saying("x")), closed);
    }
    EXPECT_FALSE(answer.is_open());
    EXPECT_EQ(answer.answer(saying("x")), closed);
    EXPECT_EQ(stream.send(std::string("x")), closed);
    EXPECT_EQ(stream.close(), closed);
    EXPECT_EQ(net::channel().answer(saying("x")), closed);
    EXPECT_EQ(net::channel().queued_bytes(), 0U);
}

// --- streams

TEST(Stream, SendsEachMessageAsAChunkAndKeepsTheConnection) {
    waiting_room room;
    running_server server(leaves_for_later(room));
    server.start();
    http_client client(server.port());
    client.send(get("/stream") + get("/now"));
    const net::channel stream = room.take("/stream");
    const std::string head = client.read_to("\r\n\r\n");
    EXPECT_NE(head.find("Transfer-Encoding: chunked\r\n"), std::string::npos);
    EXPECT_NE(head.find("X-Kind: stream\r\n"), std::string::npos);
    EXPECT_EQ(head.find("Content-Length"), std::string::npos);
    EXPECT_EQ(stream.send(std::string("hello")), ok);
    EXPECT_EQ(client.chunk(), "hello");
    EXPECT_EQ(stream.send(std::string()), ok) << "an empty chunk would be the end";
    EXPECT_EQ(stream.send(std::string(300, 'x')), ok);
    EXPECT_EQ(stream.answer(saying("x")), misused);
    EXPECT_EQ(client.chunk(), std::string(300, 'x'));
    EXPECT_EQ(stream.close(), ok);
    EXPECT_EQ(stream.send(std::string("more")), closed);
    EXPECT_EQ(client.chunk(), "");
    EXPECT_EQ(client.reply().body, "GET /now ");
    EXPECT_EQ(room.end_of("/stream"), channel_end::finished);
}

TEST(Stream, WaitsForItsTurn) {
    waiting_room room;
    running_server server(leaves_for_later(room));
    server.start();
    http_client client(server.port());
    client.send(get("/late") + get("/stream"));
    const net::channel stream = room.take("/stream");
    EXPECT_EQ(stream.send(std::string("early")), ok);
    pass_a_turn(server.get());
    EXPECT_EQ(stream.queued_bytes(), 5U);
    EXPECT_EQ(room.take("/late").answer(saying("first")), ok);
    EXPECT_EQ(client.reply().body, "first");
    EXPECT_TRUE(client.read_to("\r\n\r\n").starts_with("HTTP/1.1 200"));
    EXPECT_EQ(client.chunk(), "early");
}

TEST(Stream, ToHttp10GoesOnUntilTheEndOfTheConnection) {
    waiting_room room;
    running_server server(leaves_for_later(room));
    server.start();
    http_client client(server.port());
    client.send("GET /stream HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    const net::channel stream = room.take("/stream");
    EXPECT_EQ(stream.send(std::string("all ")), ok);
    EXPECT_EQ(stream.send(std::string("of it")), ok);
    EXPECT_EQ(stream.close(), ok);
    const std::string head = client.read_to("\r\n\r\n");
    EXPECT_EQ(head.find("Transfer-Encoding"), std::string::npos);
    EXPECT_NE(head.find("Connection: close\r\n"), std::string::npos);
    EXPECT_EQ(client.read_to("of it"), "all of it");
    EXPECT_TRUE(client.ended());
}

TEST(Stream, OfAHeadIsItsHead) {
    waiting_room room;
    running_server server(leaves_for_later(room));
    server.start();
    http_client client(server.port());
    client.send("HEAD /stream HTTP/1.1\r\nHost: a\r\n\r\n" + get("/now"));
    EXPECT_EQ(client.reply(true).field("Transfer-Encoding"), "chunked");
    EXPECT_EQ(client.reply().body, "GET /now ");
    EXPECT_EQ(room.end_of("/stream"), channel_end::finished);
    EXPECT_EQ(room.take("/stream").send(std::string("x")), closed);
}

// Attacks K3, on the loop, so that nothing leaves meanwhile.
TEST(Stream, EachPolicyBeginsExactlyAtItsByte) {
    struct row {
        net::when_full policy;
        net::channel_status tenth, eleventh;
        std::string arrives;
        channel_end end;
    };
    const std::vector<row> rows{
        {net::when_full::refuse, ok, full, "1234567890", channel_end::finished},
        {net::when_full::drop_newest, ok, dropped, "1234567890", channel_end::finished},
        {net::when_full::drop_oldest, ok, ok, "567890E", channel_end::finished},
        {net::when_full::close, ok, closed, "", channel_end::overflow},
    };
    for (const row& each : rows) {
        waiting_room room;
        running_server server([&](const net::request&, net::response& w) {
            net::channel_options options;
            options.queue_bytes_max = 10;
            options.when_full = each.policy;
            options.on_close = room.on_close("/");
            const net::channel stream = w.stream(std::move(options));
            EXPECT_EQ(stream.send(std::string(11, 'x')), too_large);
            EXPECT_EQ(stream.send(std::string("1234")), ok);
            EXPECT_EQ(stream.send(std::string("56789")), ok);
            EXPECT_EQ(stream.send(std::string("0")), each.tenth);
            EXPECT_EQ(stream.queued_bytes(), 10U);
            EXPECT_EQ(stream.send(std::string("E")), each.eleventh);
            EXPECT_LE(stream.queued_bytes(), 10U);
            EXPECT_EQ(stream.dropped(), each.eleventh == dropped || each.arrives.ends_with('E') ? 1U : 0U);
            EXPECT_EQ(stream.is_open(), each.end != channel_end::overflow);
            static_cast<void>(stream.close());
        });
        server.start();
        http_client client(server.port());
        client.send(get("/"));
        EXPECT_EQ(room.end_of("/"), each.end);
        if (each.end == channel_end::overflow) {
            EXPECT_TRUE(client.gone());
            continue;
        }
        EXPECT_TRUE(client.read_to("\r\n\r\n").starts_with("HTTP/1.1 200"));
        std::string arrived;
        for (std::string next = client.chunk(); !next.empty(); next = client.chunk()) arrived += next;
        EXPECT_EQ(arrived, each.arrives);
    }
}

TEST(Stream, SaysWhenThereIsRoomAgain) {
    constexpr int count = 1000;
    int sent = 0;  // of the loop
    const auto fill = [&](const net::channel& stream) {
        while (sent < count) {
            const net::channel_status status = stream.send("message " + std::to_string(sent) + std::string(1000, '.'));
            if (status == full) return;
            EXPECT_EQ(status, ok);
            ++sent;
        }
        EXPECT_EQ(stream.close(), ok);
    };
    running_server server([&](const net::request&, net::response& w) {
        net::channel_options options;
        options.queue_bytes_max = 5000;
        options.on_drain = fill;
        fill(w.stream(std::move(options)));
    });
    server.start();
    http_client client(server.port(), {.receive_buffer = 4096});
    client.send(get("/"));
    EXPECT_TRUE(client.read_to("\r\n\r\n").starts_with("HTTP/1.1 200"));
    for (int i = 0; i < count; ++i) ASSERT_TRUE(client.chunk().starts_with("message " + std::to_string(i) + "."));
    EXPECT_EQ(client.chunk(), "");
}

// A reader that stands still: the policy acts on what waits in front of it, and the newest arrives in the end.
TEST(Stream, ASlowReaderLosesTheOldestAndGetsTheNewest) {
    waiting_room room;
    running_server server(
        leaves_for_later(room, {.queue_bytes_max = 100'000, .when_full = net::when_full::drop_oldest}));
    server.start();
    http_client client(server.port(), {.receive_buffer = 4096});
    client.send(get("/stream"));
    const net::channel stream = room.take("/stream");
    int sent = 0;
    while (stream.dropped() < 100) ASSERT_EQ(stream.send(std::to_string(sent++) + std::string(10'000, '.')), ok);
    EXPECT_LE(stream.queued_bytes(), 100'000U);
    EXPECT_EQ(stream.close(), ok);
    EXPECT_TRUE(client.read_to("\r\n\r\n").starts_with("HTTP/1.1 200"));
    int last = -1, arrived = 0;
    for (std::string next = client.chunk(); !next.empty(); next = client.chunk(), ++arrived) {
        const int number = std::atoi(next.c_str());
        ASSERT_GT(number, last);
        last = number;
    }
    EXPECT_EQ(last, sent - 1);
    EXPECT_EQ(static_cast<std::uint64_t>(arrived) + stream.dropped(), static_cast<std::uint64_t>(sent));
}

// A client that reads on may still break: it is found out, though nothing is read from it and nothing sent to it.
TEST(Stream, ToAClientThatHasShutItsSideEndsWithAReset) {
    waiting_room room;
    running_server server(leaves_for_later(room, {.answers_half_closed = true}));
    server.start();
    http_client client(server.port());
    client.send(get("/stream"));
    client.shutdown_send();
    const net::channel stream = room.take("/stream");
    EXPECT_EQ(counted_by(server.get(), &net::server_counters::half_closed), 1U);
    EXPECT_TRUE(stream.is_open());
    client.reset();
    ASSERT_TRUE(all_gone(server.get()));
    EXPECT_EQ(room.end_of("/stream"), channel_end::client_away);
    server.stop();
    EXPECT_EQ(server.counters().lost, 1U);
}

constexpr std::size_t filling_bytes = 8192;

/// Sends to a reader that stands still until so much is queued, or the stream has ended. Returns: messages.
std::size_t fill_queue(net::server& server, const net::channel& stream, std::size_t bytes) {
    std::size_t sent = 0;
    while (stream.is_open() && stream.queued_bytes() < bytes) {
        if (stream.send(std::string(filling_bytes, 'x')) == ok) ++sent;
        pass_a_turn(server);
    }
    return sent;
}

// Attacks I3 of server.hpp: what is queued for those that do not read, of all together, and only until they do.
TEST(Stream, QueuesTogetherAreBoundedAndTheGreatestGoesFirst) {
    constexpr std::size_t most = 1'000'000, much = 480'000, little = 55'000;
    waiting_room room;
    net::server_options options;
    options.limits.held_bytes_max = most;
    running_server server(leaves_for_later(room, {.queue_bytes_max = 2 * much}), std::move(options));
    server.start();
    std::list<http_client> clients;
    const auto open = [&](const std::string& target) {
        clients.emplace_back(server.port(), http_client::options{.receive_buffer = 4096}).send(get(target));
        return room.take(target);
    };
    const net::channel read = open("/stream_read");
    std::size_t left = fill_queue(server.get(), read, much);
    EXPECT_TRUE(clients.back().read_to("\r\n\r\n").starts_with("HTTP/1.1 200"));
    for (; left != 0; --left) ASSERT_EQ(clients.back().chunk().size(), filling_bytes);

    const net::channel greatest = open("/stream_greatest");
    fill_queue(server.get(), greatest, much);
    std::vector<net::channel> others;
    for (int i = 0; i < 10; ++i) {
        others.push_back(open("/stream" + std::to_string(i)));
        fill_queue(server.get(), others.back(), little);
    }
    ASSERT_EQ(counted_by(server.get(), &net::server_counters::over_held_bytes), 1U);
    EXPECT_EQ(room.end_of("/stream_greatest"), channel_end::cut);
    EXPECT_TRUE(read.is_open());
    for (const auto& other : others) EXPECT_TRUE(other.is_open());

    for (const auto& other : others) fill_queue(server.get(), other, much);
    for (int turn = 0; turn < 2; ++turn) pass_a_turn(server.get());
    std::size_t queued = 0;
    for (const auto& other : others) queued += other.queued_bytes();
    EXPECT_GT(queued, 0U);
    EXPECT_LE(queued, most);
    EXPECT_EQ(http_client(server.port()).ask(get("/now")).status, 200);
}

// Attacks I3 of server.hpp: a message of one byte takes a hundred.
TEST(Stream, SmallMessagesCountWhatTheyTake) {
    waiting_room room;
    net::server_options options;
    options.limits.held_bytes_max = 1U << 20U;
    running_server server(leaves_for_later(room), std::move(options));
    server.start();
    http_client client(server.port());
    client.send(get("/late") + get("/stream"));  // what the stream is told waits for the answer
    const net::channel late = room.take("/late"), stream = room.take("/stream");
    const auto tell = [&](int messages) {
        for (int i = 0; i < messages; ++i) (void)stream.send("x");
        for (int turn = 0; turn < 2; ++turn) pass_a_turn(server.get());
    };
    tell(9'000);
    EXPECT_TRUE(stream.is_open());
    EXPECT_EQ(stream.queued_bytes(), 9'000U);
    tell(9'000);
    ASSERT_EQ(counted_by(server.get(), &net::server_counters::over_held_bytes), 1U);
    EXPECT_EQ(room.end_of("/stream"), channel_end::cut);
}

TEST(Stream, OneMessageGoesToManyWithoutCopies) {
    waiting_room room;
    running_server server(leaves_for_later(room));
    server.start();
    constexpr int readers = 20;
    std::list<http_client> clients;
    std::vector<net::channel> streams;
    for (int i = 0; i < readers; ++i) {
        const std::string target = "/stream" + std::to_string(i);
        clients.emplace_back(server.port()).send(get(target));
        streams.push_back(room.take(target));
    }
    const auto message = std::make_shared<const std::string>(1000, 'm');
    std::atomic<bool> sent{false};
    ASSERT_TRUE(server.get().post([&] {
        for (const auto& stream : streams) EXPECT_EQ(stream.send(message), ok);
        EXPECT_EQ(message.use_count(), 1 + readers);
        set(sent);
    }));
    await(sent);
    for (auto& client : clients) {
        EXPECT_TRUE(client.read_to("\r\n\r\n").starts_with("HTTP/1.1 200"));
        EXPECT_EQ(client.chunk(), *message);
    }
    pass_a_turn(server.get());
    EXPECT_EQ(message.use_count(), 1) << "what was sent is let go of";
}

/// So many streams, each turn a message to all of them, and how many segments they came in.
class each_turn_one {
 public:
    explicit each_turn_one(std::size_t readers, std::size_t queue_bytes_max = 1U << 20U)
        : server_(leaves_for_later(room_, {.queue_bytes_max = queue_bytes_max})) {
        server_.start();
        for (std::size_t i = 0; i < readers; ++i) {
            const std::string target = "/stream" + std::to_string(i);
            clients_.emplace_back(server_.port()).send(get(target));
            streams_.push_back(room_.take(target));
            clients_.back().read_to("\r\n\r\n");
        }
    }

    /// Attacks (C5) of server_core.hpp: a reader has all of them, in their order. Returns: in how many segments.
    std::uint32_t segments(int messages) {
        const std::uint32_t before = clients_.back().data_segments();
        EXPECT_TRUE(server_.get().post([this, messages] { send_and_go_on(0, messages); }));
        for (auto& client : clients_)
            for (int i = 0; i < messages; ++i) EXPECT_EQ(client.chunk(), std::to_string(i));
        return clients_.back().data_segments() - before;
    }

 private:
    void send_and_go_on(int number, int messages) {
        const auto message = std::make_shared<const std::string>(std::to_string(number));
        for (const auto& stream : streams_) EXPECT_EQ(stream.send(message), ok);
        if (++number == messages) return;
        EXPECT_TRUE(server_.get().post([this, number, messages] { send_and_go_on(number, messages); }));
    }

    waiting_room room_;
    running_server server_;
    std::list<http_client> clients_;
    std::vector<net::channel> streams_;
};

TEST(Stream, ManyAreSentToOnceWhatHasComeMeanwhileWasLookedAt) {
    each_turn_one many(32);
    EXPECT_EQ(many.segments(4), 1U);
    EXPECT_EQ(many.segments(5), 1U) << "the first time left nothing behind";
}

TEST(Stream, ManyAreSentToAfterSomeTurnsThoughEachBringsMore) {
    const std::uint32_t segments = each_turn_one(32).segments(60);
    EXPECT_GE(segments, 8U);
    EXPECT_LE(segments, 15U);
}

TEST(Stream, FewAreSentToInEachTurn) { EXPECT_EQ(each_turn_one(15).segments(8), 4U) << "a turn's, and the next one's"; }

TEST(Stream, QueuesThatBeginToFillAreNotLeftToFill) {
    EXPECT_EQ(each_turn_one(32, 7).segments(8), 4U);
    EXPECT_EQ(each_turn_one(32, 24).segments(8), 2U);
}

TEST(Stream, IsEndedInOrderByADrain) {
    waiting_room room;
    running_server server(leaves_for_later(room));
    server.start();
    http_client client(server.port());
    client.send(get("/stream"));
    const net::channel stream = room.take("/stream");
    EXPECT_EQ(stream.send(std::string("last words")), ok);
    server.get().drain();
    EXPECT_TRUE(client.read_to("\r\n\r\n").starts_with("HTTP/1.1 200"));
    EXPECT_EQ(client.chunk(), "last words");
    EXPECT_EQ(client.chunk(), "");
    EXPECT_EQ(room.end_of("/stream"), channel_end::drained);
    client.close();
    server.join();
    EXPECT_EQ(stream.send(std::string("x")), closed);
}

// Attacks K2 and K4: eight threads send to streams that readers, senders and the server end at any moment.
TEST(Stream, ThreadsMaySendToChannelsThatEndAtAnyMoment) {
    test::seeded_random random;
    std::mutex lock;
    std::vector<net::channel> streams;
    std::atomic<int> opened{0}, ended{0};
    std::atomic<bool> stop{false};
    running_server server([&](const net::request&, net::response& w) {
        net::channel_options options;
        options.queue_bytes_max = 2000;
        options.when_full = static_cast<net::when_full>(opened++ % 4);
        options.on_close = [&](channel_end) { ++ended; };
        options.on_drain = [](const net::channel& again) { static_cast<void>(again.send(std::string(100, 'd'))); };
        const std::lock_guard guard(lock);
        streams.push_back(w.stream(std::move(options)));
    });
    server.start();
    std::vector<std::jthread> senders;
    for (std::uint64_t t = 0; t < 8; ++t)
        senders.emplace_back([&, draw = random()]() mutable {
            const auto message = std::make_shared<const std::string>(300, 'm');
            while (!stop) {
                draw = draw * 6364136223846793005U + 1442695040888963407U;
                net::channel stream;
                {
                    const std::lock_guard guard(lock);
                    if (!streams.empty()) stream = streams[(draw >> 33U) % streams.size()];
                }
                if ((draw >> 20U) % 64 == 0)
                    static_cast<void>(stream.close());
                else
                    static_cast<void>(stream.send(message));
                EXPECT_LE(stream.queued_bytes(), 2000U);
            }
        });
    for (int i = 0; i < 150; ++i) {
        http_client client(server.port(), {.receive_buffer = 4096});
        client.send(get("/"));
        EXPECT_TRUE(client.read_to("\r\n\r\n").starts_with("HTTP/1.1 200"));
        if (random.below(2) == 0) static_cast<void>(client.readable(1ms));
        random.below(2) == 0 ? client.reset() : client.close();
    }
    http_client last(server.port());
    last.send(get("/"));
    server.stop();
    stop = true;
    senders.clear();
    EXPECT_EQ(ended, opened) << "each channel ends once";
    for (const auto& stream : streams) EXPECT_FALSE(stream.is_open());
}

// --- server-sent events

TEST(EventStream, SplitsLinesAndRefusesWhatWouldForgeThem) {
    const auto text = [](const net::server_event& said) {
        std::string out;
        net::append_event(out, said);
        return out;
    };
    EXPECT_EQ(text({.data = "hello"}), "data: hello\n\n");
    EXPECT_EQ(text({.data = ""}), "data: \n\n");
    EXPECT_EQ(text({.data = "a\nb\r\nc\rd\n"}), "data: a\ndata: b\ndata: c\ndata: d\ndata: \n\n");
    EXPECT_EQ(text({.data = "x", .event = "lost", .id = "7", .retry = 1500ms}),
              "event: lost\nid: 7\nretry: 1500\ndata: x\n\n");
    EXPECT_EQ(text({.data = "x", .id = ""}), "id: \ndata: x\n\n") << "an empty id takes back the last one";
    for (const std::string_view bad :
         {std::string_view("a\nb"), std::string_view("a\rb"), std::string_view("a\0b", 3)}) {
        EXPECT_THROW(text({.data = "x", .event = bad}), error);
        EXPECT_THROW(text({.data = "x", .id = bad}), error);
    }
    EXPECT_THROW(text({.data = "x", .retry = -1ms}), error);
    std::string out = "before\n\n";
    net::append_event_comment(out, "still\r\nhere");
    net::append_event_comment(out);
    EXPECT_EQ(out, "before\n\n: still  here\n\n: \n\n");
}

}  // namespace
