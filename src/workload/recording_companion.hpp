// SPDX-License-Identifier: Apache-2.0
// recording_companion.hpp - a second process that records into the same memory for as long as it is told to.
#pragma once

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <functional>
#include <new>
#include <system_error>
#include <vector>

#include "workload/shared_pages.hpp"

namespace holdfast::workload {

/// Runs one of several loops in a forked process, over and over; 0 is none.
class recording_companion {
 public:
    /// Each loop should take some 10 us and return. Throws: std::system_error.
    explicit recording_companion(const std::vector<std::function<void()>>& loops) : pages_(4096) {
        chosen_ = ::new (pages_.bytes().data()) std::atomic<std::size_t>(0);
        const pid_t parent = ::getpid();
        child_ = ::fork();
        if (child_ < 0) throw std::system_error(errno, std::generic_category(), "forking a second recorder");
        if (child_ != 0) return;
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // nothing of a bench outlives it
        while (::getppid() == parent) {
            // Relaxed: which loop to run is all that this says.
            const std::size_t now = chosen_->load(std::memory_order_relaxed);
            if (now == 0 || now > loops.size())
                ::usleep(200);
            else
                loops[now - 1]();
        }
        ::_exit(0);
    }
    recording_companion(const recording_companion&) = delete;
    recording_companion& operator=(const recording_companion&) = delete;
    ~recording_companion() {
        ::kill(child_, SIGKILL);
        while (::waitpid(child_, nullptr, 0) < 0 && errno == EINTR) {
        }
    }

    void choose(std::size_t loop) noexcept {
        chosen_->store(loop, std::memory_order_relaxed);  // as above
    }

 private:
    shared_pages pages_;
    std::atomic<std::size_t>* chosen_ = nullptr;
    pid_t child_ = -1;
};

}  // namespace holdfast::workload
