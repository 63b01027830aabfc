// SPDX-License-Identifier: Apache-2.0
// broadcast_suite.hpp - messages from one writer that never waits to readers that it may overrun.
#pragma once

#include <vector>

#include "workload/channel_subject.hpp"
#include "workload/suite.hpp"

namespace holdfast::workload {

/// The kinds that need no package: ours first, then pipe, unix socket, and a ring under a std::shared_mutex.
[[nodiscard]] std::vector<channel_kind> own_broadcast_kinds();

/// A suite over these kinds.
[[nodiscard]] suite broadcast_suite(std::vector<channel_kind> kinds);

}  // namespace holdfast::workload
