// SPDX-License-Identifier: Apache-2.0
// patient_sleeps.hpp - futex sleeps of this program without their caps, so that a lost wake is not healed by one.
//
// Defines syscall(2) for the whole program: include it in one source alone.
#pragma once

#include <dlfcn.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>

#include <atomic>
#include <cstdarg>

namespace holdfast::test {

/// While one lives, whoever sleeps on a futex word, for however short, sleeps for up to half a minute.
class patient_sleeps {
 public:
    patient_sleeps() noexcept { living_.fetch_add(1); }
    patient_sleeps(const patient_sleeps&) = delete;
    patient_sleeps& operator=(const patient_sleeps&) = delete;
    ~patient_sleeps() { living_.fetch_sub(1); }

    static constexpr long cap_s = 30;
    [[nodiscard]] static bool wanted() noexcept { return living_.load() != 0; }
    /// Sleeps so far.
    static inline std::atomic<unsigned long> sleeps{0};

 private:
    static inline std::atomic<int> living_{0};
};

}  // namespace holdfast::test

extern "C" inline __attribute__((used, visibility("default"))) long syscall(long number, ...) noexcept {
    long given[6];
    va_list arguments;
    va_start(arguments, number);
    for (long& each : given) each = va_arg(arguments, long);
    va_end(arguments);
    static auto* const next = reinterpret_cast<long (*)(long, ...)>(::dlsym(RTLD_NEXT, "syscall"));
    struct timespec patience{holdfast::test::patient_sleeps::cap_s, 0};
    if (number == SYS_futex && given[1] == FUTEX_WAIT && given[3] != 0 && holdfast::test::patient_sleeps::wanted()) {
        holdfast::test::patient_sleeps::sleeps.fetch_add(1);
        given[3] = reinterpret_cast<long>(&patience);
    }
    return next(number, given[0], given[1], given[2], given[3], given[4], given[5]);
}
