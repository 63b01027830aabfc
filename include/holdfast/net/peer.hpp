// SPDX-License-Identifier: Apache-2.0
// peer.hpp - who is at the other end of a connection, as the kernel told when it was accepted.
//
// The credentials of a unix socket are those that the client had when it called connect: what it becomes, or passes the
// socket to, later, changes nothing. Source: unix(7), SO_PEERCRED; socket(7), SO_PEERGROUPS.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace holdfast::net {

/// How a client reached us.
enum class peer_way : std::uint8_t {
    unknown,      ///< the kernel did not tell: a stranger
    tcp,          ///< by an address, which says nothing of the user
    unix_socket,  ///< by a socket file: user and groups are certain
};

struct peer {
    peer_way way = peer_way::unknown;
    std::string address;          ///< of tcp, without the port: "127.0.0.1", "::1"
    uid_t user = 0;               ///< of unix_socket, and so on
    gid_t group = 0;              ///< the primary one
    std::vector<gid_t> groups{};  ///< the others
    pid_t process = 0;            ///< for people: numbers are used again
};

}  // namespace holdfast::net
