// SPDX-License-Identifier: Apache-2.0
// connection_subject.hpp - a server that holds the connections: how it is started, of which processes it consists.
//
// All get the same number of processes and the same requests; each is to hold as many connections as a process is given
// here, and to keep idle ones open for longer than a client idles.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace holdfast::workload::connections {

/// A subject cannot run here; the text is the reason that the report gives.
struct unavailable : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// Ended with all its processes by its destructor.
class running_server {
 public:
    virtual ~running_server() = default;
    [[nodiscard]] virtual std::uint16_t port() const = 0;
    /// All of it: those that hold no connections, too.
    [[nodiscard]] virtual std::vector<pid_t> processes() const = 0;
    /// Why one of its processes has ended; empty while all run.
    [[nodiscard]] virtual std::string complaint() = 0;
};

struct server_place {
    std::size_t workers = 1;      ///< processes that hold connections
    std::size_t descriptors = 0;  ///< that each of them may have
    std::size_t connections = 0;  ///< that each of them is to be able to hold
};

struct subject {
    std::string name;
    bool ours = false;                     ///< only what this machine cannot do excuses it; a peer may be missing
    std::string how;                       ///< what it does to answer
    std::function<std::string()> version;  ///< as it says itself. Throws: unavailable
    /// Answers GET /bytes with the ranges of random_bytes() (byte_exchange.hpp) at 127.0.0.1. Called where it is to
    /// listen (network_namespace.hpp). Throws: unavailable, std::exception.
    std::function<std::unique_ptr<running_server>(const server_place&)> start;
};

/// Forked processes of this program, each with a net::server.
[[nodiscard]] subject net_epoll();
[[nodiscard]] subject net_io_uring();

}  // namespace holdfast::workload::connections
