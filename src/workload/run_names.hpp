// SPDX-License-Identifier: Apache-2.0
// run_names.hpp - names in shared memory for one run of a suite, of which none stays behind, however the run ends.
//
// (I1) Whatever the run makes is called prefix() and something behind it, in folder().
// (I2) The destructor removes all of it. A process that ends without (Ctrl-C, SIGKILL) is followed by a helper process
//      that does: it waits at a socket which the kernel closes with the process, in a session of its own, where no
//      signal to the group or the terminal reaches it; nothing is made before it is there. It looks for two seconds:
//      servers of the run may still be ending.
// (I3) Where the helper was killed as well (a container stopped as a whole), the next run does it: it removes the names
//      of each run whose file PREFIX.bench-run nobody holds locked. The kernel drops such a lock with its process;
//      pids, which are given out again and differ between containers, decide nothing.
// Threads: construct and destroy on one thread; the rest is constant.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <string_view>

#include "holdfast/memory/descriptor.hpp"

namespace holdfast::workload {

class run_names {
 public:
    /// `suite`: letters, for people who look into the folder. Removes what earlier runs left there (I3).
    /// Throws: std::system_error when no file can be made there.
    explicit run_names(std::string_view suite, std::filesystem::path folder = shared_folder());
    ~run_names();
    run_names(const run_names&) = delete;
    run_names& operator=(const run_names&) = delete;

    /// "holdfast-SUITE-XXXXXX", which no other run uses.
    [[nodiscard]] const std::string& prefix() const noexcept { return prefix_; }
    [[nodiscard]] const std::filesystem::path& folder() const noexcept { return folder_; }

    /// /dev/shm, where POSIX shared memory lies; the folder for temporary files on a system without.
    [[nodiscard]] static std::filesystem::path shared_folder();

 private:
    [[nodiscard]] bool is_ready() const noexcept;

    std::filesystem::path folder_;
    std::string prefix_;
    memory::descriptor lock_;        // of PREFIX.bench-run
    memory::descriptor end_of_run_;  // of the helper's socket; closed by the kernel if by nobody else
    pid_t helper_ = -1;
};

}  // namespace holdfast::workload
