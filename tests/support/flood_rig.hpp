// SPDX-License-Identifier: Apache-2.0
// flood_rig.hpp - well-behaved clients beside hostile ones: while each attack runs, requests that are due one a
// millisecond are all answered, and the server's memory stays within what its limits say. They come by HTTP, within TLS
// and as messages of a WebSocket, in turn. One of seven comes in two pieces, so that the server has to keep the first
// of them beside what attackers have it keep. How long they waited is printed, beside the attack and without it; a wait
// counts from the moment at which its request was due.
//
// What the server makes a request wait has a bound: what it took from when it was sent, less the time in which server
// or witness were ready and the machine had no processor for them, in the median and at p99; the median of each way of
// asking, too. So neither other programs nor a machine that stands still for a while count, and a server that neglects
// its clients, or those of one kind, does.
//
// Server, attacker and witnesses are processes of one thread each.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "holdfast/net/server.hpp"
#include "support/http_client.hpp"
#include "support/http_server.hpp"
#include "support/process.hpp"
#include "support/scale.hpp"
#include "support/websocket_client.hpp"
#ifdef HOLDFAST_TEST_WITH_TLS
#include "support/tls_peer.hpp"
#endif

namespace holdfast::test {

inline constexpr std::size_t big_bytes = 64U << 10U;

[[nodiscard]] inline net::limits limits_under_attack() {
    net::limits limits;
    limits.connections_max = 300;
    limits.output_bytes_max = 64U << 10U;
    limits.held_bytes_max = 8U << 20U;
    limits.header_timeout_ms = limits.body_timeout_ms = 500;
    limits.write_timeout_ms = 300;
    limits.linger_timeout_ms = 200;
    return limits;
}

/// "/big" is much, "/socket" a WebSocket that echoes; else the target comes back.
inline void answer_under_attack(const net::request& r, net::response& w) {
    if (r.path() == "/big")
        w.body(std::string(big_bytes, 'x'));
    else if (r.path() == "/socket")
        static_cast<void>(w.websocket(r, {.on_receive = [](const net::channel& from, net::received_message message) {
                                          static_cast<void>(from.send(std::string(message.payload), message.kind));
                                      }}));
    else
        w.body_buffer().append(r.target());
}

[[nodiscard]] inline std::size_t peak_memory_of(pid_t process) {
    std::ifstream status("/proc/" + std::to_string(process) + "/status");
    for (std::string line; std::getline(status, line);)
        if (line.starts_with("VmHWM:")) return std::stoul(line.substr(6)) << 10U;
    return 0;
}

// Buffers of what is held have up to twice the room. What io_uring has on its way to the kernel is bounded by what one
// turn can answer, and not held.
[[nodiscard]] inline std::size_t memory_bound() {
    const net::limits limits = limits_under_attack();
    const std::size_t held = 2 * limits.held_bytes_max + (8U << 20U);
    if (engine_of_tests::choice() == net::engine_choice::epoll) return held;
    return held + limits.connections_max * (limits.output_bytes_max + big_bytes);
}

using steady = std::chrono::steady_clock;

/// How long a process of one thread has been ready without a processor to run on: proc(5), schedstat.
class processor_wait {
 public:
    explicit processor_wait(pid_t process)
        : file_(::open(("/proc/" + std::to_string(process) + "/schedstat").c_str(), O_RDONLY | O_CLOEXEC)) {}
    /// Nothing where the kernel keeps no account of it.
    [[nodiscard]] std::optional<std::chrono::nanoseconds> so_far() const {
        std::array<char, 96> text{};
        if (file_.get() < 0 || ::pread(file_.get(), text.data(), text.size() - 1, 0) <= 0) return std::nullopt;
        char* at = text.data();
        const auto ran = std::strtoull(at, &at, 10);
        if (ran == 0) return std::nullopt;
        return std::chrono::nanoseconds(std::strtoull(at, &at, 10));
    }

 private:
    rig::descriptor file_;
};

/// A client that asks by one way; the target that it sends comes back.
class witness {
 public:
    explicit witness(std::string_view way) : way_(way) {}
    witness(const witness&) = delete;
    witness& operator=(const witness&) = delete;
    virtual ~witness() = default;
    [[nodiscard]] std::string_view way() const noexcept { return way_; }
    /// The bytes that ask for `target`; `much` of them, as one wants that come in pieces.
    [[nodiscard]] virtual std::string request(const std::string& target, bool much) const = 0;
    virtual void send(std::string_view bytes) = 0;
    /// Waits for the answer. Throws when it is another.
    virtual void take_answer(const std::string& target, bool much) = 0;

 private:
    std::string_view way_;
};
inline constexpr std::size_t much_bytes = 20'000;

template <class Client>
class http_witness final : public witness {
 public:
    http_witness(std::string_view way, std::uint16_t port) : witness(way), client_(port) {}
    [[nodiscard]] std::string request(const std::string& target, bool much) const override {
        return much ? post(target, std::string(much_bytes, 'w')) : get(target);
    }
    void send(std::string_view bytes) override { client_.send(bytes); }
    void take_answer(const std::string& target, bool /*much*/) override {
        const http_reply reply = client_.reply();
        if (reply.status != 200 || reply.body != target)
            throw std::runtime_error("a witness was answered " + reply.head + reply.body);
    }

 private:
    Client client_;
};

class websocket_witness final : public witness {
 public:
    explicit websocket_witness(std::uint16_t port) : witness("WebSocket"), client_(port, {}, {}, {}, "/socket") {}
    [[nodiscard]] std::string request(const std::string& target, bool much) const override {
        return text(message(target, much));
    }
    void send(std::string_view bytes) override { client_.send(bytes); }
    void take_answer(const std::string& target, bool much) override {
        const received_frame got = client_.next();
        if (got.first != final_text || got.payload != message(target, much))
            throw std::runtime_error("a witness was sent back " + got.payload);
    }

 private:
    [[nodiscard]] static std::string message(const std::string& target, bool much) {
        return target + std::string(much ? much_bytes : 0, 'w');
    }

    websocket_client client_;
};

/// Where the attacked server listens.
struct flooded {
    std::uint16_t port = 0;
    std::uint16_t tls_port = 0;  // 0 in a build without TLS
};

using waits = std::vector<std::chrono::nanoseconds>;

struct waiting_times {
    waits from_due, for_server;
    std::map<std::string_view, waits> for_server_by_way;
};

class witnesses {
 public:
    witnesses(const flooded& at, pid_t server) : server_(server), mine_(::getpid()) {
        clients_.push_back(std::make_unique<http_witness<http_client>>("HTTP", at.port));
        clients_.push_back(std::make_unique<websocket_witness>(at.port));
        clients_.push_back(std::make_unique<http_witness<http_client>>("HTTP", at.port));
#ifdef HOLDFAST_TEST_WITH_TLS
        clients_.push_back(std::make_unique<http_witness<tls_client>>("TLS", at.tls_port));
#endif
    }
    /// Whether what the machine kept processors from can be told.
    [[nodiscard]] bool tell_the_machine_apart() const { return server_.so_far() && mine_.so_far(); }
    /// Asks on, each request when it is due, until `enough(how many, time passed)`. Returns: how long each took.
    template <class Enough>
    waiting_times ask_until(Enough&& enough) {
        waiting_times all;
        const auto begin = steady::now();
        for (auto due = begin; !enough(all.from_due.size(), steady::now() - begin);
             due += std::chrono::milliseconds(1)) {
            std::this_thread::sleep_until(due);
            const std::string target = numbered(asked_++);
            const bool in_pieces = asked_ % 7 == 0;  // there are 3 or 4 clients: each has its turn at it
            witness& client = *clients_[static_cast<std::size_t>(asked_) % clients_.size()];
            std::string request = client.request(target, in_pieces);
            if (in_pieces) {
                client.send(std::string_view(request).substr(0, request.size() / 2));
                std::this_thread::sleep_for(std::chrono::microseconds(200));
                request.erase(0, request.size() / 2);
            }
            const auto before = without_processor();
            const auto sent = steady::now();
            client.send(request);
            client.take_answer(target, in_pieces);
            const auto came = steady::now();
            const std::chrono::nanoseconds of_machine = without_processor() - before;
            const auto for_server = std::max(came - sent - of_machine, std::chrono::nanoseconds::zero());
            all.from_due.push_back(came - due);
            all.for_server.push_back(for_server);
            all.for_server_by_way[client.way()].push_back(for_server);
        }
        return all;
    }

 private:
    [[nodiscard]] std::chrono::nanoseconds without_processor() const {
        constexpr std::chrono::nanoseconds nothing{};
        return server_.so_far().value_or(nothing) + mine_.so_far().value_or(nothing);
    }

    processor_wait server_, mine_;
    std::vector<std::unique_ptr<witness>> clients_;
    int asked_ = 0;
};

[[nodiscard]] inline std::chrono::nanoseconds quantile_of(waits& all, double part) {
    if (all.empty()) return std::chrono::nanoseconds::zero();
    const auto at = all.begin() + static_cast<std::ptrdiff_t>(part * static_cast<double>(all.size() - 1));
    std::nth_element(all.begin(), at, all.end());
    return *at;
}

/// The p99 of what requests wait for the server that are due one a millisecond: those that were due behind one that
/// waited, and could not be sent, count as well. Else a server that keeps one waiting for all of an attack had one bad
/// request of a thousand.
[[nodiscard]] inline std::chrono::nanoseconds p99_of(waits all) {
    constexpr std::chrono::milliseconds interval{1};
    const std::size_t asked = all.size();
    for (std::size_t i = 0; i < asked; ++i)
        for (auto rest = all[i] - interval; rest > rest.zero(); rest -= interval) all.push_back(rest);
    return quantile_of(all, 0.99);
}

[[nodiscard]] inline std::string percentiles(waits& all) {
    const auto at = [&](double part) {
        return std::to_string(std::chrono::duration_cast<std::chrono::microseconds>(quantile_of(all, part)).count());
    };
    return std::to_string(all.size()) + " requests, median " + at(0.5) + " us, p99 " + at(0.99) + " us, longest " +
           at(1) + " us";
}

/// How long the server makes a request wait at most beside an attack: so many times what it does without in the median,
/// and at p99 twenty times that and a grace.
struct waiting_bounds {
    int median_ratio_max;
    std::chrono::milliseconds p99_grace;
};
/// A server that serves an attack first makes a request wait until it ends, attack_most by then. At p99 6 ms were seen
/// beside these, and 184 ms beside bulk, with seven busy processes for each processor.
///
/// An attack of bytes as fast as the machine can move them has bounds of its own: a turn of the loop is as long as it
/// takes to move what every connection may bring in one, and everybody waits for its turn. 300 connections of 128 KiB
/// are 39 MB, at 1 GB/s some 40 ms; and by io_uring a request waits for up to three turns: its receive may find no
/// buffer, and its answer leaves with the next submission. So those bounds are of the wave: three times what
/// was found of it, or more where that is less than a processor's neighbours cost.
inline constexpr waiting_bounds of_attack{5, std::chrono::milliseconds(100)};
inline constexpr std::chrono::microseconds median_least{200};  // of a request without: below, the ratio tells nothing
inline constexpr int p99_ratio_max = 20;
/// What a sanitizer makes of it; and of a machine that does not say when it kept processors from us, or of too few
/// requests for a median.
inline constexpr int slower_when_sanitized = 50, slower_when_untold = 20;

/// So many requests tell a median. The attack goes on for them, but under a sanitizer, where each wave is work for
/// long.
inline constexpr std::size_t samples_wanted = 50;
inline constexpr std::chrono::milliseconds attack_least{500}, attack_most{sanitized ? 500 : 2000};

/// Serves by HTTP and, in a build with it, by TLS, until it is told to end.
inline void serve_under_attack(channel& talk) {
    net::server_options options;
    options.limits = limits_under_attack();
    options.engine = engine_of_tests::choice();
    std::vector<int> listeners{net::listen_tcp("127.0.0.1:0")};
    flooded at{.port = net::bound_port(listeners.front())};
#ifdef HOLDFAST_TEST_WITH_TLS
    const tls_folder folder;
    const net::tls_files files = folder.write_pair();
    const int listener = net::listen_tcp("127.0.0.1:0");
    options.tls = {{.listener = listener, .credentials = net::tls_credentials(files)}};
    listeners.push_back(listener);
    at.tls_port = net::bound_port(listener);
#endif
    net::server it(std::move(listeners), std::move(options), answer_under_attack);
    it.watch(talk.read_fd(), [&] { it.stop(); });
    talk.send(at);
    it.run();
    talk.send(it.counters());
}

[[nodiscard]] inline bool is_told(const channel& talk) {
    pollfd told{talk.read_fd(), POLLIN, 0};
    return ::poll(&told, 1, 0) > 0;
}

/// Prints how long witnesses waited beside an attack and without it, and asks for the bounds.
inline void expect_within(const waiting_bounds& bounds, waiting_times& without, waiting_times& beside,
                          bool told_apart) {
    const auto us = [](std::chrono::nanoseconds time) { return static_cast<long long>(time.count() / 1000); };
    const int sanitizers = sanitized ? slower_when_sanitized : 1;
    const auto expect_median = [&](std::string_view way, waits& calm, waits& attacked) {
        const auto before = std::max<std::chrono::nanoseconds>(quantile_of(calm, 0.5), median_least);
        const auto after = quantile_of(attacked, 0.5);
        const bool told_well = told_apart && attacked.size() >= samples_wanted;
        std::printf("%.*s: of the server's making %lld us in the median of %zu, %lld without\n",
                    static_cast<int>(way.size()), way.data(), us(after), attacked.size(), us(quantile_of(calm, 0.5)));
        EXPECT_LT(after, sanitizers * (told_well ? 1 : slower_when_untold) * bounds.median_ratio_max * before)
            << way << ": the attack costs others more than a median of " << before.count() << " ns without it allows";
    };
    const auto p99_before = p99_of(without.for_server), p99_after = p99_of(beside.for_server);
    std::printf("without: %s; of the server's making %lld us at p99\nbeside:  %s; of the server's making %lld at p99\n",
                percentiles(without.from_due).c_str(), us(p99_before), percentiles(beside.from_due).c_str(),
                us(p99_after));
    expect_median("all", without.for_server, beside.for_server);
    for (auto& [way, attacked] : beside.for_server_by_way) expect_median(way, without.for_server_by_way[way], attacked);
    EXPECT_LT(p99_after,
              sanitizers * (told_apart ? 1 : slower_when_untold) * (bounds.p99_grace + p99_ratio_max * p99_before))
        << "the attack costs one request of a hundred more than a p99 of " << p99_before.count()
        << " ns without it allows";
}

/// Runs waves of the attack for half a second at least, and until there are enough samples. `wave` is one of about a
/// tenth of a second and more, in a process of its own. Returns: what the server counted.
inline net::server_counters withstand(void (*wave)(const flooded&), const waiting_bounds& bounds = of_attack) {
    child_process server(serve_under_attack);
    const auto where = server.talk().receive<flooded>();
    if (!where) throw std::runtime_error("no server: " + server.wait().text());
    child_process attacker([wave, to = *where](channel& talk) {
        talk.wait();
        do wave(to);
        while (!is_told(talk));
        talk.signal();
        talk.wait();
        talk.wait();
    });
    witnesses good(*where, server.pid());
    auto without = good.ask_until([](auto, auto passed) { return passed > std::chrono::milliseconds(300); });
    const std::size_t memory = peak_memory_of(server.pid());
    attacker.talk().signal();
    bool told = false;
    auto beside = good.ask_until([&](std::size_t asked, auto passed) {
        const bool enough = passed > attack_least && asked >= samples_wanted;
        if (!told && (enough || passed > attack_most)) told = attacker.talk().signal();
        return is_told(attacker.talk());
    });
    EXPECT_TRUE(attacker.talk().wait()) << "the attacker failed: " << attacker.wait().text();
    // Somebody new is served as well, once the last of them have been told.
    int status = 0;
    for (int i = 0; i < 1000 && status != 200; ++i) {
        try {
            status = http_client(where->port).ask(get("/new")).status;
        } catch (const std::exception&) {  // refused: its 503 may be reset away
        }
    }
    EXPECT_EQ(status, 200);
    attacker.talk().signal();
    const std::size_t grown = peak_memory_of(server.pid()) - memory;
    expect_within(bounds, without, beside, good.tell_the_machine_apart());
    std::printf("the server's memory grew by %zu KiB at most\n", grown >> 10U);
    // A sanitizer keeps what was freed.
    if (!sanitized) {
        EXPECT_LT(grown, memory_bound());
    }
    server.talk().signal();
    const auto counters = server.talk().receive<net::server_counters>();
    EXPECT_TRUE(server.wait().success()) << server.wait().text();
    return counters.value_or(net::server_counters{});
}

}  // namespace holdfast::test
