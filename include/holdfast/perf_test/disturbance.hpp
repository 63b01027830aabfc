// SPDX-License-Identifier: Apache-2.0
// disturbance.hpp - did somebody else have this CPU while we measured?
//
// Two signs are read: the involuntary context switches of the calling thread (getrusage, RUSAGE_THREAD), and the time
// that the hypervisor gave to other guests (steal in /proc/stat, all CPUs together, in steps of usually 10 ms).
// Threads: one object a thread; it must be read by the thread that made it. Cost: a system call and a read of
// /proc/stat, 10 to 50 us on small machines: for spans of a millisecond and more. Source: getrusage(2), proc_stat(5).
#pragma once

#include <cstdint>

namespace holdfast::perf_test {

/// What happened in a span of time.
struct disturbance {
    std::uint64_t involuntary_switches = 0;
    double steal_seconds = 0;
    [[nodiscard]] bool any() const noexcept { return involuntary_switches > 0 || steal_seconds > 0; }
};

class disturbance_meter {
 public:
    disturbance_meter() noexcept;
    ~disturbance_meter();
    disturbance_meter(const disturbance_meter&) = delete;
    disturbance_meter& operator=(const disturbance_meter&) = delete;

    /// What happened since the last call, or since the object was made.
    disturbance since_last() noexcept;

    /// False where /proc/stat cannot be read: steal then counts as none.
    [[nodiscard]] bool sees_steal() const noexcept { return stat_ >= 0; }

 private:
    std::uint64_t steal_ticks() noexcept;

    int stat_ = -1;
    double tick_seconds_ = 0.01;
    std::uint64_t switches_ = 0, steal_ = 0;
};

/// Steal in the first line of /proc/stat, in ticks; 0 for a text that is none. For tests and for environment.cpp.
[[nodiscard]] std::uint64_t parse_steal(const char* text) noexcept;

}  // namespace holdfast::perf_test
