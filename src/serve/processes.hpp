// SPDX-License-Identifier: Apache-2.0
// processes.hpp - what can be told of another process from its command line: whether it is one of ours, and whose. To
// say more about it, never to decide who may write: numbers of processes are used again.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::serve {

/// The parent of a process; 0 where it cannot be told.
[[nodiscard]] std::uint64_t parent_of(std::uint64_t pid);

/// Whether it is a worker of some `holdfast serve`.
[[nodiscard]] bool is_worker(std::uint64_t pid);

/// Whether it is a worker whose supervisor lives. One that a killed supervisor left behind only drains.
[[nodiscard]] bool is_kept_worker(std::uint64_t pid);

/// The words by which this process was started.
[[nodiscard]] std::vector<std::string> own_command_line();

/// Tells the service manager that started us, if one did and wants to be told: sd_notify(3). Never fails.
void tell_service_manager(std::string_view state) noexcept;

}  // namespace holdfast::serve
