// SPDX-License-Identifier: Apache-2.0
// counters.hpp - what a piece of code did beside taking time: CPU events, switches and faults, allocations, and
// instructions counted one by one.
//
//   event_counters     perf_event_open for the calling thread, user mode only: instructions, cycles, branches, misses.
//                      Virtual machines and containers often have none; reason() says why and what to do.
//   usage_counters     getrusage for the calling thread: always there.
//   allocations        counted if the program includes perf_test/count_allocations.hpp in one of its sources.
//   callgrind          the program runs itself again under valgrind, which counts instructions exactly: the same on a
//                      busy and a quiet machine, so that a build can fail on 1 % (--perf_baseline). Slow: about 50
//                      times.
// Threads: an object counts the thread that made it and must be used there. Source: perf_event_open(2), getrusage(2),
// the Valgrind manual, chapter Callgrind.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "holdfast/perf_test/result.hpp"

namespace holdfast::perf_test {

/// The CPU's own counters. Those that the kernel or the CPU does not give are missing; with none at all it is not
/// available. More events than the CPU has counters share them in turn; each value is then scaled by the time it was
/// on.
class event_counters {
 public:
    event_counters();
    ~event_counters();
    event_counters(const event_counters&) = delete;
    event_counters& operator=(const event_counters&) = delete;

    [[nodiscard]] bool available() const noexcept { return !events_.empty(); }
    [[nodiscard]] const std::string& reason() const noexcept { return reason_; }  ///< why not, with a cure; else empty

    void start() noexcept;
    /// Counts since start() over the operations. An event that never got onto the CPU is missing.
    [[nodiscard]] std::vector<counter> stop(std::uint64_t operations);

 private:
    struct event {
        const char* name;
        int descriptor;
    };
    std::vector<event> events_;
    std::string reason_;
};

/// "voluntary-switches", "involuntary-switches", "minor-faults", "major-faults" of the calling thread.
class usage_counters {
 public:
    usage_counters() noexcept { start(); }
    void start() noexcept;
    [[nodiscard]] std::vector<counter> stop(std::uint64_t operations) const;

 private:
    std::uint64_t before_[4]{};
};

/// What operator new was asked for by this thread. Zero forever unless the hook is in the program.
struct allocation_totals {
    std::uint64_t calls = 0, bytes = 0;
};
[[nodiscard]] allocation_totals allocations_of_this_thread() noexcept;
[[nodiscard]] bool allocations_are_counted() noexcept;
void note_allocation(std::uint64_t bytes) noexcept;  ///< called by the hook
void announce_allocation_hook() noexcept;            ///< called by the hook

/// "allocations" and "allocated-bytes" since `before`; empty without the hook.
[[nodiscard]] std::vector<counter> allocations_since(const allocation_totals& before, std::uint64_t operations);

/// Runs `work` so that callgrind counts it and nothing else (counted_by_callgrind below); otherwise just runs it.
void run_counted(const std::function<void()>& work);

/// True in a process that valgrind runs.
[[nodiscard]] bool under_valgrind() noexcept;

struct callgrind_result {
    std::uint64_t instructions = 0;  ///< executed within run_counted, by all threads
    std::string failure;             ///< why there is no number, empty if there is
};

/// Runs a program, argv[0] being its path, under callgrind and reads what run_counted cost in it. Its output goes to
/// /dev/null. It is killed after `seconds`. Throws: std::bad_alloc alone; every other failure is in the result: no
/// valgrind, a program that failed, no call of run_counted.
[[nodiscard]] callgrind_result count_with_callgrind(const std::vector<std::string>& argv, double seconds = 600);

}  // namespace holdfast::perf_test
