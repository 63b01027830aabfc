// SPDX-License-Identifier: Apache-2.0
#include "holdfast/net/listener.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <charconv>
#include <cstring>
#include <optional>

#include "file_descriptor.hpp"
#include "holdfast/error.hpp"

namespace holdfast::net {

namespace {

struct socket_address {
    sockaddr_storage storage{};
    socklen_t size = 0;
};

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

[[noreturn]] void fail(int code, const std::string& subject, std::string_view what) {
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
        default: throw error(errc::io, subject, std::string(what) + ": " + std::strerror(code));
    }
}

void set_option(int fd, int level, int option, const std::string& subject) {
    const int on = 1;
    if (setsockopt(fd, level, option, &on, sizeof on) != 0) fail(errno, subject, "setsockopt");
}

}  // namespace

int listen_tcp(std::string_view address, const listen_options& options) {
    const std::string subject(address);
    const auto where = parse_address(address);
    if (!where)
        throw error(errc::invalid_argument, subject,
                    "not an address to listen on; write 127.0.0.1:8080 or [::1]:8080 (port 0 takes a free one)");
    file_descriptor fd(::socket(where->storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!fd) fail(errno, subject, "socket");
    // Connections of a predecessor in TIME_WAIT must not keep its successor from the port.
    set_option(fd.get(), SOL_SOCKET, SO_REUSEADDR, subject);
    if (options.reuse_port) set_option(fd.get(), SOL_SOCKET, SO_REUSEPORT, subject);
    set_option(fd.get(), IPPROTO_TCP, TCP_NODELAY, subject);
    if (where->storage.ss_family == AF_INET6) set_option(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, subject);
    if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&where->storage), where->size) != 0)
        fail(errno, subject, "bind");
    if (::listen(fd.get(), options.backlog) != 0) fail(errno, subject, "listen");
    return fd.release();
}

int listen_unix(const std::string& path, unsigned mode, const listen_options& options) {
    sockaddr_un where{};
    where.sun_family = AF_UNIX;
    if (path.empty() || path.find('\0') != std::string::npos)
        throw error(errc::invalid_name, path, "not a path for a socket; give a plain file name");
    if (path.size() >= sizeof where.sun_path) fail(ENAMETOOLONG, path, "bind");
    std::memcpy(where.sun_path, path.data(), path.size());
    const auto* const name = reinterpret_cast<const sockaddr*>(&where);

    file_descriptor fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!fd) fail(errno, path, "socket");
    // Set on the socket before bind, the mode is the file's from its first instant (subject to the umask, so it can
    // only be narrower); a chmod afterwards would leave a moment in which others may connect.
    if (::fchmod(fd.get(), static_cast<mode_t>(mode)) != 0) fail(errno, path, "fchmod");
    if (::bind(fd.get(), name, sizeof where) != 0) {
        if (errno != EADDRINUSE) fail(errno, path, "bind");
        struct stat status{};
        if (::lstat(path.c_str(), &status) == 0 && !S_ISSOCK(status.st_mode))
            throw error(errc::unsafe_file, path,
                        "something that is not a socket stands there; remove it or choose another path");
        const file_descriptor probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
        if (!probe) fail(errno, path, "socket");
        if (::connect(probe.get(), name, sizeof where) == 0 || errno != ECONNREFUSED) fail(EADDRINUSE, path, "bind");
        if (::unlink(path.c_str()) != 0 && errno != ENOENT) fail(errno, path, "unlink");
        if (::bind(fd.get(), name, sizeof where) != 0) fail(errno, path, "bind");
    }
    if (::listen(fd.get(), options.backlog) != 0) fail(errno, path, "listen");
    return fd.release();
}

std::uint16_t bound_port(int socket) {
    sockaddr_storage where{};
    socklen_t size = sizeof where;
    if (::getsockname(socket, reinterpret_cast<sockaddr*>(&where), &size) != 0) fail(errno, "socket", "getsockname");
    if (where.ss_family == AF_INET6) return ntohs(reinterpret_cast<const sockaddr_in6&>(where).sin6_port);
    return where.ss_family == AF_INET ? ntohs(reinterpret_cast<const sockaddr_in&>(where).sin_port) : std::uint16_t{0};
}

}  // namespace holdfast::net
