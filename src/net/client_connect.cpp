// SPDX-License-Identifier: Apache-2.0
// client_connect.cpp - from the addresses of an origin to a connection that stands, and is secure where it has to be.
//
// Addresses are tried in their order, families in turn. The next one is begun when the one before has failed, or beside
// it when that has not answered for address_delay; the first that stands is taken, and the others are closed.
// Source: RFC 8305 ("happy eyeballs"), sections 4 and 5.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "client_core.hpp"

namespace holdfast::net {

namespace {

void set_port(socket_address& where, std::uint16_t port) {
    if (where.storage.ss_family == AF_INET)
        reinterpret_cast<sockaddr_in&>(where.storage).sin_port = htons(port);
    else if (where.storage.ss_family == AF_INET6)
        reinterpret_cast<sockaddr_in6&>(where.storage).sin6_port = htons(port);
}

// Who keeps trying a local port that nobody listens on is in time given that port as its own, and answers itself.
bool leads_to_itself(int socket) noexcept {
    sockaddr_storage here{}, there{};
    socklen_t here_size = sizeof here, there_size = sizeof there;
    if (::getsockname(socket, reinterpret_cast<sockaddr*>(&here), &here_size) != 0 ||
        ::getpeername(socket, reinterpret_cast<sockaddr*>(&there), &there_size) != 0)
        return false;
    return here.ss_family != AF_UNIX && here_size == there_size && std::memcmp(&here, &there, here_size) == 0;
}

bool is_shortage(int code) noexcept {
    return code == EMFILE || code == ENFILE || code == ENOMEM || code == ENOBUFS || code == ENOSPC;
}

// How far a socket is that was told to connect: 0 when it stands, EINPROGRESS, or what it failed by.
int outcome_of(int socket) noexcept {
    int code = 0;
    socklen_t size = sizeof code;
    (void)::getsockopt(socket, SOL_SOCKET, SO_ERROR, &code, &size);
    if (code != 0) return code;
    pollfd asked{socket, POLLOUT, 0};
    if (::poll(&asked, 1, 0) <= 0 || (asked.revents & POLLOUT) == 0) return EINPROGRESS;
    return leads_to_itself(socket) ? ECONNREFUSED : 0;
}

}  // namespace

void client_core::connect(client_exchange& x) {
    if (free_connections_.empty()) {
        const auto place = static_cast<std::uint32_t>(connections_.size());
        connections_.emplace_back();
        generations_.push_back(0);
        connection_wheel_.grow(connections_.size());
        free_connections_.push_back(place);
    }
    const std::uint32_t place = free_connections_.back();
    free_connections_.pop_back();
    connections_[place] = std::make_unique<client_connection>(options_.limits.answer);
    client_connection& c = *connections_[place];
    c.place = place;
    c.generation = generations_[place];
    c.origin = x.origin;
    c.carries = &x;
    ++c.origin->connections;
    ++counters_.open;
    x.on = &c;
    if (std::exchange(x.stage, client_stage::connecting) == client_stage::waiting)
        set_phase(x, wait_of(x, &client_timeouts::connect), client_error::connect_timeout);
    connect_next(c);
}

// Begins with the next address of those left. When none is, and nothing is on its way any more, that was it.
void client_core::connect_next(client_connection& c) {
    const std::size_t count = c.origin->addresses.size();
    while (c.next_address < count) {
        const socket_address where = c.origin->addresses[c.next_address++];
        const int code = try_address(c, where);
        if (code == 0) return take_attempt(c, c.attempts.size() - 1);
        if (code == EINPROGRESS) return arm_next_address(c, count - c.next_address);
        c.last_error = code;
        if (is_shortage(code)) break;
    }
    connection_wheel_.disarm(c.place);
    if (c.attempts.empty()) end_connecting(c, c.last_error);
}

// All that are left have to have their turn within the time to connect, be it short.
void client_core::arm_next_address(client_connection& c, std::size_t left) {
    if (left == 0) return connection_wheel_.disarm(c.place);
    auto delay_ms = static_cast<std::uint64_t>(options_.address_delay.count());
    if (const std::uint64_t until_ms = c.carries->phase_ms; until_ms > now_ms_)
        delay_ms = std::min(delay_ms, (until_ms - now_ms_) / (left + 1));
    connection_wheel_.arm(c.place, now_ms_ + delay_ms);
}

// Returns an errno; 0 or EINPROGRESS: there is an attempt more.
int client_core::try_address(client_connection& c, const socket_address& where) {
    socket_address to = where;
    set_port(to, c.origin->port);
    file_descriptor fd(::socket(to.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!fd) return errno;
    if (to.storage.ss_family != AF_UNIX) {
        const int on = 1;
        (void)::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    }
    const int code = ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&to.storage), to.size) == 0 ? 0 : errno;
    if (code != 0 && code != EINPROGRESS) return code;
    c.attempts.push_back(std::move(fd));
    tell_epoll(c, c.attempts.back().get(), EPOLL_CTL_ADD, EPOLLOUT);
    return code;
}

// Which of its attempts an event is about, it does not tell: there are few.
void client_core::handle_connecting(client_connection& c) {
    bool failed = false;
    for (std::size_t i = 0; i < c.attempts.size();) {
        const int code = outcome_of(c.attempts[i].get());
        if (code == 0) return take_attempt(c, i);
        if (code == EINPROGRESS) {
            ++i;
            continue;
        }
        c.last_error = code;
        failed = true;
        c.attempts.erase(c.attempts.begin() + static_cast<std::ptrdiff_t>(i));
    }
    if (failed) connect_next(c);
}

void client_core::take_attempt(client_connection& c, std::size_t which) {
    c.fd = std::move(c.attempts[which]);
    c.events = EPOLLOUT;
    c.attempts.clear();
    begin_transport(c);
}

void client_core::expire_connection(std::uint32_t place) {
    client_connection* const c = connections_[place].get();
    if (c == nullptr) return;
    if (c->at == step::idle) return close(*c);
    if (c->at == step::connecting) connect_next(*c);
}

void client_core::end_connecting(client_connection& c, int code) {
    client_exchange& x = *c.carries;
    const client_error error = is_shortage(code) ? client_error::overloaded : client_error::not_connected;
    const client_origin& o = *c.origin;
    end_exchange(x, error, (o.unix_socket.empty() ? o.label : o.unix_socket) + ": " + std::strerror(code));
}

void client_core::end_securing(client_connection& c, int code) {
    const client_error error = code == tls_distrusted ? client_error::not_trusted
                               : is_shortage(code)    ? client_error::overloaded
                                                      : client_error::tls_failed;
    if (error != client_error::overloaded) ++counters_.tls_failures;
    std::string why = c.transport != nullptr ? c.transport->reason() : std::string();
    if (why.empty()) why = std::string(std::strerror(code)) + ", in the handshake of TLS";
    end_exchange(*c.carries, error, c.origin->label + ": " + why);
}

void client_core::begin_transport(client_connection& c) {
    if (c.at == step::connecting) {
        connection_wheel_.disarm(c.place);
        c.at = step::beginning;
        ++counters_.connected;
        if (c.origin->trust) {
            c.carries->stage = client_stage::securing;
            auto session = tls_session::connect(*c.origin->trust, c.origin->host, c.origin->memory);
            if (session == nullptr) return end_securing(c, ENOMEM);
            c.transport = make_tls_transport(c.fd.get(), std::move(session));
        } else {
            c.transport = make_plain_transport(c.fd.get());
        }
    }
    const int code = c.transport->begin();
    if (code == EAGAIN) return watch(c, c.transport->wants() != 0 ? c.transport->wants() : EPOLLIN);
    if (code != 0) return end_securing(c, code);
    if (c.origin->trust) {
        ++counters_.tls_handshakes;
        if (c.transport->resumed()) ++counters_.tls_resumed;
    }
    carry(c, *c.carries);
}

}  // namespace holdfast::net
