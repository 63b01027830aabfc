// SPDX-License-Identifier: Apache-2.0
// waiting.hpp - spin, then sleep, until something in shared memory is so, a deadline passes, or the other side is dead.
//
// A sleeper announces itself (arm), looks once more, and sleeps on a bell, a futex word that the other side counts up.
// Both announce before they look (Dekker, sequentially consistent), so a wake is never lost between two living
// processes. One that is killed between its commit and its wake loses the wake: no sleep is longer than sleep_ns_max,
// and after each that ended by itself the caller is asked whether the other side still lives. Signals and wakes for
// nothing end sleeps early: they do not put that question off for longer than a whole sleep would.
// Threads: functions of their arguments alone.
#pragma once

#include <time.h>

#include <atomic>
#include <chrono>
#include <cstdint>

#include "holdfast/memory/futex.hpp"

namespace holdfast::memory {

/// A point in time on CLOCK_MONOTONIC, in nanoseconds. Setting the clock of the machine does not move it.
class deadline {
 public:
    [[nodiscard]] static std::uint64_t now_ns() noexcept {
        struct timespec now{};
        ::clock_gettime(CLOCK_MONOTONIC, &now);
        return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
    }
    /// That far from now; a negative span has passed already, and one of 292 years or more means never.
    [[nodiscard]] static deadline after(std::chrono::nanoseconds span) noexcept {
        if (span.count() <= 0) return deadline(0);
        const std::uint64_t now = now_ns();
        const auto more = static_cast<std::uint64_t>(span.count());
        return deadline(now + more);  // no overflow: both are below 2^63
    }
    [[nodiscard]] static deadline never() noexcept { return deadline(~std::uint64_t{0}); }

    /// Nanoseconds left; 0 when it has passed. Cost: a clock read.
    [[nodiscard]] std::uint64_t left_ns() const noexcept {
        const std::uint64_t now = now_ns();
        return at_ns_ > now ? at_ns_ - now : 0;
    }
    /// On CLOCK_MONOTONIC, as now_ns() tells it; 0 for one that had passed from the beginning.
    [[nodiscard]] std::uint64_t at_ns() const noexcept { return at_ns_; }

 private:
    explicit deadline(std::uint64_t at_ns) noexcept : at_ns_(at_ns) {}
    std::uint64_t at_ns_;
};

struct wait_policy {
    unsigned spins = 200;                      ///< looks before the first sleep: a peer that runs answers in 0.1 us
    std::uint64_t sleep_ns_max = 100'000'000;  ///< the longest single sleep
    bool rung = true;                          ///< false: nobody rings the bell; sleep_ns_max is then 1 ms at most
};

enum class wait_answer : std::uint8_t { ready, timed_out, gone };

namespace detail {

inline void spin_pause() noexcept {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

}  // namespace detail

/// Waits until ready() says so. `bell` is the word that the other side counts up; arm() makes a sleeper known to it by
/// a sequentially consistent store, disarm() takes that back; gone() says that nobody lives who could make it ready.
/// Returns: ready, also when it became so together with one of the others.
template <class Ready, class Arm, class Disarm, class Gone>
[[nodiscard]] wait_answer wait_until(const std::atomic<std::uint32_t>& bell, const deadline& until,
                                     const wait_policy& policy, Ready&& ready, Arm&& arm, Disarm&& disarm,
                                     Gone&& gone) noexcept {
    for (unsigned i = 0; i < policy.spins; ++i) {
        if (ready()) return wait_answer::ready;
        detail::spin_pause();
    }
    constexpr std::uint64_t unrung_ns_max = 1'000'000;
    std::uint64_t longest = policy.sleep_ns_max;
    std::uint64_t unrung_ns = 50'000;
    std::uint64_t asked_ns = deadline::now_ns();
    for (;;) {
        // Acquire, before arm(): a ring from here on changes the word, and the kernel then does not let us sleep.
        const std::uint32_t seen = bell.load(std::memory_order_acquire);
        arm();
        if (ready()) {
            disarm();
            return wait_answer::ready;
        }
        const std::uint64_t left = until.left_ns();
        if (!policy.rung) {
            longest = unrung_ns < policy.sleep_ns_max ? unrung_ns : policy.sleep_ns_max;
            unrung_ns = unrung_ns * 2 < unrung_ns_max ? unrung_ns * 2 : unrung_ns_max;
        }
        const bool woken = left != 0 && futex_wait(bell, seen, left < longest ? left : longest);
        disarm();
        if (ready()) return wait_answer::ready;
        const std::uint64_t now_ns = deadline::now_ns();
        if (!woken || now_ns - asked_ns >= longest) {
            asked_ns = now_ns;
            // Asked last: what the other side did before its death is seen by the ready() that follows.
            if (gone()) return ready() ? wait_answer::ready : wait_answer::gone;
        }
        if (left == 0) return wait_answer::timed_out;
    }
}

}  // namespace holdfast::memory
