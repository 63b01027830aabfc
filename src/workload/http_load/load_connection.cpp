// SPDX-License-Identifier: Apache-2.0
#include "workload/http_load/load_connection.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "workload/http_load/answer_check.hpp"
#include "workload/http_load/interruption.hpp"
#include "workload/http_load/load_generator.hpp"

namespace holdfast::workload::http {

namespace {

/// To the loopback network, from another address of it each time: ports of one address run out, and searching an almost
/// full range is slow.
void spread(int fd, const net::socket_address& server, std::uint32_t number) {
    sockaddr_in there{};
    if (server.storage.ss_family != AF_INET) return;
    std::memcpy(&there, &server.storage, sizeof there);
    if (ntohl(there.sin_addr.s_addr) != INADDR_LOOPBACK) return;
    const int on = 1;
    (void)::setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
    sockaddr_in here{};
    here.sin_family = AF_INET;
    here.sin_addr.s_addr = htonl(0x7F000102U + (number % 64) * 256);  // 127.0.1.2, 127.0.2.2, ...
    if (::bind(fd, reinterpret_cast<const sockaddr*>(&here), sizeof here) != 0) fail("bind");
}

}  // namespace

void fail(const char* what) { throw std::system_error(errno, std::generic_category(), what); }

net::file_descriptor open_connection(const net::socket_address& server, std::uint32_t number, int& code) {
    net::file_descriptor fd(::socket(server.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!fd) fail("socket");
    const int on = 1;
    (void)::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    spread(fd.get(), server, number);
    code = ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&server.storage), server.size) == 0 ? 0 : errno;
    return fd;
}

void open_protocol(int fd, std::string_view opening, std::chrono::milliseconds patience) {
    if (::send(fd, opening.data(), opening.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(opening.size()))
        throw server_failed("a new connection takes no request");
    std::string head;
    while (!head.ends_with("\r\n\r\n")) {
        if (!ready_within(fd, POLLIN, patience)) throw server_failed("no answer to the opening in time");
        std::array<char, 2048> part;
        const ssize_t n = ::recv(fd, part.data(), part.size(), 0);
        if (n <= 0) throw server_failed("a connection was lost before its opening was answered");
        head.append(part.data(), static_cast<std::size_t>(n));
        if (head.size() > 16'384 || !head.starts_with(std::string_view("HTTP/1.1 101").substr(0, head.size())))
            throw wrong_answer("the opening was answered " + shown(head));
    }
}

int connection_error(int fd) {
    int code = 0;
    socklen_t size = sizeof code;
    (void)::getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &size);
    return code;
}

std::string connecting_text(int code) { return "connecting: " + std::generic_category().message(code); }

bool ready_within(int fd, short events, std::chrono::milliseconds patience) {
    pollfd p{.fd = fd, .events = events, .revents = 0};
    for (auto left = patience; left.count() > 0; left -= std::chrono::milliseconds(wait_ms)) {
        check_interruption();
        if (::poll(&p, 1, static_cast<int>(std::min<std::chrono::milliseconds::rep>(left.count(), wait_ms))) > 0)
            return true;
    }
    return false;
}

net::socket_address loopback(std::uint16_t port) {
    net::socket_address made;
    sockaddr_in there{};
    there.sin_family = AF_INET;
    there.sin_port = htons(port);
    there.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    std::memcpy(&made.storage, &there, sizeof there);
    made.size = sizeof there;
    return made;
}

}  // namespace holdfast::workload::http
