// SPDX-License-Identifier: Apache-2.0
// uring_queue.hpp - operations into a ring, and what they came to out of it, in order.
//
// (Q1) Completions are handed out in the order of the kernel's. Only absorb() deals with some of them earlier.
#pragma once

#include <linux/io_uring.h>
#include <poll.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "uring_ring.hpp"

namespace holdfast::net {

enum class uring_operation : std::uint8_t {
    receive,
    send,
    stop_receive,  // cancels the receive of a paused connection
    stop_all,      // cancels what is under way of a removed one
    aside,         // what it comes to changes nothing: a shutdown or a reset
    await_break,   // of a connection that was paused, or whose input has ended
    accept,
    poll_accept,  // of the listener, where an accept would not do
    stop_accept,
    watch,
    stop_watch,
    wake,
    nothing,  // has been dealt with
};

/// What an operation is about, as the kernel keeps it for us: the operation above, then the use of a place in one of
/// the engine's tables, then the place.
struct uring_subject {
    static constexpr std::uint32_t use_mask = (1U << 24U) - 1;

    uring_operation what;
    std::uint32_t use;
    std::uint32_t place;

    [[nodiscard]] std::uint64_t word() const noexcept {
        return std::uint64_t{static_cast<std::uint8_t>(what)} << 56U | std::uint64_t{use & use_mask} << 32U | place;
    }
    [[nodiscard]] static uring_subject of(const uring_completion& one) noexcept {
        return {static_cast<uring_operation>(one.user_data >> 56U),
                static_cast<std::uint32_t>(one.user_data >> 32U) & use_mask, static_cast<std::uint32_t>(one.user_data)};
    }
    /// Whether the place is still used for what this was about.
    [[nodiscard]] bool is_of(std::uint32_t use_now) const noexcept { return (use_now & use_mask) == use; }
};

/// The completion is its operation's last.
[[nodiscard]] inline bool is_last(const uring_completion& one) noexcept { return (one.flags & IORING_CQE_F_MORE) == 0; }

class uring_queue {
 public:
    uring_queue(unsigned submissions, unsigned completions) : ring_(submissions, completions) {
        stash_.reserve(completions);
    }

    [[nodiscard]] uring_ring& ring() noexcept { return ring_; }

    /// An entry for the next enter(). Its reference is good until the next one is asked for.
    io_uring_sqe& entry(std::uint8_t code, int fd, uring_subject about) noexcept {
        io_uring_sqe* e = ring_.next();
        while (e == nullptr) {
            // Short of memory the kernel takes nothing; there is nothing to do without it but to try again.
            if (ring_.enter(0, 0) == EBUSY) set_aside();
            e = ring_.next();
        }
        e->opcode = code;
        e->fd = fd;
        e->user_data = about.word();
        return *e;
    }
    void cancel(uring_subject which, uring_operation as) noexcept {
        entry(IORING_OP_ASYNC_CANCEL, -1, {as, which.use, which.place}).addr = which.word();
    }
    /// Completes once when the descriptor is readable or hung up.
    void poll(int fd, uring_subject about) noexcept {
        entry(IORING_OP_POLL_ADD, fd, about).poll32_events = POLLIN | POLLRDHUP;
    }

    /// How many there are to take without a wait.
    [[nodiscard]] std::size_t size() const noexcept { return stash_.size() - stash_begin_ + ring_.completions(); }

    [[nodiscard]] bool next(uring_completion& one) noexcept {
        if (stash_begin_ == stash_.size()) return ring_.complete(one);
        one = stash_[stash_begin_++];
        if (stash_begin_ == stash_.size()) {
            stash_.clear();
            stash_begin_ = 0;
        }
        return true;
    }

    /// Shows what has completed and was not taken to deal(), which says whether it has dealt with it: then next() does
    /// not give it any more. Waits for completions if deal() took none. To be repeated until what is awaited is there.
    template <class Deal>
    void absorb(Deal deal) noexcept {
        set_aside();
        if (sift(deal)) return;
        (void)ring_.enter(1, -1);
        set_aside();
        (void)sift(deal);
    }

 private:
    void set_aside() noexcept {
        for (uring_completion one; ring_.complete(one);) stash_.push_back(one);
    }

    template <class Deal>
    bool sift(Deal& deal) noexcept {
        bool any = false;
        for (std::size_t i = stash_begin_; i < stash_.size(); ++i) {
            const uring_completion one = stash_[i];  // deal() may set others aside
            if (uring_subject::of(one).what == uring_operation::nothing || !deal(one)) continue;
            stash_[i] = {.user_data = uring_subject{uring_operation::nothing, 0, 0}.word(), .result = 0, .flags = 0};
            any = true;
        }
        return any;
    }

    uring_ring ring_;
    std::vector<uring_completion> stash_;  // taken from the ring, and not from us
    std::size_t stash_begin_ = 0;
};

/// A place for one descriptor more: a free one, or a new one.
template <class Place>
[[nodiscard]] std::uint32_t free_place(std::vector<Place>& places) {
    for (std::uint32_t i = 0; i < places.size(); ++i)
        if (places[i].fd < 0 && !places[i].armed) return i;
    places.emplace_back();
    return static_cast<std::uint32_t>(places.size() - 1);
}

}  // namespace holdfast::net
