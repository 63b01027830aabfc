// SPDX-License-Identifier: Apache-2.0
// strand.hpp - tasks that run one after the other, in the order in which they were posted, on a pool's workers.
//
// For an object that lives as long as its tasks come: a connection, a session, a file. Where tasks come by key, and
// keys by the million, keyed_executor.hpp makes and frees the strands.
#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "holdfast/executor/poster.hpp"
#include "holdfast/executor/small_mutex.hpp"
#include "holdfast/executor/strand_core.hpp"
#include "holdfast/executor/task.hpp"
#include "holdfast/executor/thread_pool.hpp"

namespace holdfast::executor {

struct strand_options {
    std::uint32_t waiting_max = 0;  ///< tasks that have not begun; 0: no limit
    overflow when_full = overflow::refuse;
    bool poison_on_error = false;  ///< a task that throws cancels those behind it, and posts are refused until reset()
    std::function<void(std::exception_ptr)> on_error = {};  ///< in place of the pool's; in the strand's turn
};

/// The right to post tasks that run in order, never two at a time.
///
/// Order is that of posts: of two posts, the one that returned before the other began runs first. All that one task
/// stored is seen by the next, whichever worker runs it.
/// Fairness: after turn_tasks_max tasks, or turn_time_max, everything else that is ready in the pool has its turn.
/// Threads: posts and reset() may be called by any number of threads, and within tasks; a task may post to its own
/// strand. The destructor waits for nothing: what was posted still runs. Posts must not outlive the pool, the strand
/// itself may. Cancel callbacks of dropped tasks run on the thread that posts, beside the strand's tasks; all others in
/// the strand's turn.
/// Cost: 128 bytes; a post is a lock of the strand, one more where there are limits, and one of the pool when the
/// strand has been idle. No allocation (task_fits).
class strand {
 public:
    /// Throws: std::bad_alloc. Requires: the pool outlives every post.
    explicit strand(thread_pool& pool, strand_options options = {}) : pool_(&pool), own_(new own(std::move(options))) {}
    strand(strand&& other) noexcept : pool_(other.pool_), own_(std::exchange(other.own_, nullptr)) {}
    strand& operator=(strand&& other) noexcept {
        std::swap(pool_, other.pool_);
        std::swap(own_, other.own_);
        return *this;
    }
    ~strand() {
        if (own_ == nullptr) return;
        detail::retired gone;
        {
            const std::lock_guard held(own_->own_lock);
            own_->orphan = true;
            gone = own_->leave();
        }
        gone.end();
    }

    /// Posts a task whatever limit is reached; with overflow::drop_oldest in place of the oldest then. What a task uses
    /// to go on with its own work. Returns: posted, closed or poisoned. Throws: std::bad_alloc, or what moving the
    /// callables throws; nothing is posted then. Requires: not moved from, as all of these.
    template <task_callable Run, cancel_callable Cancel = no_cancel>
    post_status post(Run&& run, Cancel&& cancel = {}) {
        return place().post(detail::admission::always, found{own_}, std::forward<Run>(run),
                            std::forward<Cancel>(cancel));
    }
    /// The same within all limits. Returns: posted, full, closed or poisoned, at once.
    template <task_callable Run, cancel_callable Cancel = no_cancel>
    [[nodiscard]] post_status try_post(Run&& run, Cancel&& cancel = {}) {
        return place().post(detail::admission::within_limits, found{own_}, std::forward<Run>(run),
                            std::forward<Cancel>(cancel));
    }
    /// The same, waiting for room. Returns: posted, closed, poisoned or timed_out; from within a task of the pool, and
    /// of a pool without workers, full at once, since whoever could make room would be waiting.
    template <task_callable Run, cancel_callable Cancel = no_cancel>
    [[nodiscard]] post_status wait_post(Run&& run, std::chrono::nanoseconds timeout, Cancel&& cancel = {}) {
        return place().wait_post(timeout, found{own_}, std::forward<Run>(run), std::forward<Cancel>(cancel));
    }
    /// Takes posts again after a task failed (poison_on_error).
    void reset() noexcept {
        const std::lock_guard held(own_->own_lock);
        own_->poisoned = false;
    }

 private:
    struct own final : detail::strand_core {
        explicit own(strand_options given)
            : strand_core(nullptr, rules_here, operations_here),
              options(std::move(given)),
              rules_here{options.waiting_max, options.when_full, options.poison_on_error} {}

        static bool failed_here(strand_core& core, const std::exception_ptr& what) {
            const auto& on_error = static_cast<own&>(core).options.on_error;
            if (on_error) on_error(what);
            return static_cast<bool>(on_error);
        }
        static detail::retired idle_here(strand_core& core) noexcept {
            if (!core.orphan) return {};
            return {[](void* what) noexcept { delete static_cast<own*>(what); }, static_cast<own*>(&core)};
        }
        static constexpr detail::strand_operations operations_here{
            {nullptr, nullptr, nullptr, true}, failed_here, idle_here};

        strand_options options;
        detail::strand_rules rules_here;
    };

    [[nodiscard]] detail::poster place() const noexcept { return {*pool_, own_->own_lock, own_->rules_here}; }
    struct found {
        own* core;
        [[nodiscard]] detail::strand_core& operator()() const noexcept { return *core; }
    };

    thread_pool* pool_;
    own* own_;
};

}  // namespace holdfast::executor
