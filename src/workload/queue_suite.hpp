// SPDX-License-Identifier: Apache-2.0
// queue_suite.hpp - messages from one producer process to one consumer process: throughput, and there and back.
#pragma once

#include <vector>

#include "workload/channel_subject.hpp"
#include "workload/suite.hpp"

namespace holdfast::workload {

/// The kinds that need no package: ours first, then pipe, unix socket, and a deque under a mutex.
[[nodiscard]] std::vector<channel_kind> own_queue_kinds();

/// A suite over these kinds.
[[nodiscard]] suite queue_suite(std::vector<channel_kind> kinds);

}  // namespace holdfast::workload
