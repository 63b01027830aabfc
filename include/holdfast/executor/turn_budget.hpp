// SPDX-License-Identifier: Apache-2.0
// turn_budget.hpp - how long a strand may keep a worker before the others have their turn.
//
// A clock read costs as much as a small task, so it is read when a turn has a second task, once more behind that, and
// then as often as the tasks seen so far suggest, at least at every eighth. A turn of one task reads no clock.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace holdfast::executor::detail {

class turn_budget {
 public:
    using clock = std::chrono::steady_clock;
    static constexpr std::int64_t stride_max = 8;

    /// time: zero for no limit of time.
    turn_budget(std::uint32_t tasks, std::chrono::nanoseconds time) noexcept : tasks_(tasks), time_(time) {}

    /// A task was done.
    void spend() noexcept { ++done_; }

    /// Whether the turn is over. Never before the first task.
    [[nodiscard]] bool over() noexcept {
        if (done_ >= tasks_) return true;
        if (done_ < look_at_ || time_ == std::chrono::nanoseconds::zero()) return false;
        const clock::time_point now = clock::now();
        if (done_ == 1) {
            begin_ = now;
            look_at_ = 2;
            return false;
        }
        const std::chrono::nanoseconds spent = now - begin_;
        if (spent >= time_) return true;
        const std::int64_t each = spent.count() / (done_ - 1) + 1;
        look_at_ =
            done_ + static_cast<std::uint32_t>(std::clamp<std::int64_t>((time_ - spent).count() / each, 1, stride_max));
        return false;
    }

 private:
    std::uint32_t tasks_;
    std::uint32_t done_ = 0;
    std::uint32_t look_at_ = 1;
    std::chrono::nanoseconds time_;
    clock::time_point begin_{};
};

}  // namespace holdfast::executor::detail
