// SPDX-License-Identifier: Apache-2.0
// executor_subject.hpp - executors that keep the order of each key, under test: how many tasks they run, and how long a
// key with one task waits behind a key with very many.
//
//   run         posts that many tasks to the keys in turn, from one thread, and waits until the last has run
//   wait_behind posts very many tasks of a microsecond to one key, and when so many of them have run one to another
//   key:
//               how long that waits
//
// A task compares its number with its key's count, so an order that was not kept is found, and a lost task by the next
// of its key.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace holdfast::workload {

struct executor_request {
    unsigned workers = 1;
    std::size_t keys = 1;
};

/// post(key, task): in order for each key, run by a worker. Gone when it is destroyed, after all tasks have run.
template <class A>
concept executor_adapter = std::constructible_from<A, const executor_request&> && requires(A& a, void (*task)()) {
    { A::name } -> std::convertible_to<std::string_view>;
    { A::version() } -> std::convertible_to<std::string>;
    a.post(std::size_t{}, task);
};

/// How a key waited behind another.
struct cold_wait {
    double microseconds = 0;
    std::uint64_t tasks = 0;  ///< of the other key that ran meanwhile
};

class executor_subject {
 public:
    executor_subject() = default;
    executor_subject(const executor_subject&) = delete;
    executor_subject& operator=(const executor_subject&) = delete;
    virtual ~executor_subject() = default;
    /// Throws: std::runtime_error for a task out of order.
    virtual void run(std::uint64_t tasks) = 0;
    /// Requires: two keys, before < hot_tasks. Throws: likewise.
    [[nodiscard]] virtual cold_wait wait_behind(std::uint64_t hot_tasks, std::uint64_t before) = 0;
};

template <executor_adapter A>
class executor_loops final : public executor_subject {
 public:
    explicit executor_loops(const executor_request& request) : keys_(request.keys), adapter_(request) {}

    void run(std::uint64_t tasks) override {
        begin(std::min<std::uint64_t>(tasks, keys_.size()));
        for (std::uint64_t i = 0, key = 0, number = 0; i < tasks; ++i) {
            post(key, number, i + keys_.size() >= tasks);
            if (++key == keys_.size()) {
                key = 0;
                ++number;
            }
        }
        end(tasks);
    }
    [[nodiscard]] cold_wait wait_behind(std::uint64_t hot_tasks, std::uint64_t before) override {
        begin(2);
        hot_done_.store(0, std::memory_order_relaxed);  // the counts are told by tasks that posts order
        for (std::uint64_t i = 0; i < hot_tasks; ++i) {
            const bool last = i + 1 == hot_tasks;
            adapter_.post(0, [this, i, last] {
                const auto until = clock::now() + std::chrono::microseconds(1);
                while (clock::now() < until) continue;
                // Relaxed: read for a difference of counts.
                hot_done_.store(i + 1, std::memory_order_relaxed);
                step(0, i, last);
            });
        }
        std::uint64_t done = 0;
        // Relaxed: a count, and nothing else is read by it.
        while ((done = hot_done_.load(std::memory_order_relaxed)) < before)
            std::this_thread::sleep_for(std::chrono::microseconds(50));
        cold_wait found;
        const auto posted = clock::now();
        adapter_.post(1, [this, &found, done, posted] {
            found.microseconds = std::chrono::duration<double, std::micro>(clock::now() - posted).count();
            found.tasks = hot_done_.load(std::memory_order_relaxed) - done;
            step(1, 0, true);
        });
        end(hot_tasks + 1);
        return found;
    }

 private:
    using clock = std::chrono::steady_clock;
    struct alignas(64) key_state {
        std::uint64_t next = 0;
        bool wrong = false;
    };

    void post(std::uint64_t key, std::uint64_t number, bool last) {
        adapter_.post(static_cast<std::size_t>(key), [this, key, number, last] { step(key, number, last); });
    }
    /// What a task does.
    void step(std::uint64_t key, std::uint64_t number, bool last) {
        key_state& at = keys_[static_cast<std::size_t>(key)];
        at.wrong = at.wrong || at.next != number;
        ++at.next;
        if (!last) return;
        // Acquire and release: who waits in end() sees what all keys' tasks did. Weaker would show it old counts.
        if (keys_left_.fetch_sub(1, std::memory_order_acq_rel) == 1) keys_left_.notify_one();
    }
    void begin(std::uint64_t keys_used) {
        for (key_state& at : keys_) at = {};
        keys_left_.store(keys_used, std::memory_order_relaxed);  // posts order it before the tasks
    }
    void end(std::uint64_t tasks) {
        // Acquire, pairs with the release in step().
        for (std::uint64_t left; (left = keys_left_.load(std::memory_order_acquire)) != 0;)
            keys_left_.wait(left, std::memory_order_acquire);  // the same
        std::uint64_t ran = 0;
        for (const key_state& at : keys_) {
            if (at.wrong) throw std::runtime_error(std::string(A::name) + ": a task ran out of order");
            ran += at.next;
        }
        if (ran != tasks) throw std::runtime_error(std::string(A::name) + ": a task was lost");
    }

    std::vector<key_state> keys_;
    alignas(64) std::atomic<std::uint64_t> keys_left_{0};
    alignas(64) std::atomic<std::uint64_t> hot_done_{0};
    A adapter_;  // last: its tasks use the rest
};

struct executor_kind {
    std::string name, version;
    std::unique_ptr<executor_subject> (*make)(const executor_request&) = nullptr;
};

template <class Adapter>
[[nodiscard]] executor_kind executor_kind_of() {
    return {std::string(Adapter::name), Adapter::version(),
            [](const executor_request& request) -> std::unique_ptr<executor_subject> {
                return std::make_unique<executor_loops<Adapter>>(request);
            }};
}

}  // namespace holdfast::workload
