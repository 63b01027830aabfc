// SPDX-License-Identifier: Apache-2.0
#include "holdfast/perf_test/pacing.hpp"

#include <sys/prctl.h>
#include <time.h>

#include <cerrno>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace holdfast::perf_test {

void monotonic_clock::sleep_until(std::uint64_t at_ns) const noexcept {
    const timespec until{static_cast<time_t>(at_ns / 1'000'000'000), static_cast<long>(at_ns % 1'000'000'000)};
    while (::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) == EINTR) {
    }
}

void monotonic_clock::relax() const noexcept {
#if defined(__x86_64__)
    _mm_pause();
#elif defined(__aarch64__)
    asm("yield");
#endif
}

timer_slack::timer_slack() noexcept {
    const int former = ::prctl(PR_GET_TIMERSLACK);
    if (former <= 1) return;  // refused, or at its least already: nothing to give back
    if (::prctl(PR_SET_TIMERSLACK, 1UL) == 0) former_ = static_cast<unsigned long>(former);
}

timer_slack::~timer_slack() {
    if (former_ != 0) ::prctl(PR_SET_TIMERSLACK, former_);
}

}  // namespace holdfast::perf_test
