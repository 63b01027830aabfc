// SPDX-License-Identifier: Apache-2.0
// udp_suite.hpp - how many datagrams one thread takes, and two: over loopback and from one network namespace to
// another.
#pragma once

#include "workload/suite.hpp"

namespace holdfast::workload {

/// Ours are udp_receiver and udp_sender; beside them the loop of recvfrom and sendto that the published figures are of.
[[nodiscard]] suite udp_suite();

}  // namespace holdfast::workload
