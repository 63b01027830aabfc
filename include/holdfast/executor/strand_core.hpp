// SPDX-License-Identifier: Apache-2.0
// strand_core.hpp - the tasks of one key, in 64 bytes, and who may touch them.
//
//   inbox      posters append, the owner takes                              under the lock
//   taken      what the owner has taken out of a strand without a limit     the owner alone
//   waiting    tasks of a strand with a limit that have not begun           under the lock
//   next       the pool's queue                                             the pool's lock
//
// (I1) `scheduled` is set exactly while the strand is in the pool's queue or a worker is in its turn. That worker is
//      the owner: so there is one, and no two tasks of a strand run at a time.
// (I2) Order: all of `taken` is older than all of `inbox`.
// (I3) A strand that is not scheduled has no tasks, only reservations (tasks admitted, not yet appended).
// (I4) `waiting` = tasks in the inbox + reservations, of strands that count; they leave `taken` empty.
// A reservation keeps a strand from being retired, so what was found under the lock is there for the append.
#pragma once

#include <cstdint>
#include <exception>
#include <mutex>
#include <utility>

#include "holdfast/executor/small_mutex.hpp"
#include "holdfast/executor/task.hpp"
#include "holdfast/executor/turn_budget.hpp"

namespace holdfast::executor {

/// What becomes of a task for a strand whose limit is reached.
enum class overflow : std::uint8_t {
    refuse,       ///< try_post() answers full, wait_post() waits
    drop_oldest,  ///< it is taken, and the oldest that has not begun is cancelled instead
};

namespace detail {

class strand_core;

/// What is the same for all strands of an owner.
struct strand_rules {
    std::uint32_t waiting_max = 0;  // 0: none
    overflow when_full = overflow::refuse;
    bool poison_on_error = false;

    /// Whether a task has to be admitted before it is appended.
    [[nodiscard]] bool counts() const noexcept { return waiting_max != 0 || poison_on_error; }
};

/// Something to be destroyed once its lock is free.
struct retired {
    void (*destroy)(void*) noexcept = nullptr;
    void* what = nullptr;

    void end() const noexcept {
        if (destroy != nullptr) destroy(what);
    }
};

struct strand_operations : runnable_operations {
    /// Calls the strand's own error callback; false: it has none. In the owner's turn.
    bool (*failed)(strand_core&, const std::exception_ptr&) = nullptr;
    /// Nothing is scheduled nor reserved; under the lock. What it returns is destroyed behind the unlock.
    retired (*idle)(strand_core&) noexcept = nullptr;
};

/// How a task comes to be taken.
enum class admission : std::uint8_t { within_limits, always };

class alignas(64) strand_core : public runnable {
 public:
    /// lock: what it shares with others, or nothing, and it has its own.
    strand_core(small_mutex* lock, const strand_rules& rules, const strand_operations& operations_of) noexcept
        : lock_(lock != nullptr ? lock : &own_lock), rules_(&rules) {
        operations = &operations_of;
    }
    strand_core(const strand_core&) = delete;
    strand_core& operator=(const strand_core&) = delete;

    [[nodiscard]] small_mutex& lock() const noexcept { return *lock_; }
    [[nodiscard]] const strand_rules& rules() const noexcept { return *rules_; }
    [[nodiscard]] const strand_operations& calls() const noexcept {
        return static_cast<const strand_operations&>(*operations);
    }

    // ---- posters; under the lock ----

    /// Whether one task more may be reserved. Requires: rules().counts().
    [[nodiscard]] post_status check(admission how) const noexcept {
        if (poisoned) return post_status::poisoned;
        return is_full() && rules_->when_full == overflow::refuse && how == admission::within_limits
                   ? post_status::full
                   : post_status::posted;
    }
    /// Reserves a place. Returns: the task that has to be cancelled for it, or nothing; nothing also if all that wait
    /// are still being made, and then one more waits.
    [[nodiscard]] task_node* reserve() noexcept {
        task_node* const dropped = is_full() && rules_->when_full == overflow::drop_oldest ? pop_inbox() : nullptr;
        if (dropped == nullptr) ++waiting_;
        return dropped;
    }
    /// Gives a reservation back.
    void unreserve() noexcept { --waiting_; }
    /// Returns: whether the strand has become scheduled and must be handed to the pool.
    [[nodiscard]] bool append(task_node& node) noexcept {
        node.next = inbox_ == nullptr ? &node : std::exchange(inbox_->next, &node);
        inbox_ = &node;
        return !std::exchange(scheduled, true);
    }
    /// Has it retired if it has nothing to do; what it returns is destroyed behind the unlock.
    [[nodiscard]] retired leave() noexcept { return !scheduled && waiting_ == 0 ? calls().idle(*this) : retired{}; }

    // ---- the owner, in its turn ----

    enum class step : std::uint8_t { run, give_way, idle };

    /// The next task of the owner's turn. idle: the strand is not scheduled any more, and may be gone.
    [[nodiscard]] step take(turn_budget& budget, task_node*& node) noexcept {
        if (taken_ == nullptr) {
            std::unique_lock held(*lock_);
            if (inbox_ == nullptr) {
                scheduled = false;
                const retired gone = leave();
                held.unlock();
                gone.end();
                return step::idle;
            }
            if (rules_->counts()) {  // one by one, so that limits and drops are exact
                if (budget.over()) return step::give_way;
                node = pop_inbox();
                --waiting_;
                return step::run;
            }
            taken_ = take_inbox();
        }
        if (budget.over()) return step::give_way;
        node = static_cast<task_node*>(taken_);
        taken_ = node->next;
        return step::run;
    }
    /// Takes no more tasks. Returns: those that waited, a chain. Requires: rules().counts().
    [[nodiscard]] task_node* poison() noexcept {
        const std::lock_guard held(*lock_);
        poisoned = true;
        runnable* const all = take_inbox();
        for (const runnable* each = all; each != nullptr; each = each->next) --waiting_;
        return static_cast<task_node*>(all);
    }

 private:
    [[nodiscard]] bool is_full() const noexcept { return rules_->waiting_max != 0 && waiting_ >= rules_->waiting_max; }
    [[nodiscard]] task_node* pop_inbox() noexcept {
        if (inbox_ == nullptr) return nullptr;
        runnable* const first = inbox_->next;
        if (first == inbox_)
            inbox_ = nullptr;
        else
            inbox_->next = first->next;
        return static_cast<task_node*>(first);
    }
    /// All of it, as a chain that ends.
    [[nodiscard]] runnable* take_inbox() noexcept {
        if (inbox_ == nullptr) return nullptr;
        return std::exchange(std::exchange(inbox_, nullptr)->next, nullptr);
    }

    small_mutex* lock_;
    const strand_rules* rules_;
    runnable* inbox_ = nullptr;  // its last task, whose next is its first
    runnable* taken_ = nullptr;
    std::uint32_t waiting_ = 0;

 public:
    // Under the lock.
    bool scheduled = false;
    bool poisoned = false;
    bool orphan = false;  // whoever could post has gone

    small_mutex own_lock;  // of a strand that shares none; in the line that it guards
};

static_assert(sizeof(strand_core) == 64);

}  // namespace detail
}  // namespace holdfast::executor
