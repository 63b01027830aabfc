// SPDX-License-Identifier: Apache-2.0
// server_tasks.cpp - what is not a connection's: tasks posted to the loop, and timers.
#include <algorithm>
#include <memory>
#include <utility>

#include "holdfast/error.hpp"
#include "server_core.hpp"

namespace holdfast::net {

namespace {

struct posted_task final : letter {
    explicit posted_task(std::function<void()> what) : task(std::move(what)) {}

    void open(server_core& loop) override {
        const std::unique_ptr<posted_task> mine(this);
        loop.guarded(task);
    }
    void discard() noexcept override { delete this; }

    std::function<void()> task;
};

}  // namespace

bool server_core::post(std::function<void()> task) {
    if (!task) throw error(errc::invalid_argument, "post", "no task; pass a function");
    auto posted = std::make_unique<posted_task>(std::move(task));
    if (!mail_->put(*posted)) return false;
    static_cast<void>(posted.release());  // the mailbox's
    return true;
}

void server_core::open_letters() {
    for (letter* l = mail_->take(); l != nullptr;) std::exchange(l, l->next)->open(*this);
}

timer_id server_core::after(std::chrono::nanoseconds delay, std::function<void()> task) {
    if (!task) throw error(errc::invalid_argument, "after", "no task; pass a function");
    // Rounded up, so that it is never early; and not of this turn, so that timers that make timers let others have one.
    constexpr std::uint64_t longest_ns = std::uint64_t{1} << 62U;
    const std::uint64_t delay_ns =
        delay.count() < 0 ? 0 : std::min(longest_ns, static_cast<std::uint64_t>(delay.count()));
    const std::uint64_t due_ms = (monotonic_ns() + delay_ns + 999'999U) / 1'000'000U;
    const timer_id made{.deadline_ms = std::max(due_ms, now_ms_ + 1), .number = ++timers_made_};
    timers_.emplace(made, std::move(task));
    return made;
}

void server_core::run_due_timers() {
    while (!timers_.empty() && timers_.begin()->first.deadline_ms <= now_ms_)
        guarded(timers_.extract(timers_.begin()).mapped());
}

}  // namespace holdfast::net
