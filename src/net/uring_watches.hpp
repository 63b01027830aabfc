// SPDX-License-Identifier: Apache-2.0
// uring_watches.hpp - descriptors of others, polled by a ring: once, and again after each report, which gives the
// promise of a level-triggered watch.
//
// (W1) A place is used again only when its poll has ended, so that a late completion reports nothing.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <utility>
#include <vector>

#include "engine.hpp"
#include "uring_queue.hpp"

namespace holdfast::net {

class uring_watches {
 public:
    uring_watches(engine_sink& sink, uring_queue& queue) noexcept : sink_(sink), queue_(queue) {}

    void watch(int fd) {
        if (std::ranges::find(places_, fd, &watched::fd) == places_.end()) places_[free_place(places_)].fd = fd;
    }
    void unwatch(int fd) noexcept {
        const auto found = std::ranges::find(places_, fd, &watched::fd);
        if (found == places_.end()) return;
        found->fd = -1;
        const auto number = static_cast<std::uint32_t>(found - places_.begin());
        if (found->armed) queue_.cancel({uring_operation::watch, found->use, number}, uring_operation::stop_watch);
    }

    /// Puts into the queue what has to be under way.
    void arm() noexcept {
        for (std::uint32_t i = 0; i < places_.size(); ++i) {
            watched& w = places_[i];
            if (w.fd >= 0 && !std::exchange(w.armed, true)) queue_.poll(w.fd, {uring_operation::watch, w.use, i});
        }
    }

    void on_completion(const uring_completion& one) {
        const uring_subject about = uring_subject::of(one);
        watched& w = places_[about.place];
        if (!about.is_of(w.use)) return;
        w.armed = false;
        if (one.result == -EBADF) w.fd = -1;  // it was closed under us, as epoll forgets it too
        if (w.fd < 0)
            ++w.use;
        else if (one.result >= 0)
            sink_.on_watched(w.fd);
    }

 private:
    struct watched {
        int fd = -1;
        std::uint32_t use = 0;
        bool armed = false;
    };

    engine_sink& sink_;
    uring_queue& queue_;
    std::vector<watched> places_;
};

}  // namespace holdfast::net
