// SPDX-License-Identifier: Apache-2.0
// child.hpp - other programs run by the check: started, watched in /proc, killed.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace geo {

/// A started program. Killed and reaped on destruction, with the children it has then.
class child {
 public:
    /// Starts arguments[0]; output goes to `log`. Throws std::runtime_error.
    child(const std::vector<std::string>& arguments, const std::string& log);
    child(const child&) = delete;
    child& operator=(const child&) = delete;
    ~child();

    [[nodiscard]] pid_t pid() const noexcept { return pid_; }
    /// The children that the kernel lists for it now.
    [[nodiscard]] std::vector<pid_t> children() const;
    /// Waits for its end; the exit status, or 128 + signal.
    int wait();
    /// Asks it to end (SIGTERM) and waits.
    int terminate();
    /// SIGKILL to it and all its children at once, then waits.
    void kill_all();

 private:
    pid_t pid_ = -1;
    int status_ = 0;
};

/// Runs a program to its end. Throws std::runtime_error with its output when it fails.
void run(const std::vector<std::string>& arguments, const std::string& log);

/// Resident bytes of a process that are its own (not shared memory), from /proc/PID/status.
[[nodiscard]] std::size_t private_resident_bytes(pid_t pid);

}  // namespace geo
