// SPDX-License-Identifier: Apache-2.0
// thread_pool.hpp - workers that take turns: at single tasks, and at strands, whose tasks run in order.
//
// What the workers share is one queue of what is ready, first in, first out. A strand is in it at most once, however
// many tasks it has, and goes to its end after a turn: so nobody waits behind more than a turn of each other strand.
// (I1) active_ = tasks and strands in the queue or in a worker's hands; nothing runs nor waits while it is 0.
// (I2) While the queue has something and a worker sleeps, a worker is awake that will look: one that was woken and has
//      not looked yet (waking_), one that has just taken something and wakes the next, or one that has not slept yet.
// (I3) Where nobody posts, begins a task or calls on_pressure, its last call told whether the marks hold: who changes
//      waiting_ looks at pressed_ behind that, who changes pressed_ looks at waiting_ again, and whoever finds another
//      at it has that one look again.
// Lock order: a strand's lock, then shelves and magazines of task_store; mutex_ is taken with none of them held. A
// callable is made, run and destroyed with no lock held.
// Memory orders: flags and counts that stand alone are relaxed; what they announce is guarded by locks.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "holdfast/error.hpp"
#include "holdfast/executor/small_mutex.hpp"
#include "holdfast/executor/strand_core.hpp"
#include "holdfast/executor/task.hpp"
#include "holdfast/executor/task_store.hpp"
#include "holdfast/executor/turn_budget.hpp"

namespace holdfast::executor {

namespace detail {
class poster;
}

struct pool_options {
    unsigned workers = std::max(1U, std::thread::hardware_concurrency());  ///< 0: none; run_one() and run() do the work
    std::uint32_t turn_tasks_max = 64;  ///< tasks of a strand before others have their turn; at least 1
    std::chrono::nanoseconds turn_time_max = std::chrono::microseconds(200);  ///< likewise; 0: no limit of time
    std::uint64_t waiting_max = 0;  ///< tasks of all strands that have not begun; 0: no limit
    /// From so many waiting tasks on the pool is under pressure, whatever they were posted by; 0: never.
    std::uint64_t high_water = 0;
    std::uint64_t low_water = 0;  ///< down to so many, until it is not; less than high_water
    /// Called with true when pressure comes and with false when it goes, in turn, one call at a time, by a thread that
    /// posts or a worker between tasks, with no lock held: to stop reading from whoever makes the work, and to go on.
    /// It may post; what it throws is dropped.
    std::function<void(bool)> on_pressure = {};
    std::function<void(std::exception_ptr)> on_error =
        {};  ///< of tasks whose strand has none; several threads may call it
    /// Without workers: the order of turns, and their lengths, are drawn from this. Nothing: first in, first out.
    std::optional<std::uint64_t> seed = {};
};

/// Counts since the pool was made.
struct pool_stats {
    std::uint64_t executed = 0;   ///< tasks that ran, also those that failed
    std::uint64_t failed = 0;     ///< of these: ended by an exception
    std::uint64_t cancelled = 0;  ///< tasks that were accepted and did not run
};

/// A pool of threads that runs what is posted to it, to its strands (strand.hpp) and to its keys (keyed_executor.hpp).
///
/// A task runs once, with no lock held. An exception it throws goes to the error callback, or is only counted if there
/// is none, and what is behind it goes on; the callback's own exceptions are dropped.
/// Threads: every operation may be called by any thread at any time, from within tasks too, except where it says so.
/// The destructor takes no more posts, waits until all accepted tasks have run, and joins; nothing else may be called
/// meanwhile, and no task may call it. A pool does not survive fork().
/// Cost: post() and a task's way through the pool about two uncontended locks each, no allocation once there are nodes
/// enough for what waits at a time. A worker without work looks for some microseconds, then sleeps.
class thread_pool {
 public:
    /// Throws: holdfast::error (invalid_argument) for a turn without tasks or a negative time, or for a seed beside
    /// workers; std::system_error when the system refuses a thread.
    explicit thread_pool(pool_options options = {}) : options_(std::move(options)) {
        if (options_.turn_tasks_max == 0 || options_.turn_time_max < std::chrono::nanoseconds::zero())
            throw error(
                errc::invalid_argument, "thread_pool",
                "a turn has no task or a negative time: give turn_tasks_max 1 or more, turn_time_max 0 or more");
        if (options_.seed && options_.workers != 0)
            throw error(errc::invalid_argument, "thread_pool",
                        "threads do not follow a seed: set workers to 0 and call run(), or leave the seed out");
        if (options_.high_water != 0 ? options_.low_water >= options_.high_water || !options_.on_pressure
                                     : options_.low_water != 0 || options_.on_pressure)
            throw error(errc::invalid_argument, "thread_pool",
                        "pressure needs all of it: a high_water, a low_water below it, and on_pressure to be told");
        random_ = options_.seed.value_or(0);
        workers_ = std::vector<worker>(std::max(1U, options_.workers));
        try {
            if (options_.workers != 0)
                for (worker& w : workers_) w.thread = std::thread([this, &w] { work(w); });
        } catch (...) {
            join();
            throw;
        }
    }
    thread_pool(const thread_pool&) = delete;
    thread_pool& operator=(const thread_pool&) = delete;
    ~thread_pool() {
        close();
        wait_until_quiet(std::nullopt);
        join();
    }

    /// Has the task run by a worker, in no order with others, whatever limit is reached.
    /// Returns: posted or closed. Throws: std::bad_alloc, or what moving the callables throws; nothing is posted then.
    template <task_callable Run, cancel_callable Cancel = no_cancel>
    post_status post(Run&& run, Cancel&& cancel = {}) {
        return post_as(detail::admission::always, std::forward<Run>(run), std::forward<Cancel>(cancel));
    }
    /// The same within waiting_max. Returns: posted, full or closed, at once.
    template <task_callable Run, cancel_callable Cancel = no_cancel>
    [[nodiscard]] post_status try_post(Run&& run, Cancel&& cancel = {}) {
        return post_as(detail::admission::within_limits, std::forward<Run>(run), std::forward<Cancel>(cancel));
    }
    /// The same, waiting for room. Returns: posted, closed or timed_out; from within a task, and of a pool without
    /// workers, full at once, since whoever could make room would be waiting.
    template <task_callable Run, cancel_callable Cancel = no_cancel>
    [[nodiscard]] post_status wait_post(Run&& run, std::chrono::nanoseconds timeout, Cancel&& cancel = {}) {
        const post_status status = wait_admitted(timeout, [&] { return admit(detail::admission::within_limits); });
        return status == post_status::posted ? ready_task(std::forward<Run>(run), std::forward<Cancel>(cancel))
                                             : status;
    }

    /// Refuses every post that begins after it, also by tasks. A post that runs beside it is taken or refused.
    void close() noexcept {
        closed_.store(true, std::memory_order_relaxed);
        {
            const std::lock_guard lock(quiet_mutex_);
        }  // whoever waits has looked already, or will see it
        quiet_.notify_all();
    }
    /// Closes, and cancels every task that has not begun: its callback runs instead, on a worker, in the same order.
    /// Returns at once; drain() waits until that is done.
    void stop_now() noexcept {
        stopping_.store(true, std::memory_order_relaxed);
        close();
    }
    /// Waits until nothing waits nor runs; of a pool without workers, runs it all. With others posting that may be
    /// never, so close() comes first where it is to end. Throws: holdfast::error (invalid_argument) within a task.
    void drain() {
        refuse_within_task();
        wait_until_quiet(std::nullopt);
    }
    /// Returns: whether that was so within the time.
    [[nodiscard]] bool drain_for(std::chrono::nanoseconds timeout) {
        refuse_within_task();
        return wait_until_quiet(moment_after(timeout));
    }

    /// Without workers: one task, or one turn of one strand, on this thread. Returns: false if nothing was ready.
    /// Throws: holdfast::error (invalid_argument) of a pool with workers. Threads: one at a time, and not from a task.
    bool run_one() {
        if (options_.workers != 0)
            throw error(errc::invalid_argument, "thread_pool",
                        "its workers run the tasks: make it with workers = 0 to run them here");
        worker& here = workers_.front();
        here.id.store(std::this_thread::get_id(), std::memory_order_relaxed);
        detail::runnable* const next = draw();
        if (next != nullptr) {
            const bool more = run_turn(here, *next);
            const std::lock_guard lock(mutex_);
            if (more)
                enqueue(*next);
            else
                --active_;
        }
        here.id.store(std::thread::id(), std::memory_order_relaxed);
        return next != nullptr;
    }
    /// run_one() until nothing is ready. Returns: the number of turns.
    std::size_t run() {
        std::size_t turns = 0;
        while (run_one()) ++turns;
        return turns;
    }

    [[nodiscard]] unsigned workers() const noexcept { return options_.workers; }
    /// Whether the calling thread is within a task of this pool. Cost: a look at each worker.
    [[nodiscard]] bool runs_here() const noexcept {
        // Relaxed: a thread looks for its own id, which itself has stored.
        return std::ranges::any_of(workers_, [me = std::this_thread::get_id()](const worker& w) {
            return w.id.load(std::memory_order_relaxed) == me;
        });
    }
    /// Each count is right at some moment of the call; all of them together once nothing runs.
    [[nodiscard]] pool_stats stats() const noexcept {
        pool_stats sum;
        sum.cancelled = cancelled_elsewhere_.load(std::memory_order_relaxed);
        for (const worker& w : workers_) {
            sum.executed += w.executed.load(std::memory_order_relaxed);
            sum.failed += w.failed.load(std::memory_order_relaxed);
            sum.cancelled += w.cancelled.load(std::memory_order_relaxed);
        }
        return sum;
    }

 private:
    friend class detail::poster;

    struct alignas(64) worker {
        std::thread thread;
        std::atomic<std::thread::id> id{};  // while it may be within a task
        std::atomic<int> awake{1};
        worker* next_sleeper = nullptr;
        detail::used_nodes used;
        std::atomic<std::uint64_t> executed{0}, failed{0}, cancelled{0};  // stored by itself alone
    };
    using deadline = std::optional<detail::turn_budget::clock::time_point>;

    /// Whoever waits "for ever" waits a century: nanoseconds::max() from now is beyond the clock, and a condition
    /// variable may have to say the moment by another clock, whose numbers are larger.
    [[nodiscard]] static detail::turn_budget::clock::time_point moment_after(
        std::chrono::nanoseconds timeout) noexcept {
        constexpr std::chrono::hours century(100 * 365 * 24);
        return detail::turn_budget::clock::now() + std::min<std::chrono::nanoseconds>(timeout, century);
    }

    // ---- admitting ----

    /// Whether the pool as a whole takes one task more.
    [[nodiscard]] post_status admit(detail::admission how) noexcept {
        if (closed_.load(std::memory_order_relaxed)) return post_status::closed;
        if (!counts()) return post_status::posted;
        const std::uint64_t most = options_.waiting_max != 0 ? options_.waiting_max : UINT64_MAX;
        std::uint64_t waiting = waiting_.load(std::memory_order_relaxed);
        do {
            if (waiting >= most && how == detail::admission::within_limits) return post_status::full;
            // Sequentially consistent, with the load in room_made(): either this sees the room, or that sees who waits.
        } while (!waiting_.compare_exchange_weak(waiting, waiting + 1, std::memory_order_seq_cst));
        return post_status::posted;
    }
    /// A task has begun, was cancelled, or was admitted and not posted.
    void leave_waiting() noexcept {
        if (!counts()) return;
        waiting_.fetch_sub(1, std::memory_order_seq_cst);  // as in admit()
        room_made();
        look_at_marks();
    }
    [[nodiscard]] bool counts() const noexcept { return options_.waiting_max != 0 || options_.high_water != 0; }
    /// Behind a change of waiting_, with no lock held: tells on_pressure if a mark was passed.
    void look_at_marks() noexcept {
        if (options_.high_water == 0 || !mark_passed()) return;
        // Acquire and release: pressed_ and what on_pressure did go from one who tells to the next.
        if (tellers_.fetch_add(1, std::memory_order_acq_rel) != 0) return;
        for (std::uint32_t asked = 1; asked != 0;) {
            while (mark_passed()) {
                const bool pressed = !pressed_.load(std::memory_order_relaxed);  // stored by who tells alone
                pressed_.store(pressed, std::memory_order_seq_cst);
                try {
                    options_.on_pressure(pressed);
                } catch (...) {  // nobody could be told of it
                }
            }
            asked = tellers_.fetch_sub(asked, std::memory_order_acq_rel) - asked;
        }
    }
    /// Sequentially consistent, with the changes of either word: of two threads that change one each, one sees both.
    [[nodiscard]] bool mark_passed() const noexcept {
        const bool pressed = pressed_.load(std::memory_order_seq_cst);
        const std::uint64_t waiting = waiting_.load(std::memory_order_seq_cst);
        return pressed ? waiting <= options_.low_water : waiting >= options_.high_water;
    }
    /// A limit is not reached any more.
    void room_made() noexcept {
        // Sequentially consistent, with the increment in wait_admitted(): it is before whoever waits looks for room.
        if (room_waiters_.load(std::memory_order_seq_cst) == 0) return;
        {
            const std::lock_guard lock(quiet_mutex_);
        }  // nobody is between its look and its sleep
        quiet_.notify_all();
    }
    template <class Admit>
    [[nodiscard]] post_status wait_admitted(std::chrono::nanoseconds timeout, const Admit& admit_one) {
        post_status status = admit_one();
        if (status != post_status::full || options_.workers == 0 || runs_here()) return status;
        const auto until = moment_after(timeout);
        std::unique_lock lock(quiet_mutex_);
        room_waiters_.fetch_add(1, std::memory_order_seq_cst);  // as in room_made()
        bool late = false;
        while ((status = admit_one()) == post_status::full && !late)
            late = quiet_.wait_until(lock, until) == std::cv_status::timeout;
        room_waiters_.fetch_sub(1, std::memory_order_relaxed);
        return status == post_status::full ? post_status::timed_out : status;
    }

    template <class Run, class Cancel>
    post_status post_as(detail::admission how, Run&& run, Cancel&& cancel) {
        const post_status status = admit(how);
        return status == post_status::posted ? ready_task(std::forward<Run>(run), std::forward<Cancel>(cancel))
                                             : status;
    }
    template <class Run, class Cancel>
    post_status ready_task(Run&& run, Cancel&& cancel) {
        ready(make_task(std::forward<Run>(run), std::forward<Cancel>(cancel)));
        return post_status::posted;
    }
    /// A node with the task, which was admitted; if it cannot be made, the admission is given back. No lock is held.
    template <class Run, class Cancel>
    [[nodiscard]] detail::task_node& make_task(Run&& run, Cancel&& cancel) {
        look_at_marks();
        detail::task_node* node = nullptr;
        try {
            node = &store_.take();
            detail::put(*node, std::forward<Run>(run), std::forward<Cancel>(cancel));
        } catch (...) {
            if (node != nullptr) store_.give_back(*node);
            leave_waiting();
            throw;
        }
        return *node;
    }
    /// A task that could not be posted after all: as if it had not been made.
    void take_back(detail::task_node& node) noexcept {
        node.operations->discard(node);
        store_.give_back(node);
        leave_waiting();
    }
    /// Cancels a task outside of any turn, on this thread.
    void cancel_here(detail::task_node& node, cancel_reason reason) noexcept {
        cancelled_elsewhere_.fetch_add(1, std::memory_order_relaxed);
        call_cancel(node, reason);
        store_.give_back(node);
        leave_waiting();
    }

    // ---- the queue ----

    /// Something that was not active is ready now.
    void ready(detail::runnable& what) noexcept {
        worker* woken = nullptr;
        {
            const std::lock_guard lock(mutex_);
            ++active_;
            enqueue(what);
            woken = sleeper_to_wake();
        }
        wake(woken);
    }
    void enqueue(detail::runnable& what) noexcept {
        what.next = nullptr;
        (first_ == nullptr ? first_ : last_->next) = &what;
        last_ = &what;
        filled_.store(true, std::memory_order_relaxed);
    }
    [[nodiscard]] detail::runnable* dequeue() noexcept {
        detail::runnable* const first = first_;
        if (first == nullptr) return nullptr;
        first_ = first->next;
        if (first_ == nullptr) filled_.store(false, std::memory_order_relaxed);
        return first;
    }
    /// Under mutex_. A second one is woken only when the first has looked: a burst of posts makes one system call.
    [[nodiscard]] worker* sleeper_to_wake() noexcept {
        if (first_ == nullptr || sleepers_ == nullptr || waking_) return nullptr;
        waking_ = true;
        return std::exchange(sleepers_, sleepers_->next_sleeper);
    }
    static void wake(worker* w) noexcept {
        if (w == nullptr) return;
        // Sequentially consistent: notify_one() looks for sleepers only behind it. mutex_ orders everything else.
        w->awake.store(1, std::memory_order_seq_cst);
        w->awake.notify_one();
    }
    /// What is next in a pool without workers.
    [[nodiscard]] detail::runnable* draw() noexcept {
        const std::lock_guard lock(mutex_);
        if (!options_.seed || first_ == nullptr) return dequeue();
        std::uint64_t ready_now = 0;
        for (const detail::runnable* each = first_; each != nullptr; each = each->next) ++ready_now;
        for (std::uint64_t skip = random_below(ready_now); skip > 0; --skip) enqueue(*dequeue());
        return dequeue();
    }
    [[nodiscard]] std::uint64_t random_below(std::uint64_t bound) noexcept {
        // splitmix64 (Steele, Lea, Flood, OOPSLA 2014); the bias of the remainder does not matter here.
        std::uint64_t x = random_ += 0x9E3779B97F4A7C15U;
        x = (x ^ (x >> 30U)) * 0xBF58476D1CE4E5B9U;
        x = (x ^ (x >> 27U)) * 0x94D049BB133111EBU;
        return (x ^ (x >> 31U)) % bound;
    }

    // ---- workers ----

    void work(worker& w) noexcept {
        w.id.store(std::this_thread::get_id(), std::memory_order_relaxed);
        detail::runnable* next = take(w);
        while (next != nullptr) {
            const bool more = run_turn(w, *next);
            next = take_next(w, more ? next : nullptr);
        }
    }
    /// Hands back the strand that has had its turn (nothing: it, or the task, is done), and takes what is next.
    [[nodiscard]] detail::runnable* take_next(worker& w, detail::runnable* again) noexcept {
        bool quiet = false;
        detail::runnable* next = nullptr;
        worker* woken = nullptr;
        {
            const std::lock_guard lock(mutex_);
            if (again != nullptr)
                enqueue(*again);
            else
                quiet = --active_ == 0 && drainers_ != 0;
            next = dequeue();
            woken = sleeper_to_wake();
        }
        wake(woken);
        if (quiet) {
            {
                const std::lock_guard lock(quiet_mutex_);
            }  // nobody is between its look and its sleep
            quiet_.notify_all();
        }
        return next != nullptr ? next : take(w);
    }
    /// Waits for something. Returns: nothing when the pool ends.
    [[nodiscard]] detail::runnable* take(worker& w) noexcept {
        for (bool was_woken = false;;) {
            if (!was_woken) look_around();
            worker* woken = nullptr;
            detail::runnable* next = nullptr;
            {
                const std::lock_guard lock(mutex_);
                if (was_woken) waking_ = false;
                next = dequeue();
                if (next == nullptr) {
                    if (ending_) return nullptr;
                    w.awake.store(0, std::memory_order_relaxed);  // mutex_ is before the store of who wakes
                    w.next_sleeper = std::exchange(sleepers_, &w);
                } else {
                    woken = sleeper_to_wake();
                }
            }
            wake(woken);
            if (next != nullptr) return next;
            w.awake.wait(0, std::memory_order_relaxed);
            was_woken = true;
        }
    }
    /// A short look for work before a sleep, which would cost the next poster a system call.
    void look_around() const noexcept {
        for (int i = 0; i < idle_looks && !filled_.load(std::memory_order_relaxed); ++i) holdfast::detail::pause();
    }

    /// Returns: whether it is a strand that has more.
    [[nodiscard]] bool run_turn(worker& w, detail::runnable& what) noexcept {
        if (!what.operations->is_strand) {
            (void)run_task(w, static_cast<detail::task_node&>(what), nullptr);
            return false;
        }
        auto& strand = static_cast<detail::strand_core&>(what);
        const bool counts = strand.rules().counts();
        detail::turn_budget budget = turn();
        for (detail::task_node* node = nullptr;;) {
            switch (strand.take(budget, node)) {
                case detail::strand_core::step::idle: return false;
                case detail::strand_core::step::give_way: return true;
                case detail::strand_core::step::run: break;
            }
            if (counts) room_made();
            if (!run_task(w, *node, &strand) && strand.rules().poison_on_error) poison(w, strand);
            budget.spend();
        }
    }
    [[nodiscard]] detail::turn_budget turn() noexcept {
        if (!options_.seed) return {options_.turn_tasks_max, options_.turn_time_max};
        return {1 + static_cast<std::uint32_t>(random_below(options_.turn_tasks_max)),
                std::chrono::nanoseconds::zero()};
    }
    /// Runs or cancels it. Returns: false if it failed.
    [[nodiscard]] bool run_task(worker& w, detail::task_node& node, detail::strand_core* strand) noexcept {
        leave_waiting();
        if (stopping_.load(std::memory_order_relaxed)) {
            cancel(w, node, cancel_reason::stopped);
            return true;
        }
        bool good = true;
        try {
            node.operations->run(node);
        } catch (...) {
            good = false;
            add_one(w.failed);
            report(strand, std::current_exception());
        }
        add_one(w.executed);
        w.used.add(node, store_);
        return good;
    }
    void report(detail::strand_core* strand, const std::exception_ptr& what) noexcept {
        try {
            const auto own = strand != nullptr ? strand->calls().failed : nullptr;
            if ((own == nullptr || !own(*strand, what)) && options_.on_error) options_.on_error(what);
        } catch (...) {  // it has been counted
        }
    }
    void poison(worker& w, detail::strand_core& strand) noexcept {
        for (detail::task_node* node = strand.poison(); node != nullptr;) {
            detail::task_node* const next = node->next_task();
            leave_waiting();
            cancel(w, *node, cancel_reason::poisoned);
            node = next;
        }
        room_made();
    }
    void cancel(worker& w, detail::task_node& node, cancel_reason reason) noexcept {
        add_one(w.cancelled);
        call_cancel(node, reason);
        w.used.add(node, store_);
    }
    static void call_cancel(detail::task_node& node, cancel_reason reason) noexcept {
        try {
            node.operations->cancel(node, reason);
        } catch (...) {  // the task is counted as cancelled
        }
    }
    static void add_one(std::atomic<std::uint64_t>& count) noexcept {
        count.store(count.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);  // only its worker stores it
    }

    // ---- ending ----

    void refuse_within_task() const {
        if (runs_here())
            throw error(errc::invalid_argument, "thread_pool",
                        "drain() within a task would wait for itself: call it from a thread of your own");
    }
    [[nodiscard]] bool is_quiet(int add_drainers) noexcept {
        const std::lock_guard lock(mutex_);
        drainers_ += static_cast<std::size_t>(add_drainers);
        return active_ == 0;
    }
    bool wait_until_quiet(const deadline& until) {
        while (options_.workers == 0 && !(until && detail::turn_budget::clock::now() >= *until) && run_one()) continue;
        if (options_.workers == 0) return is_quiet(0);
        std::unique_lock lock(quiet_mutex_);
        bool quiet = is_quiet(1);
        for (bool late = false; !quiet && !late; quiet = is_quiet(0)) {
            if (until)
                late = quiet_.wait_until(lock, *until) == std::cv_status::timeout;
            else
                quiet_.wait(lock);
        }
        (void)is_quiet(-1);
        return quiet;
    }
    void join() noexcept {
        worker* asleep = nullptr;
        {
            const std::lock_guard lock(mutex_);
            ending_ = true;
            asleep = std::exchange(sleepers_, nullptr);
        }
        while (asleep != nullptr) wake(std::exchange(asleep, asleep->next_sleeper));
        for (worker& w : workers_)
            if (w.thread.joinable()) w.thread.join();
    }

    static constexpr int idle_looks = 200;

    pool_options options_;
    detail::task_store store_;
    std::vector<worker> workers_;  // one without a thread if there are none
    std::uint64_t random_ = 0;

    alignas(64) detail::small_mutex mutex_;
    bool waking_ = false;
    bool ending_ = false;
    std::atomic<bool> filled_{false};  // a hint: the queue is not empty
    detail::runnable* first_ = nullptr;
    detail::runnable* last_ = nullptr;
    worker* sleepers_ = nullptr;
    std::uint64_t active_ = 0;
    std::size_t drainers_ = 0;

    alignas(64) std::atomic<bool> closed_{false};
    std::atomic<bool> stopping_{false};
    std::atomic<std::uint32_t> room_waiters_{0};
    std::atomic<std::uint64_t> cancelled_elsewhere_{0};
    std::mutex quiet_mutex_;
    std::condition_variable quiet_;                      // nothing is active, room was made, or the pool is closed
    alignas(64) std::atomic<std::uint64_t> waiting_{0};  // tasks that have not begun; only if counts()
    std::atomic<bool> pressed_{false};                   // what on_pressure was told last; in the line of waiting_
    std::atomic<std::uint32_t> tellers_{0};              // who tells, and how often others have asked it to look again
};

}  // namespace holdfast::executor
