// SPDX-License-Identifier: Apache-2.0
// network_namespace.hpp - a network of this process's own: addresses, ports, queues and counters that nobody else sees.
//
// It has no name and belongs to a descriptor of this process: when that is closed, by whatever end of the process and
// of those it forked, the kernel takes the namespace away with all that was made or set in it. There is nothing to tidy
// up. Threads: any; a thread is in the namespace only while it is within().
#pragma once

#include <functional>

#include "holdfast/memory/descriptor.hpp"

namespace holdfast::workload {

class network_namespace {
 public:
    /// Throws: std::system_error, EPERM without CAP_SYS_ADMIN; its text says what was refused.
    network_namespace();

    /// Calls `act` on this thread in the namespace: sockets made there, and processes forked there, belong there for
    /// good. Also in a forked process. Throws: what `act` throws; std::system_error.
    void within(const std::function<void()>& act) const;

    /// Switches the loopback device on; a new namespace has one that is off. Throws: std::system_error.
    void raise_loopback() const;

    [[nodiscard]] int descriptor() const noexcept { return space_.get(); }

 private:
    memory::descriptor space_;
};

}  // namespace holdfast::workload
