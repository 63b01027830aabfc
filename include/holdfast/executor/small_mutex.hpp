// SPDX-License-Identifier: Apache-2.0
// small_mutex.hpp - a lock of four bytes that looks for a moment before it sleeps.
//
// An executor's locks are held for tens of nanoseconds, once a task, and a strand of 64 bytes has no room for the 40 of
// std::mutex. States: free, held, held with sleepers. Threads of one process only.
// Source: Drepper, Futexes Are Tricky, 2011, mutex 2; the short look before it: as PTHREAD_MUTEX_ADAPTIVE_NP does.
#pragma once

#include <atomic>

#include "holdfast/detail/words.hpp"

namespace holdfast::executor::detail {

/// BasicLockable, for std::lock_guard and std::unique_lock.
class small_mutex {
 public:
    small_mutex() = default;
    small_mutex(const small_mutex&) = delete;
    small_mutex& operator=(const small_mutex&) = delete;

    void lock() noexcept {
        int expected = state_free;
        // Acquire, pairs with the release of unlock(): weaker would show what is guarded as it was before.
        if (!state_.compare_exchange_strong(expected, state_held, std::memory_order_acquire, std::memory_order_relaxed))
            lock_slowly();
    }
    void unlock() noexcept {
        // Sequentially consistent: its release pairs with the acquires of lock(), weaker would let what was guarded
        // appear after the lock is free; and notify_one() looks for sleepers only behind it.
        if (state_.exchange(state_free, std::memory_order_seq_cst) == state_awaited) state_.notify_one();
    }

 private:
    static constexpr int state_free = 0, state_held = 1, state_awaited = 2;
    static constexpr int looks = 100;

    void lock_slowly() noexcept {
        for (int i = 0; i < looks; ++i) {
            holdfast::detail::pause();
            // Relaxed: only a hint when to try again.
            if (int seen = state_.load(std::memory_order_relaxed); seen == state_free) {
                // Acquire as in lock().
                if (state_.compare_exchange_weak(seen, state_held, std::memory_order_acquire,
                                                 std::memory_order_relaxed))
                    return;
            }
        }
        // From here on the state says that somebody sleeps, also once the lock is ours: we do not know who else does.
        // Acquire as in lock().
        while (state_.exchange(state_awaited, std::memory_order_acquire) != state_free)
            state_.wait(state_awaited, std::memory_order_relaxed);
    }

    std::atomic<int> state_{state_free};
};

static_assert(sizeof(small_mutex) == 4);

}  // namespace holdfast::executor::detail
