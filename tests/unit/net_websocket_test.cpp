// SPDX-License-Identifier: Apache-2.0
// A server's connections that become WebSockets, over real sockets. What a frame may be is tested apart from
// connections (websocket_frames_test.cpp); here each family of cases of the Autobahn suite is asked of the server once.
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "holdfast/error.hpp"
#include "holdfast/net/channel.hpp"
#include "holdfast/net/server.hpp"
#include "holdfast/net/websocket_deflater.hpp"
#include "holdfast/net/websocket_frame.hpp"
#include "holdfast/net/websocket_handshake.hpp"
#include "holdfast/net/websocket_session.hpp"
#include "support/http_client.hpp"
#include "support/http_server.hpp"
#include "support/inflate_model.hpp"
#include "support/scale.hpp"
#include "support/seed.hpp"
#include "support/websocket_client.hpp"

namespace {

using namespace holdfast;
using namespace std::chrono_literals;
using namespace std::string_literals;
using net::channel_end;
using net::channel_status;
using net::message_kind;
using net::websocket_opcode;
using test::http_client;
using test::running_server;

using test::close_frame;
using test::final_binary;
using test::final_close;
using test::final_ping;
using test::final_pong;
using test::final_text;
using test::frame;
using test::received_frame;
using test::text;
using test::upgrade_fields;
using test::websocket_client;

/// How a channel ended, to be waited for by the test.
struct ending {
    std::atomic<int> why{-1};
    net::channel whose;  // the loop's, until `why` is there

    void note(channel_end end) {
        why = static_cast<int>(end);
        why.notify_all();
    }
    [[nodiscard]] channel_end wait() const {
        why.wait(-1);
        return static_cast<channel_end>(why.load());
    }
};

void echo_message(const net::channel& to, net::received_message message) {
    EXPECT_EQ(to.send(std::string(message.payload), message.kind), channel_status::ok);
}

/// Accepts each WebSocket; its end goes to `end`, when one is given.
net::handler accepting(net::channel_options options, ending* end = nullptr, net::websocket_options chosen = {}) {
    return [=](const net::request& asked, net::response& answer) {
        if (asked.path() == "/plain") return void(answer.body("plain"));
        net::channel_options mine = options;
        if (end != nullptr) mine.on_close = [end](channel_end why) { end->note(why); };
        net::channel made = answer.websocket(asked, std::move(mine), chosen);
        if (end != nullptr) end->whose = std::move(made);
    };
}
net::handler echoing(ending* end = nullptr, net::websocket_options chosen = {}) {
    return accepting({.queue_bytes_max = 4U << 20U, .on_receive = echo_message}, end, chosen);
}

// --- messages

TEST(ServerWebsocket, EchoesMessagesOfEverySizeAndKind) {
    running_server server(echoing());
    server.start();
    websocket_client client(server.port());
    for (const std::size_t size : {0U, 1U, 125U, 126U, 127U, 128U, 65535U, 65536U, 1U << 20U}) {
        const std::string payload(size, 'x');
        client.send(text(payload));
        client.expect(final_text, payload);
        client.send(frame(websocket_opcode::binary, payload));
        client.expect(final_binary, payload);
    }
}

TEST(ServerWebsocket, JoinsFragmentsAndAnswersPingsBetweenThem) {
    running_server server(echoing());
    server.start();
    websocket_client client(server.port());
    client.send(frame(websocket_opcode::text, "frag", false) + frame(websocket_opcode::ping, "between") +
                frame(websocket_opcode::continuation, "", false) + frame(websocket_opcode::pong, "unasked") +
                frame(websocket_opcode::continuation, "ment"));
    client.expect(final_pong, "between");
    client.expect(final_text, "fragment");
}

TEST(ServerWebsocket, AnswersTheSameHoweverItsInputIsCut) {
    running_server server(echoing());
    server.start();
    const std::string sent = test::get("/", upgrade_fields) + text("K\u00e4se") + frame(websocket_opcode::ping, "p") +
                             frame(websocket_opcode::binary, std::string(130, '\0')) + close_frame(3000, "bye");
    for (std::size_t cut = 1; cut < sent.size(); ++cut) {
        SCOPED_TRACE(cut);
        http_client raw(server.port());
        raw.send(sent.substr(0, cut));
        std::this_thread::sleep_for(200us);
        raw.send(sent.substr(cut));
        EXPECT_EQ(raw.reply().status, 101);
        const std::string wanted =
            std::string("\x81\x05K\u00e4se\x8A\x01p\x82\x7E\0\x82", 14) + std::string(130, '\0') + "\x88\x02\x0B\xB8";
        EXPECT_EQ(raw.take(wanted.size()), wanted);
        EXPECT_TRUE(raw.ended());
    }
}

// What came of a large message has been looked at before more of it comes.
TEST(ServerWebsocket, LargeMessagesComeBackHoweverTheyAreCut) {
    running_server server(echoing());
    server.start();
    websocket_client client(server.port()), witness(server.port());
    std::string payload(70'000, ' ');
    for (std::size_t i = 0; i < payload.size(); ++i) payload[i] = static_cast<char>(i * 7 + i / 251);
    const std::string one = frame(websocket_opcode::binary, payload), little = text("little");
    const std::string stream = one + little + one + one;
    const std::size_t end = one.size();
    for (const std::vector<std::size_t>& cuts :
         std::vector<std::vector<std::size_t>>{{1},
                                               {9, 10, 13, 14},
                                               {15, 4096, 65'535, 65'536, 65'537},
                                               {end - 1, end, end + 1},
                                               {30'000, end + 3},
                                               {end + little.size() + 13},
                                               {end - 60'000, 2 * end + 100},
                                               {stream.size() - 1}}) {
        std::size_t from = 0;
        for (std::size_t to : cuts) {
            client.send(std::string_view(stream).substr(from, to - from));
            from = to;
            witness.send(text("so far"));
            witness.expect(final_text, "so far");
        }
        client.send(std::string_view(stream).substr(from));
        client.expect(final_binary, payload);
        client.expect(final_text, "little");
        client.expect(final_binary, payload);
        client.expect(final_binary, payload);
    }
}

// Half of a message is none.
TEST(ServerWebsocket, ALargeMessageThatIsCutShortIsNotHandedOver) {
    ending end;
    std::atomic<int> messages{0};
    running_server server(
        accepting({.on_receive = [&](const net::channel&, net::received_message) { ++messages; }}, &end));
    server.start();
    websocket_client client(server.port());
    client.send(std::string_view(frame(websocket_opcode::binary, std::string(70'000, 'c'))).substr(0, 69'000));
    client.shutdown_send();
    EXPECT_EQ(end.wait(), channel_end::client_away);
    EXPECT_EQ(messages, 0);
}

/// What clients have allocated for them by the server, each having sent all of `pieces`, one when the one before was
/// looked at.
std::size_t allocated_for(std::size_t clients, const std::vector<std::string>& pieces) {
    std::atomic<std::size_t> bytes{0};
    running_server server(accepting({.on_receive = [&](const net::channel& to, net::received_message message) {
        if (message.payload == "measure") bytes = ::mallinfo2().uordblks + ::mallinfo2().hblkhd;
        if (message.kind == message_kind::text) (void)to.send("so far", message_kind::text);
    }}));
    server.start();
    websocket_client witness(server.port());
    const auto ask = [&](std::string_view what) {
        witness.send(text(what));
        witness.expect(final_text, "so far");
    };
    std::vector<std::unique_ptr<websocket_client>> all;
    for (std::size_t i = 0; i < clients; ++i) all.push_back(std::make_unique<websocket_client>(server.port()));
    for (int warm = 0; warm < 2; ++warm) ask("measure");
    const std::size_t before = bytes;
    for (const std::string& piece : pieces)
        for (const auto& client : all) {
            client->send(piece);
            ask("go on");
        }
    ask("measure");
    return bytes - std::min<std::size_t>(before, bytes);
}

// Attacks the bound on what is held: it counts what came, so no more may be taken for it than some times as much.
TEST(ServerWebsocket, MuchThatIsOnlyAnnouncedTakesNoMemory) {
    if (::mallinfo2().uordblks == 0) GTEST_SKIP() << "needs: an allocator that counts";  // sanitizers bring their own
    const std::string large = frame(websocket_opcode::binary, std::string(1U << 20U, 'a'));
    EXPECT_LT(allocated_for(200, {large.substr(0, 100)}), 200U * 1024);
    EXPECT_LT(allocated_for(200, {large.substr(0, 30), large.substr(30, 5000)}), 200U * 24 * 1024);
}

TEST(ServerWebsocket, ALargeMessageLeavesNothingWithItsConnection) {
    if (::mallinfo2().uordblks == 0) GTEST_SKIP() << "needs: an allocator that counts";
    const std::string large = frame(websocket_opcode::binary, std::string(64U << 10U, 'l'));
    const std::size_t spare = 5U << 20U;  // the loop's, however many the connections
    EXPECT_LT(allocated_for(200, {large.substr(0, 40'000), large.substr(40'000)}), spare);
    const std::string next = large + large.substr(0, 20);  // what has come of the next one is small
    EXPECT_LT(allocated_for(200, {next.substr(0, 40'000), next.substr(40'000)}), spare);
}

TEST(ServerWebsocket, ComesInItsOrderBehindALateAnswer) {
    net::channel late;
    ending end;
    const net::handler upgrade = echoing(&end);
    running_server server([&](const net::request& asked, net::response& answer) {
        if (asked.path() == "/late") return void(late = answer.defer());
        if (asked.path() == "/now") {
            net::response other;
            other.body("late");
            EXPECT_EQ(late.answer(std::move(other)), channel_status::ok);
            return void(answer.body("now"));
        }
        upgrade(asked, answer);
    });
    server.start();
    http_client other(server.port());
    http_client client(server.port());
    client.send(test::get("/late") + test::get("/", upgrade_fields) + text("early"));
    EXPECT_FALSE(client.readable(20ms));
    EXPECT_EQ(other.ask(test::get("/now")).body, "now");
    EXPECT_EQ(client.reply().body, "late");
    EXPECT_EQ(client.reply().status, 101);
    EXPECT_EQ(client.take(7),
              "\x81\x05"
              "early");
}

TEST(ServerWebsocket, RandomMessagesComeBackHoweverTheyAreCutAndFragmented) {
    running_server server(echoing());
    server.start();
    test::seeded_random random;
    const auto below = [&](std::size_t most) { return static_cast<std::size_t>(random.below(most)); };
    websocket_client client(server.port());
    for (int round = 0; round < 40; ++round) {
        std::string sent;
        std::vector<std::string> payloads(1 + below(5));
        for (std::string& payload : payloads) {
            payload.resize(below(2) == 0 ? below(200) : below(70'000));
            for (char& c : payload) c = static_cast<char>(random());
            const std::size_t cut = below(payload.size() + 1);
            sent += frame(websocket_opcode::binary, std::string_view(payload).substr(0, cut), false) +
                    frame(websocket_opcode::continuation, std::string_view(payload).substr(cut));
        }
        for (std::size_t at = 0; at < sent.size();) {
            const std::size_t part = std::min(sent.size() - at, 1 + below(40'000));
            client.send(std::string_view(sent).substr(at, part));
            at += part;
        }
        for (const std::string& payload : payloads) client.expect(final_binary, payload);
    }
}

// --- deflated messages

#ifdef HOLDFAST_TEST_WITH_DEFLATE

constexpr std::string_view offer = "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\n";
constexpr unsigned deflated_text = 0xC1, deflated_binary = 0xC2;

/// The library's own client half, over a socket.
class own_client : public http_client {
 public:
    explicit own_client(std::uint16_t port) : http_client(port) {
        net::websocket_opening opening(keys_, {.host = "a", .permessage_deflate = true});
        send(opening.request_bytes());
        std::string answer;
        while (opening.read(answer) == net::websocket_opening::status::need_more) answer += take(1);
        EXPECT_TRUE(opening.permessage_deflate()) << opening.reason();
    }
    void say(bool is_text, std::string_view payload) {
        std::string out;
        EXPECT_EQ(session_.send(out, is_text, payload), net::websocket_sent::ok);
        deflated_ += (static_cast<unsigned char>(out[0]) & 0x40U) != 0 ? 1 : 0;
        send(out);
    }
    std::string hear() {
        std::string bytes = take(2), out;
        std::size_t size = static_cast<unsigned char>(bytes[1]);
        if (size >= 126) {
            const std::string more = take(size == 126 ? 2 : 8);
            size = 0;
            for (const char c : more) size = size << 8U | static_cast<unsigned char>(c);
            bytes += more;
        }
        bytes += take(size);
        EXPECT_EQ(session_.next(bytes, out), net::websocket_session::event::message);
        std::string says(session_.payload(bytes));
        EXPECT_EQ(session_.next(bytes, out), net::websocket_session::event::need_more);
        return says;
    }
    [[nodiscard]] int deflated() const { return deflated_; }

 private:
    net::websocket_key_source keys_;
    net::websocket_deflater deflater_;
    net::websocket_session session_{keys_, {}, {.deflater = &deflater_}};
    int deflated_ = 0;
};

TEST(ServerWebsocket, EchoesDeflatedMessagesToItsOwnClient) {
    running_server server(echoing(nullptr, {.permessage_deflate = true}));
    server.start();
    own_client client(server.port());
    test::seeded_random random;
    for (const std::size_t size : {0U, 1U, 63U, 1000U, 65536U, 1U << 20U}) {
        std::string message;
        while (message.size() < size) message += "words that " + std::to_string(random.below(100)) + " repeat ";
        message.resize(size);
        for (const bool is_text : {true, false}) {
            client.say(is_text, message);
            EXPECT_EQ(client.hear(), message);
        }
    }
    EXPECT_EQ(client.deflated(), 6) << "those that are worth it";
}

TEST(ServerWebsocket, DeflatesForWhomItWasAgreedWithAndNotWhatGoesToMany) {
    std::vector<net::channel> all;  // the loop's
    const auto message = std::make_shared<const std::string>(1000, 'm');
    running_server server([&](const net::request& asked, net::response& answer) {
        all.push_back(answer.websocket(asked,
                                       {.on_receive =
                                            [&](const net::channel& from, net::received_message said) {
                                                if (said.payload == "to all")
                                                    for (const net::channel& each : all)
                                                        EXPECT_EQ(each.send(message), channel_status::ok);
                                                else
                                                    EXPECT_EQ(from.send(std::string(said.payload), said.kind),
                                                              channel_status::ok);
                                            }},
                                       {.permessage_deflate = true, .deflate_bytes_min = 200}));
    });
    server.start();
    websocket_client plain(server.port());
    websocket_client packed(server.port(), {}, {}, offer);
    EXPECT_EQ(plain.answer.field("Sec-WebSocket-Extensions"), "");
    EXPECT_EQ(packed.answer.field("Sec-WebSocket-Extensions"),
              "permessage-deflate; server_no_context_takeover; client_no_context_takeover");
    const std::string long_one(300, 'l'), short_one(150, 's');
    for (websocket_client* const client : {&plain, &packed}) {
        client->send(text(long_one) + text(short_one) + frame(websocket_opcode::binary, long_one));
        const bool deflates = client == &packed;
        const std::pair<unsigned, const std::string*> expected[] = {
            {deflates ? deflated_text : final_text, &long_one},
            {final_text, &short_one},
            {deflates ? deflated_binary : final_binary, &long_one}};
        for (const auto& [first, says] : expected) {
            const received_frame got = client->next();
            EXPECT_EQ(got.first, first);
            const bool is_deflated = (got.first & 0x40U) != 0;
            EXPECT_EQ(is_deflated ? test::inflate_model::of(got.payload).message : got.payload, *says);
        }
    }
    packed.send(text("to all"));
    plain.expect(final_text, *message);
    packed.expect(final_text, *message);
}

TEST(ServerWebsocket, KeepsToTheWindowThatWasDemanded) {
    running_server server(echoing(nullptr, {.permessage_deflate = true}));
    server.start();
    test::seeded_random random;
    std::string once;
    for (int i = 0; i < 1000; ++i) once.push_back(static_cast<char>('0' + random.below(64)));
    for (const unsigned bits : {9U, 10U, 15U}) {
        const std::string demanded = "server_max_window_bits=" + std::to_string(bits);
        websocket_client client(server.port(), {}, {},
                                "Sec-WebSocket-Extensions: permessage-deflate; " + demanded + "\r\n");
        EXPECT_TRUE(client.answer.field("Sec-WebSocket-Extensions").ends_with("; " + demanded));
        client.send(text(once + once));
        const received_frame got = client.next();
        EXPECT_EQ(got.first, deflated_text);
        const test::inflated_message says = test::inflate_model::of(got.payload);
        EXPECT_EQ(says.message, once + once);
        EXPECT_LE(says.distance_max, 1U << bits);
        EXPECT_EQ(says.distance_max >= once.size(), bits == 15) << says.distance_max;
    }
}

TEST(ServerWebsocket, RefusesDeflatedMessagesThatWereNotAgreedOn) {
    for (const bool spoken : {true, false}) {
        SCOPED_TRACE(spoken);
        running_server server(echoing(nullptr, {.permessage_deflate = spoken}));
        server.start();
        std::string deflated = text("\xF2\x48\xCD\xC9\xC9\x07\x00"s);
        deflated[0] = static_cast<char>(deflated_text);
        websocket_client client(server.port(), deflated, {}, spoken ? std::string_view() : offer);
        EXPECT_EQ(client.answer.field("Sec-WebSocket-Extensions"), "");
        EXPECT_EQ(client.next().code(), 1002);
        EXPECT_TRUE(client.ended());
    }
}

TEST(ServerWebsocket, RefusesABombAndWhatDoesNotInflate) {
    running_server server(
        echoing(nullptr, {.limits = {.frame_bytes_max = 1000, .message_bytes_max = 5000}, .permessage_deflate = true}));
    server.start();
    net::websocket_deflater deflater;
    const std::string most(5000, 'x'), more(5001, 'x');
    const auto as_frame = [](std::string_view payload) {
        std::string bytes;
        net::append_websocket_frame(bytes, websocket_opcode::text, true, payload, &test::client_key, true);
        return bytes;
    };
    websocket_client good(server.port(), as_frame(deflater.deflate(most, 15)), {}, offer);
    const received_frame got = good.next();
    EXPECT_EQ(got.first, deflated_text);
    EXPECT_EQ(test::inflate_model::of(got.payload).message, most);
    for (const auto& [bytes, code] : {std::pair{as_frame(deflater.deflate(more, 15)), 1009},
                                      {as_frame("\xFF"), 1007},
                                      {as_frame("\x00\x01\x00\xFE\xFF\xFF\x00"s), 1007}}) {  // a text that is none
        websocket_client client(server.port(), bytes, {}, offer);
        EXPECT_EQ(client.next().code(), code);
        EXPECT_TRUE(client.ended());
    }
    server.stop();
    EXPECT_EQ(server.counters().websockets_refused, 3U);
}

#else

TEST(ServerWebsocket, SaysThatItCannotDeflate) {
    running_server server(echoing(nullptr, {.permessage_deflate = true}));
    server.start();
    http_client client(server.port());
    EXPECT_EQ(client.ask(test::get("/", upgrade_fields)).status, 500);
}

#endif

// --- the handshake

TEST(ServerWebsocket, WhatDoesNotQualifyIsRefusedAndTheConnectionGoesOn) {
    running_server server(echoing());
    server.start();
    http_client client(server.port());
    auto refused = client.ask(test::get("/"));
    EXPECT_EQ(refused.status, 426);
    EXPECT_EQ(refused.field("Sec-WebSocket-Version"), "13");
    EXPECT_EQ(refused.field("Upgrade"), "websocket");
    EXPECT_EQ(refused.field("Connection"), "Upgrade");
    refused = client.ask(test::get("/", "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"));
    EXPECT_EQ(refused.status, 400);
    EXPECT_EQ(client.ask(test::get("/plain")).body, "plain");
    client.send(test::get("/", upgrade_fields) + text("x"));
    EXPECT_EQ(client.reply().status, 101);
    EXPECT_EQ(client.take(3), "\x81\x01x");
}

TEST(ServerWebsocket, AgreesOnASubprotocol) {
    static constexpr std::array<std::string_view, 2> spoken{"chat.v2", "chat.v1"};
    ending end;
    running_server server(echoing(&end, {.protocols = spoken}));
    server.start();
    http_client client(server.port());
    client.send(test::get("/", std::string(upgrade_fields) + "Sec-WebSocket-Protocol: other, chat.v1, chat.v2\r\n"));
    EXPECT_EQ(client.reply().field("Sec-WebSocket-Protocol"), "chat.v1");
    server.stop();
    EXPECT_EQ(end.whose.protocol(), "chat.v1");
    EXPECT_EQ(end.wait(), channel_end::server_ended);
    EXPECT_EQ(end.whose.close_code(), net::websocket_code::abnormal);
}

// --- the end

TEST(ServerWebsocket, AClientsCloseIsAnsweredAndTold) {
    ending end;
    running_server server(echoing(&end));
    server.start();
    websocket_client client(server.port(), close_frame(3001, "enough"));
    EXPECT_EQ(client.next().code(), 3001);
    EXPECT_TRUE(client.ended());
    EXPECT_EQ(end.wait(), channel_end::client_closed);
    EXPECT_EQ(end.whose.close_code(), 3001);
    EXPECT_EQ(end.whose.close_reason(), "enough");
    EXPECT_EQ(end.whose.send("more"), channel_status::closed);
    EXPECT_EQ(end.whose.close(), channel_status::closed);
}

TEST(ServerWebsocket, ACloseOfOursComesBehindWhatIsQueuedAndWaitsForTheClients) {
    ending end;
    std::atomic<int> received{0};
    running_server server(accepting({.on_receive =
                                         [&](net::channel to, net::received_message) {
                                             ++received;
                                             EXPECT_EQ(to.send("last"), channel_status::ok);
                                             EXPECT_EQ(to.close(4000, "done"), channel_status::ok);
                                             EXPECT_EQ(to.send("later"), channel_status::closed);
                                             EXPECT_EQ(to.close_code(), 0);
                                         }},
                                    &end));
    server.start();
    websocket_client client(server.port(), text("go"));
    client.expect(final_text, "last");
    const received_frame told = client.next();
    EXPECT_EQ(told.first, final_close);
    EXPECT_EQ(told.payload,
              "\x0F\xA0"
              "done");
    client.send(text("too late") + close_frame(4000));
    EXPECT_TRUE(client.ended());
    EXPECT_EQ(end.wait(), channel_end::finished);
    EXPECT_EQ(end.whose.close_code(), 4000);
    EXPECT_EQ(received, 1) << "nothing is handed over once the channel was closed";
}

TEST(ServerWebsocket, AClientThatDoesNotAnswerACloseIsNotWaitedForLong) {
    ending end;
    net::server_options options;
    options.limits.websocket_close_ms = 30;
    running_server server(
        accepting({.on_receive = [](net::channel to, net::received_message) { (void)to.close(); }}, &end), options);
    server.start();
    websocket_client client(server.port(), text("go"));
    EXPECT_EQ(client.next().code(), 1000);
    EXPECT_EQ(end.wait(), channel_end::finished);
    EXPECT_EQ(end.whose.close_code(), net::websocket_code::abnormal);
    EXPECT_TRUE(client.gone());
}

TEST(ServerWebsocket, WhoBreaksARuleIsToldAndEnded) {
    std::string unmasked;
    net::append_websocket_frame(unmasked, websocket_opcode::text, true, "x");
    std::string reserved = text("x");
    reserved[0] = static_cast<char>(reserved[0] | 0x40);
    struct wrong {
        std::string bytes;
        std::uint16_t code;
    };
    const std::vector<wrong> cases{
        {unmasked, 1002},
        {reserved, 1002},
        {frame(static_cast<websocket_opcode>(3), "x"), 1002},           // an unknown opcode
        {frame(websocket_opcode::ping, std::string(126, 'x')), 1002},   // a long control frame
        {frame(websocket_opcode::ping, "x", false), 1002},              // a fragmented one
        {frame(websocket_opcode::continuation, "x"), 1002},             // nothing to go on with
        {frame(websocket_opcode::text, "x", false) + text("y"), 1002},  // a message within another
        {text("\xCE\xBA\xED\xA0\x80"), 1007},                           // a surrogate
        {frame(websocket_opcode::text, "\xCE", false) + frame(websocket_opcode::continuation, "x"), 1007},
        {frame(websocket_opcode::close, "x"), 1002},  // half a code
        {close_frame(1005), 1002},
        {close_frame(1000, "\xFF"), 1007},
        {frame(websocket_opcode::binary, std::string(1001, 'x')), 1009},
    };
    ending end;
    running_server server(echoing(nullptr, {.limits = {.frame_bytes_max = 1000, .message_bytes_max = 2000}}));
    server.start();
    for (std::size_t i = 0; i < cases.size(); ++i) {
        SCOPED_TRACE(i);
        websocket_client client(server.port(), cases[i].bytes);
        const received_frame told = client.next();
        EXPECT_EQ(told.first, final_close);
        EXPECT_EQ(told.code(), cases[i].code);
        EXPECT_TRUE(client.ended());
    }
}

TEST(ServerWebsocket, AClientThatGoesWithoutACloseIsAway) {
    for (const bool reset : {false, true}) {
        SCOPED_TRACE(reset);
        ending end;
        running_server server(echoing(&end));
        server.start();
        {
            websocket_client client(server.port(), text("x"));
            client.expect(final_text, "x");
            reset ? client.reset() : client.close();
        }
        EXPECT_EQ(end.wait(), channel_end::client_away);
        EXPECT_EQ(end.whose.close_code(), net::websocket_code::abnormal);
        server.stop();
        EXPECT_EQ(server.counters().lost, 1U);
    }
}

TEST(ServerWebsocket, ASilentClientIsPingedAndThenGivenUp) {
    ending end;
    net::server_options options;
    options.limits.websocket_ping_ms = 400;  // a loaded machine keeps its client from answering for a while
    running_server server(echoing(&end), options);
    server.start();
    websocket_client client(server.port());
    for (int i = 0; i < 2; ++i) {  // as long as it answers, it stays
        client.expect(final_ping, "");
        EXPECT_EQ(end.why, -1);
        client.send(frame(websocket_opcode::pong, ""));
    }
    client.expect(final_ping, "");
    EXPECT_EQ(end.wait(), channel_end::client_away);
    EXPECT_TRUE(client.gone());
    server.stop();
    EXPECT_EQ(server.counters().idle_timeouts, 1U);
}

TEST(ServerWebsocket, AMessageThatDoesNotEndInTimeEndsItsConnection) {
    ending end;
    net::server_options options;
    options.limits.body_timeout_ms = 300;
    running_server server(echoing(&end), options);
    server.start();
    websocket_client client(server.port());
    const std::string whole = text(std::string(5000, 'x'));
    client.send(whole);
    client.expect(final_text, std::string(5000, 'x'));
    for (std::size_t sent = 0; sent < whole.size() && !client.readable(10ms); ++sent)
        client.send(std::string_view(whole).substr(sent, 1));  // trickles win nothing
    EXPECT_EQ(client.next().code(), 1008);
    EXPECT_EQ(end.wait(), channel_end::cut);
    EXPECT_EQ(end.whose.close_code(), 1008);
    EXPECT_TRUE(client.gone());
    server.stop();
    EXPECT_EQ(server.counters().body_timeouts, 1U);
}

TEST(ServerWebsocket, AMessageThatHasBroughtNothingYetHasItsTimeToo) {
    const std::string whole = text("half of it"), ping = frame(websocket_opcode::ping, "");
    const std::string empty = frame(websocket_opcode::text, "", false),
                      more = frame(websocket_opcode::continuation, "", false);
    // A first byte, a header without its key, and pieces of nothing.
    const std::vector<std::string> begun{whole.substr(0, 1), whole.substr(0, 5),
                                         ping.substr(0, 1),  empty,
                                         empty + more,       empty + ping + more.substr(0, 1)};
    net::server_options options;
    options.limits.body_timeout_ms = 300;
    running_server server(echoing(), options);
    server.start();
    for (const std::string& beginning : begun) {
        websocket_client client(server.port());
        client.send(beginning);
        auto told = client.next();
        if (told.first == final_pong) told = client.next();
        EXPECT_EQ(told.code(), 1008);
        EXPECT_TRUE(client.gone());
    }
    server.stop();
    EXPECT_EQ(server.counters().body_timeouts, begun.size());
}

TEST(ServerWebsocket, AMessageHasNotMoreTimeForOutputThatWaited) {
    net::server_options options;
    options.limits.body_timeout_ms = 500;
    options.limits.output_bytes_max = 64U << 20U;  // the server reads on, however much waits
    running_server server(echoing(), options);
    server.start();
    websocket_client client(server.port());
    client.send(frame(websocket_opcode::text, "begun", false));
    constexpr int asked = 30'000;  // more than the kernel takes, and less than a lingering server reads
    std::string pings;
    for (int i = 0; i < asked; ++i) pings += frame(websocket_opcode::ping, std::string(125, 'p'));
    const auto until = std::chrono::steady_clock::now() + (test::sanitized ? 20s : 5s);
    unsigned code = 0;
    while (code == 0 && std::chrono::steady_clock::now() < until) {
        (void)client.send_while_possible(pings);
        std::this_thread::sleep_for(200ms);
        while (code == 0 && client.readable(20ms))
            if (const auto told = client.next(); told.first != final_pong) code = told.code();
    }
    EXPECT_EQ(code, 1008U);
    server.stop();
    EXPECT_EQ(server.counters().body_timeouts, 1U);
}

TEST(ServerWebsocket, EachMessageHasItsOwnTime) {
    net::server_options options;
    options.limits.body_timeout_ms = 1000;
    running_server server(echoing(), options);
    server.start();
    websocket_client sends(server.port()), asks(server.port());
    const std::string whole = text("half of it"), ping = frame(websocket_opcode::ping, "half of it");
    sends.send(whole.substr(0, 5));
    asks.send(ping.substr(0, 5));
    for (int i = 0; i < 10; ++i) {  // one has begun at any time
        std::this_thread::sleep_for(150ms);
        sends.send(whole.substr(5) + whole.substr(0, 5));
        sends.expect(final_text, "half of it");
        asks.send(ping.substr(5) + ping.substr(0, 5));
        asks.expect(final_pong, "half of it");
    }
    server.stop();
    EXPECT_EQ(server.counters().body_timeouts, 0U);
}

TEST(ServerWebsocket, ADrainSaysGoodbye) {
    ending end;
    running_server server(echoing(&end));
    server.start();
    websocket_client client(server.port(), text("x"));
    client.expect(final_text, "x");
    server.get().drain();
    EXPECT_EQ(client.next().code(), 1001);
    client.send(close_frame(1001));
    EXPECT_TRUE(client.ended());
    client.close();
    server.join();
    EXPECT_EQ(end.wait(), channel_end::drained);
}

TEST(ServerWebsocket, AHandlerThatThrowsEndsItsOwnWebsocketAlone) {
    ending end;
    running_server server(accepting(
        {.on_receive = [](net::channel, net::received_message) { throw std::runtime_error("on purpose"); }}, &end));
    server.start();
    websocket_client client(server.port(), text("x") + text("y"));
    EXPECT_EQ(client.next().code(), 1011);
    client.send(close_frame(1011));
    EXPECT_EQ(end.wait(), channel_end::finished);
    http_client other(server.port());
    EXPECT_EQ(other.ask(test::get("/plain")).status, 200);
    server.stop();
    EXPECT_EQ(server.counters().handler_exceptions, 1U);
}

TEST(ServerWebsocket, WhatMustNotBeSentIsRefusedToTheSender) {
    ending end;
    std::array<channel_status, 6> got{};
    running_server server(
        accepting({.queue_bytes_max = 100,
                   .on_receive =
                       [&](net::channel to, net::received_message) {
                           got = {to.send("\xFF"), to.send(std::string(101, 'x')),        to.answer({}),
                                  to.close(1005),  to.close(1000, std::string(124, 'x')), to.close(1000, "\xFF")};
                           (void)to.send("\xFF", message_kind::binary);
                       }},
                  &end));
    server.start();
    websocket_client client(server.port(), text("go"));
    client.expect(final_binary, "\xFF");
    EXPECT_EQ(got, (std::array{channel_status::not_utf8, channel_status::too_large, channel_status::misused,
                               channel_status::misused, channel_status::misused, channel_status::not_utf8}));
}

// --- back-pressure

/// Sends a frame again and again until both directions are full, and then what is left of the last one. Returns: how
/// many went, or are on their way by `rest`.
std::size_t send_until_full(websocket_client& client, const std::string& one, std::thread& rest) {
    std::string block;
    while (block.size() < 12'000) block += one;
    std::string left;
    std::size_t sent = 0;
    for (int full = 0; full < 20;) {
        if (left.empty()) left = block;
        const std::size_t now = client.send_now(left);
        left.erase(0, now);
        sent += now;
        full = now == 0 ? full + 1 : 0;
        if (now == 0) std::this_thread::sleep_for(5ms);
        if (sent > 64U << 20U) {
            ADD_FAILURE() << "the server reads on while nobody takes its answers";
            break;
        }
    }
    sent += left.size();
    rest = std::thread([&client, left = std::move(left)] { client.send(left); });
    return sent / one.size();
}

TEST(ServerWebsocket, AFloodOfPingsIsAnsweredNoFasterThanItIsRead) {
    net::server_options options;
    options.limits.output_bytes_max = 64U << 10U;
    running_server server(echoing(), options);
    server.start();
    websocket_client client(server.port(), {}, {.receive_buffer = 4096});
    const std::string payload(125, 'p');
    std::thread rest;
    const std::size_t pings = send_until_full(client, frame(websocket_opcode::ping, payload), rest);
    for (std::size_t i = 0; i < pings; ++i) client.expect(final_pong, payload);
    rest.join();
    server.stop();
    EXPECT_GT(server.counters().read_pauses, 0U);
}

// Attacks what an echo relies on: that it never has to be refused.
TEST(ServerWebsocket, WhoReadsLateGetsEachAnswer) {
    running_server server(accepting({.on_receive = echo_message}));
    server.start();
    websocket_client client(server.port(), {}, {.receive_buffer = 4096});
    const std::string payload(1024, 'm');
    std::thread rest;
    const std::size_t messages = send_until_full(client, text(payload), rest);
    for (std::size_t i = 0; i < messages; ++i) client.expect(final_text, payload);
    rest.join();
    server.stop();
    EXPECT_GT(server.counters().read_pauses, 0U);
}

TEST(ServerWebsocket, TakesNoPlaceOfAPipelineThatIsOneLong) {
    net::server_options options;
    options.limits.pipeline_max = 1;
    running_server server(echoing(), options);
    server.start();
    websocket_client client(server.port(), text("early"));
    client.expect(final_text, "early");
    client.send(text("later"));
    client.expect(final_text, "later");
}

TEST(ServerWebsocket, TimesOfZeroAreRefused) {
    for (auto member : {&net::limits::websocket_ping_ms, &net::limits::websocket_close_ms}) {
        net::server_options options;
        options.limits.*member = 0;
        EXPECT_THROW(running_server(echoing(), options), error);
    }
}

TEST(ServerWebsocket, AHandlerThatThrowsHavingAcceptedIsA500) {
    ending end;
    const net::handler accept = echoing(&end);
    running_server server([&](const net::request& asked, net::response& answer) {
        accept(asked, answer);
        throw std::runtime_error("on purpose");
    });
    server.start();
    http_client client(server.port());
    EXPECT_EQ(client.ask(test::get("/", upgrade_fields)).status, 500);
    EXPECT_EQ(end.wait(), channel_end::cut);
    EXPECT_EQ(end.whose.close_code(), net::websocket_code::abnormal);
}

TEST(ServerWebsocket, ASlowReaderFillsItsQueueAndNoMore) {
    constexpr std::size_t most = 32U << 10U;
    std::atomic<std::uint32_t> taken{0};
    std::atomic<bool> was_full{false};
    std::uint32_t next = 0;  // the loop's
    const auto send_on = [&](const net::channel& to) {
        while (next < 20'000) {
            std::string message = std::to_string(next) + std::string(200, '.');
            const channel_status status = to.send(std::move(message));
            ASSERT_LE(to.queued_bytes(), most);
            if (status == channel_status::full) {
                was_full = true;
                return;
            }
            ASSERT_EQ(status, channel_status::ok);
            ++next;
        }
    };
    running_server server(accepting({.queue_bytes_max = most,
                                     .on_drain = send_on,
                                     .on_receive = [&](net::channel to, net::received_message) { send_on(to); }}));
    server.start();
    websocket_client client(server.port(), text("go"), {.receive_buffer = 4096});
    for (; taken < 20'000; ++taken) {
        const received_frame got = client.next();
        ASSERT_TRUE(got.payload.starts_with(std::to_string(taken) + ".")) << got.payload;
    }
    EXPECT_TRUE(was_full);
}

// Attacks I3 of server.hpp: were it counted for longer, five that have been slow would be more than may be held.
TEST(ServerWebsocket, WhatWasQueuedForASlowReaderIsHeldUntilItIsRead) {
    constexpr std::size_t much = 100'000;
    const std::string message(8192, 'x');
    std::atomic<unsigned> asked{0}, sent{0};
    std::atomic<bool> waits{false};
    net::server_options options;
    options.limits.held_bytes_max = 3 * much;
    running_server server(accepting({.on_receive =
                                         [&](const net::channel& to, net::received_message) {
                                             EXPECT_EQ(to.send(message), channel_status::ok);
                                             ++sent;
                                             waits = to.queued_bytes() >= much;
                                             ++asked;
                                             asked.notify_all();
                                         }}),
                          std::move(options));
    server.start();
    std::list<websocket_client> clients;
    for (int i = 0; i < 5; ++i) {
        auto& client = clients.emplace_back(server.port(), "", http_client::options{.receive_buffer = 4096});
        sent = 0;
        do {
            const unsigned before = asked;
            client.send(text("more"));
            asked.wait(before);
        } while (!waits);
        for (; sent != 0; --sent) client.expect(final_text, message);
    }
    server.stop();
    EXPECT_EQ(server.counters().over_held_bytes, 0U);
}

// Attacks I2 of channel.hpp, on both kinds of thread.
TEST(ServerWebsocket, MessagesOfManyThreadsReachManyClientsInTheOrderOfEach) {
    constexpr std::size_t clients = 20, threads = 3, messages = 200;
    std::mutex lock;
    std::vector<net::channel> open;
    running_server server([&](const net::request& asked, net::response& answer) {
        net::channel made = answer.websocket(asked, {.queue_bytes_max = 4U << 20U});
        const std::lock_guard guard(lock);
        open.push_back(std::move(made));
    });
    server.start();
    std::vector<std::unique_ptr<websocket_client>> readers;
    for (std::size_t i = 0; i < clients; ++i) readers.push_back(std::make_unique<websocket_client>(server.port()));
    const std::vector<net::channel> all = [&] {
        const std::lock_guard guard(lock);
        return open;
    }();
    ASSERT_EQ(all.size(), clients);
    {
        std::vector<std::jthread> senders;
        for (std::size_t t = 0; t < threads; ++t)
            senders.emplace_back([&, t] {
                for (std::size_t i = 0; i < messages; ++i) {
                    const auto message =
                        std::make_shared<const std::string>(std::to_string(t) + ":" + std::to_string(i));
                    for (const net::channel& each : all) EXPECT_EQ(each.send(message), channel_status::ok);
                }
            });
    }
    for (const auto& reader : readers) {
        std::array<std::size_t, threads> next{};
        for (std::size_t i = 0; i < threads * messages; ++i) {
            const std::string got = reader->next().payload;
            const auto from = static_cast<std::size_t>(got.at(0) - '0');
            ASSERT_LT(from, threads);
            ASSERT_EQ(got, std::to_string(from) + ":" + std::to_string(next[from]++));
        }
    }
    server.stop();
    for (const net::channel& each : all) EXPECT_EQ(each.send("stale"), channel_status::closed);
}

}  // namespace
