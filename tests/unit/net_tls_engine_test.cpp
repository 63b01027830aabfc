// SPDX-License-Identifier: Apache-2.0
// The filter that puts TLS between an engine and a server, without a kernel: what engine.hpp promises holds of it
// whatever the engine below does, and nothing is lost, doubled or out of order.
#include <gtest/gtest.h>

#ifdef HOLDFAST_TEST_WITH_TLS

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "net/tls_engine.hpp"
#include "net/tls_session.hpp"
#include "support/scale.hpp"
#include "support/scripted_engine.hpp"
#include "support/seed.hpp"
#include "support/tls_peer.hpp"

namespace {

using namespace holdfast;
using net::connection_token;
using net::tls_event;

constexpr int with_tls = 7, without = 8;

/// A server that notes what it is told, and looks at each report for what must not be.
class noting_server final : public net::engine_sink {
 public:
    struct link {
        std::uint32_t generation = 0;
        bool open = false;
        bool secured = false;
        bool paused = false;
        bool ended = false;
        int error = 0;
        std::size_t unsent = 0;
        std::string received;
        std::vector<tls_event> events;
    };

    noting_server() {
        engine_ = net::make_tls_engine(*this, {{.listener = with_tls, .credentials = credentials}},
                                       [this](net::engine_sink& sink) {
                                           auto made = std::make_unique<test::scripted_engine>(sink);
                                           below = made.get();
                                           return made;
                                       });
    }

    void turn() {
        in_wait_ = true;
        engine_->wait(0);
        in_wait_ = false;
    }
    connection_token connect(int listener = with_tls) {
        below->connect(listener);
        turn();
        return newest;
    }
    [[nodiscard]] net::engine& engine() noexcept { return *engine_; }
    [[nodiscard]] link& of(connection_token token) { return links.at(token.index); }
    [[nodiscard]] bool open(connection_token token) {
        return token.index < links.size() && of(token).open && of(token).generation == token.generation;
    }
    int send(connection_token token, std::string bytes) {
        const net::engine::sent result = engine_->send(token, bytes);
        if (!bytes.empty()) violated("a send left bytes with the caller");
        if (result.waiting != 0 && result.waiting != result.unsent) violated("I5: a part waits");
        of(token).unsent = result.unsent;
        if (result.error != 0) of(token).error = result.error;
        return result.error;
    }
    void pause(connection_token token) {
        of(token).paused = true;
        engine_->pause(token);
    }
    void resume(connection_token token) {
        of(token).paused = false;
        engine_->resume(token);
    }
    void remove(connection_token token, bool reset = false) {
        engine_->remove(token, reset);
        link& l = of(token);
        const std::uint32_t generation = l.generation + 1;
        l = link{};
        l.generation = generation;
    }
    [[nodiscard]] std::string violations() const { return violations_ + below->violations(); }
    [[nodiscard]] std::size_t count(connection_token token, tls_event what) {
        return static_cast<std::size_t>(std::ranges::count(of(token).events, what));
    }

    void on_wake() override { inside("on_wake"); }
    void on_accept(net::accepted arrival) override {
        inside("on_accept");
        if (refuses) return engine_->refuse(arrival, "busy");
        std::uint32_t index = 0;
        while (index < links.size() && links[index].open) ++index;
        if (index == links.size()) links.emplace_back();
        newest = {index, links[index].generation};
        links[index].open = true;
        links[index].secured = !engine_->secures(arrival.listener);
        if (engine_->take(arrival, newest) != 0) violated("take");
    }
    void on_accept_paused() override {}
    void on_drained(int) override {}
    void on_watched(int) override {}
    void on_bytes(connection_token token, std::span<char> bytes) override {
        link* const l = reported(token, "on_bytes");
        if (l == nullptr) return;
        if (!l->secured) violated("bytes before the handshake is made");
        if (l->paused) violated("I4: bytes of a paused connection");
        if (l->ended) violated("I3: bytes behind the end");
        if (bytes.empty()) violated("no bytes");
        l->received.append(bytes.data(), bytes.size());
        std::fill(bytes.begin(), bytes.end(), '!');  // (I2)
        if (when_bytes) when_bytes(token);
    }
    void on_end(connection_token token, int error) override {
        link* const l = reported(token, "on_end");
        if (l == nullptr) return;
        if (error == 0 && l->paused) violated("I4: the end of a paused connection");
        if (error == 0 && std::exchange(l->ended, true)) violated("I3: a second end");
        if (error != 0) l->error = error;
        if (when_end) when_end(token);
    }
    void on_sent(connection_token token, std::size_t unsent) override {
        link* const l = reported(token, "on_sent");
        if (l == nullptr) return;
        l->unsent = unsent;
        if (when_sent) when_sent(token);
    }
    void on_tls(connection_token token, tls_event what) override {
        link* const l = reported(token, "on_tls");
        if (l == nullptr) return;
        l->events.push_back(what);
        if (what == tls_event::secured || what == tls_event::resumed) l->secured = true;
        if (when_tls) when_tls(token, what);
    }

    test::tls_folder folder;
    net::tls_credentials credentials{folder.write_pair()};
    test::scripted_engine* below = nullptr;
    std::deque<link> links;
    connection_token newest;
    bool refuses = false;
    std::function<void(connection_token)> when_bytes, when_end, when_sent;
    std::function<void(connection_token, tls_event)> when_tls;

 private:
    void violated(std::string what) {
        if (violations_.size() < 1000) violations_.append(std::move(what)).append("\n");
    }
    void inside(const char* what) {
        if (!in_wait_) violated(std::string("I3: outside wait(): ").append(what));
    }
    link* reported(connection_token token, const char* what) {
        inside(what);
        if (!open(token)) {
            violated(std::string("I1: of a connection that is gone: ").append(what));
            return nullptr;
        }
        if (of(token).error != 0) violated(std::string("I1: behind an error: ").append(what));
        return &of(token);
    }

    std::unique_ptr<net::engine> engine_;
    std::string violations_;
    bool in_wait_ = false;
};

struct TlsEngine : ::testing::Test {
    noting_server server;
    test::tls_client_end client;
    connection_token here;

    ~TlsEngine() override { EXPECT_EQ(server.violations(), ""); }

    /// The client's bytes arrive in this turn, and what has left is given to it.
    void exchange(std::size_t piece = 65536) {
        if (auto* const p = server.below->find(here)) p->arrived += client.take();
        server.below->script([this, piece] {
            server.below->let_arrive(here, piece);
            server.below->let_leave(here, ~std::size_t{0});
        });
        server.turn();
        if (auto* const p = server.below->find(here)) client.feed(std::exchange(p->left, {}));
    }
    void shake() {
        here = server.connect();
        while (!client.shake()) exchange();
        exchange();
        client.read();  // the tickets
        ASSERT_EQ(server.count(here, tls_event::secured), 1U);
    }
};

TEST_F(TlsEngine, CarriesBytesBothWays) {
    shake();
    client.write("question");
    exchange();
    EXPECT_EQ(server.of(here).received, "question");
    EXPECT_EQ(server.send(here, "answer"), 0);
    exchange();
    client.read();
    EXPECT_EQ(client.received(), "answer");
}

TEST_F(TlsEngine, AListenerWithoutTlsPassesThrough) {
    here = server.connect(without);
    server.below->find(here)->arrived = "plain";
    exchange();
    EXPECT_EQ(server.of(here).received, "plain");
    EXPECT_EQ(server.send(here, "as well"), 0);
    EXPECT_EQ(server.below->find(here)->left, "as well");
    EXPECT_TRUE(server.of(here).events.empty());
}

TEST_F(TlsEngine, ARefusalIsAnAlertWhereTlsIsSpoken) {
    server.refuses = true;
    server.below->connect(without);
    server.below->connect(with_tls);
    server.turn();
    EXPECT_EQ(server.below->refused(),
              (std::vector<std::string>{"busy", std::string("\x15\x03\x03\x00\x02\x02\x50", 7)}));
}

TEST_F(TlsEngine, AListenerIsLeftToOthersAndNotDrained) {
    server.engine().leave(with_tls);
    server.engine().leave(without);
    server.engine().drain(with_tls);
    EXPECT_EQ(server.below->listeners_left, (std::vector<int>{with_tls, without}));
    EXPECT_EQ(server.below->listeners_drained, (std::vector<int>{with_tls}));
}

TEST_F(TlsEngine, WhatATurnAnswersLeavesTogether) {
    shake();
    server.when_bytes = [&](connection_token token) { EXPECT_EQ(server.send(token, server.of(token).received), 0); };
    server.below->sends_at_once = false;
    for (int i = 0; i < 3; ++i) client.write("ask");
    server.below->find(here)->arrived = client.take();
    server.below->script([&] { server.below->let_arrive(here, 65536); });
    server.turn();
    const std::size_t unsent = server.below->find(here)->sent.size();
    EXPECT_EQ(server.of(here).unsent, unsent);
    EXPECT_GT(unsent, 18U);
    exchange();
    client.read();
    EXPECT_EQ(client.received(), "askaskaskaskaskask");
    EXPECT_EQ(server.of(here).unsent, 0U);
}

TEST_F(TlsEngine, APauseHoldsBackWhatWasReceivedAndNothingIsLost) {
    shake();
    for (int i = 0; i < 5; ++i) client.write(std::to_string(i));
    client.notify();
    server.when_bytes = [&](connection_token token) { server.pause(token); };
    exchange();
    EXPECT_EQ(server.of(here).received, "0");
    EXPECT_GT(server.engine().held(here), 4U);
    for (int i = 1; i < 5; ++i) {
        server.resume(here);
        EXPECT_EQ(server.of(here).received.size(), static_cast<std::size_t>(i)) << "never inside resume()";
        server.turn();
        EXPECT_EQ(server.of(here).received.size(), static_cast<std::size_t>(i) + 1);
        EXPECT_FALSE(server.of(here).ended);
    }
    server.resume(here);
    server.turn();
    EXPECT_EQ(server.of(here).received, "01234");
    EXPECT_TRUE(server.of(here).ended);
    EXPECT_EQ(server.engine().held(here), 0U);
}

TEST_F(TlsEngine, WhatIsHeldBackGoesWhenOurSideIsShut) {
    shake();
    client.write("0");
    client.write("1");
    server.when_bytes = [&](connection_token token) { server.pause(token); };
    exchange();
    EXPECT_GT(server.engine().held(here), 1U);
    server.engine().shutdown_send(here);
    EXPECT_EQ(server.engine().held(here), 0U);
    server.resume(here);
    server.turn();
    EXPECT_EQ(server.of(here).received, "0");
}

TEST_F(TlsEngine, WhatComesBehindAResumeStaysBehindWhatWasHeld) {
    shake();
    client.write("1");
    client.write("2");
    server.when_bytes = [&](connection_token token) {
        server.pause(token);
        server.when_bytes = nullptr;
    };
    exchange();
    client.write("3");
    const std::string third = client.take();
    server.below->script([&] {
        server.resume(here);
        server.below->find(here)->arrived = third;
        server.below->let_arrive(here, 65536);  // before the next turn takes up what is held
    });
    server.turn();
    EXPECT_EQ(server.of(here).received, "1");
    server.turn();
    EXPECT_EQ(server.of(here).received, "123");
}

enum class removal : std::uint8_t { when_secured, when_bytes, when_end, behind_an_answer };

struct TlsEngineRemoval : TlsEngine, ::testing::WithParamInterface<std::pair<removal, bool>> {};

TEST_P(TlsEngineRemoval, IsPossibleFromWithinAnyReport) {
    const auto [where, reset] = GetParam();
    const auto gone = [this, ends = reset](connection_token token) { server.remove(token, ends); };
    if (where == removal::when_secured) server.when_tls = [gone](connection_token token, tls_event) { gone(token); };
    if (where == removal::when_bytes) server.when_bytes = gone;
    if (where == removal::when_end) server.when_end = gone;
    if (where == removal::behind_an_answer)
        server.when_bytes = [this, gone](connection_token token) {
            EXPECT_EQ(server.send(token, "last words"), 0);
            gone(token);
        };
    here = server.connect();
    for (int i = 0; i < 3 && server.open(here); ++i) {
        (void)client.shake();
        exchange();
    }
    client.write("a");
    client.write("b");
    client.notify();
    exchange();
    EXPECT_FALSE(server.open(here));
    ASSERT_FALSE(server.below->removed.empty());
    EXPECT_EQ(server.below->removed.back().reset, reset);
}

INSTANTIATE_TEST_SUITE_P(Reports, TlsEngineRemoval,
                         ::testing::Values(std::pair(removal::when_secured, false),
                                           std::pair(removal::when_secured, true),
                                           std::pair(removal::when_bytes, false), std::pair(removal::when_bytes, true),
                                           std::pair(removal::when_end, false), std::pair(removal::when_end, true),
                                           std::pair(removal::behind_an_answer, false),
                                           std::pair(removal::behind_an_answer, true)));

TEST_F(TlsEngine, GoodbyeIsSaidUnlessItIsAReset) {
    shake();
    server.remove(here);
    client.feed(server.below->removed.back().left);
    client.read();
    EXPECT_TRUE(client.notified());
}

TEST_F(TlsEngine, OurSideIsShutBehindTheGoodbye) {
    server.below->sends_at_once = false;
    shake();
    server.engine().shutdown_send(here);
    EXPECT_FALSE(server.below->find(here)->shut);
    EXPECT_GT(server.below->find(here)->sent.size(), 0U);
    exchange();
    EXPECT_TRUE(server.below->find(here)->shut);
    client.read();
    EXPECT_TRUE(client.notified());
    client.write("what nobody wants");
    client.notify();
    exchange();
    EXPECT_NE(server.of(here).received, "") << "counted by who throws it away";
    server.below->find(here)->ends = true;
    exchange();
    EXPECT_TRUE(server.of(here).ended);
    EXPECT_EQ(server.count(here, tls_event::truncated), 0U);
}

TEST_F(TlsEngine, AnEndWithoutAWordIsATruncation) {
    shake();
    client.write("part");
    server.below->find(here)->ends = true;
    exchange();
    EXPECT_EQ(server.of(here).received, "part");
    EXPECT_TRUE(server.of(here).ended);
    EXPECT_EQ(server.count(here, tls_event::truncated), 1U);
}

TEST_F(TlsEngine, AnEndWithAWordIsNone) {
    shake();
    client.notify();
    server.below->find(here)->ends = true;
    exchange();
    EXPECT_TRUE(server.of(here).ended);
    EXPECT_EQ(server.count(here, tls_event::truncated), 0U);
}

TEST_F(TlsEngine, ABrokenConnectionIsReportedOnce) {
    shake();
    server.below->script([&] { server.below->fail(here, ECONNRESET); });
    server.turn();
    EXPECT_EQ(server.of(here).error, ECONNRESET);
}

TEST_F(TlsEngine, AHandshakeThatBreaksOffIsToldAsThat) {
    here = server.connect();
    (void)client.shake();
    server.below->find(here)->arrived = client.take().substr(0, 20);
    exchange();
    server.below->script([&] { server.below->fail(here, ECONNRESET); });
    server.turn();
    EXPECT_EQ(server.count(here, tls_event::cut), 1U);
    EXPECT_EQ(server.of(here).error, ECONNRESET);
}

TEST_F(TlsEngine, AFlightThatCannotBeSentIsABrokenConnection) {
    here = server.connect();
    server.below->find(here)->send_error = EPIPE;
    (void)client.shake();
    exchange();
    EXPECT_EQ(server.count(here, tls_event::cut), 1U);
    EXPECT_EQ(server.of(here).error, EPIPE);
}

TEST_F(TlsEngine, ASendThatFailsBelowFailsHere) {
    shake();
    server.below->find(here)->send_error = EPIPE;
    EXPECT_EQ(server.send(here, "lost"), EPIPE);
    server.below->find(here)->arrived = "\x15";
    exchange();
}

TEST_F(TlsEngine, CorkedAnswersThatCannotBeSentBreakTheConnection) {
    shake();
    server.when_bytes = [&](connection_token token) { EXPECT_EQ(server.send(token, "x"), 0); };
    client.write("1");
    std::string bytes = client.take();
    client.write("2");
    bytes += client.take().substr(0, 10);
    server.below->find(here)->send_error = ECONNRESET;
    server.below->find(here)->arrived = bytes;
    exchange();
    EXPECT_EQ(server.of(here).error, ECONNRESET);
}

// Answers to key updates are as long as what asks for them: who takes none of them is given 16 KiB.
TEST_F(TlsEngine, WhatTlsSaysByItselfIsBounded) {
    shake();
    server.below->find(here)->room = 0;
    server.below->sends_at_once = false;
    std::size_t updates = 0;
    for (; updates < 2000 && server.count(here, tls_event::broken) == 0; ++updates) {
        ASSERT_EQ(SSL_key_update(client.get(), SSL_KEY_UPDATE_REQUESTED), 1);
        (void)client.shake();
        if (updates % 16 == 0) client.write("x");  // else there would be too many in a row
        server.below->find(here)->arrived = client.take();
        server.below->script([&] { server.below->let_arrive(here, 65536); });
        server.turn();
    }
    EXPECT_EQ(server.count(here, tls_event::broken), 1U);
    EXPECT_GT(updates, 500U);
    EXPECT_LT(updates, 1000U);
    EXPECT_LT(server.below->find(here)->sent.size(), net::tls_own_bytes_max + 100);
}

/// Has the client take new keys, and not ask for ours.
void update_keys(test::tls_client_end& client) {
    EXPECT_EQ(SSL_key_update(client.get(), SSL_KEY_UPDATE_NOT_REQUESTED), 1);
    (void)client.shake();
}

// (T5) Each costs us new keys, whether we answer or not.
TEST_F(TlsEngine, KeyUpdatesInARowAreBounded) {
    shake();
    for (int round = 0; round < 4; ++round) {  // as many as there may be, and then something
        for (std::uint32_t i = 0; i < net::tls_silent_records_max; ++i) update_keys(client);
        client.write("x");
        exchange();
    }
    EXPECT_EQ(server.of(here).received, "xxxx");
    EXPECT_EQ(server.count(here, tls_event::broken), 0U);
    std::uint32_t updates = 0;
    for (; updates < 1000 && server.count(here, tls_event::broken) == 0; ++updates) {
        update_keys(client);
        exchange();
    }
    EXPECT_EQ(updates, net::tls_silent_records_max + 2);  // it is noticed when one more comes
}

TEST_F(TlsEngine, KeyUpdatesAreBoundedWithinOneReceive) {
    shake();
    for (int i = 0; i < 1000; ++i) update_keys(client);
    client.write("never read");
    exchange();
    EXPECT_EQ(server.count(here, tls_event::broken), 1U);
    EXPECT_EQ(server.of(here).received, "");
}

TEST_F(TlsEngine, WhatWasAnsweredBeforeAWrongRecordLeavesAndIsToldSo) {
    for (const bool at_once : {true, false}) {
        server.below->sends_at_once = at_once;
        test::tls_client_end fresh;
        here = server.connect();
        const auto deliver = [&] {
            server.below->script([&] {
                server.below->let_arrive(here, 65536);
                server.below->let_leave(here, ~std::size_t{0});
            });
            server.turn();
            fresh.feed(std::exchange(server.below->find(here)->left, {}));
        };
        while (!fresh.shake()) {
            server.below->find(here)->arrived = fresh.take();
            deliver();
        }
        std::string bytes = fresh.take();
        fresh.write("1");
        bytes += fresh.take();
        fresh.write("2");
        bytes += fresh.take();
        bytes.back() = static_cast<char>(bytes.back() ^ 1);
        server.when_bytes = [&](connection_token token) { EXPECT_EQ(server.send(token, "answer"), 0); };
        server.below->find(here)->arrived = bytes;
        deliver();
        EXPECT_EQ(server.count(here, tls_event::broken), 1U);
        EXPECT_EQ(server.of(here).received, "1");
        EXPECT_EQ(server.of(here).unsent, 0U);
        fresh.read();
        EXPECT_EQ(fresh.received(), "answer");
        EXPECT_TRUE(fresh.failed());
        EXPECT_NE(fresh.reason().find("bad record mac"), std::string::npos) << fresh.reason();
    }
}

TEST_F(TlsEngine, NothingIsSentBeforeTheHandshake) {
    here = server.connect();
    EXPECT_NE(server.send(here, "early"), 0);
    EXPECT_EQ(server.below->find(here)->left, "");
}

// --- everything at once, against a model: both directions of each connection are streams whose bytes are known

std::string stream(std::uint64_t number, std::size_t begin, std::size_t bytes) {
    std::string text(bytes, ' ');
    for (std::size_t i = 0; i < bytes; ++i) {
        const std::size_t at = begin + i;
        text[i] = static_cast<char>('a' + (at * 7 + at / 251 + at / 65521 + number * 5) % 26);
    }
    return text;
}

struct model_link {
    std::unique_ptr<test::tls_client_end> client;
    connection_token here;
    std::uint64_t number = 0;
    std::size_t from_client = 0, to_client = 0;
    bool notified = false;
    bool there = false;  // else `here` is that of a predecessor
};

TEST(TlsEngineModel, RandomInterleavingsKeepEveryStreamWhole) {
    test::seeded_random random;
    noting_server server;
    test::scripted_engine& below = *server.below;
    std::vector<model_link> links(4);
    std::uint64_t next_number = 0;
    const auto renew = [&](model_link& l) {
        l = {};
        const test::tls_client_options wanted{.version_max = random.below(2) == 0 ? TLS1_2_VERSION : TLS1_3_VERSION};
        l.client = std::make_unique<test::tls_client_end>(wanted);
        l.number = next_number++;
        below.sends_at_once = random.below(2) == 0;
        l.here = server.connect();
        l.there = true;
    };
    for (model_link& l : links) renew(l);
    const auto link_of = [&](connection_token token) -> model_link& {
        return *std::ranges::find_if(links, [&](const model_link& l) {
            return l.there && l.here.index == token.index && l.here.generation == token.generation;
        });
    };
    const auto answer = [&](model_link& l, std::size_t bytes) {
        if (!l.there || !server.of(l.here).secured || server.of(l.here).unsent > (1U << 20U)) return;
        EXPECT_EQ(server.send(l.here, stream(l.number * 2 + 1, l.to_client, bytes)), 0);
        l.to_client += bytes;
    };
    server.when_bytes = [&](connection_token token) {
        if (random.below(3) == 0) answer(link_of(token), random.below(40'000) + 1);
        if (random.below(4) == 0) answer(links[random.below(links.size())], random.below(100) + 1);
        if (random.below(4) == 0) server.pause(token);
    };
    const auto listen = [&](model_link& l) {
        if (auto* const p = below.find(l.here)) l.client->feed(std::exchange(p->left, {}));
        if (!l.client->shaken()) (void)l.client->shake();
        if (l.client->shaken()) l.client->read();
        if (auto* const p = below.find(l.here)) p->arrived += l.client->take();
    };
    const auto right_so_far = [&](model_link& l) {
        const std::string& got = server.of(l.here).received;
        const std::string& answered = l.client->received();
        return !l.client->failed() && got.size() <= l.from_client && got == stream(l.number * 2, 0, got.size()) &&
               answered.size() <= l.to_client && answered == stream(l.number * 2 + 1, 0, answered.size());
    };
    const std::uint64_t steps = test::scaled(6000);
    for (std::uint64_t step = 0; step < steps; ++step) {
        model_link& l = links[random.below(links.size())];
        switch (random.below(12)) {
            case 0:
            case 1: {
                if (l.notified || !l.client->shaken() || below.find(l.here)->arrived.size() > (1U << 20U)) break;
                const std::size_t bytes = random.below(random.below(4) == 0 ? 50'000 : 300) + 1;
                l.client->write(stream(l.number * 2, l.from_client, bytes));
                l.from_client += bytes;
                break;
            }
            case 2: listen(l); break;
            case 3:
                if (l.client->shaken() && !l.notified && SSL_version(l.client->get()) == TLS1_3_VERSION)
                    (void)SSL_key_update(l.client->get(), SSL_KEY_UPDATE_REQUESTED);
                break;
            case 4: answer(l, random.below(60'000) + 1); break;
            case 5: server.pause(l.here); break;
            case 6: server.resume(l.here); break;
            case 7:
                if (random.below(20) != 0 || !l.client->shaken()) break;
                if (!std::exchange(l.notified, true)) l.client->notify();
                break;
            case 8:
                if (random.below(30) != 0) break;
                ASSERT_TRUE(right_so_far(l))
                    << "connection " << l.number << ", step " << step << ": " << l.client->reason();
                server.remove(l.here, random.below(2) == 0);
                renew(l);
                break;
            case 9:
            case 10:
                below.script(
                    [&below, here = l.here, piece = random.below(20'000) + 1] { below.let_arrive(here, piece); });
                break;
            default:
                below.script([&below, here = l.here, bytes = random.below(50'000)] { below.let_leave(here, bytes); });
                server.turn();
        }
        if (step % 4 == 0) server.turn();
    }
    server.when_bytes = nullptr;
    for (int round = 0; round < 20; ++round) {
        for (model_link& l : links) {
            server.resume(l.here);
            listen(l);
            below.script([&below, here = l.here] {
                below.let_arrive(here, 65536);
                below.let_leave(here, ~std::size_t{0});
            });
        }
        server.turn();
        server.turn();
    }
    for (model_link& l : links) {
        EXPECT_TRUE(right_so_far(l)) << "connection " << l.number;
        EXPECT_EQ(server.of(l.here).received.size(), l.from_client) << l.number;
        EXPECT_EQ(l.client->received().size(), l.to_client) << l.number;
        EXPECT_EQ(server.of(l.here).ended, l.notified) << l.number;
        EXPECT_EQ(server.of(l.here).unsent, 0U) << l.number;
    }
    EXPECT_EQ(server.violations(), "");
}

}  // namespace

#else

TEST(TlsEngine, CarriesBytesBothWays) { GTEST_SKIP() << "needs: a build with TLS"; }

#endif
