// SPDX-License-Identifier: Apache-2.0
// machine_limits.hpp - whether this machine can hold so many connections, both ends of them, asked before any is
// opened.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace holdfast::workload::connections {

/// How the connections of one run are spread over processes.
struct process_plan {
    std::size_t connections = 0;
    std::size_t descriptors = 0;   ///< that one process may have
    std::size_t servers = 1;       ///< processes of the server that hold connections
    std::size_t server_holds = 0;  ///< connections that each of them can hold at most
    std::size_t clients = 1;
};

/// As many processes as processors, and as many more as the limit of descriptors asks for. The kernel spreads
/// connections over the servers by a hash, so each has room for a quarter more than its share.
[[nodiscard]] process_plan plan_processes(std::size_t connections, std::size_t descriptors, std::size_t processors);

/// What a machine has, as far as it decides.
struct machine_facts {
    std::uint64_t memory_bytes = 0;  ///< that may still be taken
    std::uint64_t files_open = 0, files_max = 0;
    std::uint64_t watches_max = 0;               ///< fs.epoll.max_user_watches
    std::uint64_t ports = 0;                     ///< of ip_local_port_range
    std::uint64_t queue_max = 0;                 ///< net.core.somaxconn
    std::uint64_t tracked = 0, tracked_max = 0;  ///< connections that netfilter follows; 0: it follows none
};
/// 0 in what the system does not tell. `own_network`: the run has a namespace of its own, where nothing is tracked.
[[nodiscard]] machine_facts look_at_machine(bool own_network);

/// What is lacking for the plan, one cure a line; empty: nothing.
[[nodiscard]] std::vector<std::string> lacks_of(const process_plan& plan, const machine_facts& there);

}  // namespace holdfast::workload::connections
