// SPDX-License-Identifier: Apache-2.0
#include "holdfast/net/udp.hpp"

#include <arpa/inet.h>
#include <linux/filter.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>

#include "file_descriptor.hpp"
#include "holdfast/detail/concat.hpp"
#include "holdfast/error.hpp"
#include "holdfast/net/listener.hpp"
#include "socket_address.hpp"

namespace holdfast::net {

namespace {

constexpr std::size_t receivers_max = 4096;

void set_flag(int fd, int level, int option, const std::string& subject) {
    const int on = 1;
    if (::setsockopt(fd, level, option, &on, sizeof on) != 0) fail_socket(errno, subject, "setsockopt");
}

/// Asks for the room; who may not go beyond the system's limit gets that.
void size_receive_buffer(int fd, const udp_bind_options& options, const std::string& subject) {
    const int wanted = static_cast<int>(std::min<std::size_t>(options.receive_buffer_bytes, INT_MAX / 2));
    if (::setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &wanted, sizeof wanted) != 0 &&
        ::setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &wanted, sizeof wanted) != 0)
        fail_socket(errno, subject, "setsockopt");
    const std::size_t given = receive_buffer_bytes(fd);
    if (given < options.receive_buffer_bytes_min)
        throw error(errc::no_space, subject,
                    "its queue got room for " + std::to_string(given) + " bytes of at least " +
                        std::to_string(options.receive_buffer_bytes_min) +
                        "; ask for as many (receive_buffer_bytes) and raise net.core.rmem_max by sysctl to them, or "
                        "run with CAP_NET_ADMIN");
}

[[nodiscard]] file_descriptor make_socket(const udp_address& where, const udp_bind_options& options,
                                          const std::string& subject) {
    file_descriptor fd(::socket(where.data()->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (!fd) fail_socket(errno, subject, "socket");
    if (where.data()->sa_family == AF_INET6) set_flag(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, subject);
    if (options.reuse_port) set_flag(fd.get(), SOL_SOCKET, SO_REUSEPORT, subject);
    size_receive_buffer(fd.get(), options, subject);
    return fd;
}

void bind_to(int fd, const udp_address& where, const std::string& subject) {
    if (::bind(fd, where.data(), where.size()) != 0) fail_socket(errno, subject, "bind");
}

/// A socket on a port that nobody has, which is put into `where`. The kernel would give port 0 of a socket that may
/// share its port also that of a group of the same user. So one that may not share finds the port, and allows it then:
/// while it is open, who asks for that port stands beside it.
[[nodiscard]] file_descriptor find_port(udp_address& where, const std::string& subject) {
    file_descriptor fd = make_socket(where, {}, subject);
    bind_to(fd.get(), where, subject);
    socklen_t size = udp_address::size_max;
    if (::getsockname(fd.get(), where.data(), &size) != 0) fail_socket(errno, subject, "getsockname");
    set_flag(fd.get(), SOL_SOCKET, SO_REUSEPORT, subject);
    return fd;
}

}  // namespace

udp_address::udp_address(std::string_view text) {
    const auto parsed = parse_address(text);
    if (!parsed)
        throw error(errc::invalid_argument, std::string(text),
                    "not an address and a port; write 127.0.0.1:53 or [::1]:53");
    std::memcpy(&name_, &parsed->storage, parsed->size);
}

std::uint16_t udp_address::port() const noexcept {
    if (empty()) return 0;
    return ntohs(name_.any.sa_family == AF_INET ? name_.v4.sin_port : name_.v6.sin6_port);
}

std::string udp_address::text() const {
    std::array<char, INET6_ADDRSTRLEN> host{};
    if (name_.any.sa_family == AF_INET) {
        ::inet_ntop(AF_INET, &name_.v4.sin_addr, host.data(), host.size());
        return holdfast::detail::concat(host.data(), ":", std::to_string(port()));
    }
    if (name_.any.sa_family != AF_INET6) return {};
    ::inet_ntop(AF_INET6, &name_.v6.sin6_addr, host.data(), host.size());
    return holdfast::detail::concat("[", host.data(), "]:", std::to_string(port()));
}

bool udp_address::equals(const udp_address& other) const noexcept {
    if (size() != other.size() || port() != other.port()) return false;
    if (empty()) return true;
    if (name_.any.sa_family == AF_INET) return name_.v4.sin_addr.s_addr == other.name_.v4.sin_addr.s_addr;
    return name_.v6.sin6_scope_id == other.name_.v6.sin6_scope_id &&
           std::memcmp(&name_.v6.sin6_addr, &other.name_.v6.sin6_addr, sizeof name_.v6.sin6_addr) == 0;
}

int bind_udp(std::string_view address, const udp_bind_options& options) {
    const std::string subject(address);
    udp_address where(address);
    const bool finds = options.reuse_port && where.port() == 0;
    const file_descriptor finder = finds ? find_port(where, subject) : file_descriptor();
    file_descriptor fd = make_socket(where, options, subject);
    bind_to(fd.get(), where, subject);
    return fd.release();
}

int connect_udp(std::string_view address, const udp_bind_options& options) {
    const std::string subject(address);
    const udp_address where(address);
    file_descriptor fd = make_socket(where, options, subject);
    if (::connect(fd.get(), where.data(), where.size()) == 0) return fd.release();
    if (errno == EACCES)
        throw error(errc::no_permission, subject,
                    "is a broadcast address, or a firewall forbids it; give the address of one host or of a multicast "
                    "group");
    fail_socket(errno, subject, "connect");
}

std::size_t receive_buffer_bytes(int socket) {
    int doubled = 0;
    socklen_t size = sizeof doubled;
    if (::getsockopt(socket, SOL_SOCKET, SO_RCVBUF, &doubled, &size) != 0)
        throw error(errc::io, holdfast::detail::concat("descriptor ", socket),
                    holdfast::detail::concat("getsockopt: ", std::strerror(errno), "; give an open socket"));
    return static_cast<std::size_t>(doubled) / 2;  // the kernel doubles what it is asked for, and says the double
}

std::vector<int> bind_udp_group(std::string_view address, std::size_t receivers, udp_spread spread,
                                const udp_bind_options& options) {
    if (receivers == 0 || receivers > receivers_max)
        throw error(errc::invalid_argument, std::string(address),
                    std::to_string(receivers) + " receivers; a group has 1 to " + std::to_string(receivers_max));
    udp_bind_options each = options;
    each.reuse_port = true;
    std::string where(address);
    std::vector<file_descriptor> sockets;
    for (std::size_t i = 0; i < receivers; ++i) {
        sockets.emplace_back(bind_udp(where, each));
        if (i == 0) where = where.substr(0, where.rfind(':') + 1) + std::to_string(bound_port(sockets[0].get()));
    }
    if (spread == udp_spread::by_cpu) spread_by_cpu(sockets.front().get(), receivers);
    std::vector<int> released;
    released.reserve(receivers);
    for (file_descriptor& one : sockets) released.push_back(one.release());
    return released;
}

void spread_by_cpu(int socket, std::size_t receivers) {
    const std::string subject = "descriptor " + std::to_string(socket);
    if (receivers == 0 || receivers > receivers_max)
        throw error(errc::invalid_argument, subject,
                    std::to_string(receivers) + " receivers; a group has 1 to " + std::to_string(receivers_max));
    // The CPU that handles the packet, modulo the receivers. A number that nobody has is spread by flow.
    std::array<sock_filter, 3> steps{
        sock_filter{BPF_LD | BPF_W | BPF_ABS, 0, 0, static_cast<std::uint32_t>(SKF_AD_OFF + SKF_AD_CPU)},
        sock_filter{BPF_ALU | BPF_MOD | BPF_K, 0, 0, static_cast<std::uint32_t>(receivers)},
        sock_filter{BPF_RET | BPF_A, 0, 0, 0}};
    const sock_fprog program{.len = steps.size(), .filter = steps.data()};
    if (::setsockopt(socket, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof program) == 0) return;
    if (errno == EINVAL) throw error(errc::invalid_argument, subject, "is of no group; bind it with reuse_port");
    fail_socket(errno, subject, "setsockopt(SO_ATTACH_REUSEPORT_CBPF)");
}

}  // namespace holdfast::net
