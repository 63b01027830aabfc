// SPDX-License-Identifier: Apache-2.0
// What every engine of the network front promises (src/net/engine.hpp), asked of each by the same tests: a bare sink on
// one side, scripted peers on the other, all on one thread. The sink looks at each report for what must not be.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <deque>
#include <filesystem>
#include <functional>
#include <iterator>
#include <list>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "holdfast/error.hpp"
#include "holdfast/net/listener.hpp"
#include "holdfast/net/server.hpp"
#include "net/engine.hpp"
#include "net/file_descriptor.hpp"
#include "support/http_client.hpp"
#include "support/http_server.hpp"
#include "support/process.hpp"
#include "support/scale.hpp"
#include "support/seed.hpp"
#include "support/system_call_faults.hpp"

namespace {

using namespace holdfast;
using namespace std::chrono_literals;
using net::connection_token;
using steady = std::chrono::steady_clock;

/// Long enough for a loaded machine under a sanitizer; a test that passes never waits it out.
constexpr std::chrono::seconds deadline{20};

/// With so few that every test meets the lack of each.
constexpr net::uring_sizes small_ring{.submissions = 4, .completions = 8, .buffers = 4, .buffer_bytes = 512};

/// Every connection in the table of the ring, but those beyond its places.
constexpr net::uring_sizes direct_ring{.direct = 40, .direct_from = 0};

std::unique_ptr<net::engine> make_engine(const std::string& name, net::engine_sink& sink) {
    if (name == "epoll") return net::make_epoll_engine(sink);
    if (name == "io_uring") return net::make_uring_engine(sink);
    if (name == "io_uring_small") return net::make_uring_engine(sink, small_ring);
    if (name == "io_uring_direct") return net::make_uring_engine(sink, direct_ring);
    throw std::invalid_argument("no such engine: " + name);
}

/// A client of which each step is the test's: it never waits but in connect.
class peer {
 public:
    explicit peer(std::uint16_t port, int receive_buffer = 0)
        : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        if (!socket_) fail("socket");
        if (receive_buffer != 0)
            (void)::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
        sockaddr_in to{};
        to.sin_family = AF_INET;
        to.sin_port = htons(port);
        to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        if (::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0) fail("connect");
    }

    /// Sends what the socket takes. Returns: bytes taken.
    std::size_t send(std::string_view bytes) const {
        const ssize_t n = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
        return n > 0 ? static_cast<std::size_t>(n) : 0;
    }
    /// Takes what has come.
    void receive() {
        char bytes[65536];
        while (!ended_) {
            const ssize_t n = ::recv(socket_.get(), bytes, sizeof bytes, MSG_DONTWAIT);
            if (n > 0) {
                received_.append(bytes, static_cast<std::size_t>(n));
            } else if (n == 0 || errno != EINTR) {
                ended_ = n == 0 || errno != EAGAIN;
                was_reset_ = n < 0 && errno == ECONNRESET;
                return;
            }
        }
    }
    [[nodiscard]] const std::string& received() const noexcept { return received_; }
    /// The other side has ended the connection, in whichever way.
    [[nodiscard]] bool ended() const noexcept { return ended_; }

    [[nodiscard]] bool was_reset() const noexcept { return was_reset_; }

    void shutdown_send() const { (void)::shutdown(socket_.get(), SHUT_WR); }
    void close() { socket_.reset(); }
    void reset() {
        const linger at_once{1, 0};
        (void)::setsockopt(socket_.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
        close();
    }

 private:
    [[noreturn]] static void fail(const char* what) { throw std::system_error(errno, std::generic_category(), what); }

    net::file_descriptor socket_;
    std::string received_;
    bool ended_ = false;
    bool was_reset_ = false;
};

/// What the sink knows of the connection that has a place.
struct conversation {
    std::uint32_t generation = 0;
    bool open = false;
    bool paused = false;
    bool ended = false;  // on_end(0)
    int error = 0;       // of on_end or of a send
    std::size_t unsent = 0;
    std::size_t waiting = 0;  // of these
    std::string received;
};

enum class arrivals : std::uint8_t { take, refuse, leave, fail };

class engine_rig final : public net::engine_sink {
 public:
    explicit engine_rig(const std::string& name,
                        net::file_descriptor listener = net::file_descriptor(net::listen_tcp("127.0.0.1:0")))
        : listener_(std::move(listener)), port_(net::bound_port(listener_.get())), engine_(make_engine(name, *this)) {
        engine_->listen(listener_.get());
    }

    [[nodiscard]] net::engine& engine() noexcept { return *engine_; }
    [[nodiscard]] std::uint16_t port() const noexcept { return port_; }
    [[nodiscard]] int listener() const noexcept { return listener_.get(); }
    void close_listener() { listener_.reset(); }
    /// What was reported that must not be; empty when all is well.
    [[nodiscard]] const std::string& violations() const noexcept { return violations_; }

    void turn(int timeout_ms) {
        const struct waiting {
            bool& flag;
            ~waiting() { flag = false; }
        } now{in_wait_};
        in_wait_ = true;
        engine_->wait(timeout_ms);
    }
    /// Turns until it is so. Returns: whether that came.
    template <class Condition>
    [[nodiscard]] bool until(Condition condition) {
        for (const auto last = steady::now() + deadline; !condition();) {
            if (steady::now() > last) return false;
            turn(5);
        }
        return true;
    }

    struct link {
        peer there;
        connection_token here;
    };
    link connect(int receive_buffer = 0) {
        const std::size_t before = taken;
        peer there(port_, receive_buffer);
        if (!until([&] { return taken > before; })) violated("a connection was not reported");
        return {std::move(there), newest};
    }
    [[nodiscard]] conversation& of(connection_token token) {
        conversation& c = conversations_.at(token.index);
        if (c.generation != token.generation) violated("the test asks for a connection that was removed");
        return c;
    }
    int send(connection_token token, std::string bytes) {
        conversation& c = of(token);
        const std::size_t all = c.unsent + bytes.size();
        const net::engine::sent result = engine_->send(token, bytes);
        if (!bytes.empty()) violated("a send left bytes with the caller");
        if (result.unsent > all) violated("more unsent than was sent");
        if (result.waiting != 0 && result.waiting != result.unsent) violated("I5: a part waits");
        if (c.waiting != 0 && result.waiting == 0 && result.unsent != 0 && result.error == 0)
            violated("I5: what waits is on its way again");
        c.unsent = result.unsent;
        c.waiting = result.waiting;
        if (result.error != 0) c.error = result.error;
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
        conversation& c = of(token);
        engine_->remove(token, reset);
        const std::uint32_t generation = c.generation + 1;
        c = conversation{};
        c.generation = generation;
        free_.push_back(token.index);
    }
    /// What happened before has been reported when a byte has come through another connection since, and the engine has
    /// been round twice more.
    void round_trip() {
        auto [there, here] = connect();
        (void)there.send("x");
        if (!until([&] { return of(here).received == "x"; })) violated("a witness was not heard");
        remove(here, true);
        turn(0);
        turn(0);
    }

    void on_wake() override { inside("on_wake"); }
    void on_accept(net::accepted arrival) override {
        inside("on_accept");
        if (before_deciding) before_deciding();
        if (arrival.listener != listener_.get()) violated("accepted from another listener");
        if (arrival.only_refuse) {
            ++refused;
            return engine_->refuse(arrival, "full");
        }
        switch (policy) {
            case arrivals::refuse: ++refused; return engine_->refuse(arrival, "busy");
            case arrivals::leave: ++left_alone; return;
            case arrivals::fail: throw std::runtime_error("no memory");
            case arrivals::take: break;
        }
        if (free_.empty()) {
            free_.push_back(static_cast<std::uint32_t>(conversations_.size()));
            conversations_.emplace_back();
        }
        const std::uint32_t index = free_.back();
        const connection_token token{index, conversations_[index].generation};
        if (const int code = engine_->take(arrival, token); code != 0)
            return violated(std::string("take: ").append(std::strerror(code)));
        free_.pop_back();
        conversations_[index].open = true;
        newest = token;
        ++taken;
    }
    void on_accept_paused() override { inside("on_accept_paused"); }
    void on_drained(int drained_listener) override {
        inside("on_drained");
        if (drained_listener != listener_.get()) violated("another listener was drained");
        ++drained;
    }
    void on_bytes(connection_token token, std::span<char> bytes) override {
        conversation* const c = reported(token, "on_bytes");
        if (c == nullptr) return;
        if (c->paused) violated("I4: bytes of a paused connection");
        if (c->ended) violated("I3: bytes behind the end");
        if (bytes.empty()) violated("no bytes");
        c->received.append(bytes.data(), bytes.size());
        std::fill(bytes.begin(), bytes.end(), '!');  // (I2) ours to change
        if (when_bytes) when_bytes(token);
    }
    void on_end(connection_token token, int error) override {
        conversation* const c = reported(token, "on_end");
        if (c == nullptr) return;
        if (error == 0) {
            if (c->paused) violated("I4: the end of a paused connection");
            if (c->ended) violated("I3: a second end");
            c->ended = true;
        } else {
            c->error = error;
        }
        if (when_end) when_end(token);
    }
    void on_sent(connection_token token, std::size_t unsent) override {
        conversation* const c = reported(token, "on_sent");
        if (c == nullptr) return;
        if (unsent >= c->unsent && (unsent > c->unsent || c->waiting != 0)) violated("I5: nothing was sent");
        c->unsent = c->waiting = unsent;
        if (when_sent) when_sent(token);
    }
    void on_watched(int fd) override {
        inside("on_watched");
        ++watched;
        watched_fd = fd;
        if (when_watched) when_watched(fd);
    }
    void on_held(connection_token token) override {
        inside("on_held");
        told_held = engine_->held(token);
        if (!of(token).paused || told_held == 0) violated("on_held, and nothing is kept of it for a pause");
    }

    arrivals policy = arrivals::take;
    std::function<void()> before_deciding;
    std::function<void(connection_token)> when_bytes, when_end, when_sent;
    std::function<void(int)> when_watched;
    std::size_t taken = 0, refused = 0, left_alone = 0, drained = 0, watched = 0, told_held = 0;
    int watched_fd = -1;
    connection_token newest;

 private:
    void violated(std::string what) {
        if (violations_.size() < 1000) violations_.append(std::move(what)).append("\n");
    }
    void inside(const char* what) {
        if (!in_wait_) violated(std::string("I3: outside wait(): ").append(what));
    }
    conversation* reported(connection_token token, const char* what) {
        inside(what);
        conversation* const c = token.index < conversations_.size() ? &conversations_[token.index] : nullptr;
        if (c == nullptr || !c->open || c->generation != token.generation) {
            violated(std::string("I1: of a connection that is gone: ").append(what));
            return nullptr;
        }
        if (c->error != 0) violated(std::string("I1: behind an error: ").append(what));
        return c;
    }

    net::file_descriptor listener_;
    std::uint16_t port_;
    std::deque<conversation> conversations_;  // by index; references stay
    std::vector<std::uint32_t> free_;
    std::string violations_;
    bool in_wait_ = false;
    std::unique_ptr<net::engine> engine_;
};

/// `bytes` bytes from position `begin` of a stream that differs from those of other numbers.
std::string stream(std::uint64_t number, std::size_t begin, std::size_t bytes) {
    std::string text(bytes, ' ');
    for (std::size_t i = 0; i < bytes; ++i) {
        const std::size_t at = begin + i;
        text[i] = static_cast<char>('a' + (at * 7 + at / 251 + at / 65521 + number * 5) % 26);
    }
    return text;
}

/// Why this machine lacks an engine; empty where it has it.
const std::string& lack_of(const std::string& name) {
    static const std::string of_io_uring = net::io_uring_lack();
    static const std::string of_direct = net::direct_lack();
    static const std::string nothing;
    if (name == "io_uring_direct" && of_io_uring.empty()) return of_direct;
    return name == "epoll" ? nothing : of_io_uring;
}

class NetEngine : public ::testing::TestWithParam<std::string> {
 protected:
    ~NetEngine() override { EXPECT_EQ(rig.violations(), ""); }
    void SetUp() override {
        if (!lack_of(GetParam()).empty()) GTEST_SKIP() << lack_of(GetParam());
    }

    // Fills the socket's buffers and then some. Returns: bytes sent.
    std::size_t fill(connection_token token, std::uint64_t number) {
        constexpr std::size_t piece = 256U << 10U, wanted = 1U << 20U;
        std::size_t sent = 0;
        while (rig.of(token).unsent < wanted && sent < (64U << 20U)) {
            EXPECT_EQ(rig.send(token, stream(number, sent, piece)), 0);
            sent += piece;
            rig.turn(0);
        }
        EXPECT_GE(rig.of(token).unsent, wanted);
        return sent;
    }

    engine_rig rig{lack_of(GetParam()).empty() ? GetParam() : "epoll"};
};

// --- bytes in, bytes out

TEST_P(NetEngine, SaysWhichItIs) { EXPECT_TRUE(GetParam().starts_with(rig.engine().name())); }

TEST_P(NetEngine, BytesComeAsTheyWereSentHoweverTheyAreCut) {
    auto [whole, at_once] = rig.connect();
    auto [slow, by_byte] = rig.connect();
    const std::string text = stream(1, 0, 300);
    EXPECT_EQ(whole.send(text), text.size());
    for (const char c : text) {
        EXPECT_EQ(slow.send({&c, 1}), 1U);
        rig.turn(0);
    }
    EXPECT_TRUE(rig.until([&] { return rig.of(at_once).received == text && rig.of(by_byte).received == text; }));
    EXPECT_FALSE(rig.of(at_once).ended || rig.of(by_byte).ended);
}

TEST_P(NetEngine, APeerThatHasShutItsSideIsStillAnswered) {
    auto [there, here] = rig.connect();
    EXPECT_EQ(there.send("question"), 8U);
    there.shutdown_send();
    ASSERT_TRUE(rig.until([&] { return rig.of(here).ended; }));
    EXPECT_EQ(rig.of(here).received, "question");
    EXPECT_EQ(rig.send(here, "answer"), 0);
    EXPECT_TRUE(rig.until([&] { return there.receive(), there.received() == "answer"; }));
    EXPECT_FALSE(there.ended());
    ASSERT_TRUE(rig.until([&] { return rig.of(here).unsent == 0; }));
    rig.engine().shutdown_send(here);
    EXPECT_TRUE(rig.until([&] { return there.receive(), there.ended(); }));
    rig.remove(here);
}

// Linux from 6.17 on forgets it in a multishot receive that finds so many bytes before it.
TEST_P(NetEngine, TheEndOfAUnixSocketIsReportedBehindManyBytes) {
    net::file_descriptor listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    const net::file_descriptor there(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    auto* const where = reinterpret_cast<sockaddr*>(&name);
    socklen_t size = sizeof name.sun_family;  // the kernel chooses the rest
    ASSERT_EQ(::bind(listener.get(), where, size), 0);
    ASSERT_EQ(::listen(listener.get(), 8), 0);
    size = sizeof name;
    ASSERT_EQ(::getsockname(listener.get(), where, &size), 0);
    engine_rig local(GetParam(), std::move(listener));
    ASSERT_EQ(::connect(there.get(), where, size), 0);
    const int room = 1 << 20;
    ASSERT_EQ(::setsockopt(there.get(), SOL_SOCKET, SO_SNDBUF, &room, sizeof room), 0);
    std::string many(150'000, 'm');
    many.resize(static_cast<std::size_t>(
        std::max<ssize_t>(0, ::send(there.get(), many.data(), many.size(), MSG_NOSIGNAL | MSG_DONTWAIT))));
    EXPECT_GT(many.size(), 100'000U);
    ASSERT_EQ(::shutdown(there.get(), SHUT_WR), 0);
    ASSERT_TRUE(local.until([&] { return local.taken == 1; }));
    EXPECT_TRUE(local.until([&] { return local.of(local.newest).ended; }));
    EXPECT_EQ(local.of(local.newest).received.size(), many.size());
    EXPECT_EQ(local.violations(), "");
}

TEST_P(NetEngine, ShuttingOurSideLeavesTheirsOpen) {
    auto [there, here] = rig.connect();
    rig.engine().shutdown_send(here);
    EXPECT_TRUE(rig.until([&] { return there.receive(), there.ended(); }));
    EXPECT_EQ(there.send("still here"), 10U);
    EXPECT_TRUE(rig.until([&] { return rig.of(here).received == "still here"; }));
}

TEST_P(NetEngine, ManySmallSendsLeaveInTheirOrder) {
    auto [there, here] = rig.connect();
    std::size_t sent = 0;
    for (std::size_t i = 0; i < 2000; ++i) {
        EXPECT_EQ(rig.send(here, stream(2, sent, i % 97 + 1)), 0);
        sent += i % 97 + 1;
        if (i % 50 == 0) rig.turn(0);
    }
    EXPECT_TRUE(rig.until([&] { return there.receive(), there.received().size() >= sent; }));
    EXPECT_TRUE(there.received() == stream(2, 0, sent));
    EXPECT_TRUE(rig.until([&] { return rig.of(here).unsent == 0; }));
}

// (I5) What the kernel has room for is on its way, and never waits, in however many pieces it was sent.
TEST_P(NetEngine, WhatThereIsRoomForNeverWaits) {
    auto [there, here] = rig.connect();
    std::size_t sent = 0;
    for (int round = 0; round < 50; ++round) {
        for (int i = 0; i < 3; ++i, sent += 100) EXPECT_EQ(rig.send(here, stream(9, sent, 100)), 0);
        rig.turn(0);
        EXPECT_EQ(rig.of(here).waiting, 0U) << "round " << round;
    }
    EXPECT_TRUE(rig.until([&] { return rig.of(here).unsent == 0; }));
    EXPECT_TRUE(rig.until([&] { return there.receive(), there.received().size() == sent; }));
    EXPECT_TRUE(there.received() == stream(9, 0, sent));
}

// What is large takes another way than what is small; neither overtakes the other.
TEST_P(NetEngine, SmallAndLargeSendsLeaveInTheirOrder) {
    auto [there, here] = rig.connect(64 << 10);
    std::size_t sent = 0, heard = 0;
    for (int round = 0; round < 30; ++round) {
        for (const std::size_t bytes : {10U, 300U << 10U, 20U, 16U << 10U, (16U << 10U) - 1}) {
            EXPECT_EQ(rig.send(here, stream(6, sent, bytes)), 0);
            sent += bytes;
            if (round % 3 == 0) rig.turn(0);
        }
        EXPECT_TRUE(rig.until([&] { return there.receive(), there.received().size() > heard; }));
        heard = there.received().size();
    }
    EXPECT_TRUE(rig.until([&] { return there.receive(), there.received().size() >= sent; }));
    EXPECT_TRUE(there.received() == stream(6, 0, sent));
    EXPECT_TRUE(rig.until([&] { return rig.of(here).unsent == 0; }));
}

// Nor does it matter how a peer sends, and changes the way in which it does.
TEST_P(NetEngine, WhoSendsMuchThenLittleThenMuchIsHeardWhole) {
    auto [there, here] = rig.connect();
    std::size_t sent = 0;
    const auto all_of = [&](std::size_t bytes) {
        for (const std::size_t end = sent + bytes; sent < end; rig.turn(0))
            sent += there.send(stream(7, sent, end - sent));
        return rig.until([&] { return rig.of(here).received.size() == sent; });
    };
    for (int round = 0; round < 3; ++round) {
        for (int i = 0; i < 8; ++i) EXPECT_TRUE(all_of(100'000));
        for (int i = 0; i < 40; ++i) EXPECT_TRUE(all_of(1));
    }
    EXPECT_TRUE(all_of(1U << 20U));
    rig.pause(here);
    rig.round_trip();
    const std::string held = stream(7, sent, 30'000);
    sent += there.send(held);
    there.shutdown_send();
    rig.round_trip();
    EXPECT_LT(rig.of(here).received.size(), sent);
    rig.resume(here);
    EXPECT_TRUE(rig.until([&] { return rig.of(here).ended; }));
    EXPECT_TRUE(rig.of(here).received == stream(7, 0, sent));
}

// (I4) Also when what there is to be heard of it was known before the pause.
TEST_P(NetEngine, WhoSendsMuchIsNotHeardFromWithinAReportThatPausesIt) {
    std::vector<engine_rig::link> links;
    for (int i = 0; i < 2; ++i) links.push_back(rig.connect());
    std::size_t sent = 0;
    const auto both_send = [&](std::size_t bytes) {
        for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(links[i].there.send(stream(i, sent, bytes)), bytes);
        sent += bytes;
    };
    const auto heard = [&](std::size_t i) { return rig.of(links[i].here).received.size(); };
    for (int i = 0; i < 10; ++i) {
        both_send(20'000);
        EXPECT_TRUE(rig.until([&] { return heard(0) == sent && heard(1) == sent; }));
    }
    rig.when_bytes = [&](connection_token token) {
        const connection_token other = links[token.index == links[0].here.index ? 1 : 0].here;
        if (!rig.of(other).paused) rig.pause(other);
    };
    both_send(20'000);
    EXPECT_TRUE(rig.until([&] { return heard(0) == sent || heard(1) == sent; }));
    rig.when_bytes = nullptr;
    rig.round_trip();
    const std::size_t quiet = heard(0) == sent ? 1 : 0;
    EXPECT_EQ(heard(quiet), sent - 20'000);
    rig.resume(links[quiet].here);
    EXPECT_TRUE(rig.until([&] { return heard(quiet) == sent; }));
    for (std::size_t i = 0; i < 2; ++i) EXPECT_TRUE(rig.of(links[i].here).received == stream(i, 0, sent));
}

// Its end is met where its bytes are.
TEST_P(NetEngine, WhoSendsMuchAndBreaksIsReported) {
    auto [there, here] = rig.connect();
    const std::string much = stream(8, 0, 1U << 20U);
    for (std::size_t sent = 0; sent < much.size(); rig.turn(0)) sent += there.send(std::string_view(much).substr(sent));
    EXPECT_TRUE(rig.until([&] { return rig.of(here).received.size() == much.size(); }));
    there.reset();
    EXPECT_TRUE(rig.until([&] { return rig.of(here).error != 0; }));
    EXPECT_FALSE(rig.of(here).ended);
}

// A reader that stands still holds up nobody else, and gets everything once it reads.
TEST_P(NetEngine, ASlowReaderGetsAllInOrderAndDelaysNobody) {
    auto [there, here] = rig.connect(64 << 10);
    const std::size_t sent = fill(here, 3);
    rig.round_trip();
    EXPECT_GT(rig.of(here).unsent, 0U);
    EXPECT_EQ(rig.of(here).waiting, rig.of(here).unsent) << "the server learns that it waits";
    EXPECT_TRUE(rig.until([&] { return there.receive(), there.received().size() >= sent; }));
    EXPECT_TRUE(there.received() == stream(3, 0, sent));
    EXPECT_TRUE(rig.until([&] { return rig.of(here).unsent == 0; }));
}

// (I7) A peer that always has more for us is not heard to its end before another is.
TEST_P(NetEngine, OneTalkerDoesNotKeepATurnToItself) {
    auto [talker, loud] = rig.connect();
    auto [other, quiet] = rig.connect();
    constexpr std::size_t endless = 64U << 20U, fair = 8U << 20U;
    const std::string piece(64U << 10U, 't');
    std::size_t sent = talker.send(piece);
    rig.when_bytes = [&](connection_token token) {
        if (token.index == loud.index && sent < endless) sent += talker.send(piece);
    };
    ASSERT_EQ(other.send("x"), 1U);
    EXPECT_TRUE(rig.until([&] { return !rig.of(quiet).received.empty(); }));
    EXPECT_LT(sent, fair);
    rig.when_bytes = nullptr;
    EXPECT_TRUE(rig.until([&] { return rig.of(loud).received.size() == sent; }));
}

// (I5) Also while each turn has more to tell than it may.
TEST_P(NetEngine, WhatWaitsIsToldHoweverMuchElseHappens) {
    constexpr std::size_t others = 1100;
    rlimit usual{};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &usual), 0);
    const rlimit many{std::min<rlim_t>(usual.rlim_max, 4096), usual.rlim_max};
    if (many.rlim_cur < others + 100) GTEST_SKIP() << "needs: " << others + 100 << " descriptors (ulimit -n)";
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &many), 0);
    {
        const int little = 4096;
        ASSERT_EQ(::setsockopt(rig.listener(), SOL_SOCKET, SO_SNDBUF, &little, sizeof little), 0);
        auto [there, here] = rig.connect(4096);
        std::vector<net::file_descriptor> events;
        for (std::size_t i = 0; i < others; ++i) {
            events.emplace_back(::eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK));
            rig.engine().watch(events.back().get());
        }
        // In pieces that are taken whole, or not at all.
        EXPECT_TRUE(rig.until([&] {
            if (rig.of(here).unsent == 0 && rig.send(here, std::string(100, 'w')) != 0) return false;
            return rig.of(here).waiting != 0;
        }));
        for (const auto& event : events) rig.engine().unwatch(event.get());
        rig.remove(here, true);
        rig.turn(0);
    }
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &usual), 0);
}

// --- pauses

TEST_P(NetEngine, APausedConnectionIsQuietAndLosesNothing) {
    auto [there, here] = rig.connect();
    EXPECT_EQ(there.send(stream(4, 0, 100)), 100U);
    ASSERT_TRUE(rig.until([&] { return rig.of(here).received.size() == 100; }));
    rig.pause(here);
    EXPECT_EQ(there.send(stream(4, 100, 50'000)), 50'000U);
    there.shutdown_send();
    rig.round_trip();
    EXPECT_EQ(rig.of(here).received.size(), 100U);
    EXPECT_EQ(rig.send(here, "answered all the same"), 0);
    EXPECT_TRUE(rig.until([&] { return there.receive(), there.received() == "answered all the same"; }));
    rig.resume(here);
    EXPECT_TRUE(rig.until([&] { return rig.of(here).ended; }));
    EXPECT_TRUE(rig.of(here).received == stream(4, 0, 50'100));
}

// A pause inside on_bytes holds for what the kernel has already handed over.
TEST_P(NetEngine, APauseHoldsFromWithinTheReport) {
    auto [there, here] = rig.connect();
    rig.when_bytes = [&](connection_token token) {
        if (token.index == here.index) rig.pause(token);
    };
    std::size_t sent = 0;
    while (sent < 400'000) {
        const std::size_t n = there.send(stream(5, sent, 100'000));
        sent += n;
        if (n == 0) break;
    }
    std::size_t before = 0;
    EXPECT_TRUE(rig.until([&] {
        const std::size_t now = rig.of(here).received.size();
        if (std::exchange(before, now) != now && now < sent) rig.round_trip();  // quiet, though there is more
        if (rig.of(here).paused) rig.resume(here);
        return now == sent;
    }));
    EXPECT_TRUE(rig.of(here).received == stream(5, 0, sent));
    rig.when_bytes = nullptr;
}

// What is kept of a paused connection is memory that somebody has to count.
TEST_P(NetEngine, WhatIsKeptOfAPausedConnectionIsTold) {
    auto [there, here] = rig.connect();
    rig.when_bytes = [&](connection_token token) {
        if (token.index == here.index) rig.pause(token);
    };
    std::size_t sent = 0;
    for (std::size_t n = 1; n != 0 && sent < 100'000; sent += n) n = there.send(stream(7, sent, 100'000 - sent));
    ASSERT_TRUE(rig.until([&] { return rig.of(here).paused; }));
    rig.round_trip();
    const std::size_t kept = rig.engine().held(here);
    EXPECT_EQ(kept, rig.told_held) << "some was kept without a word";
    if (rig.engine().name() == "epoll")
        EXPECT_EQ(kept, 0U);
    else
        EXPECT_GT(kept, 0U) << "many receives end by one look at a socket with so much";
    rig.when_bytes = nullptr;
    rig.resume(here);
    EXPECT_TRUE(rig.until([&] { return rig.of(here).received.size() == sent; }));
    EXPECT_TRUE(rig.of(here).received == stream(7, 0, sent));
    EXPECT_EQ(rig.engine().held(here), 0U);
}

// --- ends and breaks

TEST_P(NetEngine, AResetIsReportedOnce) {
    auto [there, here] = rig.connect();
    there.reset();
    EXPECT_TRUE(rig.until([&] { return rig.of(here).error != 0; }));
    rig.round_trip();
    EXPECT_NE(rig.send(here, "to nobody"), 0);
    rig.round_trip();
    rig.remove(here, true);
}

// (I4) Whoever has paused a connection for long learns of its break all the same: by no resume, nor by a send.
TEST_P(NetEngine, AResetWhilePausedIsReported) {
    using link = engine_rig::link;
    const std::vector<std::function<void(link&)>> before{
        [](link&) {},
        [&](link& of) {  // bytes that nobody has read
            EXPECT_EQ(of.there.send("unread"), 6U);
            rig.round_trip();
        },
        [&](link& of) {  // the end of input, which is none of the connection
            of.there.shutdown_send();
            rig.round_trip();
            EXPECT_EQ(rig.of(of.here).error, 0);
        },
        [&](link& of) {  // other pauses
            for (unsigned i = 0; i < 3; ++i) {
                rig.resume(of.here);
                EXPECT_EQ(of.there.send("read"), 4U);
                EXPECT_TRUE(rig.until([&] { return rig.of(of.here).received.size() == (i + 1) * 4; }));
                rig.pause(of.here);
                if (i == 1) rig.turn(0);
            }
        },
        [&](link& of) {  // bytes that are sent
            EXPECT_EQ(rig.send(of.here, "sent"), 0);
            EXPECT_TRUE(rig.until([&] { return rig.of(of.here).unsent == 0; }));
        },
    };
    for (const auto& happens : before) {
        link of = rig.connect();
        rig.pause(of.here);
        happens(of);
        of.there.reset();
        EXPECT_TRUE(rig.until([&] { return rig.of(of.here).error != 0; }));
        EXPECT_FALSE(rig.of(of.here).ended);
        rig.round_trip();
        rig.remove(of.here);
    }
}

// (I3) Nobody reads any more, and perhaps nothing is ever sent.
TEST_P(NetEngine, AResetBehindTheEndOfInputIsReported) {
    using link = engine_rig::link;
    const std::vector<std::function<void(link&)>> before{
        [](link&) {},
        [&](link& of) {  // a pause before the end, which is told behind it
            rig.pause(of.here);
            of.there.shutdown_send();
            rig.round_trip();
            rig.resume(of.here);
        },
        [&](link& of) {  // a pause that is over
            rig.pause(of.here);
            rig.turn(0);
            rig.resume(of.here);
            rig.turn(0);
        },
        [&](link& of) {  // bytes that are sent
            EXPECT_EQ(rig.send(of.here, "sent"), 0);
            EXPECT_TRUE(rig.until([&] { return rig.of(of.here).unsent == 0; }));
        },
    };
    for (const bool at_once : {false, true})
        for (const auto& happens : before) {
            link of = rig.connect();
            happens(of);
            of.there.shutdown_send();
            if (!at_once) {
                EXPECT_TRUE(rig.until([&] { return rig.of(of.here).ended; }));
                rig.round_trip();
                EXPECT_EQ(rig.of(of.here).error, 0);
            }
            of.there.reset();
            EXPECT_TRUE(rig.until([&] { return rig.of(of.here).error != 0; }));
            rig.round_trip();
            rig.remove(of.here);
        }
}

// Whether the pause or the break was there first, it is reported once.
TEST_P(NetEngine, AResetBesideAPauseIsReported) {
    for (int round = 0; round < 6; ++round) {
        auto [there, here] = rig.connect();
        rig.pause(here);
        rig.round_trip();
        rig.resume(here);
        if (round % 2 != 0) rig.turn(0);
        there.reset();
        if (round % 3 == 1 && rig.of(here).error == 0) rig.turn(0);
        if (round % 3 != 2 && rig.of(here).error == 0) rig.pause(here);
        EXPECT_TRUE(rig.until([&] { return rig.of(here).error != 0; })) << round;
        rig.round_trip();
        rig.remove(here);
    }
}

// Both sides have said their last: that is no break, neither of a connection that was not read to its end yet nor of
// one that was.
TEST_P(NetEngine, AnEndInOrderOnBothSidesIsNoBreak) {
    auto [there, here] = rig.connect();
    rig.pause(here);
    EXPECT_EQ(there.send("last words"), 10U);
    there.shutdown_send();
    rig.engine().shutdown_send(here);
    rig.round_trip();
    EXPECT_EQ(rig.of(here).error, 0);
    rig.resume(here);
    EXPECT_TRUE(rig.until([&] { return rig.of(here).ended || rig.of(here).error != 0; }));
    EXPECT_EQ(rig.of(here).received, "last words");

    auto [other, read] = rig.connect();
    other.shutdown_send();
    EXPECT_TRUE(rig.until([&] { return rig.of(read).ended; }));
    rig.engine().shutdown_send(read);
    rig.round_trip();
    EXPECT_EQ(rig.of(here).error, 0);
    EXPECT_EQ(rig.of(read).error, 0);
}

TEST_P(NetEngine, AResetWhileOutputWaitsEndsIt) {
    auto [there, here] = rig.connect(64 << 10);
    (void)fill(here, 6);
    there.reset();
    EXPECT_TRUE(rig.until([&] { return rig.of(here).error != 0; }));
    rig.round_trip();
    EXPECT_NE(rig.send(here, "to nobody"), 0);
    rig.remove(here, true);
}

TEST_P(NetEngine, RemovingWithAResetIsSeenByThePeer) {
    auto [there, here] = rig.connect();
    rig.remove(here, true);
    EXPECT_TRUE(rig.until([&] { return there.receive(), there.ended(); }));
    EXPECT_EQ(there.send("x"), 0U) << "an end in order would still take a byte";
}

// Also outside wait(), with a receive and a send under way.
TEST_P(NetEngine, FinishClosesWhatWasRemoved) {
    auto [there, here] = rig.connect(64 << 10);
    auto [other, idle] = rig.connect();
    (void)fill(here, 8);
    rig.remove(here);
    rig.remove(idle);
    rig.engine().finish();
    const auto last = steady::now() + deadline;
    while (!(there.ended() && other.ended()) && steady::now() < last) {
        there.receive();
        other.receive();
    }
    EXPECT_TRUE(there.ended() && other.ended());
}

// Nothing is reported of it afterwards (the sink looks), and its place serves another at once.
TEST_P(NetEngine, ConnectionsMayBeRemovedFromWithinEachReport) {
    for (int round = 0; round < 3; ++round) {
        auto [there, here] = rig.connect(64 << 10);
        bool removed = false;
        const auto remove_it = [&, place = here](connection_token token) {
            if (removed || token.index != place.index || token.generation != place.generation) return;
            removed = true;
            rig.remove(token);
        };
        if (round == 0) {
            rig.when_bytes = remove_it;
            const std::string much(300'000, 'm');
            EXPECT_GT(there.send(much), 0U);
        } else if (round == 1) {
            rig.when_end = remove_it;
            there.shutdown_send();
        } else {
            (void)fill(here, 7);
            rig.when_sent = remove_it;
        }
        EXPECT_TRUE(rig.until([&] { return there.receive(), removed; }));
        rig.when_bytes = rig.when_end = rig.when_sent = nullptr;
        auto [next, successor] = rig.connect();
        EXPECT_EQ(successor.index, here.index);
        EXPECT_NE(successor.generation, here.generation);
        EXPECT_EQ(next.send("mine"), 4U);
        EXPECT_TRUE(rig.until([&] { return rig.of(successor).received == "mine"; }));
        rig.remove(successor, true);
    }
}

// What a predecessor had under way in either direction never shows in its successor.
TEST_P(NetEngine, APlaceServesManyInTurn) {
    const std::uint64_t times = test::scaled(1000);
    const std::string much(100'000, 'm');
    connection_token first{};
    for (std::uint64_t i = 0; i < times; ++i) {
        auto [there, here] = rig.connect();
        if (i == 0) first = here;
        ASSERT_EQ(here.index, first.index);
        const std::string word = std::to_string(i);
        ASSERT_EQ(there.send(word), word.size());
        ASSERT_TRUE(rig.until([&] { return rig.of(here).received == word; }));
        ASSERT_EQ(rig.send(here, word), 0);
        ASSERT_TRUE(rig.until([&] { return there.receive(), there.received() == word; }));
        (void)there.send(much);  // unread, and unsent, when it ends
        ASSERT_EQ(rig.send(here, much), 0);
        if (i % 3 == 0) there.reset();
        rig.remove(here, true);
    }
}

// --- arrivals

TEST_P(NetEngine, ARefusedConnectionIsToldAndClosed) {
    rig.policy = arrivals::refuse;
    peer there(rig.port());
    EXPECT_EQ(there.send("a request that nobody will read"), 31U);
    EXPECT_TRUE(rig.until([&] { return there.receive(), there.ended(); }));
    EXPECT_EQ(there.received(), "busy");
    EXPECT_EQ(rig.refused, 1U);
}

TEST_P(NetEngine, ARefusalReachesWhoHasSentMuch) {
    rig.policy = arrivals::refuse;
    peer there(rig.port());
    EXPECT_EQ(there.send(std::string(60'000, 'm')), 60'000U);
    EXPECT_TRUE(rig.until([&] { return there.receive(), there.ended(); }));
    EXPECT_EQ(there.received(), "busy");
    EXPECT_EQ(there.send("x"), 1U) << "a reset, which may destroy the reply on its way";
}

TEST_P(NetEngine, AConnectionLeftAloneIsClosed) {
    rig.policy = arrivals::leave;
    peer there(rig.port());
    EXPECT_TRUE(rig.until([&] { return there.receive(), there.ended(); }));
    EXPECT_EQ(there.received(), "");
    EXPECT_EQ(rig.left_alone, 1U);
}

TEST_P(NetEngine, ASinkThatThrowsCostsThatConnectionAlone) {
    rig.policy = arrivals::fail;
    peer there(rig.port());
    EXPECT_THROW((void)rig.until([] { return false; }), std::runtime_error);
    rig.policy = arrivals::take;
    EXPECT_TRUE(rig.until([&] { return there.receive(), there.ended(); }));
    rig.round_trip();
}

TEST_P(NetEngine, AConnectionMayBreakBeforeItIsTaken) {
    std::unique_ptr<peer> there;
    rig.before_deciding = [&] {
        if (there) there->reset();
    };
    there = std::make_unique<peer>(rig.port());
    ASSERT_TRUE(rig.until([&] { return rig.taken == 1; }));
    rig.before_deciding = nullptr;
    const connection_token here = rig.newest;
    EXPECT_TRUE(rig.until([&] { return rig.of(here).error != 0; }));
    rig.remove(here);
    rig.round_trip();
}

// O_NONBLOCK is the open file's, so it is everybody's who shares the listener: it stays, and two may accept from one.
TEST_P(NetEngine, AListenerMayBeShared) {
    engine_rig other("epoll", net::file_descriptor(::fcntl(rig.listener(), F_DUPFD_CLOEXEC, 0)));
    std::deque<peer> peers;
    for (std::size_t i = 1; i <= 20; ++i) {
        rig.turn(0);
        ASSERT_NE(::fcntl(rig.listener(), F_GETFL) & O_NONBLOCK, 0);
        peers.emplace_back(rig.port());
        if (i % 2 == 0) other.turn(0);
        ASSERT_TRUE(rig.until([&] { return other.turn(0), rig.taken + other.taken == i; }));
    }
    EXPECT_EQ(other.violations(), "");
    rig.engine().drain(rig.listener());
    EXPECT_TRUE(rig.until([&] { return rig.drained != 0; }));
    peers.emplace_back(rig.port());
    EXPECT_TRUE(other.until([&] { return rig.taken + other.taken == 21; }));
}

TEST_P(NetEngine, UnlistenLeavesTheQueueAlone) {
    std::deque<peer> waiting;
    for (int i = 0; i < 5; ++i) waiting.emplace_back(rig.port());
    rig.engine().unlisten(rig.listener());
    rig.turn(0);
    rig.turn(0);
    EXPECT_EQ(rig.taken, 0U);
    rig.engine().listen(rig.listener());
    EXPECT_TRUE(rig.until([&] { return rig.taken == 5; }));
}

TEST_P(NetEngine, ADrainHandsOverTheQueueAndThenSaysSo) {
    std::deque<peer> waiting;
    for (std::size_t i = 0; i < 100; ++i) {
        auto& there = waiting.emplace_back(rig.port());
        ASSERT_EQ(there.send("q"), 1U);
    }
    rig.engine().drain(rig.listener());
    EXPECT_EQ(rig.drained, 0U) << "reports come inside wait()";
    ASSERT_TRUE(rig.until([&] { return rig.drained != 0; }));
    EXPECT_EQ(rig.taken, 100U);
    const std::uint16_t port = rig.port();
    rig.close_listener();
    EXPECT_THROW(peer{port}, std::system_error) << "nobody listens any more";
    std::uint32_t heard = 0;
    EXPECT_TRUE(rig.until([&] {
        heard = 0;
        for (std::uint32_t i = 0; i < 100; ++i) heard += rig.of({i, 0}).received == "q" ? 1U : 0U;
        return heard == 100;
    })) << heard;
    EXPECT_EQ(rig.drained, 1U);
}

// The child has room for three connections, and too few descriptors for making a table of a ring. Those beyond are
// refused at once, and when there is room again they are taken again.
TEST_P(NetEngine, OutOfDescriptorsIsRefusedAndPasses) {
    const auto child = test::in_child([name = GetParam()]() -> std::string {
        // UBSan opens a pipe when it first meets a type, and takes the object for a bad one when it cannot. Another
        // rig, since an accept of io_uring that is under way keeps the limit of descriptors it was started with.
        engine_rig(name).turn(0);
        (void)error(errc::unsupported, "io_uring", "an error is a type, too");
        engine_rig small(name);
        std::deque<peer> peers;
        for (int i = 0; i < 8; ++i) peers.emplace_back(small.port());
        const int next = ::dup(0);  // the lowest free descriptor
        if (next < 0) return "dup failed";
        ::close(next);
        rlimit usual{};
        if (::getrlimit(RLIMIT_NOFILE, &usual) != 0) return "getrlimit failed";
        rlimit few = usual;
        few.rlim_cur = static_cast<rlim_t>(next) + 3;
        if (::setrlimit(RLIMIT_NOFILE, &few) != 0) return "setrlimit failed";
        const bool decided = small.until([&] { return small.taken + small.refused >= 8; });
        if (!decided || small.taken != 3)
            return std::to_string(small.taken).append(" taken, refused ").append(std::to_string(small.refused));
        std::size_t told = 0;
        const bool all_told = small.until([&] {
            told = 0;
            for (auto& there : peers) {
                there.receive();
                told += there.received() == "full" && there.ended() ? 1U : 0U;
            }
            return told == 5;
        });
        if (!all_told) return std::to_string(told).append(" were told");
        if (::setrlimit(RLIMIT_NOFILE, &usual) != 0) return "setrlimit failed";
        small.round_trip();
        return small.violations();
    });
    EXPECT_TRUE(child.success()) << child.text();
}

// A limit that changes while the engine listens: a lower one refuses those beyond it, a higher one takes them.
TEST_P(NetEngine, TheLimitOfDescriptorsIsThatOfTheMoment) {
    const auto child = test::in_child([name = GetParam()]() -> std::string {
        engine_rig(name).turn(0);  // as above
        (void)error(errc::unsupported, "io_uring", "an error is a type, too");
        engine_rig small(name);
        small.turn(0);
        std::deque<peer> peers;
        for (int i = 0; i < 8; ++i) peers.emplace_back(small.port());
        const int next = ::dup(0);
        if (next < 0) return "dup failed";
        ::close(next);
        rlimit usual{};
        if (::getrlimit(RLIMIT_NOFILE, &usual) != 0) return "getrlimit failed";
        rlimit few = usual;
        few.rlim_cur = static_cast<rlim_t>(next) + 3;
        if (::setrlimit(RLIMIT_NOFILE, &few) != 0) return "setrlimit failed";
        if (!small.until([&] { return small.taken + small.refused >= 8; }) || small.taken != 3)
            return std::to_string(small.taken).append(" taken, refused ").append(std::to_string(small.refused));
        if (::setrlimit(RLIMIT_NOFILE, &usual) != 0) return "setrlimit failed";
        for (int i = 0; i < 8; ++i) peers.emplace_back(small.port());
        if (!small.until([&] { return small.taken + small.refused >= 16; }) || small.taken != 11)
            return std::to_string(small.taken).append(" taken with the usual limit");
        return small.violations();
    });
    EXPECT_TRUE(child.success()) << child.text();
}

/// As long as it lives, this process gets no descriptor more.
class descriptor_lack {
 public:
    descriptor_lack() {
        const int next = ::dup(0);  // the lowest free one
        if (next < 0 || ::close(next) != 0 || ::getrlimit(RLIMIT_NOFILE, &usual_) != 0)
            throw std::system_error(errno, std::generic_category(), "getrlimit");
        rlimit none = usual_;
        none.rlim_cur = static_cast<rlim_t>(next);
        if (::setrlimit(RLIMIT_NOFILE, &none) != 0)
            throw std::system_error(errno, std::generic_category(), "setrlimit");
    }
    ~descriptor_lack() { (void)::setrlimit(RLIMIT_NOFILE, &usual_); }
    descriptor_lack(const descriptor_lack&) = delete;
    descriptor_lack& operator=(const descriptor_lack&) = delete;

 private:
    rlimit usual_{};
};

std::time_t second_of_turns() {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return now.tv_sec;
}

// A ring looks at its queue once in each second of the clock, by a call that fails for lack of descriptors also where
// nobody waits, while its accept is under way all the same.
TEST_P(NetEngine, AnAcceptThatLackedDescriptorsCanBeStopped) {
    const auto child = test::in_child([name = GetParam()]() -> std::string {
        engine_rig(name).turn(0);  // as above
        (void)error(errc::unsupported, "io_uring", "an error is a type, too");
        engine_rig small(name);
        small.turn(0);
        {
            const descriptor_lack lack;
            for (const std::time_t begin = second_of_turns(); second_of_turns() == begin;) small.turn(20);
            small.turn(0);
        }
        small.engine().drain(small.listener());
        for (int turns = 0; small.drained == 0; ++turns) {
            if (turns == 1000) return "the drain has no end";
            small.turn(5);
        }
        return small.violations();
    });
    EXPECT_TRUE(child.success()) << child.text();
}

// Who leaves a listener to others leaves them also those whom it has no descriptor for.
TEST_P(NetEngine, LeavingWithoutDescriptorsRefusesNobody) {
    const auto child = test::in_child([name = GetParam()]() -> std::string {
        engine_rig(name).turn(0);  // as above
        (void)error(errc::unsupported, "io_uring", "an error is a type, too");
        engine_rig old(name);
        std::deque<peer> peers;
        for (int i = 0; i < 8; ++i) peers.emplace_back(old.port());
        {
            const descriptor_lack lack;
            old.engine().leave(old.listener());
            if (!old.until([&] { return old.drained != 0; })) return "it does not leave";
        }
        if (old.taken + old.refused != 0)
            return std::to_string(old.taken).append(" taken, refused ").append(std::to_string(old.refused));
        engine_rig next(name, net::file_descriptor(::fcntl(old.listener(), F_DUPFD_CLOEXEC, 0)));
        if (!next.until([&] { return next.taken == 8; })) return std::to_string(next.taken).append(" came over");
        return old.violations() + next.violations();
    });
    EXPECT_TRUE(child.success()) << child.text();
}

// A connection in the table of a ring is no descriptor, and leaves none when it goes.
TEST_P(NetEngine, OnlyDirectConnectionsAreNoDescriptors) {
    const auto descriptors = [] {
        return std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                             std::filesystem::directory_iterator());
    };
    (void)rig.connect();  // whatever the first one makes
    const auto before = descriptors();
    std::deque<engine_rig::link> links;
    for (int i = 0; i < 10; ++i) links.push_back(rig.connect());
    EXPECT_EQ(descriptors() - before, GetParam() == "io_uring_direct" ? 10 : 20);
    for (const auto& link : links) rig.engine().remove(link.here, true);
    rig.engine().finish();
    EXPECT_EQ(descriptors() - before, 10);
    for (auto& link : links) {
        while (!link.there.ended()) link.there.receive();
        EXPECT_TRUE(link.there.was_reset());
    }
}

// A ring that is too small for a turn costs time and nothing else, and that is counted.
TEST_P(NetEngine, WhatARingLacksIsCounted) {
    std::vector<net::file_descriptor> events;
    std::deque<engine_rig::link> links;
    for (int i = 0; i < 16; ++i) {
        links.push_back(rig.connect());
        events.emplace_back(::eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK));
    }
    const net::engine_shortages before = rig.engine().shortages();
    for (std::size_t i = 0; i < links.size(); ++i) {
        EXPECT_EQ(links[i].there.send(stream(i, 0, 4096)), 4096U);
        rig.engine().watch(events[i].get());
    }
    EXPECT_TRUE(rig.until([&] {
        return std::ranges::all_of(links, [&](const auto& one) { return rig.of(one.here).received.size() == 4096; });
    }));
    for (std::size_t i = 0; i < links.size(); ++i)
        EXPECT_TRUE(rig.of(links[i].here).received == stream(i, 0, 4096)) << i;
    const net::engine_shortages after = rig.engine().shortages();
    if (GetParam() == "io_uring_small") {
        EXPECT_GT(after.buffers, before.buffers);
        EXPECT_GT(after.completions, before.completions);
    } else {
        EXPECT_EQ(after.buffers + after.completions, 0U);
    }
    for (const auto& event : events) rig.engine().unwatch(event.get());
}

// --- other descriptors, wake-ups, time

TEST_P(NetEngine, AWatchedDescriptorIsReportedForAsLongAsItIsReadable) {
    const net::file_descriptor event(::eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK));
    ASSERT_TRUE(event);
    rig.engine().watch(event.get());
    EXPECT_TRUE(rig.until([&] { return rig.watched >= 3; }));
    EXPECT_EQ(rig.watched_fd, event.get());
    std::uint64_t value = 0;
    ASSERT_EQ(::read(event.get(), &value, sizeof value), static_cast<ssize_t>(sizeof value));
    rig.round_trip();  // takes with it what was on its way
    const std::size_t before = rig.watched;
    rig.round_trip();
    EXPECT_EQ(rig.watched, before);
    rig.engine().unwatch(event.get());
    value = 1;
    ASSERT_EQ(::write(event.get(), &value, sizeof value), static_cast<ssize_t>(sizeof value));
    rig.round_trip();
    EXPECT_EQ(rig.watched, before);
}

TEST_P(NetEngine, ADescriptorWatchedTwiceIsReportedOnce) {
    const net::file_descriptor event(::eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK));
    rig.when_watched = [](int fd) {  // only the first finds it readable
        std::uint64_t value = 0;
        EXPECT_EQ(::read(fd, &value, sizeof value), static_cast<ssize_t>(sizeof value));
    };
    rig.engine().watch(event.get());
    rig.engine().watch(event.get());
    EXPECT_TRUE(rig.until([&] { return rig.watched != 0; }));
    rig.round_trip();
    EXPECT_EQ(rig.watched, 1U);
    rig.engine().unwatch(event.get());
    const std::uint64_t value = 1;
    ASSERT_EQ(::write(event.get(), &value, sizeof value), static_cast<ssize_t>(sizeof value));
    rig.round_trip();
    EXPECT_EQ(rig.watched, 1U);
}

TEST_P(NetEngine, NothingIsReportedOnceItIsNoLongerWatched) {
    const net::file_descriptor one(::eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK));
    const net::file_descriptor other(::eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK));
    rig.when_watched = [&](int) {
        rig.engine().unwatch(one.get());
        rig.engine().unwatch(other.get());
    };
    rig.engine().watch(one.get());
    rig.engine().watch(other.get());
    EXPECT_TRUE(rig.until([&] { return rig.watched != 0; }));
    rig.round_trip();
    EXPECT_EQ(rig.watched, 1U);
}

TEST_P(NetEngine, WakesFromAnyThreadAlsoBeforeTheWait) {
    constexpr int for_long = 60'000;
    const auto begin = steady::now();
    rig.engine().wake();
    rig.turn(for_long);
    for (int i = 0; i < 100; ++i) {
        const std::jthread waker([&] { rig.engine().wake(); });
        rig.turn(for_long);
    }
    EXPECT_LT(steady::now() - begin, std::chrono::milliseconds(for_long));
}

TEST_P(NetEngine, AWaitEndsWithItsTime) {
    rig.turn(0);
    const auto begin = steady::now();
    int waits = 0;
    for (; steady::now() - begin < 45ms; ++waits) rig.turn(50);
    EXPECT_LT(waits, 10);  // the kernel interrupts one now and then, when it clears away a ring that is gone
}

// --- everything at once, against a model: both directions of each connection are streams whose bytes are known

struct model_link {
    peer there;
    connection_token here;
    std::uint64_t number;
    std::size_t from_peer = 0, to_peer = 0;
    bool shut = false;
};

TEST_P(NetEngine, RandomInterleavingsKeepEveryStreamWhole) {
    test::seeded_random random;
    std::deque<model_link> links;
    std::uint64_t next_number = 0;
    const auto renew = [&](std::size_t which) {
        auto [there, here] = rig.connect(64 << 10);
        model_link fresh{.there = std::move(there), .here = here, .number = next_number++};
        if (which == links.size())
            links.push_back(std::move(fresh));
        else
            links[which] = std::move(fresh);
    };
    while (links.size() < 16) renew(links.size());
    const auto right_so_far = [&](model_link& link) {
        const std::string& got = rig.of(link.here).received;
        link.there.receive();
        const std::string& answered = link.there.received();
        return got.size() <= link.from_peer && got == stream(link.number * 2, 0, got.size()) &&
               answered.size() <= link.to_peer && answered == stream(link.number * 2 + 1, 0, answered.size());
    };
    const std::uint64_t steps = test::scaled(4000);
    for (std::uint64_t step = 0; step < steps; ++step) {
        const std::size_t which = random.below(links.size());
        model_link& link = links[which];
        switch (random.below(12)) {
            case 0:
            case 1:
            case 2: {
                if (link.shut) break;
                link.from_peer += link.there.send(stream(link.number * 2, link.from_peer, random.below(40'000) + 1));
                break;
            }
            case 3:
            case 4: {
                if (rig.of(link.here).unsent > (1U << 20U)) break;
                const std::size_t bytes = random.below(80'000) + 1;
                ASSERT_EQ(rig.send(link.here, stream(link.number * 2 + 1, link.to_peer, bytes)), 0);
                link.to_peer += bytes;
                break;
            }
            case 5: rig.pause(link.here); break;
            case 6: rig.resume(link.here); break;
            case 7: link.there.receive(); break;
            case 8:
                if (random.below(8) == 0 && !std::exchange(link.shut, true)) link.there.shutdown_send();
                break;
            case 9:
                if (random.below(4) != 0) break;
                ASSERT_TRUE(right_so_far(link)) << "connection " << link.number << ", step " << step;
                rig.remove(link.here, random.below(2) == 0);
                renew(which);
                break;
            default: rig.turn(0);
        }
    }
    for (model_link& link : links) rig.resume(link.here);
    EXPECT_TRUE(rig.until([&] {
        bool all = true;
        for (model_link& link : links) {
            link.there.receive();
            const conversation& c = rig.of(link.here);
            all &= c.received.size() == link.from_peer && c.ended == link.shut && c.unsent == 0 &&
                   link.there.received().size() == link.to_peer;
        }
        return all;
    }));
    for (model_link& link : links) EXPECT_TRUE(right_so_far(link)) << "connection " << link.number;
}

// --- which engine

const net::handler nothing = [](const net::request&, net::response&) {};

net::server_options on(net::engine_choice choice) {
    net::server_options options;
    options.engine = choice;
    return options;
}

TEST(NetEngineChoice, AServerSaysWhatCarriesIt) {
    EXPECT_EQ(net::server({}, on(net::engine_choice::epoll), nothing).engine(), "epoll");
    if (const std::string lack = net::io_uring_lack(); !lack.empty()) GTEST_SKIP() << lack;
    EXPECT_EQ(net::server({}, on(net::engine_choice::io_uring), nothing).engine(), "io_uring");
    EXPECT_EQ(net::server({}, on(net::engine_choice::automatic), nothing).engine(), "io_uring");
    EXPECT_EQ(net::server({}, {}, nothing).engine(), "io_uring") << "automatic is the default";
}

TEST(NetEngineChoice, AutomaticTakesEpollWhereIoUringIsForbidden) {
    const auto child = test::in_child([]() -> std::string {
        if (!test::refuse_io_uring()) return "the filter was refused";
        const net::server automatic({}, on(net::engine_choice::automatic), nothing);
        if (automatic.engine() != "epoll") return "automatic took " + std::string(automatic.engine());
        try {
            const net::server insisting({}, on(net::engine_choice::io_uring), nothing);
            return "made all the same";
        } catch (const holdfast::error& e) {
            if (e.reason() != errc::unsupported || e.what() != net::io_uring_lack()) return e.what();
        }
        return net::io_uring_lack().find("forbidden, by a seccomp filter") != std::string::npos ? "" : "no reason";
    });
    EXPECT_TRUE(child.success()) << child.text();
}

// Kernels from 6.14 on count rings of ordinary users as locked memory. With 64 KiB of it a small ring can be made, and
// none of the engine's size: who asks beforehand is told so, too.
TEST(NetEngineChoice, TooLittleLockedMemoryIsToldWithItsCure) {
    for (const rlim_t bytes : {0U, 64U << 10U}) {
        const auto child = test::in_child([bytes]() -> std::string {
            constexpr uid_t nobody = 65534;  // root may lock what it likes
            const rlimit locked{bytes, bytes};
            if (::setrlimit(RLIMIT_MEMLOCK, &locked) != 0) return "setrlimit failed";
            if (::geteuid() == 0 && (::setgid(nobody) != 0 || ::setuid(nobody) != 0)) return "setuid failed";
            const net::server automatic({}, on(net::engine_choice::automatic), nothing);
            const std::string lack = net::io_uring_lack();
            if (automatic.engine() == "io_uring" && lack.empty()) return "not counted";
            if (automatic.engine() != "epoll" || lack.find("(ulimit -l)") == std::string::npos)
                return std::string(automatic.engine()).append(" was taken: ").append(lack);
            try {
                const net::server insisting({}, on(net::engine_choice::io_uring), nothing);
                return "made all the same";
            } catch (const holdfast::error& e) {
                return e.reason() == errc::unsupported && e.what() == lack ? "" : e.what();
            }
        });
        if (child.failure == "not counted") GTEST_SKIP() << "needs: a kernel that counts rings as locked memory";
        EXPECT_TRUE(child.success()) << bytes << " bytes: " << child.text();
    }
}

// The process may have 128 descriptors, and serves 180 connections at once; places that were used are used again.
TEST(NetServerOnIoUring, HoldsMoreConnectionsThanDescriptors) {
    if (const std::string lack = net::io_uring_lack(); !lack.empty()) GTEST_SKIP() << lack;
    if (const std::string lack = net::direct_lack(); !lack.empty()) GTEST_SKIP() << lack;
    test::child_process child([](test::channel& talk) -> std::string {
        const rlimit few{128, 128};
        if (::setrlimit(RLIMIT_NOFILE, &few) != 0) return "setrlimit failed";
        const int listener = net::listen_tcp("127.0.0.1:0");
        net::server server({listener}, on(net::engine_choice::io_uring), test::echo);
        server.watch(talk.read_fd(), [&] { server.stop(); });
        talk.send(net::bound_port(listener));
        server.run();
        talk.send(server.counters());
        return {};
    });
    const auto port = child.talk().receive<std::uint16_t>();
    ASSERT_TRUE(port);
    std::list<test::http_client> clients;
    const auto connect = [&] { return clients.emplace_back(*port).ask(test::get("/new")).status; };
    while (clients.size() < 180) ASSERT_EQ(connect(), 200) << clients.size();
    for (int i = 0; i < 300; ++i) {
        clients.pop_front();
        ASSERT_EQ(connect(), 200) << i;
    }
    for (auto& client : clients) EXPECT_EQ(client.ask(test::get("/again")).status, 200);
    child.talk().signal();
    const auto counters = child.talk().receive<net::server_counters>();
    EXPECT_TRUE(child.wait().success()) << child.wait().text();
    ASSERT_TRUE(counters);
    EXPECT_EQ(counters->over_descriptors, 0U);
}

INSTANTIATE_TEST_SUITE_P(Engines, NetEngine,
                         ::testing::Values("epoll", "io_uring", "io_uring_small", "io_uring_direct"),
                         [](const ::testing::TestParamInfo<std::string>& engine) { return engine.param; });

}  // namespace
