// SPDX-License-Identifier: Apache-2.0
// room.hpp - whether an experiment's data can be had, asked before any of it is made.
//
// Memory below /dev/shm has a limit of its own: half of the machine's unless somebody said otherwise, and 64 MiB in
// most containers. Who only sets the length of a file there, as LMDB and Boost.Interprocess do, gets it whatever the
// limit, and SIGBUS at the first page that is one too many.
#pragma once

#include <cstdint>
#include <string>

namespace holdfast::workload {

/// Memory that may still be taken: what the kernel thinks is available, or what the cgroup leaves if that is less.
[[nodiscard]] std::uint64_t available_memory();
/// What is free below /dev/shm; the greatest number where that has no limit.
[[nodiscard]] std::uint64_t available_shared_memory();

struct room_wanted {
    std::uint64_t memory_bytes = 0;  ///< in all
    std::uint64_t shared_bytes = 0;  ///< of these, below /dev/shm
};
/// Why that cannot be had and what helps; empty when it can.
[[nodiscard]] std::string lacking_room(const room_wanted& wanted);

}  // namespace holdfast::workload
