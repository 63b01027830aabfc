// SPDX-License-Identifier: Apache-2.0
// poster.hpp - the way of a task into a strand, the same for strands by themselves and for keys.
//
// Two ways. Of strands that neither count nor can be poisoned: make the node, lock, append. Of the others: lock, ask
// for a place in the strand and in the pool, and reserve both; make the node; lock, append. So a refused callable was
// not touched, and neither a callable is made nor a callback called under a lock.
#pragma once

#include <chrono>
#include <mutex>
#include <utility>

#include "holdfast/executor/small_mutex.hpp"
#include "holdfast/executor/strand_core.hpp"
#include "holdfast/executor/task.hpp"
#include "holdfast/executor/thread_pool.hpp"

namespace holdfast::executor::detail {

/// One post.
class poster {
 public:
    poster(thread_pool& pool, small_mutex& lock, const strand_rules& rules) noexcept
        : pool_(pool), lock_(lock), rules_(rules) {}
    poster(const poster&) = delete;
    poster& operator=(const poster&) = delete;

    /// `find` returns the strand, and is called under the lock.
    template <class Find, class Run, class Cancel>
    post_status post(admission how, const Find& find, Run&& run, Cancel&& cancel) {
        const post_status status = admit(how, find);
        return status == post_status::posted ? deliver(find, std::forward<Run>(run), std::forward<Cancel>(cancel))
                                             : status;
    }
    template <class Find, class Run, class Cancel>
    post_status wait_post(std::chrono::nanoseconds timeout, const Find& find, Run&& run, Cancel&& cancel) {
        const post_status status = pool_.wait_admitted(timeout, [&] { return admit(admission::within_limits, find); });
        return status == post_status::posted ? deliver(find, std::forward<Run>(run), std::forward<Cancel>(cancel))
                                             : status;
    }

 private:
    template <class Find>
    [[nodiscard]] post_status admit(admission how, const Find& find) {
        if (!rules_.counts()) return pool_.admit(how);
        std::unique_lock held(lock_);
        strand_core& strand = find();
        post_status status = strand.check(how);
        if (status == post_status::posted) status = pool_.admit(how);  // a word of the pool: it takes no lock
        if (status == post_status::posted) {
            reserved_ = &strand;
            dropped_ = strand.reserve();
            return status;
        }
        const retired gone = strand.leave();  // it may have been made for this
        held.unlock();
        gone.end();
        return status;
    }

    template <class Find, class Run, class Cancel>
    post_status deliver(const Find& find, Run&& run, Cancel&& cancel) {
        if (dropped_ != nullptr) pool_.cancel_here(*dropped_, cancel_reason::dropped);
        task_node* node = nullptr;
        try {
            node = &pool_.make_task(std::forward<Run>(run), std::forward<Cancel>(cancel));
        } catch (...) {
            if (reserved_ != nullptr) give_up();
            throw;
        }
        if (reserved_ == nullptr) {
            append_to(find, *node);
        } else if (!append_reserved(*node)) {
            pool_.cancel_here(*node, cancel_reason::poisoned);  // it was accepted before that
        }
        return post_status::posted;
    }
    template <class Find>
    void append_to(const Find& find, task_node& node) {
        strand_core* strand = nullptr;
        bool first = false;
        try {
            const std::lock_guard held(lock_);
            strand = &find();
            first = strand->append(node);
        } catch (...) {
            pool_.take_back(node);
            throw;
        }
        if (first) pool_.ready(*strand);
    }
    /// Returns: false if the strand was poisoned meanwhile.
    [[nodiscard]] bool append_reserved(task_node& node) noexcept {
        std::unique_lock held(lock_);
        if (!reserved_->poisoned) {
            const bool first = reserved_->append(node);
            held.unlock();
            if (first) pool_.ready(*reserved_);
            return true;
        }
        held.unlock();
        give_up();
        return false;
    }
    /// Gives the reservation back.
    void give_up() noexcept {
        retired gone;
        {
            const std::lock_guard held(lock_);
            reserved_->unreserve();
            gone = reserved_->leave();
        }
        gone.end();
        pool_.room_made();
    }

    thread_pool& pool_;
    small_mutex& lock_;
    const strand_rules& rules_;
    strand_core* reserved_ = nullptr;
    task_node* dropped_ = nullptr;
};

}  // namespace holdfast::executor::detail
