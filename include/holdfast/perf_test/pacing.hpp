// SPDX-License-Identifier: Apache-2.0
// pacing.hpp - waiting for an instant: asleep until shortly before it, then spinning.
//
// A sleeper wakes late by the timer slack (50 us unless changed) and the scheduler's and hypervisor's time; a spinner
// is late by one reading of the clock and keeps a core busy. timer_slack takes away the first, wake_up_error measures
// the second, and the margin before the instant at which spinning begins follows from it.
// (I1) wait_until never sleeps for an instant that has passed: whoever is behind catches up at full speed.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "holdfast/perf_test/clock.hpp"
#include "holdfast/perf_test/options.hpp"

namespace holdfast::perf_test {

/// CLOCK_MONOTONIC in nanoseconds: one for all threads and processes of the machine.
struct monotonic_clock {
    [[nodiscard]] std::uint64_t now() const noexcept { return monotonic_ns(); }
    void sleep_until(std::uint64_t at_ns) const noexcept;  ///< goes on sleeping when a signal interrupts it
    void relax() const noexcept;                           ///< tells the processor that this is a spin loop
};

/// The calling thread's timer slack at its least for as long as this lives.
class timer_slack {
 public:
    timer_slack() noexcept;
    ~timer_slack();
    timer_slack(const timer_slack&) = delete;
    timer_slack& operator=(const timer_slack&) = delete;

 private:
    unsigned long former_ = 0;
};

struct never_stopped {
    bool operator()() const noexcept { return false; }
};

/// Returns at `at_ns` or later, at once if it has passed (I1); earlier, within 0.1 s, if `stopped()` says so while
/// there is time to sleep. Returns: the last reading of the clock.
template <class Clock, class Stopped = never_stopped>
std::uint64_t wait_until(const Clock& clock, std::uint64_t at_ns, pacing how, std::uint64_t margin_ns,
                         const Stopped& stopped = {}) noexcept {
    constexpr std::uint64_t nap_ns = 100'000'000;
    if (how == pacing::sleep) margin_ns = 0;
    std::uint64_t now = clock.now();
    while (now < at_ns && at_ns - now > margin_ns) {
        if (stopped()) return now;
        clock.sleep_until(std::min(at_ns - margin_ns, now + nap_ns));
        now = clock.now();
    }
    while (now < at_ns) {
        clock.relax();
        now = clock.now();
    }
    return now;
}

/// What a thread that sleeps on this machine must reckon with just now.
struct wake_up_error {
    std::uint64_t median_ns = 0;

    /// How long before an instant to stop sleeping: 60 us, or more where wake-ups are worse, but at most 0.3 ms. Twice
    /// the median, not a high percentile: on a crowded machine that is a time slice of somebody else, and a thread that
    /// spins for so long is taken off its core all the sooner.
    [[nodiscard]] std::uint64_t margin_ns() const noexcept {
        return std::clamp<std::uint64_t>(2 * median_ns, 60'000, 300'000);
    }
};

/// Sleeps 21 times 200 us and looks how late it wakes. Cost: about 6 ms.
template <class Clock>
[[nodiscard]] wake_up_error rehearse_wake_up(const Clock& clock) noexcept {
    std::array<std::uint64_t, 21> late{};
    for (std::uint64_t& each : late) {
        const std::uint64_t until = clock.now() + 200'000;
        clock.sleep_until(until);
        const std::uint64_t now = clock.now();
        each = now > until ? now - until : 0;
    }
    std::sort(late.begin(), late.end());
    return {late[late.size() / 2]};
}

}  // namespace holdfast::perf_test
