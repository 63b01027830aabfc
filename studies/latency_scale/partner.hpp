// SPDX-License-Identifier: Apache-2.0
// partner.hpp - the other side of a hand-over: a thread or a forked process that answers until it is told to end.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "holdfast/perf_test/environment.hpp"

namespace study {

/// The CPUs for the two sides. Where there is one only, both are the same.
struct two_cpus {
    unsigned here = 0, there = 0;
    bool apart = false;
    [[nodiscard]] static two_cpus of_this_machine() {
        const std::vector<unsigned> usable = holdfast::perf_test::usable_cpus();
        two_cpus found{usable.front(), usable.back(), usable.size() > 1};
        return found;
    }
};

/// Ties the calling thread, which may have inherited a tie to another CPU. Where it fails, the scheduler chooses.
void move_to(unsigned cpu) noexcept;

/// Runs `answer` in a thread tied to a CPU until the end of this object, which calls `stop` to end it.
class thread_partner {
 public:
    thread_partner(unsigned cpu, std::function<void()> answer, std::function<void()> stop) : stop_(std::move(stop)) {
        thread_ = std::thread([cpu, answer = std::move(answer)] {
            move_to(cpu);
            answer();
        });
    }
    ~thread_partner() {
        stop_();
        thread_.join();
    }
    thread_partner(const thread_partner&) = delete;
    thread_partner& operator=(const thread_partner&) = delete;

 private:
    std::function<void()> stop_;
    std::thread thread_;
};

/// The same in a forked process, which is killed at the end, and if this one dies.
class process_partner {
 public:
    process_partner(unsigned cpu, const std::function<void()>& answer);
    ~process_partner();
    process_partner(const process_partner&) = delete;
    process_partner& operator=(const process_partner&) = delete;

 private:
    int child_ = -1;
};

/// A word in shared memory whose value says whose turn it is; the one whose turn it is not sleeps in the kernel.
class futex_turns {
 public:
    futex_turns();
    ~futex_turns();
    futex_turns(const futex_turns&) = delete;
    futex_turns& operator=(const futex_turns&) = delete;

    void hand_to(unsigned side) noexcept;   ///< 0, 1, or 2: nobody's any more
    bool wait_for(unsigned side) noexcept;  ///< false: nobody's any more

 private:
    std::atomic<unsigned>* word_;
};

}  // namespace study
