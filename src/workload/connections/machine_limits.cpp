// SPDX-License-Identifier: Apache-2.0
#include "workload/connections/machine_limits.hpp"

#include <algorithm>
#include <sstream>

#include "holdfast/memory/space.hpp"
#include "workload/room.hpp"

namespace holdfast::workload::connections {

namespace {

// Of both ends: 7.7 kB of kernel objects and 0.3 kB of the processes were measured; the rest is for a server that takes
// more than ours, and for what the kernel rounds up.
constexpr std::uint64_t bytes_of_connection = 11'264;
constexpr std::uint64_t bytes_of_process = 4U << 20U;
constexpr std::size_t spare_descriptors = 64;
constexpr std::size_t processes_max = 1000;
constexpr std::uint64_t spare_files = 10'000;
constexpr std::uint64_t ports_min = 4'000;  // twice what one source address is given
constexpr std::uint64_t queue_min = 256;    // what all clients together have under way at one listener, twice

std::vector<std::uint64_t> numbers_of(const char* path) {
    std::istringstream text(memory::detail::read_small_file(path).value_or(""));
    std::vector<std::uint64_t> all;
    for (std::uint64_t one = 0; text >> one;) all.push_back(one);
    return all;
}

std::uint64_t number_of(const char* path) {
    const std::vector<std::uint64_t> all = numbers_of(path);
    return all.empty() ? 0 : all.front();
}

std::size_t divided_up(std::size_t all, std::size_t each) { return (all + each - 1) / each; }

std::string mebibytes(std::uint64_t bytes) { return std::to_string(bytes >> 20U) + " MiB"; }

}  // namespace

process_plan plan_processes(std::size_t connections, std::size_t descriptors, std::size_t processors) {
    process_plan plan{.connections = connections, .descriptors = descriptors};
    plan.server_holds = std::max(descriptors, 2 * spare_descriptors) - spare_descriptors;
    plan.servers = std::max(processors, divided_up(connections * 5, plan.server_holds * 4));
    plan.clients = std::max(processors, divided_up(connections, plan.server_holds));
    return plan;
}

machine_facts look_at_machine(bool own_network) {
    machine_facts there{.memory_bytes = available_memory()};
    if (const auto files = numbers_of("/proc/sys/fs/file-nr"); files.size() == 3) {
        there.files_open = files[0];
        there.files_max = files[2];
    }
    there.watches_max = number_of("/proc/sys/fs/epoll/max_user_watches");
    there.queue_max = number_of("/proc/sys/net/core/somaxconn");
    if (const auto range = numbers_of("/proc/sys/net/ipv4/ip_local_port_range"); range.size() == 2)
        there.ports = range[1] - std::min(range[0], range[1]) + 1;
    if (!own_network) {
        there.tracked = number_of("/proc/sys/net/netfilter/nf_conntrack_count");
        there.tracked_max = number_of("/proc/sys/net/netfilter/nf_conntrack_max");
    }
    return there;
}

std::vector<std::string> lacks_of(const process_plan& plan, const machine_facts& there) {
    std::vector<std::string> lacks;
    const std::uint64_t count = plan.connections;
    const std::uint64_t processes = plan.servers + plan.clients;
    const auto raise = [&](std::uint64_t has, std::uint64_t wants, const char* what) {
        if (has == 0 || has >= wants) return;
        lacks.push_back(std::string(what) + " is " + std::to_string(has) + "; sysctl -w " + what + "=" +
                        std::to_string(wants));
    };
    if (const std::uint64_t bytes = count * bytes_of_connection + processes * bytes_of_process;
        there.memory_bytes != 0 && there.memory_bytes < bytes)
        lacks.push_back("both ends may take " + mebibytes(bytes) + " of memory, and " + mebibytes(there.memory_bytes) +
                        " are available");
    if (processes > processes_max)
        lacks.push_back("with " + std::to_string(plan.descriptors) + " descriptors a process it would take " +
                        std::to_string(processes) + " processes; raise the hard limit (ulimit -Hn)");
    raise(there.files_max, there.files_open + 2 * count + spare_files, "fs.file-max");
    raise(there.watches_max, 2 * count, "fs.epoll.max_user_watches");
    raise(there.queue_max, queue_min, "net.core.somaxconn");
    if (there.tracked_max != 0) raise(there.tracked_max, there.tracked + count, "net.netfilter.nf_conntrack_max");
    if (there.ports != 0 && there.ports < ports_min)
        lacks.push_back("net.ipv4.ip_local_port_range has " + std::to_string(there.ports) +
                        " ports; sysctl -w net.ipv4.ip_local_port_range=\"32768 60999\"");
    return lacks;
}

}  // namespace holdfast::workload::connections
