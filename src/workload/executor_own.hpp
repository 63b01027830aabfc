// SPDX-License-Identifier: Apache-2.0
// executor_own.hpp - the adapters that need no package: our strands, our keys, and what the standard library's locks
// make of the same idea: a deque of std::function under a mutex for each key, with turns as long as ours.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "holdfast/executor/keyed_executor.hpp"
#include "holdfast/executor/strand.hpp"
#include "holdfast/executor/thread_pool.hpp"
#include "workload/executor_subject.hpp"
#include "workload/instruction_set.hpp"

namespace holdfast::workload {

class own_strands {
 public:
    static constexpr std::string_view name = "holdfast";
    static std::string version() { return own_version(); }
    explicit own_strands(const executor_request& request) : pool_({.workers = request.workers}) {
        for (std::size_t i = 0; i < request.keys; ++i) strands_.emplace_back(pool_);
    }
    template <class Task>
    void post(std::size_t key, Task&& task) {
        strands_[key].post(std::forward<Task>(task));
    }

 private:
    executor::thread_pool pool_;
    std::vector<executor::strand> strands_;
};

/// Nothing is made for a key before it has a task, nor kept when it has none.
class own_keys {
 public:
    static constexpr std::string_view name = "holdfast, by key";
    static std::string version() { return own_version(); }
    explicit own_keys(const executor_request& request) : pool_({.workers = request.workers}), keys_(pool_) {}
    template <class Task>
    void post(std::size_t key, Task&& task) {
        keys_.post(key, std::forward<Task>(task));
    }

 private:
    executor::thread_pool pool_;
    executor::keyed_executor<std::size_t> keys_;
};

class locked_deques {
 public:
    static constexpr std::string_view name = "std::mutex and std::deque a key";
    static std::string version() { return standard_library_version(); }
    explicit locked_deques(const executor_request& request) : keys_(request.keys) {
        for (unsigned i = 0; i < request.workers; ++i) workers_.emplace_back([this] { work(); });
    }
    locked_deques(const locked_deques&) = delete;
    locked_deques& operator=(const locked_deques&) = delete;
    ~locked_deques() {
        {
            const std::lock_guard held(lock_);
            ending_ = true;
        }
        filled_.notify_all();
        for (std::thread& worker : workers_) worker.join();
    }
    template <class Task>
    void post(std::size_t key, Task&& task) {
        key_tasks& at = keys_[key];
        bool first = false;
        {
            const std::lock_guard held(at.lock);
            first = at.tasks.empty() && !at.in_turn;
            at.tasks.emplace_back(std::forward<Task>(task));
            if (first) at.in_turn = true;
        }
        if (first) enqueue(at);
    }

 private:
    static constexpr int turn_tasks = 64;
    struct alignas(64) key_tasks {
        std::mutex lock;
        std::deque<std::function<void()>> tasks;
        bool in_turn = false;
    };

    void enqueue(key_tasks& at) {
        bool wake = false;
        {
            const std::lock_guard held(lock_);
            ready_.push_back(&at);
            wake = idle_ > 0;
        }
        if (wake) filled_.notify_one();
    }
    void work() {
        std::unique_lock held(lock_);
        for (;;) {
            ++idle_;
            filled_.wait(held, [this] { return ending_ || !ready_.empty(); });
            --idle_;
            if (ready_.empty()) return;
            key_tasks& at = *ready_.front();
            ready_.pop_front();
            held.unlock();
            if (turn(at)) enqueue(at);
            held.lock();
        }
    }
    [[nodiscard]] static bool turn(key_tasks& at) {
        for (int i = 0; i < turn_tasks; ++i) {
            std::function<void()> task;
            {
                const std::lock_guard held(at.lock);
                if (at.tasks.empty()) {
                    at.in_turn = false;
                    return false;
                }
                task = std::move(at.tasks.front());
                at.tasks.pop_front();
            }
            task();
        }
        return true;
    }

    std::mutex lock_;
    std::condition_variable filled_;
    std::deque<key_tasks*> ready_;
    int idle_ = 0;
    bool ending_ = false;
    std::vector<key_tasks> keys_;
    std::vector<std::thread> workers_;
};

}  // namespace holdfast::workload
