// SPDX-License-Identifier: Apache-2.0
// child_process.hpp - a server of its own process group on the cores given to it, ended and reaped whatever happens.
//
// (I1) The destructor leaves no process of the group: the leader is asked by SIGTERM, then the group is killed. Workers
//      whose leader died come to us (adopt_orphans) and are reaped too.
// (I2) If this program is killed itself, the kernel sends the leader SIGTERM, and the servers here end their workers
//      then.
// Threads: one at a time, always the same: a child dies with the thread that started it.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include "net/file_descriptor.hpp"

namespace holdfast::bench::http {

struct child_options {
    std::vector<std::string> arguments;    ///< the first is the program's path
    std::vector<std::string> environment;  ///< "NAME=value", beside what we have ourselves
    std::vector<unsigned> cores;           ///< those it may use; empty: as we may
    std::filesystem::path log;             ///< standard error, appended
};

/// The program cannot be started, ended by itself, or did not say what was waited for. The text names it and quotes its
/// log.
struct child_failed : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// Makes orphaned grandchildren ours, so that they can be reaped. Once, before the first child.
void adopt_orphans();

class child_process {
 public:
    /// Throws: child_failed.
    explicit child_process(child_options options);
    ~child_process();
    child_process(const child_process&) = delete;
    child_process& operator=(const child_process&) = delete;

    /// The next line of its standard output. Throws: child_failed, interrupted.
    [[nodiscard]] std::string read_line(std::chrono::milliseconds patience);
    /// All of its standard output, and its end. Throws: child_failed when that takes too long or its status is not 0;
    /// interrupted.
    [[nodiscard]] std::string read_all(std::chrono::milliseconds patience);

    /// Whether it ended by itself.
    [[nodiscard]] bool ended();
    /// What it wrote to standard error, the end of it.
    [[nodiscard]] std::string log_text() const;

    /// Notes which processes belong to it from now on, for cpu_ns.
    void note_processes();
    [[nodiscard]] const std::vector<pid_t>& processes() const noexcept { return processes_; }
    /// Processor time that they have used so far. Throws: child_failed when one of them is gone.
    [[nodiscard]] std::uint64_t cpu_ns() const;
    /// Time that they were ready to run and something else ran, so far.
    [[nodiscard]] std::uint64_t waited_ns() const;

 private:
    bool read_more(std::chrono::steady_clock::time_point end);
    [[noreturn]] void fail(const std::string& what) const;

    child_options options_;
    net::file_descriptor output_;
    std::string pending_;
    std::vector<pid_t> processes_;
    pid_t pid_ = -1;
    pid_t group_ = -1;
    int status_ = 0;
};

/// Runs a program to its end; its standard output. Throws as child_process does.
std::string output_of(child_options options, std::chrono::milliseconds patience = std::chrono::seconds(30));

/// As child_process::waited_ns, of the calling thread.
[[nodiscard]] std::uint64_t own_waited_ns();
/// Restricts the calling thread to these cores. Throws: std::system_error.
void pin_to(const std::vector<unsigned>& cores);
/// The cores that this process may use.
[[nodiscard]] std::vector<unsigned> usable_cores();

/// Pins the calling thread, and puts it back on the cores it came from.
class pinned {
 public:
    explicit pinned(const std::vector<unsigned>& cores) : before_(usable_cores()) { pin_to(cores); }
    ~pinned() {
        try {
            pin_to(before_);
        } catch (const std::system_error&) {  // cores taken away in the meantime: the kernel has chosen others
        }
    }
    pinned(const pinned&) = delete;
    pinned& operator=(const pinned&) = delete;

 private:
    std::vector<unsigned> before_;
};

}  // namespace holdfast::bench::http
