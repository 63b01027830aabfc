// SPDX-License-Identifier: Apache-2.0
// kill_rig.hpp - real SIGKILLs at random instants, and what must be true afterwards.
//
// Each round forks a worker that does operations without end until a kernel timer kills it with SIGKILL, a random
// number of nanoseconds after it began: the high-resolution timer's interrupt lands between any two instructions, on
// one core as well as on many, and the parent only waits. Then the parent reaps it and asks verify().
// The worker announces each operation before it starts (begin) and after it is done (end) in a page that both map:
// after the kill the parent knows that operations [0, completed) happened and that at most one more was under way.
// Operation i of a round is a function of (seed, round, i), so the parent replays them on its model without a message.
//
// The order of the announcements against the operation's own stores is the worker's program order, kept by the
// compiler through the fences below; the processor retires stores in that order too, and a kill cannot take back one.
#pragma once

#include <signal.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <new>
#include <string>
#include <system_error>

#include "support/process.hpp"
#include "support/scale.hpp"
#include "support/seed.hpp"
#include "support/single_step.hpp"

namespace holdfast::test {

/// The page on which a worker says how far it got.
class kill_progress {
 public:
    kill_progress() : page_(4096), state_(new(page_.bytes().data()) state) {}

    // Worker. Release, pairs with the acquire loads below; the signal fences keep the operation's plain stores between.
    void begin() noexcept {
        state_->started.store(state_->started.load(std::memory_order_relaxed) + 1, std::memory_order_release);
        std::atomic_signal_fence(std::memory_order_seq_cst);
    }
    void end() noexcept {
        std::atomic_signal_fence(std::memory_order_seq_cst);
        state_->completed.store(state_->completed.load(std::memory_order_relaxed) + 1, std::memory_order_release);
    }
    /// The worker is attached and starts: its death comes from here on, within the round's delay.
    /// Throws: std::system_error where the kernel gives no timer.
    void ready() { die_in(delay_ns_); }
    /// The worker's death comes in so many nanoseconds. Throws: as ready().
    static void die_in(std::uint64_t delay_ns) {
        sigevent event{};
        event.sigev_notify = SIGEV_SIGNAL;
        event.sigev_signo = SIGKILL;
        timer_t timer;
        itimerspec when{};
        when.it_value.tv_sec = static_cast<time_t>(delay_ns / 1'000'000'000);
        when.it_value.tv_nsec = static_cast<long>(delay_ns % 1'000'000'000 + 1);  // 0 would disarm
        if (::timer_create(CLOCK_MONOTONIC, &event, &timer) != 0 || ::timer_settime(timer, 0, &when, nullptr) != 0)
            throw std::system_error(errno, std::generic_category(), "a timer that kills");
    }

    // Parent. Acquire, pairs with the worker's release stores.
    [[nodiscard]] std::uint64_t started() const noexcept { return state_->started.load(std::memory_order_acquire); }
    [[nodiscard]] std::uint64_t completed() const noexcept { return state_->completed.load(std::memory_order_acquire); }
    [[nodiscard]] bool in_flight() const noexcept { return started() != completed(); }
    void reset(std::uint64_t delay_ns) noexcept {
        new (state_) state;
        delay_ns_ = delay_ns;
    }

 private:
    struct state {
        std::atomic<std::uint64_t> started{0}, completed{0};
    };
    shared_image page_;
    state* state_;
    std::uint64_t delay_ns_ = 0;  // the worker's copy is made by the fork
};

struct kill_plan {
    std::uint64_t rounds = 1000;
    /// The kill comes a random while below this after ready(). Where a run of rounds has ended no operation, the
    /// machine is too busy or too slow for that, and the next have twice the time.
    std::uint64_t delay_ns_max = 100'000;
    std::uint64_t seed = 0;
    /// What the kills must have met once, where few of them do: the run goes on until it holds, for at most ten times
    /// the rounds.
    std::function<bool()> met{};
};

struct kill_report {
    std::uint64_t kills = 0;
    std::uint64_t in_flight = 0;   // kills that met an operation under way
    std::uint64_t operations = 0;  // done by all the workers
    double seconds = 0;
    std::string failure;  // empty: every round verified

    /// Every round verified, and there was something to verify: workers that never got to an operation, or were never
    /// killed in one, prove nothing. A few kills may miss by chance, so this is asked of many only.
    [[nodiscard]] bool passed() const noexcept {
        constexpr std::uint64_t few = 20;
        return failure.empty() && kills > 0 && (kills < few || (operations > 0 && in_flight > 0));
    }
    [[nodiscard]] std::string text() const {
        return (failure.empty() ? "" : failure + "; ") + std::to_string(kills) + " kills, " +
               std::to_string(in_flight) + " of them inside an operation, " + std::to_string(operations) +
               " operations, " + std::to_string(seconds) + " s";
    }
};

/// Sanitizers make operations this much longer, so the delays are.
inline constexpr std::uint64_t slowness = sanitized ? 20 : 1;

/// Runs plan.rounds rounds, or more (see kill_plan::met), of worker(progress, round) and verify(progress, round) (see
/// above). The worker runs in a forked child: it attaches, calls progress.ready() and does operations without end;
/// verify() runs in the parent after the kill and returns a failure text, empty when all is well. The first failure
/// ends the run.
template <class Worker, class Verify>
[[nodiscard]] kill_report run_kill_rounds(const kill_plan& plan, Worker&& worker, Verify&& verify) {
    const auto start = std::chrono::steady_clock::now();
    kill_report report;
    kill_progress progress;
    const auto more = [&](std::uint64_t round) {
        return round < plan.rounds || (plan.met && round < 10 * plan.rounds && !plan.met());
    };
    constexpr std::uint64_t run_of_rounds = 64, patience = 64;
    std::uint64_t delay_ns_max = plan.delay_ns_max * slowness;
    for (std::uint64_t round = 0; report.failure.empty() && more(round); ++round) {
        if (round % run_of_rounds == 0 && round != 0 && report.operations == 0)
            delay_ns_max = std::min(2 * delay_ns_max, patience * plan.delay_ns_max * slowness);
        progress.reset(random_at(plan.seed, round, ~std::uint64_t{0}) % delay_ns_max);
        child_process child([&] { worker(progress, round); });
        const ended& end = child.wait();
        if (!end.signalled || end.signal != SIGKILL) {
            report.failure = "the worker did not live until its kill: " + end.text();
        } else {
            ++report.kills;
            report.in_flight += progress.in_flight() ? 1 : 0;
            report.operations += progress.completed();
            try {
                report.failure = verify(static_cast<const kill_progress&>(progress), round);
            } catch (const std::exception& e) {
                report.failure = std::string("verification threw: ") + e.what();
            }
        }
        if (!report.failure.empty())
            report.failure = "round " + std::to_string(round) + " (" + std::to_string(progress.completed()) +
                             " operations done, " + std::to_string(progress.started()) + " started): " + report.failure;
    }
    report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return report;
}

}  // namespace holdfast::test
