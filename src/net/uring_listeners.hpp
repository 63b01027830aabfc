// SPDX-License-Identifier: Apache-2.0
// uring_listeners.hpp - accepting by a ring: multishot accepts, and calls where those would not do.
//
// (L1) A listener does not block, neither for our calls nor for those of others who share it; a multishot accept waits
//      all the same. Should one end because nobody waits, the listener is polled.
// (L2) Out of descriptors an accept fails also where nobody waits, and would be armed again without end. So the
//      listener is polled then, and accepted from by calls, until one finds a descriptor.
// (L3) An accept keeps the limit of descriptors under which it was armed. So each that it brings is held to that of the
//      moment; one that ends for the old limit is followed by calls, and then armed under the new one.
// (L4) A connection that arrives wakes one of the rings that accept from its listener. When that one is just stopping,
//      or its process is killed, the others sleep on. So who leaves a listener to others accepts by calls until nobody
//      waits who may have come before, or there is no descriptor to take them with, and who stays looks once a second,
//      so far as it is awake.
#pragma once

#include <linux/io_uring.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <optional>
#include <utility>
#include <vector>

#include "acceptor.hpp"
#include "engine.hpp"
#include "uring_queue.hpp"

namespace holdfast::net {

class uring_listeners {
 public:
    uring_listeners(engine_sink& sink, uring_queue& queue) noexcept : sink_(sink), queue_(queue), acceptor_(sink, 0) {}

    [[nodiscard]] acceptor& arrivals() noexcept { return acceptor_; }
    [[nodiscard]] const acceptor& arrivals() const noexcept { return acceptor_; }

    void listen(int fd) { places_[place_of(fd)].wanted = true; }
    void drain(int fd) {
        listening& l = places_[place_of(fd)];
        l.wanted = false;
        l.draining = true;
    }
    void leave(int fd) {
        drain(fd);
        places_[place_of(fd)].leaving = true;
    }
    void unlisten(int fd) noexcept {
        const auto found = std::ranges::find(places_, fd, &listening::fd);
        if (found == places_.end()) return;
        found->wanted = found->draining = false;
        const auto number = static_cast<std::uint32_t>(found - places_.begin());
        while (found->armed) {
            stop(number);
            queue_.absorb([&](const uring_completion& one) { return settles(number, one); });
        }
        *found = {.use = found->use + 1};
    }

    /// Puts into the queue what has to be under way.
    void arm() noexcept {
        for (std::uint32_t i = 0; i < places_.size(); ++i) {
            if (places_[i].draining) stop(i);
            if (places_[i].wanted && !places_[i].armed && !accept_again_) arm(i);
        }
    }

    [[nodiscard]] int bounded(int timeout_ms) const {
        if (std::ranges::any_of(places_, [](const listening& l) { return l.draining && !l.armed; })) return 0;
        if (!accept_again_) return timeout_ms;
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(*accept_again_ - clock::now());
        const int left_ms = std::max(0, static_cast<int>(left.count()));
        return timeout_ms < 0 ? left_ms : std::min(timeout_ms, left_ms);
    }

    /// At the begin of a turn: ends a pause, and goes on with drains.
    void take_up() {
        acceptor_.begin_turn();
        look_again();
        if (accept_again_ && clock::now() >= *accept_again_) {
            accept_again_.reset();
            (void)acceptor_.open_reserve();
        }
        for (std::uint32_t i = 0; i < places_.size(); ++i)
            if (places_[i].draining && !places_[i].armed) drain_some(i);
    }

    void on_completion(const uring_completion& one) {
        const uring_subject about = uring_subject::of(one);
        listening& l = places_[about.place];
        if (!about.is_of(l.use)) return;
        if (about.what == uring_operation::stop_accept) {
            l.stopping = false;  // it may have missed an accept that had ended by itself
            return;
        }
        if (is_last(one)) ended(l);
        if (one.result == -ECANCELED) return;
        if (about.what == uring_operation::poll_accept) return accept_by_call(about.place);
        if (one.result >= 0) return acceptor_.hand_over(l.fd, one.result, is_beyond_limit(one.result));
        switch (accept_failure_of(-one.result)) {
            case accept_failure::nobody_waits: l.polling = true; return;
            case accept_failure::out_of_descriptors: return accept_by_call(about.place);
            case accept_failure::out_of_room: return pause();
            default: return;
        }
    }

 private:
    using clock = std::chrono::steady_clock;
    // (L4) As many as a queue usually holds; whoever came later has woken another ring.
    static constexpr unsigned leave_rounds_max = 4096 / accepts_max;

    struct listening {
        int fd = -1;
        std::uint32_t use = 0;
        bool wanted = false;
        bool draining = false;
        bool leaving = false;   // with draining: what comes is others' to accept
        unsigned rounds = 0;    // of accepts since it stopped
        bool armed = false;     // an accept or a poll is under way
        bool polling = false;   // (L1, L2)
        bool stopping = false;  // a cancel is under way
    };

    std::uint32_t place_of(int fd) {
        const auto found = std::ranges::find(places_, fd, &listening::fd);
        if (found != places_.end()) return static_cast<std::uint32_t>(found - places_.begin());
        const std::uint32_t number = free_place(places_);
        places_[number].fd = fd;
        return number;
    }

    [[nodiscard]] uring_subject subject(std::uint32_t number) const noexcept {
        const listening& l = places_[number];
        return {l.polling ? uring_operation::poll_accept : uring_operation::accept, l.use, number};
    }

    void arm(std::uint32_t number) noexcept {
        listening& l = places_[number];
        l.armed = true;
        if (l.polling) return queue_.poll(l.fd, subject(number));
        io_uring_sqe& e = queue_.entry(IORING_OP_ACCEPT, l.fd, subject(number));
        e.ioprio = IORING_ACCEPT_MULTISHOT;
        e.accept_flags = SOCK_CLOEXEC;
    }

    void stop(std::uint32_t number) noexcept {
        listening& l = places_[number];
        if (l.armed && !std::exchange(l.stopping, true)) queue_.cancel(subject(number), uring_operation::stop_accept);
    }

    static void ended(listening& l) noexcept { l.armed = l.stopping = false; }

    [[nodiscard]] static bool is_beyond_limit(int fd) noexcept {  // (L3)
        rlimit limit{};
        return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 && static_cast<rlim_t>(fd) >= limit.rlim_cur;
    }

    // What completes of a listener that is given up: who was accepted by then is closed.
    bool settles(std::uint32_t number, const uring_completion& one) noexcept {
        const uring_subject about = uring_subject::of(one);
        listening& l = places_[number];
        const bool accepting = about.what == uring_operation::accept;
        if (!accepting && about.what != uring_operation::poll_accept && about.what != uring_operation::stop_accept)
            return false;
        if (about.place != number || !about.is_of(l.use)) return false;
        if (about.what == uring_operation::stop_accept) {
            l.stopping = false;
            return true;
        }
        if (accepting && one.result >= 0) ::close(one.result);
        if (is_last(one)) ended(l);
        return true;
    }

    queue_left accept_from(std::uint32_t number) {
        const std::uint32_t use = places_[number].use;
        // (L4) To whom the others give an answer, one who leaves need not give a refusal.
        const auto next = places_[number].leaving ? without_descriptor::stays_in_queue : without_descriptor::is_refused;
        const queue_left left = acceptor_.accept(places_[number].fd, accepts_max, next);
        // One that is armed stays what it was armed as (look_again()): by that its cancel finds it.
        if (listening& l = places_[number]; l.use == use && !l.armed) l.polling = acceptor_.used_reserve();
        return left;
    }

    void accept_by_call(std::uint32_t number) {
        if (places_[number].wanted && accept_from(number) == queue_left::out_of_room) pause();
    }

    void look_again() {  // (L4)
        timespec now{};
        ::clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
        if (now.tv_sec == looked_s_) return;
        looked_s_ = now.tv_sec;
        for (std::uint32_t i = 0; i < places_.size(); ++i)
            if (places_[i].armed && !places_[i].polling && !accept_again_) accept_by_call(i);
    }

    void pause() {
        if (accept_again_) return;
        accept_again_ = clock::now() + accept_pause;
        sink_.on_accept_paused();
    }

    void drain_some(std::uint32_t number) {
        const std::uint32_t use = places_[number].use;
        const queue_left left = accept_from(number);
        listening& l = places_[number];
        if (l.use != use) return;  // given up in a call back
        const bool all_older_gone = l.leaving && ++l.rounds == leave_rounds_max;
        if (left == queue_left::perhaps_more && !all_older_gone) return;
        const int fd = places_[number].fd;
        places_[number] = {.use = use + 1};
        sink_.on_drained(fd);
    }

    engine_sink& sink_;
    uring_queue& queue_;
    acceptor acceptor_;
    std::vector<listening> places_;
    std::optional<clock::time_point> accept_again_;  // accepting is paused until then
    std::time_t looked_s_ = 0;
};

}  // namespace holdfast::net
