// SPDX-License-Identifier: Apache-2.0
#include "socket_address.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstring>

#include "holdfast/error.hpp"

namespace holdfast::net {

std::optional<socket_address> parse_address(std::string_view text) {
    const std::size_t colon = text.rfind(':');
    if (colon == std::string_view::npos) return std::nullopt;
    std::string host(text.substr(0, colon));
    const std::string_view digits = text.substr(colon + 1);
    std::uint16_t port = 0;
    const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
    if (code != std::errc{} || end != digits.data() + digits.size()) return std::nullopt;
    socket_address result;
    if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
        auto& v6 = reinterpret_cast<sockaddr_in6&>(result.storage);
        v6.sin6_family = AF_INET6;
        v6.sin6_port = htons(port);
        result.size = sizeof v6;
        if (inet_pton(AF_INET6, host.substr(1, host.size() - 2).c_str(), &v6.sin6_addr) != 1) return std::nullopt;
        return result;
    }
    if (host == "localhost") host = "127.0.0.1";
    auto& v4 = reinterpret_cast<sockaddr_in&>(result.storage);
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
    result.size = sizeof v4;
    if (inet_pton(AF_INET, host.c_str(), &v4.sin_addr) != 1) return std::nullopt;
    return result;
}

namespace {

peer user_of(int socket) {
    ucred who{};
    socklen_t size = sizeof who;
    if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &who, &size) != 0) return {};
    peer result;
    result.way = peer_way::unix_socket;
    result.user = who.uid;
    result.group = who.gid;
    result.process = who.pid;
    result.groups.resize(64);
    for (int tries = 0; tries < 2; ++tries) {  // where there is no room for all, the kernel tells how many there are
        size = static_cast<socklen_t>(result.groups.size() * sizeof(gid_t));
        const bool told = ::getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, result.groups.data(), &size) == 0;
        if (!told && errno != ERANGE) break;
        result.groups.resize(size / sizeof(gid_t));
        if (told) return result;
    }
    return {};  // who is in fewer groups may have more rights
}

}  // namespace

peer peer_of(int socket) {
    sockaddr_storage from{};
    socklen_t size = sizeof from;
    if (::getpeername(socket, reinterpret_cast<sockaddr*>(&from), &size) != 0) return {};
    if (from.ss_family == AF_UNIX) return user_of(socket);
    std::array<char, INET6_ADDRSTRLEN> text{};
    const void* const bytes = from.ss_family == AF_INET6
                                  ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in6&>(from).sin6_addr)
                                  : &reinterpret_cast<const sockaddr_in&>(from).sin_addr;
    if (::inet_ntop(from.ss_family, bytes, text.data(), text.size()) == nullptr) return {};
    peer result;
    result.way = peer_way::tcp;
    result.address = text.data();
    return result;
}

void fail_socket(int code, const std::string& subject, std::string_view call) {
    switch (code) {
        case EADDRINUSE:
            throw error(errc::already_exists, subject,
                        "another socket listens there; stop it or choose another address");
        case EACCES:
        case EPERM:
            throw error(errc::no_permission, subject,
                        subject.find('/') != std::string::npos
                            ? "may not make a socket there; choose a directory you may write"
                            : "may not listen there; choose a port of 1024 or more");
        case EADDRNOTAVAIL:
            throw error(errc::not_found, subject, "no interface has this address; `ip addr` lists those there are");
        case ENAMETOOLONG:
            throw error(errc::invalid_name, subject, "the path is too long for a socket; choose a shorter one");
        case EMFILE:
        case ENFILE: throw error(errc::no_space, subject, "out of file descriptors; raise the limit (ulimit -n)");
        default: throw error(errc::io, subject, std::string(call) + ": " + std::strerror(code));
    }
}

}  // namespace holdfast::net
