// SPDX-License-Identifier: Apache-2.0
// veth_pair.hpp - two network namespaces joined by a virtual cable, as two machines would be by a real one.
//
// The cable and the addresses end with the namespaces (network_namespace.hpp). There is nothing to tidy up.
// Threads: any; a thread is in another namespace only while it is within().
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <string_view>

#include "workload/network_namespace.hpp"

namespace holdfast::workload {

class veth_pair {
 public:
    /// IPv4 addresses of the two ends, and the largest packet between them.
    static constexpr std::array<std::string_view, 2> addresses{"10.73.0.1", "10.73.0.2"};
    static constexpr std::size_t packet_bytes_max = 1500;

    /// Throws: std::system_error, EPERM without CAP_SYS_ADMIN; its text says what was refused.
    veth_pair();

    /// Calls `act` on this thread in the namespace of that end, 0 or 1: sockets made there belong there for good. Also
    /// in a forked process. Throws: what `act` throws; std::system_error.
    void within(std::size_t end, const std::function<void()>& act) const;

 private:
    std::array<network_namespace, 2> namespaces_;
};

}  // namespace holdfast::workload
