// SPDX-License-Identifier: Apache-2.0
// The client of the websocket suite: what it takes for a frame, and its two loops against servers that behave or do
// not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "holdfast/net/channel.hpp"
#include "holdfast/net/listener.hpp"
#include "holdfast/net/server.hpp"
#include "websocket/fan_out.hpp"
#include "websocket/websocket_messages.hpp"

namespace {

using namespace holdfast;
using namespace holdfast::bench;
using namespace holdfast::bench::websocket;
using namespace std::chrono_literals;
using workload::http::answer;
using workload::http::scan_status;

std::string frame_of(std::string_view payload) {
    std::string frame;
    net::append_websocket_frame(frame, net::websocket_opcode::binary, true, payload);
    return frame;
}

TEST(FrameScanner, TakesOneFrameOfEachLengthAndNeedsMoreOfEveryBeginning) {
    for (const std::size_t size : {0U, 1U, 125U, 126U, 65'535U, 65'536U, 1U << 20U}) {
        const std::string payload(size, 'p'), bytes = frame_of(payload) + "next";
        answer got;
        ASSERT_EQ(scan_frame(bytes, got), scan_status::complete) << size;
        EXPECT_EQ(got.body, payload);
        EXPECT_EQ(got.bytes, bytes.size() - 4);
        EXPECT_EQ(got.status, 200);
        for (std::size_t cut = 0; cut < got.bytes; cut += cut < 20 ? 1 : 9973)
            EXPECT_EQ(scan_frame(std::string_view(bytes).substr(0, cut), got), scan_status::need_more) << cut;
    }
}

TEST(FrameScanner, RefusesWhatNoSubjectMaySend) {
    answer got;
    const auto verdict = [&](std::string_view bytes) { return scan_frame(bytes, got); };
    EXPECT_EQ(verdict("\x81\x01x"), scan_status::malformed);                              // text
    EXPECT_EQ(verdict(std::string_view("\x02\x01x", 3)), scan_status::malformed);         // a fragment
    EXPECT_EQ(verdict("\xc2\x01x"), scan_status::malformed);                              // compressed
    EXPECT_EQ(verdict("\x82\x81kkkkx"), scan_status::malformed);                          // masked
    EXPECT_EQ(verdict(std::string_view("\x88\x00", 2)), scan_status::malformed);          // the end
    EXPECT_EQ(verdict(std::string_view("\x82\x7e\x00\x7d", 4)), scan_status::malformed);  // not the shortest
    EXPECT_EQ(verdict("\x82\x7f\xff\xff\xff\xff\xff\xff\xff\xff"), scan_status::malformed);
}

/// A server in a thread, until the end of the test.
class served {
 public:
    explicit served(net::handler answer) {
        net::server_options options;
        const int listener = net::listen_tcp("127.0.0.1:0");
        port = net::bound_port(listener);
        server_ = std::make_unique<net::server>(std::vector<int>{listener}, options, std::move(answer));
        loop_ = std::thread([this] { server_->run(); });
    }
    ~served() {
        server_->stop();
        loop_.join();
    }
    served(const served&) = delete;
    served& operator=(const served&) = delete;
    std::uint16_t port = 0;

 private:
    std::unique_ptr<net::server> server_;
    std::thread loop_;
};

http::load_plan plan_for(const served& server) {
    return {.server = http::loopback(server.port),
            .protocol = protocol_of("/echo"),
            .connections = 4,
            .warm_up = 0ns,
            .duration = 1ms,
            .answers_min = 200,
            .spin = false};
}

/// Echoes, what `change` makes of each message.
net::handler echo(std::function<std::string(std::string)> change) {
    return [change = std::move(change)](const net::request& asked, net::response& to) {
        (void)to.websocket(asked, {.queue_bytes_max = 4U << 20U,
                                   .on_receive = [change](const net::channel& from, net::received_message message) {
                                       (void)from.send(change(std::string(message.payload)), message.kind);
                                   }});
    };
}

TEST(WebsocketLoad, GetsEveryMessageBackOfAnySize) {
    const served server(echo([](std::string same) { return same; }));
    for (const std::size_t bytes : {32U, 65'536U, 1U << 20U}) {
        http::load_plan plan = plan_for(server);
        if (bytes > 65'536) plan.answers_min = 10;  // more than a socket takes at once
        EXPECT_GE(http::run_load(plan, make_messages(bytes)).answers, plan.answers_min);
    }
}

TEST(WebsocketLoad, EndsWithAMessageThatWasChanged) {
    std::atomic<int> count{0};
    const served server(echo([&count](std::string same) {
        if (++count == 50) same.back() ^= 1;
        return same;
    }));
    EXPECT_THROW((void)http::run_load(plan_for(server), make_messages(32)), http::wrong_answer);
}

TEST(WebsocketLoad, EndsWithAServerThatSpeaksNoWebSocket) {
    const served server([](const net::request&, net::response& to) { to.body("no"); });
    EXPECT_THROW((void)http::run_load(plan_for(server), make_messages(32)), http::wrong_answer);
    EXPECT_THROW((void)run_fan_out({.port = server.port, .subscribers = 2}), http::wrong_answer);
}

/// What /publish is told goes to all of /subscribe, as `change` makes it for each.
class hub {
 public:
    explicit hub(std::function<std::string(std::size_t subscriber, std::string)> change) : change_(std::move(change)) {}
    void operator()(const net::request& asked, net::response& to) {
        if (asked.path() == "/subscribe") {
            all_->push_back(to.websocket(asked));
        } else {
            (void)to.websocket(asked, {.on_receive = [this](const net::channel&, net::received_message message) {
                                   for (std::size_t i = 0; i < all_->size(); ++i)
                                       (void)(*all_)[i].send(change_(i, std::string(message.payload)), message.kind);
                               }});
        }
    }

 private:
    std::shared_ptr<std::vector<net::channel>> all_ = std::make_shared<std::vector<net::channel>>();
    std::function<std::string(std::size_t, std::string)> change_;
};

fan_out_plan fan_plan(const served& server) {
    return {.port = server.port, .subscribers = 20, .window = 4, .warm_up = 0ns, .duration = 5ms, .spin = false};
}

TEST(FanOut, DeliversEachMessageToEach) {
    hub all([](std::size_t, std::string same) { return same; });
    const served server([&all](const net::request& asked, net::response& to) { all(asked, to); });
    int calls = 0;
    const fan_out_outcome closed = run_fan_out(fan_plan(server), [&](bool) { ++calls; });
    EXPECT_EQ(calls, 2);
    EXPECT_GT(closed.deliveries, 0U);
    EXPECT_GT(closed.seconds, 0);
    EXPECT_EQ(closed.latency_ns.total() % 20, 0U);  // whole messages: those under way at the end were awaited
}

TEST(FanOut, GoesByAScheduleWhereThereIsOne) {
    hub all([](std::size_t, std::string same) { return same; });
    const served server([&all](const net::request& asked, net::response& to) { all(asked, to); });
    fan_out_plan plan = fan_plan(server);
    plan.rate_hz = 1000;
    plan.duration = 20ms;
    const fan_out_outcome found = run_fan_out(plan);
    EXPECT_GT(found.messages, 0U);
    EXPECT_EQ(found.latency_ns.total(), found.messages * 20);
}

TEST(FanOut, CountsWhatItPublishedLateThroughItsOwnFault) {
    hub all([](std::size_t, std::string same) { return same; });
    const served server([&all](const net::request& asked, net::response& to) { all(asked, to); });
    fan_out_plan plan = fan_plan(server);
    plan.rate_hz = 1000;
    plan.duration = 100ms;
    const fan_out_outcome found = run_fan_out(plan, [](bool begins) {
        if (begins) std::this_thread::sleep_for(50ms);  // as many messages are due meanwhile
    });
    EXPECT_GE(found.late, 45U);
    EXPECT_LE(found.late, found.messages);
    EXPECT_GE(found.latency_ns.greatest_noted(), 45'000'000U);  // from the schedule
}

TEST(FanOut, EndsWithAMessageThatWasChangedOrLeftOut) {
    std::atomic<int> count{0};
    for (const bool leave_out : {true, false}) {
        count = 0;
        hub all([&](std::size_t subscriber, std::string same) {
            if (subscriber == 3 && ++count == 5) same.at(leave_out ? 0 : 20) ^= 1;  // the number is in front
            return same;
        });
        const served server([&all](const net::request& asked, net::response& to) { all(asked, to); });
        fan_out_plan plan = fan_plan(server);
        plan.duration = 1s;
        EXPECT_THROW((void)run_fan_out(plan), http::wrong_answer);
    }
}

}  // namespace
