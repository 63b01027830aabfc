// SPDX-License-Identifier: Apache-2.0
#include "holdfast/net/channel.hpp"

#include <algorithm>
#include <utility>

#include "channel_state.hpp"
#include "holdfast/net/utf8_checker.hpp"
#include "holdfast/net/websocket_frame.hpp"
#include "server_core.hpp"

namespace holdfast::net {

namespace {

bool is_utf8(std::string_view text) noexcept {
    utf8_checker checked;
    return checked.take(text) && checked.whole();
}

// What a message counts in a queue: an empty one is not nothing.
std::size_t cost_of(const shared_bytes& message) noexcept { return std::max<std::size_t>(message->size(), 1); }

}  // namespace

// --- handles

channel_status channel::answer(response&& late) const {
    return state_ ? state_->answer(std::move(late)) : channel_status::closed;
}

channel_status channel::send(std::string message, message_kind kind) const {
    return state_ ? state_->send({.bytes = std::make_shared<const std::string>(std::move(message)), .kind = kind})
                  : channel_status::closed;
}

channel_status channel::send(shared_bytes message, message_kind kind) const {
    return state_ ? state_->send({.bytes = std::move(message), .kind = kind, .shared = true}) : channel_status::closed;
}

channel_status channel::close() const { return state_ ? state_->close() : channel_status::closed; }
channel_status channel::close(std::uint16_t code, std::string_view reason) const {
    return state_ ? state_->close(code, reason) : channel_status::closed;
}
std::uint16_t channel::close_code() const noexcept { return state_ ? state_->close_code() : 0; }
std::string channel::close_reason() const { return state_ ? state_->close_reason() : std::string(); }
std::string_view channel::protocol() const noexcept { return state_ ? state_->protocol : std::string_view(); }
bool channel::is_open() const noexcept { return state_ && state_->is_open(); }
std::size_t channel::queued_bytes() const noexcept { return state_ ? state_->queued_bytes() : 0; }
std::uint64_t channel::dropped() const noexcept { return state_ ? state_->dropped() : 0; }

// --- any thread

bool channel_state::to_be_posted() {
    moved_.store(true, std::memory_order_relaxed);  // under the lock, which take_messages() takes
    if (posted_) return false;
    posted_ = true;
    self_ = shared_from_this();
    return true;
}

void channel_state::post() {
    if (mail_->put(*this)) return;
    discard();  // the loop has ended, and this channel with it
}

channel_status channel_state::answer(response&& late) {
    bool posting = false;
    {
        const std::lock_guard guard(lock_);
        if (kind != channel_kind::answer) return channel_status::misused;
        if (!is_open()) return channel_status::closed;
        enter(phase::ending);
        late_.emplace(std::move(late));
        posting = to_be_posted();
    }
    if (posting) post();
    return channel_status::ok;
}

channel_status channel_state::send(queued_message message) {
    static const shared_bytes nothing = std::make_shared<const std::string>();
    if (!message.bytes) message.bytes = nothing;
    const std::size_t size = message.bytes->size(), cost = cost_of(message.bytes);
    if (kind == channel_kind::websocket && message.kind == message_kind::text && !is_utf8(*message.bytes))
        return channel_status::not_utf8;
    message_queue gone;  // destroyed when the lock is free
    bool posting = false;
    channel_status status = channel_status::ok;
    {
        const std::lock_guard guard(lock_);
        if (kind == channel_kind::answer) return channel_status::misused;
        if (!is_open()) return channel_status::closed;
        if (size == 0 && kind == channel_kind::stream) return channel_status::ok;
        if (cost > options.queue_bytes_max) return channel_status::too_large;
        if (cost > options.queue_bytes_max - queued_bytes()) {
            switch (options.when_full) {
                case when_full::refuse: told_full_ = true; return channel_status::full;
                case when_full::drop_newest: ++dropped_; return channel_status::dropped;
                case when_full::drop_oldest:
                    while (cost > options.queue_bytes_max - queued_bytes()) {
                        queued_message oldest = queue_.pop();
                        count_queued(queued_bytes() - cost_of(oldest.bytes));
                        ++dropped_;
                        gone.push(std::move(oldest));
                    }
                    break;
                case when_full::close:
                    enter(phase::ending);
                    end_ = channel_end::overflow;
                    gone.swap(queue_);
                    count_queued(0);
                    status = channel_status::closed;
                    break;
            }
        }
        if (status == channel_status::ok) {
            queue_.push(std::move(message));
            count_queued(queued_bytes() + cost);
        }
        posting = to_be_posted();
    }
    if (posting) post();
    return status;
}

channel_status channel_state::close(std::uint16_t code, std::string_view reason) {
    if (kind != channel_kind::websocket || !is_websocket_close_code(code) ||
        reason.size() > websocket_close_reason_bytes_max)
        return channel_status::misused;
    if (!is_utf8(reason)) return channel_status::not_utf8;
    bool posting = false;
    {
        const std::lock_guard guard(lock_);
        if (!is_open()) return channel_status::closed;
        enter(phase::ending);
        closed_here_ = true;
        code_ = code;
        reason_ = reason;
        posting = to_be_posted();
    }
    if (posting) post();
    return channel_status::ok;
}

std::uint16_t channel_state::close_code() const {
    const std::lock_guard guard(lock_);
    return ended_ ? code_ : 0;
}

std::string channel_state::close_reason() const {
    const std::lock_guard guard(lock_);
    return ended_ ? reason_ : std::string();
}

channel_status channel_state::close() {
    if (kind == channel_kind::websocket) return close(websocket_code::normal, {});
    bool posting = false;
    {
        const std::lock_guard guard(lock_);
        if (!is_open()) return channel_status::closed;
        enter(phase::ending);
        if (kind == channel_kind::answer) late_.emplace().problem(500, "the server gave no answer to this request");
        posting = to_be_posted();
    }
    if (posting) post();
    return channel_status::ok;
}

std::uint64_t channel_state::dropped() const {
    const std::lock_guard guard(lock_);
    return dropped_;
}

// --- the loop

void channel_state::open(server_core& loop) {
    std::shared_ptr<channel_state> self;
    news there;
    {
        const std::lock_guard guard(lock_);
        posted_ = false;
        self = std::move(self_);
        there.any = !is_open() || !queue_.empty() || told_full_ || dropped_ != dropped_told_;
        there.overflown = is_ending() && end_ == channel_end::overflow;
        there.queued_bytes = queued_bytes();
        there.queued_memory = queued_memory();
    }
    loop.channel_moved(*self, there);
}

void channel_state::discard() noexcept {
    std::shared_ptr<channel_state> self;  // perhaps the last one: gone when the lock is free
    const std::lock_guard guard(lock_);
    posted_ = false;
    self = std::move(self_);
}

std::optional<response> channel_state::take_answer() {
    const std::lock_guard guard(lock_);
    return std::exchange(late_, std::nullopt);
}

response* channel_state::waiting_answer() {
    const std::lock_guard guard(lock_);
    return late_ ? &*late_ : nullptr;
}

channel_state::taken channel_state::take_messages() {
    taken result;
    // Relaxed: a hint. What it misses a letter follows (I1), and who opens that sees it.
    if (!moved_.load(std::memory_order_relaxed)) return result;
    const std::lock_guard guard(lock_);
    result.messages.swap(queue_);
    result.dropped = dropped_ - std::exchange(dropped_told_, dropped_);
    count_queued(0);
    if (!is_ending()) {
        moved_.store(false, std::memory_order_relaxed);  // under the lock; as above
        result.drained = std::exchange(told_full_, false);
        return result;
    }
    result.end = end_;
    result.code = end_ == channel_end::drained ? websocket_code::going_away : code_;
    result.reason = reason_;
    return result;
}

bool channel_state::takes_messages() const {
    const std::lock_guard guard(lock_);
    return !closed_here_;
}

void channel_state::end_from_loop(channel_end why) {
    const std::lock_guard guard(lock_);
    if (!is_open()) return;
    enter(phase::ending);
    end_ = why;
    moved_.store(true, std::memory_order_relaxed);  // under the lock; for this thread
}

std::uint64_t channel_state::shut() {
    std::optional<response> late;
    message_queue queue;
    const std::lock_guard guard(lock_);
    enter(phase::closed);
    late.swap(late_);
    queue.swap(queue_);
    count_queued(0);
    return dropped_ - std::exchange(dropped_told_, dropped_);
}

void channel_state::note_close(std::uint16_t code, std::string_view reason) {
    const std::lock_guard guard(lock_);
    code_ = code;
    reason_ = reason;
    ended_ = true;
}

}  // namespace holdfast::net
