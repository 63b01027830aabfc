// SPDX-License-Identifier: Apache-2.0
// How a client finds an address that answers, beside ones that refuse or are silent (RFC 8305), and beside names that
// hang. Where the next address must not wait for time, the delay is an hour.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <future>
#include <iterator>
#include <memory>
#include <mutex>
#include <new>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "holdfast/error.hpp"
#include "net/client_resolver.hpp"
#include "net/file_descriptor.hpp"
#include "support/driven_client.hpp"
#include "support/http_server.hpp"
#include "support/scripted_server.hpp"

namespace {

using namespace holdfast;
using namespace std::chrono_literals;
using net::client_error;
using test::driven_client;
using test::scripted_peer;

/// An address that takes no connection and refuses none: its listener accepts nobody, and has no place left.
class silent_address {
 public:
    explicit silent_address(const char* address, std::uint16_t port = 0) {
        sockaddr_in where{};
        where.sin_family = AF_INET;
        where.sin_port = htons(port);
        ::inet_pton(AF_INET, address, &where.sin_addr);
        socklen_t size = sizeof where;
        listener_.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        if (::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&where), sizeof where) != 0 ||
            ::listen(listener_.get(), 0) != 0)
            return;
        ::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&where), &size);
        for (int i = 0; i < 4; ++i) {
            fillers_.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
            if (::connect(fillers_.back().get(), reinterpret_cast<const sockaddr*>(&where), sizeof where) == 0)
                continue;
            pollfd p{fillers_.back().get(), POLLOUT, 0};
            if (::poll(&p, 1, 0) == 0) port_ = ntohs(where.sin_port);
        }
    }
    /// 0: it could not be made.
    [[nodiscard]] std::uint16_t port() const noexcept { return port_; }

 private:
    net::file_descriptor listener_;
    std::vector<net::file_descriptor> fillers_;
    std::uint16_t port_ = 0;
};

net::client_options with(std::vector<std::string> addresses, std::chrono::milliseconds delay) {
    net::client_options options;
    options.resolve = [addresses = std::move(addresses)](const std::string&) { return addresses; };
    options.address_delay = delay;
    options.timeouts = {.connect = 3h, .first_byte = 3h, .silence = 3h, .whole = 3h};
    return options;
}

std::string url(std::uint16_t port) { return "http://several.test:" + std::to_string(port) + "/"; }

std::ptrdiff_t descriptors() {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator());
}

struct ClientConnect : ::testing::Test {
    ClientConnect() : server(test::echo), silent("127.0.0.2", server.port()) { server.start(); }
    void SetUp() override {
        if (silent.port() == 0) GTEST_SKIP() << "needs: an address of this machine that does not answer";
    }

    test::running_server server;
    silent_address silent;
};

TEST_F(ClientConnect, TriesTheNextAddressBesideASilentOne) {
    driven_client client(with({"127.0.0.2", "127.0.0.1"}, 1ms));
    const auto before = descriptors();
    const auto id = client.start({.url = url(server.port())});
    const auto result = client.end_of(id);
    EXPECT_TRUE(result.ok()) << result.detail;
    EXPECT_EQ(result.attempts, 1U);
    EXPECT_EQ(client.counters().connected, 1U);
    EXPECT_EQ(client.counters().open, 1U);
    server.stop();  // which may close its side at any time until then
    EXPECT_LE(descriptors(), before + 1) << "the silent one is closed";
    EXPECT_TRUE(result.ok());
}

TEST_F(ClientConnect, TriesTheNextAddressAtOnceBehindARefusal) {
    driven_client client(with({"127.0.0.77", "127.0.0.1"}, 1h));
    EXPECT_TRUE(client.get(url(server.port())).ok());
}

TEST_F(ClientConnect, ARefusalBesideASilentAddressBringsTheNext) {
    driven_client client(with({"127.0.0.2", "127.0.0.77", "127.0.0.1"}, 1ms));
    EXPECT_TRUE(client.get(url(server.port())).ok());
}

TEST_F(ClientConnect, GivesEachAddressItsTurnWithinTheTime) {
    auto options = with({"127.0.0.2", "127.0.0.1"}, 1h);
    driven_client client(std::move(options));
    net::client_request asked{.url = url(server.port())};
    asked.timeouts.connect = 2s;  // half of it is the first one's
    EXPECT_TRUE(client.ask(std::move(asked)).ok());
}

TEST_F(ClientConnect, EndsInTimeWhereNobodyAnswers) {
    driven_client client(with({"127.0.0.2", "127.0.0.77", "127.0.0.2"}, 1ms));
    const auto before = descriptors();
    net::client_request asked{.url = url(server.port())};
    asked.timeouts.connect = 50ms;
    const auto result = client.ask(std::move(asked));
    EXPECT_EQ(result.error, client_error::connect_timeout);
    EXPECT_FALSE(result.sent);
    EXPECT_EQ(client.counters().open, 0U);
    EXPECT_EQ(descriptors(), before);
    // Cancelled while several are on their way.
    const auto id = client.start({.url = url(server.port())});
    client.turn_until([&] { return client.counters().open == 1; });
    EXPECT_TRUE(client.get().cancel(id));
    EXPECT_EQ(client.end_of(id).error, client_error::cancelled);
    EXPECT_EQ(descriptors(), before);
}

TEST_F(ClientConnect, TriesFamiliesInTurn) {
    int listener = -1;
    try {
        listener = net::listen_tcp("[::1]:" + std::to_string(silent.port()));
    } catch (const error&) {
        GTEST_SKIP() << "needs: IPv6 on the loopback, and this port of it";
    }
    net::server six({listener}, {}, test::echo);
    std::thread thread([&] { six.run(); });
    {
        driven_client client(with({"127.0.0.77", "127.0.0.2", "127.0.0.2", "::1"}, 1h));
        EXPECT_TRUE(client.get(url(silent.port())).ok()) << "behind both silent ones";
    }
    six.stop();
    thread.join();
}

/// A client for which names that begin with "hangs" are looked up until they are let go of: four keep all threads busy.
class BesideNamesThatHang : public ::testing::Test {
 protected:
    struct state {
        std::mutex lock;
        std::condition_variable changed;
        std::vector<std::string> asked;  // under the lock
        std::set<std::string> let_go;    // under the lock
        bool over = false;               // under the lock
    };

    BesideNamesThatHang() { server_.start(); }
    ~BesideNamesThatHang() override {
        const std::lock_guard guard(state_->lock);
        state_->over = true;
        state_->changed.notify_all();
    }
    [[nodiscard]] net::client_options options() const {
        net::client_options made = with({}, 1h);
        made.resolve = [held = state_](const std::string& name) {  // the threads', too
            std::unique_lock guard(held->lock);
            held->asked.push_back(name);
            held->changed.wait(guard,
                               [&] { return held->over || !name.starts_with("hangs") || held->let_go.contains(name); });
            return std::vector<std::string>{"127.0.0.1"};
        };
        return made;
    }
    [[nodiscard]] std::vector<std::string> asked() const {
        const std::lock_guard guard(state_->lock);
        return state_->asked;
    }
    void let_go(const std::string& name) const {
        const std::lock_guard guard(state_->lock);
        state_->let_go.insert(name);
        state_->changed.notify_all();
    }
    [[nodiscard]] std::string url_of(const std::string& name) const {
        return "http://" + name + ":" + std::to_string(server_.port()) + "/";
    }
    /// A request whose name has been given to the resolver.
    net::request_id begin(driven_client& client, const std::string& name,
                          std::chrono::milliseconds connect = 0ms) const {
        const net::request_id made = client.start({.url = url_of(name), .timeouts = {.connect = connect}});
        client.get().turn();
        return made;
    }
    void hang_all_threads(driven_client& client) const {
        for (const char* const name : {"hangs-0.test", "hangs-1.test", "hangs-2.test", "hangs-3.test"})
            (void)begin(client, name);
        client.turn_until([&] { return asked().size() == 4; });
    }

 private:
    std::shared_ptr<state> state_ = std::make_shared<state>();
    test::running_server server_{test::echo};
};

// The thread that comes free takes what waits in its order: it would ask for those that were given up first.
TEST_F(BesideNamesThatHang, ANameThatNobodyWaitsForAnyMoreIsNotAskedFor) {
    driven_client client(options());
    hang_all_threads(client);
    const auto cancelled = begin(client, "cancelled.test"), beside = begin(client, "cancelled.test");
    const auto late = client.end_of(begin(client, "late.test", 20ms));
    EXPECT_EQ(late.error, client_error::connect_timeout);
    EXPECT_EQ(late.stage, net::client_stage::resolving);
    for (const auto& id : {cancelled, beside}) EXPECT_TRUE(client.get().cancel(id));
    for (const auto& id : {cancelled, beside}) EXPECT_EQ(client.end_of(id).error, client_error::cancelled);
    const auto wanted = begin(client, "wanted.test");
    let_go("hangs-0.test");
    EXPECT_TRUE(client.end_of(wanted).ok());
    EXPECT_EQ(asked().size(), 5U);
    EXPECT_EQ(asked().back(), "wanted.test");
    EXPECT_TRUE(client.get(url_of("late.test")).ok()) << "it can be asked for again";
}

TEST_F(BesideNamesThatHang, AreLookedUpWithinABound) {
    net::client_options bounded = options();
    bounded.limits.look_ups_max = 5;
    driven_client client(std::move(bounded));
    hang_all_threads(client);
    const auto fifth = begin(client, "fifth.test"), beside = begin(client, "fifth.test");
    const auto sixth = client.end_of(begin(client, "sixth.test"));
    EXPECT_EQ(sixth.error, client_error::overloaded) << sixth.detail;
    EXPECT_EQ(sixth.stage, net::client_stage::waiting);
    EXPECT_FALSE(sixth.sent);
    EXPECT_FALSE(client.has_ended(beside)) << "of a name that is asked for already";
    for (const auto& id : {fifth, beside}) EXPECT_TRUE(client.get().cancel(id));
    for (const auto& id : {fifth, beside}) EXPECT_EQ(client.end_of(id).error, client_error::cancelled);
    const auto again = begin(client, "sixth.test");
    EXPECT_FALSE(client.has_ended(again)) << "who was given up leaves room";
    let_go("hangs-0.test");
    EXPECT_TRUE(client.end_of(again).ok());
}

// While a name is looked up nobody asks for it anew: one that was given up would never be known again.
TEST(ClientResolver, ANameIsToldAgainWhereMemoryLacked) {
    struct notes {
        std::atomic<int> calls{0};
        std::promise<std::string> told;
    };
    const auto noted = std::make_shared<notes>();  // the thread's, too
    net::client_resolver resolver(
        [](const std::string&) { return std::vector<std::string>{"127.0.0.1"}; },
        [noted](std::uint64_t ticket, const std::string& key, const net::resolved_name& found) {
            if (++noted->calls < 3) throw std::bad_alloc();
            noted->told.set_value(key + std::to_string(ticket) + " has " + std::to_string(found.addresses.size()));
        });
    auto told = noted->told.get_future();
    resolver.ask(7, "key", "a.test");
    ASSERT_EQ(told.wait_for(20s), std::future_status::ready);
    EXPECT_EQ(told.get(), "key7 has 1");
    EXPECT_EQ(noted->calls, 3);
}

TEST(ClientResolver, GoesBesideANameThatIsNeverTold) {
    auto held = std::make_shared<std::atomic<int>>(0);
    const std::weak_ptr<std::atomic<int>> seen = held;
    {
        net::client_resolver resolver([](const std::string&) { return std::vector<std::string>{}; },
                                      [held](std::uint64_t, const std::string&, const net::resolved_name&) {
                                          ++*held;
                                          throw std::bad_alloc();
                                      });
        resolver.ask(1, "key", "a.test");
        while (*held == 0) std::this_thread::yield();
        held.reset();
    }
    const auto last = std::chrono::steady_clock::now() + 20s;
    while (!seen.expired() && std::chrono::steady_clock::now() < last) std::this_thread::yield();
    EXPECT_TRUE(seen.expired()) << "its thread goes on";
}

TEST(ClientOptions, ADelayOfNothingIsRefused) {
    EXPECT_THROW(net::client(net::client_options{.address_delay = 0ms}), error);
}

TEST(ClientOptions, NoNamesAtAllAreRefused) {
    EXPECT_THROW(net::client(net::client_options{.limits = {.look_ups_max = 0}}), error);
}

}  // namespace
