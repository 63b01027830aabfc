// SPDX-License-Identifier: Apache-2.0
// history_rig.hpp - records what processes do to an object under real load, while they are killed and stopped at random
// instants, for linearizability.hpp to judge.
//
// A role is a line of processes of which one lives at a time: when it is killed, the next one is forked. What a role
// did lies in its log, in pages that all of them map. Clock: CLOCK_MONOTONIC, one for all processors. An operation's
// `called` is read before its first access, its `returned` behind a full fence after its last: then what it stored has
// left the processor's store buffer.
#pragma once

#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "support/kill_rig.hpp"
#include "support/linearizability.hpp"
#include "support/process.hpp"
#include "support/scale.hpp"
#include "support/seed.hpp"
#include "support/single_step.hpp"

namespace holdfast::test {

/// What the processes of one role did, one operation after the other.
class history_log {
 public:
    explicit history_log(std::size_t operations_max)
        : pages_(sizeof(operation) * (operations_max + 1)),
          entries_(reinterpret_cast<operation*>(pages_.bytes().data()) + 1),
          count_(reinterpret_cast<std::atomic<std::uint64_t>*>(pages_.bytes().data())),
          operations_max_(operations_max) {}

    // Worker. Only one process of a role lives, and a kill takes back no store: relaxed, but in program order.
    void call(std::uint32_t kind, std::uint64_t key, std::uint64_t given, std::uint64_t expected = 0,
              std::uint64_t time = 0) noexcept {
        operation& op = now();
        op = {};
        op.kind = kind;
        op.killed = true;
        op.key = key;
        op.given = given;
        op.expected = expected;
        op.time = time;
        std::atomic_signal_fence(std::memory_order_seq_cst);
        std::atomic_ref(op.called).store(now_ns(), std::memory_order_relaxed);
        if (last_ != 0 && --last_ == 0) kill_progress::die_in(last_ns_);
        std::atomic_signal_fence(std::memory_order_seq_cst);
    }
    /// From now on the call number `operation`, counted from 1, is the last, or about: death comes so soon after it.
    void die_in(std::uint64_t operation, std::uint64_t ns) noexcept {
        last_ = operation;
        last_ns_ = ns;
    }
    void done(std::uint64_t answer) noexcept {
        std::atomic_thread_fence(std::memory_order_seq_cst);  // see above
        operation& op = now();
        op.answer = answer;
        op.killed = false;
        op.returned = now_ns();
        std::atomic_signal_fence(std::memory_order_seq_cst);
        count_->store(count_->load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    }
    void done(std::uint64_t answer, std::uint64_t key) noexcept {
        now().key = key;
        done(answer);
    }
    /// With two answers.
    void done_and_found(std::uint64_t answer, std::uint64_t found) noexcept {
        now().found = found;
        done(answer);
    }
    void done_and_found(std::uint64_t answer, std::uint64_t found, std::uint64_t key) noexcept {
        now().key = key;
        done_and_found(answer, found);
    }
    /// The operation under way was called at `called` already.
    void called_at(std::uint64_t called) noexcept { now().called = called; }
    /// A second operation, done by the one that has just returned.
    void also(const operation& op) noexcept {
        now() = op;
        std::atomic_signal_fence(std::memory_order_seq_cst);
        count_->store(count_->load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    }
    [[nodiscard]] std::uint64_t called() const noexcept { return now().called; }
    [[nodiscard]] std::uint64_t last_returned() const noexcept { return (&now())[-1].returned; }
    /// It turned out to be none that counts.
    void cancel() noexcept { now().called = 0; }
    /// The successor's first act once the object is recovered: what its predecessor was killed in is over.
    void adopt() noexcept {
        operation& op = now();
        if (std::atomic_ref(op.called).load(std::memory_order_relaxed) == 0) return;
        op.killed = true;
        op.returned = now_ns();
        std::atomic_signal_fence(std::memory_order_seq_cst);
        count_->store(count_->load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    }
    /// Whether there is room for some more operations. A role without room waits for its end.
    [[nodiscard]] bool room() const noexcept { return count_->load(std::memory_order_relaxed) + 4 < operations_max_; }

    // Parent, when all processes of the role have ended.
    [[nodiscard]] history operations() const {
        const auto count = static_cast<std::size_t>(count_->load(std::memory_order_relaxed));
        return {entries_, entries_ + count};
    }

 private:
    [[nodiscard]] static std::uint64_t now_ns() noexcept {
        struct timespec now{};
        ::clock_gettime(CLOCK_MONOTONIC, &now);
        return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
    }
    [[nodiscard]] operation& now() const noexcept { return entries_[count_->load(std::memory_order_relaxed)]; }

    shared_image pages_;
    operation* entries_;
    std::atomic<std::uint64_t>* count_;
    std::size_t operations_max_;
    std::uint64_t last_ = 0, last_ns_ = 0;  // of this process
};

/// What a process of a role has of the rig.
class history_worker {
 public:
    history_worker(history_log& log, std::uint64_t seed, std::uint64_t life, kill_progress* death)
        : log_(log), random_(random_at(seed, 17, life)), life_(life), death_(death) {}

    /// Called when the object is attached and recovered.
    void attached() { log_.adopt(); }
    /// From here on it may be killed; before attaching, so that recovery is killed too, or after. In one life of two at
    /// any instant, in the others soon after an operation began: most instants are between two.
    void mortal() {
        if (death_ == nullptr) return;
        if (life_ % 2 == 0) return death_->ready();
        const std::uint64_t operation = 1 + below(30);
        log_.die_in(operation, below(3'000 * slowness));
    }
    /// Between operations: lets others run. False: there is nothing more to do than to wait for the end.
    [[nodiscard]] bool go_on() const {
        ::sched_yield();
        return log_.room();
    }
    [[noreturn]] static void wait_for_end() {
        for (;;) ::pause();
    }
    [[nodiscard]] history_log& log() const noexcept { return log_; }
    [[nodiscard]] std::uint64_t below(std::uint64_t bound) noexcept {
        random_ = random_at(random_, 3, life_);
        return random_ % bound;
    }
    /// Different in each life of each role; the first is 0.
    [[nodiscard]] std::uint64_t life() const noexcept { return life_; }

 private:
    history_log& log_;
    std::uint64_t random_;
    std::uint64_t life_;
    kill_progress* death_;
};

/// A line of processes: `work` runs without end, or until go_on() says no, and returns what was wrong.
struct history_role {
    std::function<std::string(history_worker&)> work;
    bool killed = false;
    std::size_t operations_max = 30'000;
};

struct history_run {
    std::string failure;           // of a worker
    std::vector<history> of_role;  // what each did
    std::uint64_t kills = 0, stops = 0;

    [[nodiscard]] history all() const {
        history together;
        for (const history& h : of_role) together.insert(together.end(), h.begin(), h.end());
        return together;
    }
    [[nodiscard]] history of(std::size_t from, std::size_t to) const {
        history together;
        for (std::size_t i = from; i < to; ++i) together.insert(together.end(), of_role[i].begin(), of_role[i].end());
        return together;
    }
};

namespace rig {

class running_role {
 public:
    running_role(const history_role& role, std::uint64_t seed, std::uint64_t number)
        : role_(role), log_(role.operations_max), seed_(seed), number_(number) {
        start();
    }
    /// Whether its process has ended. Does not wait.
    [[nodiscard]] bool ended() const {
        siginfo_t info{};
        return ::waitid(P_PID, static_cast<id_t>(child_->pid()), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
               info.si_pid != 0;
    }
    /// Reaps. Returns: what was wrong; nothing when it was killed, as it should be.
    [[nodiscard]] std::string reap() {
        const test::ended& end = child_->wait();
        stopped = false;
        return end.signalled && end.signal == SIGKILL ? "" : "role " + std::to_string(number_) + ": " + end.text();
    }
    void start() {
        death_.reset(1 + random_at(seed_, number_, life_) % (3'000'000 * slowness));
        child_ = std::make_unique<child_process>([this]() -> std::string {
            history_worker worker(log_, random_at(seed_, number_, 5), life_, role_.killed ? &death_ : nullptr);
            std::string wrong = role_.work(worker);
            if (wrong.empty()) history_worker::wait_for_end();
            return wrong;
        });
        ++life_;
    }
    void signal(int number) const { child_->send_signal(number); }
    void kill() {
        child_->send_signal(SIGKILL);
        (void)child_->wait();
    }
    [[nodiscard]] history_log& log() noexcept { return log_; }

    bool stopped = false;

 private:
    const history_role& role_;
    history_log log_;
    kill_progress death_;
    std::unique_ptr<child_process> child_;
    std::uint64_t seed_, number_, life_ = 0;
};

}  // namespace rig

/// Runs the roles for `milliseconds`, kills those that may be killed at random instants of each 3 ms, and stops and
/// continues any. settle() then recovers the object as the last successor, before what the dead were in is closed.
template <class Settle>
[[nodiscard]] history_run run_roles(const std::vector<history_role>& roles, std::uint64_t milliseconds,
                                    std::uint64_t seed, Settle&& settle) {
    history_run run;
    std::vector<std::unique_ptr<rig::running_role>> running;
    for (const history_role& role : roles)
        running.push_back(std::make_unique<rig::running_role>(role, seed, running.size()));
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
    for (std::uint64_t turn = 0; std::chrono::steady_clock::now() < end && run.failure.empty(); ++turn) {
        const struct timespec pause{0, 200'000};  // paces the signals; nothing waits for anything by it
        ::nanosleep(&pause, nullptr);
        for (auto& role : running) {
            if (!role->ended()) continue;
            run.failure = role->reap();
            if (!run.failure.empty()) break;
            ++run.kills;
            role->start();
        }
        rig::running_role& one = *running[random_at(seed, 99, turn) % running.size()];
        if (one.stopped || random_at(seed, 98, turn) % 4 == 0) {
            one.signal(one.stopped ? SIGCONT : SIGSTOP);
            run.stops += one.stopped ? 0 : 1;
            one.stopped = !one.stopped;
        }
    }
    for (auto& role : running) role->kill();
    settle();
    for (auto& role : running) {
        role->log().adopt();
        run.of_role.push_back(role->log().operations());
    }
    return run;
}

}  // namespace holdfast::test
