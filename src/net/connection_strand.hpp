// SPDX-License-Identifier: Apache-2.0
// connection_strand.hpp - what has to be called in the pool for one connection: in order, never two at a time.
//
// (S1) Only the loop adds. Each call is begun by a task of one strand of the pool, in the order in which it was added;
//      so the strand gives order, fairness and an end, and the queue here keeps what can still be taken back.
// (S2) What must run runs once, whatever becomes of the pool: where that refuses its task, the last task that it has
//      taken runs it, or, where there is none, the loop at once. So there are never two calls at a time.
// (S3) What nobody needs any more, since its channel is gone, is dropped from the queue: its memory goes at once,
//      though its task still waits, and finds nothing.
// (S4) The ledger counts each task from add() until what it held is gone, and strands whose connections are gone while
//      they have tasks: a server that ends waits for the first, and one that accepts counts the second as connections.
// Threads: the loop's, but turn(), which the pool's workers call. No lock is held while anything is called or destroyed
//      that is a user's.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>

#include "engine.hpp"
#include "holdfast/executor/strand.hpp"
#include "mailbox.hpp"

namespace holdfast::net {

/// What the strands of one server have in common; outlives it while a task is about to end.
class pool_ledger {
 public:
    void begin_task() noexcept { tasks_.fetch_add(1, std::memory_order_relaxed); }
    void end_task() noexcept {
        // Release, pairs with the acquire of wait_for_tasks(): what the task did is seen by who waited for it.
        if (tasks_.fetch_sub(1, std::memory_order_acq_rel) == 1) tasks_.notify_all();
    }
    /// On the loop, which adds nothing more.
    void wait_for_tasks() const noexcept {
        while (true) {
            // Acquire, pairs with the release of end_task(): weaker would end the server beside what tasks did.
            const std::uint32_t now = tasks_.load(std::memory_order_acquire);
            if (now == 0) return;
            tasks_.wait(now, std::memory_order_relaxed);  // looked at again above
        }
    }

    // Relaxed: counts that stand alone.
    std::atomic<std::size_t> bytes{0};         // that calls hold, of connections open or gone
    std::atomic<std::size_t> orphans{0};       // strands with tasks and without a connection
    std::atomic<std::uint64_t> exceptions{0};  // since the loop took them into its counters

 private:
    std::atomic<std::uint32_t> tasks_{0};
};

class connection_strand final : public letter, public std::enable_shared_from_this<connection_strand> {
 public:
    struct call {
        std::function<void()> run;
        std::function<void()> refused = {};  // in its place, where the pool takes nothing any more; may be none
        const void* whose = nullptr;         // the channel that it belongs to
        std::size_t bytes = 0;
        bool must_run = false;
    };
    struct bounds {
        std::size_t calls_max;
        std::size_t bytes_max;
    };

    connection_strand(std::shared_ptr<mailbox> mail, std::shared_ptr<pool_ledger> ledger, executor::thread_pool& pool,
                      connection_token whose, bounds most)
        : connection(whose), mail_(std::move(mail)), ledger_(std::move(ledger)), bounds_(most), strand_(pool) {}

    /// Throws: std::bad_alloc; nothing was added then.
    void add(call added);
    /// Whether as much waits as may; then the loop is told (server_core::strand_moved) when there is room again.
    [[nodiscard]] bool is_full();
    /// Likewise, of half of it.
    [[nodiscard]] bool has_room();
    [[nodiscard]] std::size_t bytes() const;
    /// Takes back what waits of a channel and need not run.
    void drop(const void* whose);
    /// The connection has gone.
    void leave();

    void open(server_core& loop) override;
    void discard() noexcept override;

    const connection_token connection;

 private:
    void turn(bool runs) noexcept;
    void refuse_newest() noexcept;
    void end_task(std::size_t bytes) noexcept;
    std::size_t make_first(std::list<call>& calls, bool runs) noexcept;
    [[nodiscard]] bool room_for_half() const noexcept {  // under the lock
        return queue_.size() <= bounds_.calls_max / 2 && bytes_ <= bounds_.bytes_max / 2;
    }

    const std::shared_ptr<mailbox> mail_;
    const std::shared_ptr<pool_ledger> ledger_;
    const bounds bounds_;
    mutable std::mutex lock_;
    std::list<call> queue_;  // each has a task; tasks may be more (S3). Lists: taking out must not need memory
    std::list<call> left_;   // must run, and the pool has refused them
    std::size_t bytes_ = 0;  // of what waits or runs
    std::size_t tasks_ = 0;  // that the pool has taken, or is being asked to take
    bool awaited_ = false;   // the loop wants to know of room
    bool gone_ = false;      // the connection has
    bool orphan_ = false;    // counted in the ledger
    bool posted_ = false;
    std::shared_ptr<connection_strand> self_;  // while posted_
    executor::strand strand_;
};

}  // namespace holdfast::net
