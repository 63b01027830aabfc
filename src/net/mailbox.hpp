// SPDX-License-Identifier: Apache-2.0
// mailbox.hpp - what other threads leave for a loop: a stack that any number of them push to and the loop takes whole.
//
//   head_ -> letter -> letter -> ... -> nullptr      the newest first; take() turns them round
//   head_ == the mark                                closed: nothing is taken in any more
// (I1) A letter is in the stack from put() until take() or close(), and put() answers whether it ever was. Nobody
//      pushes a letter that is in it.
// (I2) Who puts a letter into an empty box wakes the loop, after it is in, unless it is the loop, which looks into the
//      box before it sleeps. The loop takes after it woke. So a letter is in the box of a sleeping loop only while
//      somebody is about to wake it: one that the loop has put is not there any more when it sleeps.
// (I3) Waking is a write to an eventfd that the box shares with the engine, so a box may outlive its server.
// Threads: put() and is_empty() from any; attendance, take() and close() from the loop's.
#pragma once

#include <atomic>
#include <memory>
#include <utility>

#include "wake_event.hpp"

namespace holdfast::net {

class server_core;

/// What lies in a mailbox. It belongs to the box from put() on, and is told once what became of it.
struct letter {
    letter* next = nullptr;

    /// On the loop. Ends the box's ownership.
    virtual void open(server_core& loop) = 0;
    /// The loop has ended. Ends the box's ownership.
    virtual void discard() noexcept = 0;

 protected:
    letter() = default;
    letter(const letter&) = delete;
    letter& operator=(const letter&) = delete;
    ~letter() = default;
};

class mailbox {
 public:
    explicit mailbox(std::shared_ptr<const wake_event> waker) noexcept : waker_(std::move(waker)) {}
    mailbox(const mailbox&) = delete;
    mailbox& operator=(const mailbox&) = delete;
    ~mailbox() { close(); }

    /// While it lives this thread is the loop that takes from the box.
    class attendance {
     public:
        explicit attendance(const mailbox& box) noexcept : before_(std::exchange(attended_, &box)) {}
        attendance(const attendance&) = delete;
        attendance& operator=(const attendance&) = delete;
        ~attendance() { attended_ = before_; }

     private:
        const mailbox* const before_;  // a handler may run another loop
    };

    /// Returns: false when the box is closed; the letter then stays the caller's.
    [[nodiscard]] bool put(letter& posted) noexcept {
        // Relaxed: only compared and linked, never followed here.
        letter* head = head_.load(std::memory_order_relaxed);
        do {
            if (head == &mark_) return false;
            posted.next = head;
            // Release, pairs with the acquire of take(): weaker would show the loop a letter without what is in it.
        } while (!head_.compare_exchange_weak(head, &posted, std::memory_order_release, std::memory_order_relaxed));
        if (head == nullptr && attended_ != this) waker_->signal();
        return true;
    }

    /// Relaxed: a hint. What it misses, a wake-up follows (I2).
    [[nodiscard]] bool is_empty() const noexcept { return head_.load(std::memory_order_relaxed) == nullptr; }

    /// All letters there are, the oldest first; nullptr for none.
    [[nodiscard]] letter* take() noexcept {
        // Relaxed: the mark is set by this thread.
        if (letter* const seen = head_.load(std::memory_order_relaxed); seen == nullptr || seen == &mark_)
            return nullptr;
        // Acquire, pairs with the release of put().
        return turned_round(head_.exchange(nullptr, std::memory_order_acquire));
    }

    /// Discards what is in the box, and takes nothing in from here on.
    void close() noexcept {
        // Acquire as in take().
        letter* newest = head_.exchange(&mark_, std::memory_order_acquire);
        if (newest == &mark_) return;
        for (letter* l = turned_round(newest); l != nullptr;) std::exchange(l, l->next)->discard();
    }

 private:
    struct no_letter final : letter {
        void open(server_core& /*loop*/) override {}
        void discard() noexcept override {}
    };

    static letter* turned_round(letter* newest) noexcept {
        letter* oldest = nullptr;
        while (newest != nullptr) {
            letter* const older = newest->next;
            newest->next = oldest;
            oldest = std::exchange(newest, older);
        }
        return oldest;
    }

    static inline thread_local const mailbox* attended_ = nullptr;

    std::atomic<letter*> head_{nullptr};
    no_letter mark_;
    const std::shared_ptr<const wake_event> waker_;
};

}  // namespace holdfast::net
