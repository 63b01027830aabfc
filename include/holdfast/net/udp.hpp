// SPDX-License-Identifier: Apache-2.0
// udp.hpp - datagram sockets: addresses, buffers that are as large as was asked for, and groups of receivers on one
// port.
//
// udp_receiver.hpp reads from such a socket, udp_sender.hpp writes to one. Names are not resolved, as in listener.hpp.
// Threads: all functions here, any.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::net {

/// Address and port of one end, IPv4 or IPv6, in the kernel's form.
class udp_address {
 public:
    /// None. As a destination: whatever the socket is connected to.
    udp_address() noexcept = default;
    /// Of "127.0.0.1:53" or "[::1]:53". Throws: error(invalid_argument).
    explicit udp_address(std::string_view text);

    [[nodiscard]] bool empty() const noexcept { return size() == 0; }
    [[nodiscard]] std::uint16_t port() const noexcept;
    /// As the constructor takes it; "" for none.
    [[nodiscard]] std::string text() const;
    friend bool operator==(const udp_address& a, const udp_address& b) noexcept { return a.equals(b); }

    // For system calls: where an address lies or is to be put, its bytes, and how many may be.
    [[nodiscard]] sockaddr* data() noexcept { return &name_.any; }
    [[nodiscard]] const sockaddr* data() const noexcept { return &name_.any; }
    [[nodiscard]] socklen_t size() const noexcept {
        if (name_.any.sa_family == AF_INET) return sizeof name_.v4;
        return name_.any.sa_family == AF_INET6 ? socklen_t{sizeof name_.v6} : socklen_t{0};
    }
    static constexpr socklen_t size_max = sizeof(sockaddr_in6);

 private:
    [[nodiscard]] bool equals(const udp_address& other) const noexcept;
    union name {
        sockaddr_in6 v6;
        sockaddr_in v4;
        sockaddr any;
    };
    name name_ = {.v6 = {}};  // the longest: all of it is zero at first
};

struct udp_bind_options {
    /// Several sockets of this user may have the address: a group. Port 0 begins one, on a port that nobody has.
    bool reuse_port = false;
    /// Room of a socket's queue. The kernel gives at most net.core.rmem_max, and what is asked for to CAP_NET_ADMIN. A
    /// small datagram takes about 770 bytes of it: 4 MiB are some 10,000 (the kernel doubles what it is asked for).
    std::size_t receive_buffer_bytes = std::size_t{4} << 20U;
    /// Less room than this is an error instead of early loss.
    std::size_t receive_buffer_bytes_min = 0;
};

/// A blocking datagram socket on "ADDRESS:PORT"; port 0 takes a free one (bound_port tells which).
///
/// Returns: a descriptor the caller owns; udp_receiver takes it.
/// Throws: error(invalid_argument) for a malformed address; error(already_exists) when the port is taken;
/// error(no_permission) for a port that needs privilege; error(no_space) when the system gives less room than
/// receive_buffer_bytes_min; error(io) else. Each names the address and the cure.
[[nodiscard]] int bind_udp(std::string_view address, const udp_bind_options& options = {});

/// A blocking datagram socket of any free port that sends to `address`, and receives only what comes from there.
/// Returns: a descriptor the caller owns. Throws: as bind_udp; error(io) when no route leads there.
[[nodiscard]] int connect_udp(std::string_view address, const udp_bind_options& options = {});

/// The room that the kernel has given the socket's queue, in the measure of receive_buffer_bytes. Throws: error(io).
[[nodiscard]] std::size_t receive_buffer_bytes(int socket);

/// How the kernel spreads what arrives over a group.
enum class udp_spread : std::uint8_t {
    by_flow,  ///< by a hash of both addresses and ports: a flow stays with its receiver, and few flows spread unevenly
    by_cpu,   ///< receiver number (CPU that handles the packet) modulo their count: nothing crosses cores
};

/// That many sockets on one address, by_cpu in the order of the receivers' numbers: each is for a receiver whose thread
/// runs on the CPU of that number. Port 0 takes one free port for all.
///
/// What arrives before the last one is bound is spread over those there are. When one of them is closed, the kernel
/// puts the last one in its place: numbers by_cpu are right only while all are open. Throws: as bind_udp;
/// error(invalid_argument) for no receivers or more than 4096.
[[nodiscard]] std::vector<int> bind_udp_group(std::string_view address, std::size_t receivers,
                                              udp_spread spread = udp_spread::by_cpu,
                                              const udp_bind_options& options = {});

/// Spreads by CPU over a group whose sockets were bound one by one with reuse_port (a process each): `socket` is any of
/// them, and they are numbered as they were bound. Throws: error(invalid_argument, io).
void spread_by_cpu(int socket, std::size_t receivers);

}  // namespace holdfast::net
