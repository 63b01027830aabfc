// SPDX-License-Identifier: Apache-2.0
// Memory orders: the ledger's counts stand alone, so they are relaxed; what calls share is guarded by the strand.
#include "connection_strand.hpp"

#include <iterator>
#include <new>
#include <utility>

#include "server_core.hpp"

namespace holdfast::net {

// --- the loop

void connection_strand::add(call added) {
    const std::size_t size = added.bytes;
    {
        const std::lock_guard guard(lock_);
        queue_.push_back(std::move(added));
        bytes_ += size;
        ++tasks_;
        if (gone_ && !std::exchange(orphan_, true)) ledger_->orphans.fetch_add(1, std::memory_order_relaxed);
    }
    ledger_->bytes.fetch_add(size, std::memory_order_relaxed);
    ledger_->begin_task();
    auto run = [self = shared_from_this()] { self->turn(true); };
    auto cancel = [self = shared_from_this()](executor::cancel_reason) { self->turn(false); };
    static_assert(executor::task_fits<decltype(run), decltype(cancel)>);
    bool posted = false;
    try {
        posted = strand_.post(std::move(run), std::move(cancel)) == executor::post_status::posted;
    } catch (const std::bad_alloc&) {  // as if it were closed: the call is not lost
    }
    if (!posted) refuse_newest();
}

// The one that was added last, unless a task to spare has taken it (S3).
void connection_strand::refuse_newest() noexcept {
    std::list<call> mine;
    {
        const std::lock_guard guard(lock_);
        if (!queue_.empty()) {
            const bool later = queue_.back().must_run && tasks_ > 1;  // (S2)
            auto& to = later ? left_ : mine;
            to.splice(to.end(), queue_, std::prev(queue_.end()));
        }
    }
    end_task(make_first(mine, false));
}

bool connection_strand::is_full() {
    const std::lock_guard guard(lock_);
    if (queue_.size() < bounds_.calls_max && bytes_ < bounds_.bytes_max) return false;
    awaited_ = true;
    return true;
}

bool connection_strand::has_room() {
    const std::lock_guard guard(lock_);
    if (room_for_half()) return true;
    awaited_ = true;
    return false;
}

std::size_t connection_strand::bytes() const {
    const std::lock_guard guard(lock_);
    return bytes_;
}

void connection_strand::drop(const void* whose) {
    std::list<call> dropped;  // destroyed when the lock is free
    std::size_t freed = 0;
    {
        const std::lock_guard guard(lock_);
        for (auto each = queue_.begin(); each != queue_.end();) {
            const auto here = each++;
            if (here->whose != whose || here->must_run) continue;
            freed += here->bytes;
            dropped.splice(dropped.end(), queue_, here);
        }
        bytes_ -= freed;
    }
    ledger_->bytes.fetch_sub(freed, std::memory_order_relaxed);
}

void connection_strand::leave() {
    const std::lock_guard guard(lock_);
    gone_ = true;
    if (tasks_ != 0 && !std::exchange(orphan_, true)) ledger_->orphans.fetch_add(1, std::memory_order_relaxed);
}

void connection_strand::open(server_core& loop) {
    std::shared_ptr<connection_strand> self;
    {
        const std::lock_guard guard(lock_);
        posted_ = false;
        self = std::move(self_);
    }
    loop.strand_moved(*self);
}

void connection_strand::discard() noexcept {
    std::shared_ptr<connection_strand> self;  // perhaps the last one: gone when the lock is free
    const std::lock_guard guard(lock_);
    posted_ = false;
    self = std::move(self_);
}

// --- a worker

void connection_strand::turn(bool runs) noexcept {
    std::list<call> first;
    {
        const std::lock_guard guard(lock_);
        if (!queue_.empty()) first.splice(first.end(), queue_, queue_.begin());
    }
    end_task(make_first(first, runs));
}

// --- both

// Makes the call, if there is one, and destroys what it holds. Returns: how many bytes that were.
std::size_t connection_strand::make_first(std::list<call>& calls, bool runs) noexcept {
    if (calls.empty()) return 0;
    const call& made = calls.front();
    const std::size_t bytes = made.bytes;
    try {
        if (const auto& wanted = runs || made.must_run ? made.run : made.refused) wanted();
    } catch (...) {
        ledger_->exceptions.fetch_add(1, std::memory_order_relaxed);
    }
    calls.clear();
    return bytes;
}

void connection_strand::end_task(std::size_t bytes) noexcept {
    ledger_->bytes.fetch_sub(bytes, std::memory_order_relaxed);
    bool posting = false;
    for (std::list<call> last;; (void)make_first(last, true)) {
        const std::lock_guard guard(lock_);
        bytes_ -= std::exchange(bytes, 0);
        if (tasks_ == 1 && !left_.empty()) {  // (S2)
            last.splice(last.end(), left_, left_.begin());
            continue;
        }
        if (--tasks_ == 0 && std::exchange(orphan_, false)) ledger_->orphans.fetch_sub(1, std::memory_order_relaxed);
        if (awaited_ && room_for_half()) {
            awaited_ = false;
            posting = !std::exchange(posted_, true);
            if (posting) self_ = shared_from_this();
        }
        break;
    }
    if (posting && !mail_->put(*this)) discard();  // the loop has ended
    ledger_->end_task();
}

}  // namespace holdfast::net
