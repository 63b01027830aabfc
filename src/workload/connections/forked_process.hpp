// SPDX-License-Identifier: Apache-2.0
// forked_process.hpp - a part of this program in a process of its own: one more table of descriptors, and memory that
// can be looked at from outside.
//
// It dies with the thread that forked it, and is ended and reaped by the destructor. What it throws is kept and told.
// Threads: one at a time, always the same.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <string>

#include "workload/shared_pages.hpp"

namespace holdfast::workload::connections {

class forked_process {
 public:
    /// Runs `work` in a new process, which ends behind it. Signals do there what they do to any program. Requires: this
    /// process has one thread. Throws: std::system_error.
    explicit forked_process(const std::function<void()>& work);
    ~forked_process();
    forked_process(const forked_process&) = delete;
    forked_process& operator=(const forked_process&) = delete;

    [[nodiscard]] pid_t pid() const noexcept { return pid_; }
    /// Whether it has ended, by itself or not.
    [[nodiscard]] bool ended();
    /// What it threw; empty otherwise.
    [[nodiscard]] std::string complaint() const;

 private:
    shared_pages words_;
    pid_t pid_ = -1;
    bool reaped_ = false;
};

/// How many descriptors a process may have here at most: its hard limit.
[[nodiscard]] std::size_t descriptors_max() noexcept;
/// Lets this process have that many.
void raise_descriptors() noexcept;

}  // namespace holdfast::workload::connections
