// SPDX-License-Identifier: Apache-2.0
// Well-behaved clients beside hostile ones: while each attack runs, requests that are due one a millisecond are all
// answered, and the server's memory stays within what its limits say. How long they waited is printed, beside the
// attack and without it; a wait counts from the moment at which its request was due.
//
// Server, attacker and witnesses are processes of one thread each.
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <list>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "holdfast/net/server.hpp"
#include "support/http_client.hpp"
#include "support/http_server.hpp"
#include "support/process.hpp"
#include "support/scale.hpp"

namespace {

using namespace holdfast;
using namespace std::chrono_literals;
using test::get;
using test::http_client;
using clock = std::chrono::steady_clock;

constexpr std::size_t big_bytes = 64U << 10U;

net::limits limits_under_attack() {
    net::limits limits;
    limits.connections_max = 300;
    limits.output_bytes_max = 64U << 10U;
    limits.held_bytes_max = 8U << 20U;
    limits.header_timeout_ms = limits.body_timeout_ms = 300;
    limits.write_timeout_ms = 300;
    limits.linger_timeout_ms = 200;
    return limits;
}

void answer(const net::request& r, net::response& w) {
    if (r.path() == "/big")
        w.body(std::string(big_bytes, 'x'));
    else
        w.body_buffer().append(r.target());
}

// --- attacks: each is one wave of about a tenth of a second and more, from a process of its own

using attack = void (*)(std::uint16_t port);

// Requests that come a byte at a time and never end, on many connections, until each has been told 408.
void slow_heads_and_bodies(std::uint16_t port) {
    std::list<http_client> clients;
    for (int i = 0; i < 150; ++i) {
        clients.emplace_back(port).send("GET / HTTP/1.1\r\nHost: a\r\nX: ");
        clients.emplace_back(port).send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n");
    }
    while (!clients.empty())
        clients.remove_if([](http_client& c) { return c.readable(0ms) || c.send_while_possible("x") != 0; });
}

// Everything a head or a body can be too big in.
void oversized_requests(std::uint16_t port) {
    const std::string long_text(64U << 10U, 'a');
    std::string many_fields = "GET / HTTP/1.1\r\nHost: a\r\n";
    for (int i = 0; i < 4000; ++i) many_fields += "X: y\r\n";
    std::string extensions = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1;" + long_text;
    for (int i = 0; i < 3; ++i) {
        for (const std::string& bytes :
             {"GET /" + long_text, "GET / HTTP/1.1\r\nHost: a\r\nX: " + long_text, many_fields, extensions,
              "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999\r\n\r\n" + long_text, long_text})
            (void)http_client(port).send_while_possible(bytes);
        // Within the limits each, and together beyond what is held for all.
        std::list<http_client> clients;
        for (int k = 0; k < 40; ++k)
            (void)clients.emplace_back(port).send_while_possible(
                "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n" + std::string(900'000, 'b'));
    }
}

// Far more connections than the server takes, held for a moment, with nothing on them.
void connections_without_end(std::uint16_t port) {
    std::list<http_client> clients;
    for (int i = 0; i < 700; ++i) clients.emplace_back(port);
    (void)clients.back().readable(http_client::deadline);  // that there is no room: all of them have been seen
}

// Requests, whole and half, whose senders reset the connection at once.
void resets(std::uint16_t port) {
    const std::string bytes = get("/a") + get("/big") + get("/b");
    for (std::size_t i = 0; i < 200; ++i) {
        http_client client(port);
        (void)client.send_while_possible(std::string_view(bytes).substr(0, i % (bytes.size() + 1)));
        client.reset();
    }
}

// Processes that die while answers are on their way to them.
void deaths_in_the_middle(std::uint16_t port) {
    for (int i = 0; i < 5; ++i) {
        test::child_process victim([port] {
            std::string requests;  // for more than the kernel takes
            for (int k = 0; k < 160; ++k) requests += get("/big");
            std::list<http_client> clients;
            for (int k = 0; k < 12; ++k)
                clients.emplace_back(port, http_client::options{.receive_buffer = 4096}).send(requests);
            for (http_client& client : clients) (void)client.readable(http_client::deadline);
            ::kill(::getpid(), SIGKILL);
        });
        (void)victim.wait();
    }
}

// Clients that ask for ever and read nothing, until the server has given each of them up.
void readers_of_nothing(std::uint16_t port) {
    std::list<http_client> clients;
    std::string requests;
    for (int i = 0; i < 160; ++i) requests += get("/big");
    for (int i = 0; i < 150; ++i)
        clients.emplace_back(port, http_client::options{.receive_buffer = 4096}).send(requests);
    while (!clients.empty()) {
        const std::size_t before = clients.size();
        clients.remove_if([](const http_client& c) { return c.cut(); });
        if (clients.size() == before) std::this_thread::sleep_for(1ms);
    }
}

// --- what stands against them

std::size_t peak_memory_of(pid_t process) {
    std::ifstream status("/proc/" + std::to_string(process) + "/status");
    for (std::string line; std::getline(status, line);)
        if (line.starts_with("VmHWM:")) return std::stoul(line.substr(6)) << 10U;
    return 0;
}

// Buffers of what is held have up to twice the room. What io_uring has on its way to the kernel is bounded by what one
// turn can answer, and not held.
std::size_t memory_bound() {
    const net::limits limits = limits_under_attack();
    const std::size_t held = 2 * limits.held_bytes_max + (8U << 20U);
    if (test::engine_of_tests::choice() == net::engine_choice::epoll) return held;
    return held + limits.connections_max * (limits.output_bytes_max + big_bytes);
}

class witnesses {
 public:
    explicit witnesses(std::uint16_t port) {
        for (auto& client : clients_) client = std::make_unique<http_client>(port);
    }
    /// Asks on, each request when it is due, until `enough`. Returns: how long each took from then on.
    template <class Enough>
    std::vector<std::chrono::nanoseconds> ask_until(Enough&& enough) {
        std::vector<std::chrono::nanoseconds> waits;
        const auto begin = clock::now();
        for (auto due = begin; !enough(clock::now() - begin); due += 1ms) {
            std::this_thread::sleep_until(due);
            const std::string target = test::numbered(asked_++);
            const auto reply = clients_[static_cast<std::size_t>(asked_) % clients_.size()]->ask(get(target));
            waits.push_back(clock::now() - due);
            if (reply.status != 200 || reply.body != target)
                throw std::runtime_error("a witness was answered " + reply.head + reply.body);
        }
        return waits;
    }

 private:
    std::array<std::unique_ptr<http_client>, 4> clients_;
    int asked_ = 0;
};

std::string percentiles(std::vector<std::chrono::nanoseconds>& waits) {
    std::sort(waits.begin(), waits.end());
    const auto at = [&](double part) {
        const auto index = static_cast<std::size_t>(part * static_cast<double>(waits.size() - 1));
        return std::to_string(std::chrono::duration_cast<std::chrono::microseconds>(waits[index]).count());
    };
    return std::to_string(waits.size()) + " requests, median " + at(0.5) + " us, p99 " + at(0.99) + " us, longest " +
           at(1) + " us";
}

/// Runs waves of the attack for half a second at least. Returns: what the server counted.
net::server_counters withstand(attack wave) {
    test::child_process server([](test::channel& talk) {
        const int listener = net::listen_tcp("127.0.0.1:0");
        net::server_options options;
        options.limits = limits_under_attack();
        options.engine = test::engine_of_tests::choice();
        net::server it({listener}, std::move(options), answer);
        it.watch(talk.read_fd(), [&] { it.stop(); });
        talk.send(net::bound_port(listener));
        it.run();
        talk.send(it.counters());
    });
    const auto port = server.talk().receive<std::uint16_t>();
    if (!port) throw std::runtime_error("no server: " + server.wait().text());
    test::child_process attacker([wave, to = *port](test::channel& talk) {
        talk.wait();
        const auto begin = clock::now();
        do wave(to);
        while (clock::now() - begin < 500ms);
        talk.signal();
        talk.wait();
    });
    witnesses good(*port);
    auto without = good.ask_until([](auto passed) { return passed > 300ms; });
    const std::size_t memory = peak_memory_of(server.pid());
    attacker.talk().signal();
    auto beside = good.ask_until([&](auto) {
        pollfd told{attacker.talk().read_fd(), POLLIN, 0};
        return ::poll(&told, 1, 0) > 0;
    });
    EXPECT_TRUE(attacker.talk().wait()) << "the attacker failed: " << attacker.wait().text();
    // Somebody new is served as well, once the last of them have been told.
    int status = 0;
    for (int i = 0; i < 1000 && status != 200; ++i) {
        try {
            status = http_client(*port).ask(get("/new")).status;
        } catch (const std::exception&) {  // refused: its 503 may be reset away
        }
    }
    EXPECT_EQ(status, 200);
    attacker.talk().signal();
    const std::size_t grown = peak_memory_of(server.pid()) - memory;
    std::printf("without: %s\nbeside:  %s\nthe server's memory grew by %zu KiB at most\n", percentiles(without).c_str(),
                percentiles(beside).c_str(), grown >> 10U);
    // A sanitizer keeps what was freed.
    if (!test::sanitized) {
        EXPECT_LT(grown, memory_bound());
    }
    server.talk().signal();
    const auto counters = server.talk().receive<net::server_counters>();
    EXPECT_TRUE(server.wait().success()) << server.wait().text();
    return counters.value_or(net::server_counters{});
}

TEST(ServerFlood, SlowHeadsAndBodies) {
    const auto counters = withstand(slow_heads_and_bodies);
    EXPECT_GE(counters.header_timeouts, 100U);
    EXPECT_GE(counters.body_timeouts, 100U);
}
TEST(ServerFlood, OversizedRequests) {
    const auto counters = withstand(oversized_requests);
    EXPECT_GE(counters.refused, 6U);
    EXPECT_GE(counters.over_held_bytes, 1U);
}
TEST(ServerFlood, ConnectionsWithoutEnd) { EXPECT_GE(withstand(connections_without_end).over_connections_max, 400U); }
TEST(ServerFlood, Resets) {
    const auto counters = withstand(resets);
    EXPECT_GE(counters.accepted, 200U);
    EXPECT_GE(counters.lost, 1U);
}
TEST(ServerFlood, DeathsInTheMiddle) {
    const auto counters = withstand(deaths_in_the_middle);
    EXPECT_GE(counters.lost, 1U);
    EXPECT_GE(counters.lost + counters.write_timeouts + counters.over_held_bytes, 60U);
}
TEST(ServerFlood, ReadersOfNothing) {
    const auto counters = withstand(readers_of_nothing);
    EXPECT_GE(counters.write_timeouts + counters.over_held_bytes, 150U);
}

}  // namespace
