// SPDX-License-Identifier: Apache-2.0
// background_writer.hpp - a thread that writes at full speed beside the reads that are timed, to one subject at a time.
//
// Tied to a processor of its own where there is one to tell it.
//
// work_on(job) comes back when the thread has done a first piece of that job, so that a batch never starts beside a
// writer that is not there yet; rest() when it has stopped. Threads: one controls it.
#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "holdfast/perf_test/environment.hpp"

namespace holdfast::workload {

class background_writer {
 public:
    /// A piece of work, some microseconds long, done again and again.
    using job = std::function<void()>;

    explicit background_writer(std::optional<unsigned> cpu = {}) : cpu_(cpu), thread_([this] { run(); }) {}
    background_writer(const background_writer&) = delete;
    background_writer& operator=(const background_writer&) = delete;
    ~background_writer() {
        order(&stop_);
        thread_.join();
    }

    /// Throws: what the job threw, and does not do it again. Requires: the job lives until the next call.
    void work_on(const job& piece) {
        order(&piece);
        for (const job* at = nullptr; (at = doing_) != &piece;) doing_.wait(at);
        complain();
    }
    void rest() {
        order(nullptr);
        for (const job* at = nullptr; (at = doing_) != nullptr;) doing_.wait(at);
        complain();
    }

 private:
    // Both words are used with the default, sequentially consistent order: nothing here is timed.
    void order(const job* what) {
        wanted_ = what;
        wanted_.notify_one();
    }
    void report(const job* what) {
        doing_ = what;
        doing_.notify_one();
    }

    void complain() {
        const std::lock_guard hold(mutex_);
        if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
    }

    void run() {
        std::optional<perf_test::cpu_pin> tied;
        if (cpu_) tied.emplace(*cpu_);
        const job* failed = nullptr;
        for (;;) {
            const job* const now = wanted_;
            if (now == &stop_) return;
            if (now == nullptr || now == failed) {
                report(now);
                wanted_.wait(now);
                continue;
            }
            failed = nullptr;
            try {
                (*now)();
            } catch (...) {
                const std::lock_guard hold(mutex_);
                error_ = std::current_exception();
                failed = now;
            }
            if (doing_ != now) report(now);
        }
    }

    const std::optional<unsigned> cpu_;
    const job stop_;
    std::atomic<const job*> wanted_{nullptr};
    std::atomic<const job*> doing_{nullptr};
    std::mutex mutex_;
    std::exception_ptr error_;
    std::thread thread_;
};

}  // namespace holdfast::workload
