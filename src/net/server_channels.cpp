// SPDX-License-Identifier: Apache-2.0
// server_channels.cpp - exchanges that go on after their handlers: how they begin, go on in order, and end.
#include <array>
#include <charconv>
#include <utility>

#include "connection_strand.hpp"
#include "holdfast/error.hpp"
#include "server_core.hpp"

namespace holdfast::net {

namespace {

// RFC 9112 section 7.1.
void append_chunk(std::string& out, const std::string& message) {
    std::array<char, 16> digits;
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), message.size(), 16).ptr;
    out.append(digits.data(), end).append("\r\n").append(message).append("\r\n");
}

constexpr std::string_view last_chunk = "0\r\n\r\n";

// (C5)
constexpr std::size_t gather_from = 16;  // channels: a look costs 0.3 us, a send 5
constexpr unsigned looks_max = 4;
constexpr std::size_t filling_part = 8;  // of what a queue may hold

}  // namespace

// --- beginning

channel server_core::begin_channel(channel_kind kind, channel_options options) {
    if (begun_) throw error(errc::invalid_argument, "response", "this request has a channel already; use that one");
    if (options.queue_bytes_max == 0 || options.answer_timeout.count() < 0)
        throw error(errc::invalid_argument, "channel_options",
                    "queue_bytes_max is 0 or answer_timeout negative; keep their defaults");
    const bool on_pool = options.on_pool;
    auto state = std::make_shared<channel_state>(mail_, kind, std::move(options));
    if (on_pool) state->strand = make_strand(answering_);
    begun_ = std::move(state);
    return channel(begun_);
}

void server_core::arm_answer(const std::shared_ptr<channel_state>& state) {
    const auto chosen = state->options.answer_timeout;
    constexpr std::chrono::milliseconds for_ever = std::chrono::hours(24 * 365 * 100);  // after() counts nanoseconds
    const auto timeout =
        chosen.count() != 0 ? std::min(chosen, for_ever) : std::chrono::milliseconds(options_.limits.answer_timeout_ms);
    state->timeout = after(timeout, [this, late = state] { expire_answer(late); });
}

// The handler has returned and left a channel. What of its response counts is the head of a stream.
void server_core::enter_exchange(index_type index, const inbound_request& in, bool more_follows) {
    connection& c = connections_[index];
    const request& message = in.parser.message();
    if (!c.pending) c.pending = std::make_unique<exchange_queue>();
    exchange& entered = c.pending->waiting.emplace_back();
    entered.first_byte_ns = in.first_byte_ns;
    entered.request_bytes = message.wire_bytes();
    entered.method = message.method();
    entered.minor_version = static_cast<std::uint8_t>(message.minor_version());
    entered.keep_alive = message.keep_alive();
    channel_state& state = *begun_;
    entered.channel = std::move(begun_);
    state.attached = true;
    state.connection = index;

    if (state.kind == channel_kind::websocket) return enter_websocket(index, entered, state);
    bool closing = !message.keep_alive();
    if (state.kind == channel_kind::answer) {
        arm_answer(entered.channel);
    } else {
        closing = closing || response_.closes() || entered.minor_version == 0 || (draining_ && !more_follows);
        entered.keep_alive = !closing;
        entered.bodiless = entered.method == method::head || response_.status() == 204 || response_.status() == 304;
        const std::size_t bytes = append_stream_head(entered.bytes, response_, closing, entered.minor_version != 0);
        c.pending->bytes += bytes;
        report({.route = response_.route(),
                .status = response_.status(),
                .method = entered.method,
                .request_bytes = entered.request_bytes,
                .response_bytes = bytes},
               entered.first_byte_ns);
        if (draining_) state.end_from_loop(channel_end::drained);
    }
    if (!closing) return;
    if (c.body) {  // its end is the last thing to be read
        c.body->closes = true;
        return;
    }
    c.phase = phase::last;
    c.discarding = message.keep_alive() || more_follows;
}

// --- going on

// A state came by the mailbox: its channel was answered, closed, or has messages.
void server_core::channel_moved(channel_state& state, const channel_state::news& there) {
    if (!state.attached || !there.any) return;
    const index_type index = state.connection;
    if (there.overflown) {
        // What was sent so far is no whole body, and the client must not take it for one.
        ++counters_.channel_overflows;
        end_channel(state.shared_from_this(), channel_end::overflow);
        return close(index, true);
    }
    if (state.kind == channel_kind::answer) {
        count_answer(state);
    } else {
        connections_[index].pending->count(state, there.queued_memory);
        ++moved_;
        filling_ |= there.queued_bytes > state.options.queue_bytes_max / filling_part;
    }
    touch(index);
}

// What it holds while others stand before it: bytes, and perhaps a file.
void server_core::count_answer(channel_state& state) {
    response* const late = state.waiting_answer();
    if (late == nullptr) return;
    exchange_queue& pending = *connections_[state.connection].pending;
    if (late->has_file())
        for (exchange& each : pending.waiting)
            if (each.channel.get() == &state && !each.file) {
                count_file(pending, each, *late);
                break;
            }
    pending.count(state, late->body().size() + late->fields().size());
}

// Settled once at the end of the turn, whatever number of its channels moved; what is touched by that, in the next.
void server_core::touch(index_type index) {
    connection& c = connections_[index];
    if (!std::exchange(c.touched, true)) touched_.push_back(token_of(index));
}

// (C5) Whether it is better to look at what has come than to settle what is touched now.
bool server_core::looks_again() noexcept {
    const bool again = std::exchange(moved_, 0) >= gather_from && !filling_ && looks_ < looks_max && !stop_requested_;
    looks_ = again ? looks_ + 1 : 0;
    if (!again) filling_ = false;
    return again;
}

void server_core::settle_touched() {
    settling_.swap(touched_);
    for (const connection_token token : settling_) {
        connection& c = connections_[token.index];
        if (c.generation != token.generation || c.phase == phase::free) continue;
        c.touched = false;
        settle(token.index);
    }
    settling_.clear();
}

// Moves to the output what is next in order (K1), as far as channels and files have gone. Returns false where the
// connection cannot go on: a file is not any more what its head said.
bool server_core::advance(index_type index) {
    connection& c = connections_[index];
    exchange_queue& pending = *c.pending;
    while (!pending.waiting.empty()) {
        exchange& next = pending.waiting.front();
        if (!next.channel) {
            out_.append(next.bytes);
            pending.bytes -= next.bytes.size();
            next.bytes.clear();
            if (next.file) {
                const file_progress come = go_on_file(index, *next.file);
                if (come != file_progress::done) return come == file_progress::waits;
                --pending.files;
            }
        } else if (next.channel->kind == channel_kind::websocket) {
            go_on_websocket(c, next);
            pending.count(*next.channel, next.channel->queued_memory());
            return true;
        } else if (next.channel->kind == channel_kind::answer ? !go_on_answer(index, next) : !go_on_stream(c, next)) {
            return true;
        } else if (c.body && c.body->answer == next.channel && leave_body(c)) {  // a stream that ended before its body
            end_requests(index);
        } else if (next.file) {  // the answer was one
            next.channel.reset();
            continue;
        }
        pending.waiting.pop_front();
    }
    c.pending.reset();
    return true;
}

bool server_core::go_on_answer(index_type index, exchange& asked) {
    auto late = asked.channel->take_answer();
    if (!late) return false;
    connection& c = connections_[index];
    if (late->has_file() && !asked.file) count_file(*c.pending, asked, *late);  // channel_moved() is still to come
    c.pending->count(*asked.channel, 0);
    const bool is_last = c.pending->waiting.size() == 1 && !c.inbound && c.phase == phase::open;
    const bool early = c.body && c.body->answer == asked.channel;
    const bool ours = (early && leave_body(c)) || late->closes() || (draining_ && is_last);
    append_late(out_, *late, asked, ours || !asked.keep_alive);
    if (asked.file && !sends_file(*late, asked.method)) {
        asked.file.reset();
        --c.pending->files;
    }
    end_channel(asked.channel, channel_end::finished);
    if (!ours) return true;
    // Nothing behind the last response goes out, nor is it read.
    while (c.pending->waiting.size() > 1) drop_last(c, channel_end::cut);
    lose_body(c, body_end::cut);
    end_requests(index);
    return true;
}

void server_core::append_late(std::string& out, const response& late, const exchange& asked, bool closing) {
    const std::size_t bytes =
        append_response(out, late, asked.method == method::head, closing, asked.minor_version == 0 && !closing);
    report({.route = late.route(),
            .status = late.status(),
            .method = asked.method,
            .request_bytes = asked.request_bytes,
            .response_bytes = bytes + (sends_file(late, asked.method) ? late.file_->layout.bytes : 0)},
           asked.first_byte_ns);
}

// Messages wait in the queue, where a policy can act on them, while the kernel has no room for what it was given.
bool server_core::go_on_stream(connection& c, exchange& stream) {
    if (!stream.bytes.empty()) {
        out_.append(stream.bytes);
        c.pending->bytes -= stream.bytes.size();
        std::string().swap(stream.bytes);
    }
    if (stream.bodiless) return end_channel(stream.channel, channel_end::finished), true;
    if (c.waiting != 0 || c.unsent + out_.size() >= options_.limits.output_bytes_max) return false;
    const channel_state::taken moved = stream.channel->take_messages();
    c.pending->count(*stream.channel, 0);
    counters_.messages_dropped += moved.dropped;
    if (moved.end == channel_end::overflow) return false;  // channel_moved() follows, and cuts
    const bool chunked = stream.minor_version != 0;
    for (const queued_message& message : moved.messages.all())
        chunked ? append_chunk(out_, *message.bytes) : void(out_ += *message.bytes);
    if (moved.drained && stream.channel->options.on_drain) drained_.push_back(stream.channel);
    if (!moved.end) return false;
    if (chunked) out_.append(last_chunk);
    end_channel(stream.channel, *moved.end);
    return true;
}

// --- ending

void server_core::end_channel(const std::shared_ptr<channel_state>& state, channel_end why) {
    if (!std::exchange(state->attached, false)) return;
    if (state->held_bytes != 0) connections_[state->connection].pending->count(*state, 0);
    timers_.erase(state->timeout);
    counters_.messages_dropped += state->shut();
    const bool in_order =
        why == channel_end::finished || why == channel_end::client_closed || why == channel_end::drained;
    if (state->strand && !in_order) state->strand->drop(state.get());
    ended_.emplace_back(state, why);
}

void server_core::drop_last(connection& c, channel_end why) {
    exchange& last = c.pending->waiting.back();
    c.pending->bytes -= last.bytes.size();
    if (last.file) --c.pending->files;
    if (last.channel) {
        if (last.channel->kind == channel_kind::websocket) lose_websocket(c);
        end_channel(last.channel, why);
    }
    c.pending->waiting.pop_back();
}

void server_core::drop_pending(connection& c, channel_end why) {
    if (!c.pending) return;
    lose_websocket(c);
    for (const exchange& each : c.pending->waiting)
        if (each.channel) end_channel(each.channel, why);
    c.pending.reset();
}

// The client has shut its side: for a channel that does not say otherwise it is away, and so is what stands behind.
void server_core::leave_half_closed(connection& c) {
    auto& waiting = c.pending->waiting;
    std::size_t kept = 0;
    while (kept < waiting.size() &&
           (!waiting[kept].channel || (waiting[kept].channel->options.answers_half_closed &&
                                       waiting[kept].channel->kind != channel_kind::websocket)))
        ++kept;
    if (kept == waiting.size()) return;
    count_lost(c);
    while (waiting.size() > kept) drop_last(c, channel_end::client_away);
    if (waiting.empty()) c.pending.reset();
}

// The 504 takes the place of the answer in its order.
void server_core::expire_answer(const std::shared_ptr<channel_state>& state) {
    if (!state->attached || !state->is_open()) return;
    connection& c = connections_[state->connection];
    const bool early = c.body && c.body->answer == state;
    // Its time begins at the end of its body. While it is the client that holds that up, the body's own time decides.
    if (early && (std::exchange(c.body->progressed, false) || c.timer == timer_class::body)) return arm_answer(state);
    for (exchange& each : c.pending->waiting) {
        if (each.channel != state) continue;
        ++counters_.answer_timeouts;
        end_channel(state, channel_end::timed_out);
        response late;
        late.problem(504, "the server found no answer in time");
        const bool cut = early && leave_body(c);
        append_late(each.bytes, late, each, cut || !each.keep_alive);
        if (cut) end_requests(state->connection);
        c.pending->bytes += each.bytes.size();
        each.channel.reset();
        return touch(state->connection);
    }
}

void server_core::drain_streams(index_type index) {
    connection& c = connections_[index];
    if (!c.pending) return;
    for (const exchange& each : c.pending->waiting)
        if (each.channel && each.channel->kind != channel_kind::answer)
            each.channel->end_from_loop(channel_end::drained);
    touch(index);
}

// (C4) Between events; what a callback does to channels comes back by the mailbox.
void server_core::call_back() {
    for (const auto& state : std::exchange(drained_, {}))
        if (state->attached && state->strand)
            drain_by_strand(state);
        else if (state->attached)
            guarded([&] { state->options.on_drain(channel(state)); });
    if (!bodies_ended_.empty()) call_back_bodies();
    while (!ended_.empty())
        for (const auto& [state, why] : std::exchange(ended_, {})) {
            if (state->strand) {
                close_by_strand(state, why);
                continue;
            }
            // Taken out: what they hold, perhaps this channel's own handle, goes with them.
            const channel_options done = std::exchange(state->options, {});
            if (done.on_close) guarded([&] { done.on_close(why); });
        }
}

}  // namespace holdfast::net
