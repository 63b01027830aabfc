// SPDX-License-Identifier: Apache-2.0
// futex.hpp - sleeping on a word that several processes map, and waking who sleeps there.
//
// std::atomic::wait is of no use here: libstdc++ sleeps on private futexes or on a table of its own process, which no
// other process can wake. The word may lie in a read-only mapping of a file: the kernel only compares it.
// Source: futex(2); FUTEX_WAIT takes a relative time-out on CLOCK_MONOTONIC.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>

namespace holdfast::memory {

/// Sleeps while the word is `seen`, at most `timeout_ns`. Returns: false when the time-out ended it, true otherwise
/// (woken, the word had changed already, or a signal: look again). Where the kernel cannot sleep on the word, naps of 1
/// ms at most, each counted as a time-out.
inline bool futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t seen, std::uint64_t timeout_ns) noexcept {
    struct timespec span{};
    span.tv_sec = static_cast<time_t>(timeout_ns / 1'000'000'000);
    span.tv_nsec = static_cast<long>(timeout_ns % 1'000'000'000);
    // Not FUTEX_WAIT_PRIVATE: that key is an address of one process.
    const long answer = ::syscall(SYS_futex, &word, FUTEX_WAIT, seen, &span, nullptr, 0);
    if (answer == 0 || errno == EAGAIN || errno == EINTR) return true;
    if (errno == ETIMEDOUT) return false;
    constexpr std::uint64_t nap_ns = 1'000'000;
    span.tv_sec = 0;
    span.tv_nsec = static_cast<long>(timeout_ns < nap_ns ? timeout_ns : nap_ns);
    ::nanosleep(&span, nullptr);
    return false;
}

/// Wakes up to `sleepers` of those who sleep on the word.
inline void futex_wake(const std::atomic<std::uint32_t>& word, int sleepers) noexcept {
    (void)::syscall(SYS_futex, &word, FUTEX_WAKE, sleepers, nullptr, nullptr, 0);
}

}  // namespace holdfast::memory
