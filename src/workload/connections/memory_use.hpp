// SPDX-License-Identifier: Apache-2.0
// memory_use.hpp - what processes and the kernel take, as the kernel tells it.
//
// User memory is the proportional share (Pss): a page that n processes share counts a n-th for each, so that the sum
// over the processes of one server counts it once. The kernel's is that of the whole machine: who compares two looks at
// it has to be alone there.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace holdfast::workload::connections {

/// Throws: std::runtime_error when one of them is gone or may not be looked at.
[[nodiscard]] std::uint64_t user_bytes(const std::vector<pid_t>& processes);

struct kernel_bytes {
    std::uint64_t slab = 0;         ///< objects: sockets, inodes, what epoll or io_uring knows of each
    std::uint64_t processes = 0;    ///< stacks and page tables
    std::uint64_t socket_data = 0;  ///< what waits in sockets, of TCP

    [[nodiscard]] std::uint64_t sum() const noexcept { return slab + processes + socket_data; }
};
/// Throws: std::runtime_error when the kernel does not tell.
[[nodiscard]] kernel_bytes kernel_bytes_now();

/// Bytes of each kind of kernel object by its name; empty where this process may not see them (it takes root).
[[nodiscard]] std::map<std::string, std::uint64_t> slab_bytes();

/// "TCP 2406, sock_inode_cache 836, ...": what has grown most between two looks, bytes for each of `count`.
[[nodiscard]] std::string growth_text(const std::map<std::string, std::uint64_t>& before,
                                      const std::map<std::string, std::uint64_t>& after, std::uint64_t count);

/// Processor time of these processes so far. Throws: std::runtime_error when one of them is gone.
[[nodiscard]] std::uint64_t processor_ns(const std::vector<pid_t>& processes);

}  // namespace holdfast::workload::connections
