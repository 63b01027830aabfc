// SPDX-License-Identifier: Apache-2.0
// stop_signals.hpp - how what runs until it is stopped learns that it is: SIGINT, SIGTERM, or nobody reads its output
// any more. SIGPIPE is ignored meanwhile, so that a closed pipe is an answer of write().
//
// A signal interrupts a write to a pipe that nobody reads, but not one that begins just behind it. So the first signal
// also starts a timer, whose own signals interrupt whatever stands, again and again, until the program has ended.
#pragma once

#include <poll.h>
#include <signal.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

#include "cli/exit_code.hpp"
#include "cli/output.hpp"
#include "holdfast/error.hpp"

namespace holdfast::cli {

/// While one lives, signals to end set a flag instead; a second one of a kind ends the program as ever.
class stop_signals {
 public:
    stop_signals() noexcept {
        flag() = 0;
        struct sigaction action{};
        action.sa_handler = [](int) {
            flag() = 1;
            interrupt_each(20'000);
        };
        action.sa_flags = static_cast<int>(SA_RESETHAND);
        ::sigaction(SIGINT, &action, &interrupt_);
        ::sigaction(SIGTERM, &action, &terminate_);
        struct sigaction nothing{};  // without SA_RESTART: what it interrupts ends with EINTR
        nothing.sa_handler = [](int) {};
        ::sigaction(SIGALRM, &nothing, &alarm_);
        struct sigaction ignore{};
        ignore.sa_handler = SIG_IGN;
        ::sigaction(SIGPIPE, &ignore, &pipe_);
    }
    stop_signals(const stop_signals&) = delete;
    stop_signals& operator=(const stop_signals&) = delete;
    ~stop_signals() {
        interrupt_each(0);
        ::sigaction(SIGALRM, &alarm_, nullptr);
        ::sigaction(SIGINT, &interrupt_, nullptr);
        ::sigaction(SIGTERM, &terminate_, nullptr);
        ::sigaction(SIGPIPE, &pipe_, nullptr);
    }

    [[nodiscard]] bool asked() const noexcept { return flag() != 0; }
    /// Whether standard output is a pipe or socket whose other end is closed.
    [[nodiscard]] bool reader_gone() const noexcept { return output_closed(); }
    [[nodiscard]] static bool output_closed() noexcept {
        struct pollfd output{STDOUT_FILENO, 0, 0};
        return ::poll(&output, 1, 0) == 1 && (output.revents & (POLLERR | POLLHUP | POLLNVAL)) != 0;
    }
    /// Sleeps; a signal, or the closing of the output, ends it early.
    void nap(std::uint64_t ns) const noexcept {
        struct pollfd output{STDOUT_FILENO, 0, 0};
        const struct timespec span{static_cast<time_t>(ns / 1'000'000'000), static_cast<long>(ns % 1'000'000'000)};
        (void)::ppoll(&output, 1, &span, nullptr);
    }

 private:
    /// A SIGALRM each so many microseconds; 0: no more. A bare system call, so a signal's handler may make it.
    static void interrupt_each(suseconds_t us) noexcept {
        const struct itimerval times{{0, us}, {0, us}};
        (void)::setitimer(ITIMER_REAL, &times, nullptr);
    }
    [[nodiscard]] static std::atomic<int>& flag() noexcept {
        static std::atomic<int> raised{0};
        static_assert(std::atomic<int>::is_always_lock_free);  // what a signal's handler may touch
        return raised;
    }
    struct sigaction interrupt_{}, terminate_{}, alarm_{}, pipe_{};
};

/// Runs what runs until it is stopped: work(stop) gives the exit code. Whoever read our output and has gone is no
/// failure of ours, and nobody is left to tell. Nor is what was not written because we were told to stop: its reader
/// does not read.
template <class Work>
[[nodiscard]] int run_until_stopped(Work&& work) {
    const stop_signals stop;
    try {
        const int code = work(stop);
        flush_output();  // while signals still end it
        return code;
    } catch (const error& failure) {
        if (failure.reason() != errc::io || !(stop.asked() || stop.reader_gone())) throw;
        discard_output();
        return success;
    }
}

}  // namespace holdfast::cli
