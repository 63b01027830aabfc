// SPDX-License-Identifier: Apache-2.0
// listener.hpp - listening sockets, ready for a server: non-blocking, close-on-exec; what they accept inherits
// TCP_NODELAY and the kernel's watch over clients that fall silent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace holdfast::net {

struct listen_options {
    bool reuse_port = false;  ///< several processes may listen on the same port; the kernel spreads connections
    int backlog = 4096;       ///< connections waiting for accept; the kernel caps it at net.core.somaxconn
    int silence_max_s = 75;   ///< of TCP: a client whose machine answers nothing for so long, neither what is sent nor,
                              ///< where nothing is, the kernel's probes, is away, a third later at the latest. Also one
                              ///< that takes none of what waits for it, so not below limits::write_timeout_ms.
                              ///< 0: as the kernel has it, which may be for ever
};

/// Listens on "ADDRESS:PORT"; IPv6 addresses in brackets, "[::1]:8080"; "localhost" is 127.0.0.1; port 0 takes a free
/// one (bound_port tells which). Names are not resolved: which address a server listens on must not depend on DNS.
///
/// Returns: a descriptor the caller owns.
/// Throws: error(invalid_argument) for a malformed address; error(already_exists) when the port is taken;
/// error(no_permission) for a port that needs privilege; error(io) else. Each names the address and the cure.
[[nodiscard]] int listen_tcp(std::string_view address, const listen_options& options = {});

/// Listens on a unix-domain stream socket with the given file mode. A socket file that nobody listens on is replaced;
/// one that is served is error(already_exists); anything else at that path is error(unsafe_file). Of several that begin
/// at once one listens: a lock on PATH.lock, a file that is there for the time of the call, keeps them apart; who holds
/// it for a second is error(already_exists), too.
[[nodiscard]] int listen_unix(const std::string& path, unsigned mode = 0600, const listen_options& options = {});

/// Gives each connection to the listener whose thread runs where its packets are handled: of a group on one port
/// (listen_options::reuse_port), numbered in the order in which they began to listen, number (i modulo `listeners`)
/// gets those that CPU cpus[i] handles, and CPUs that are not named are spread modulo `listeners`. Whoever takes from a
/// listener should be pinned to its CPUs. Without this the kernel spreads by a hash of addresses and ports.
///
/// `listener` is any of the group. It stays so, for whoever has the sockets, also over send_listeners, until another of
/// these calls; numbers are right only while none is closed, since the kernel puts the last one in a gap.
/// Throws: error(invalid_argument) for no listeners or more than 4096, more than 2000 CPUs, or a socket of no group;
/// error(io).
void steer_by_cpu(int listener, std::size_t listeners, std::span<const unsigned> cpus);

/// Takes that back, also where it never was. Throws: error(invalid_argument, io); error(unsupported) before Linux 5.3.
void steer_by_flow(int listener);

/// The TCP port a socket is bound to. Throws: error(io).
[[nodiscard]] std::uint16_t bound_port(int socket);

/// Where a socket is bound: "127.0.0.1:8080", "[::1]:8080" or the path of a unix socket, as it was given to
/// listen_unix; empty for one without a name, or with an abstract one. Throws: error(io).
[[nodiscard]] std::string bound_address(int socket);

/// An address for listen_tcp() as bound_address() writes it. Throws: error(invalid_argument).
[[nodiscard]] std::string plain_address(std::string_view address);

}  // namespace holdfast::net
