// SPDX-License-Identifier: Apache-2.0
// loopback.cpp - round trips of one byte to a thread on another CPU, and a connection.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

#include "partner.hpp"
#include "published.hpp"
#include "scale.hpp"

namespace study {
namespace {

namespace perf = holdfast::perf_test;

[[noreturn]] void give_up(const char* what) { throw std::system_error(errno, std::generic_category(), what); }

/// A descriptor that is closed at its end.
class owned_fd {
 public:
    explicit owned_fd(int fd = -1) noexcept : fd_(fd) {}
    owned_fd(owned_fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    owned_fd& operator=(owned_fd&& other) noexcept {
        std::swap(fd_, other.fd_);
        return *this;
    }
    ~owned_fd() {
        if (fd_ >= 0) ::close(fd_);
    }
    owned_fd(const owned_fd&) = delete;
    owned_fd& operator=(const owned_fd&) = delete;
    [[nodiscard]] int get() const noexcept { return fd_; }

 private:
    int fd_;
};

/// One side: where it writes and where it reads, which may be one.
struct side {
    owned_fd writes, reads;
    [[nodiscard]] int in() const noexcept { return reads.get() >= 0 ? reads.get() : writes.get(); }
};
using two_sides = std::pair<side, side>;

two_sides pipes() {
    std::array<int, 2> there{}, back{};
    if (::pipe(there.data()) != 0) give_up("pipe");
    side here{owned_fd(there[1]), owned_fd()}, other{owned_fd(), owned_fd(there[0])};
    if (::pipe(back.data()) != 0) give_up("pipe");
    here.reads = owned_fd(back[0]);
    other.writes = owned_fd(back[1]);
    return {std::move(here), std::move(other)};
}

two_sides unix_sockets() {
    std::array<int, 2> both{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, both.data()) != 0) give_up("socketpair");
    return {side{owned_fd(both[0]), owned_fd()}, side{owned_fd(both[1]), owned_fd()}};
}

/// A socket on a free port of loopback.
owned_fd bound(int type, sockaddr_in& at) {
    owned_fd made(::socket(AF_INET, type | SOCK_CLOEXEC, 0));
    if (made.get() < 0) give_up("socket");
    at = {};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof at;
    if (::bind(made.get(), reinterpret_cast<sockaddr*>(&at), sizeof at) != 0) give_up("bind");
    if (::getsockname(made.get(), reinterpret_cast<sockaddr*>(&at), &length) != 0) give_up("getsockname");
    return made;
}

void connect_to(const owned_fd& from, const sockaddr_in& to) {
    if (::connect(from.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0) give_up("connect");
}

two_sides udp_sockets() {
    sockaddr_in here{}, there{};
    owned_fd one = bound(SOCK_DGRAM, here), other = bound(SOCK_DGRAM, there);
    connect_to(one, there);
    connect_to(other, here);
    return {side{std::move(one), owned_fd()}, side{std::move(other), owned_fd()}};
}

/// Both ends of a new connection to a listener.
std::pair<owned_fd, owned_fd> connection(const owned_fd& listener, const sockaddr_in& at) {
    owned_fd client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (client.get() < 0) give_up("socket");
    connect_to(client, at);
    owned_fd server(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (server.get() < 0) give_up("accept");
    return {std::move(client), std::move(server)};
}

owned_fd listener_at(sockaddr_in& at) {
    owned_fd listener = bound(SOCK_STREAM, at);
    if (::listen(listener.get(), 16) != 0) give_up("listen");
    return listener;
}

two_sides tcp_sockets() {
    sockaddr_in at{};
    const owned_fd listener = listener_at(at);
    auto [client, server] = connection(listener, at);
    const int on = 1;
    for (const owned_fd* one : {&client, &server}) ::setsockopt(one->get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return {side{std::move(client), owned_fd()}, side{std::move(server), owned_fd()}};
}

constexpr char question = 1, farewell = 2;

void time_round_trip(scale& all, step what, const two_cpus& cpus, two_sides (*make)()) {
    try {
        const two_sides both = make();
        const perf::cpu_pin tied(cpus.here);
        const int out = both.first.writes.get(), in = both.first.in();
        const int echo_in = both.second.in(), echo_out = both.second.writes.get();
        const thread_partner partner(
            cpus.there,
            [=] {
                char byte = 0;
                while (::read(echo_in, &byte, 1) == 1 && byte != farewell)
                    if (::write(echo_out, &byte, 1) != 1) return;
            },
            [out] { (void)!::write(out, &farewell, 1); });
        all.time(std::move(what), [=](std::uint64_t n) {
            char byte = 0;
            for (; n > 0; --n)
                if (::write(out, &question, 1) != 1 || ::read(in, &byte, 1) != 1) give_up("the round trip");
        });
    } catch (const std::exception& wrong) {
        all.miss(std::move(what), wrong.what());
    }
}

void time_connections(scale& all) {
    step what{"TCP connection on loopback", "connect, accept and both closed by a reset", {}};
    try {
        sockaddr_in at{};
        const owned_fd listener = listener_at(at);
        all.time(std::move(what), [&](std::uint64_t n) {
            const linger at_once{.l_onoff = 1, .l_linger = 0};  // else each leaves a port in TIME_WAIT
            for (; n > 0; --n) {
                const auto ends = connection(listener, at);
                ::setsockopt(ends.first.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
                ::setsockopt(ends.second.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
            }
        });
    } catch (const std::exception& wrong) {
        all.miss(std::move(what), wrong.what());
    }
}

}  // namespace

void time_loopback(scale& all) {
    const two_cpus cpus = two_cpus::of_this_machine();
    const std::string how =
        cpus.apart ? "a byte to a thread on another CPU and back" : "a byte to another thread and back";
    time_round_trip(all, {"pipe round trip", how, {}}, cpus, pipes);
    time_round_trip(all, {"unix socket round trip", how, {}}, cpus, unix_sockets);
    time_round_trip(all, {"UDP round trip on loopback", how, {}}, cpus, udp_sockets);
    time_round_trip(all, {"TCP round trip on loopback", how, {}}, cpus, tcp_sockets);
    time_connections(all);
}

}  // namespace study
