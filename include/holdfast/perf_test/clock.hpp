// SPDX-License-Identifier: Apache-2.0
// clock.hpp - the two clocks of a measurement: the kernel's monotonic one for batches, the CPU's counter for single
// calls.
//
// tick_clock reads the time-stamp counter (x86-64: rdtsc, aarch64: cntvct_el0) where it runs at a constant rate on all
// CPUs, else the kernel's clock; what it counts are ticks, turned into nanoseconds by a factor found at first use.
// (I1) start() completes before any later instruction begins, stop() begins after every earlier one has completed:
//      what is timed can leak out on neither side. Differences of one clock's ticks mean something, nothing else does.
// (I2) Ticks of different threads agree (that is what the check for an invariant counter is about).
// Threads: all functions are safe from any thread. Source: Paoloni, How to Benchmark Code Execution Times on Intel
// IA-32 and IA-64, 2010, for the fences; Linux Documentation/virt/kvm/x86/timekeeping.rst for what invariant means.
#pragma once

#include <time.h>

#include <cstdint>
#include <string>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace holdfast::perf_test {

/// CLOCK_MONOTONIC, ns. Cost: about 20 to 50 ns, no system call where the kernel offers its vDSO.
[[nodiscard]] inline std::uint64_t monotonic_ns() noexcept {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000U + static_cast<std::uint64_t>(now.tv_nsec);
}

/// What a clock of ticks reads.
enum class tick_source : std::uint8_t { tsc, cntvct, monotonic };

/// "tsc", "cntvct" or "monotonic".
[[nodiscard]] const char* to_string(tick_source source) noexcept;

class tick_clock {
 public:
    /// The best clock of this machine, calibrated once a process (20 ms at the first call).
    [[nodiscard]] static const tick_clock& get();

    /// The kernel's clock in the same shape, where a test wants to compare; calibrated likewise.
    [[nodiscard]] static const tick_clock& kernel();

    /// Before what is timed.
    [[nodiscard]] std::uint64_t start() const noexcept {
#if defined(__x86_64__)
        if (source_ == tick_source::tsc) {
            _mm_lfence();
            const std::uint64_t ticks = __rdtsc();
            _mm_lfence();
            return ticks;
        }
#elif defined(__aarch64__)
        if (source_ == tick_source::cntvct) return read_cntvct();
#endif
        return monotonic_ns();
    }

    /// After what is timed.
    [[nodiscard]] std::uint64_t stop() const noexcept {
#if defined(__x86_64__)
        if (source_ == tick_source::tsc) {
            unsigned cpu = 0;
            const std::uint64_t ticks = __rdtscp(&cpu);  // waits for every earlier instruction by itself
            _mm_lfence();
            return ticks;
        }
#elif defined(__aarch64__)
        if (source_ == tick_source::cntvct) return read_cntvct();
#endif
        return monotonic_ns();
    }

    /// Ticks to nanoseconds; a difference that came out negative (I2 broken by the machine) counts as 0.
    [[nodiscard]] double ns(std::uint64_t from, std::uint64_t to) const noexcept {
        return to > from ? static_cast<double>(to - from) * ns_a_tick_ : 0.0;
    }

    [[nodiscard]] tick_source source() const noexcept { return source_; }
    [[nodiscard]] double ns_a_tick() const noexcept { return ns_a_tick_; }
    [[nodiscard]] double granularity_ns() const noexcept { return granularity_ns_; }  ///< least step, above 0
    [[nodiscard]] double read_cost_ns() const noexcept { return read_cost_ns_; }      ///< median of start() to stop()
    [[nodiscard]] const std::string& reason() const noexcept { return reason_; }      ///< why not the CPU's counter

    /// Takes the median time of a call of nothing, read_cost_ns, off a time; never below 0.
    [[nodiscard]] double without_cost(double measured_ns) const noexcept {
        return measured_ns > read_cost_ns_ ? measured_ns - read_cost_ns_ : 0.0;
    }

 private:
    tick_clock(tick_source source, std::string reason);

#if defined(__aarch64__)
    static std::uint64_t read_cntvct() noexcept {
        std::uint64_t ticks = 0;
        asm volatile("isb\n\tmrs %0, cntvct_el0\n\tisb" : "=r"(ticks)::"memory");
        return ticks;
    }
#endif
    void find_rate();
    void find_grain();

    tick_source source_;
    double ns_a_tick_ = 1, granularity_ns_ = 1, read_cost_ns_ = 0;
    std::string reason_;
};

}  // namespace holdfast::perf_test
