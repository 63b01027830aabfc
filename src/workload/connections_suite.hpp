// SPDX-License-Identifier: Apache-2.0
// connections_suite.hpp - many connections, client and server on this one machine: are they held, what does each cost?
//
// The workload is that of connections/connection_client.hpp. A process may have so many descriptors and no more, so
// both ends are as many processes as that takes; the connections come from many addresses of the loopback network,
// whose ports would run out otherwise. Where this process may make one, all of it is in a network namespace of its own,
// which ends with it: no setting of the machine is changed, and nothing is put back. (I1) Before anything is opened,
// what the machine lacks for it is told, with the cure, and the step is skipped. (I2) Memory is what has grown between
// a server that has answered a few and one that holds all, and besides what its
//      processes take in all.
// (I3) Every connection is accounted for: opened, refused, lost, given up. A wrong answer ends the suite.
// (I4) Whatever ends the suite, no process of it is left.
#pragma once

#include <vector>

#include "workload/connections/connection_subject.hpp"
#include "workload/suite.hpp"

namespace holdfast::workload {

/// Ours first. HOLDFAST_CONNECTIONS_SECONDS: how long each number of connections is held and measured; 60 unless given.
[[nodiscard]] suite connections_suite(std::vector<connections::subject> subjects);

/// holdfast::net on either engine.
[[nodiscard]] std::vector<connections::subject> own_connection_subjects();

}  // namespace holdfast::workload
