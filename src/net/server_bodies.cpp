// SPDX-License-Identifier: Apache-2.0
// server_bodies.cpp - bodies that are handed over in pieces: how they begin, come in, are left alone, and end.
#include <algorithm>
#include <utility>
#include <vector>

#include "characters.hpp"
#include "holdfast/error.hpp"
#include "server_core.hpp"

namespace holdfast::net {

namespace {

constexpr std::size_t piece_bytes_max = 64U << 10U;  // as body_options::on_piece says
constexpr std::uint64_t read_over_max = 64U << 10U;  // of a body that nobody wants; a longer one costs its connection

body_end body_end_of(channel_end why) noexcept {
    switch (why) {
        case channel_end::client_away: return body_end::client_away;
        case channel_end::server_ended: return body_end::server_ended;
        default: return body_end::cut;
    }
}

// The lines have passed the decoder: a name, a colon, a value, CRLF; the last one is empty.
std::vector<header_field> fields_of(std::string_view lines) {
    std::vector<header_field> fields;
    while (!lines.starts_with("\r\n") && !lines.empty()) {
        const std::string_view line = lines.substr(0, lines.find("\r\n"));
        const std::size_t colon = line.find(':');
        fields.push_back({line.substr(0, colon), detail::trim_blanks(line.substr(colon + 1))});
        lines.remove_prefix(line.size() + 2);
    }
    return fields;
}

}  // namespace

// --- handles

void body_reader::pause() const noexcept {
    if (state_) state_->pause();
}
void body_reader::resume() const {
    if (state_) state_->resume();
}
bool body_reader::is_open() const noexcept { return state_ && state_->is_open(); }

void body_state::pause() noexcept {
    const std::lock_guard guard(lock_);
    paused_ = true;
}

void body_state::resume() {
    {
        const std::lock_guard guard(lock_);
        if (!std::exchange(paused_, false) || ended_ || std::exchange(posted_, true)) return;
        self_ = shared_from_this();
    }
    if (!mail_->put(*this)) discard();  // the loop has ended
}

bool body_state::is_open() const noexcept {
    const std::lock_guard guard(lock_);
    return !ended_;
}

bool body_state::wants_pause() const noexcept {
    const std::lock_guard guard(lock_);
    return paused_;
}

bool body_state::shut() noexcept {
    const std::lock_guard guard(lock_);
    return !std::exchange(ended_, true);
}

void body_state::open(server_core& loop) {
    std::shared_ptr<body_state> self;
    {
        const std::lock_guard guard(lock_);
        posted_ = false;
        self = std::move(self_);
    }
    loop.body_moved(*self);
}

void body_state::discard() noexcept {
    std::shared_ptr<body_state> self;  // perhaps the last one: gone when the lock is free
    const std::lock_guard guard(lock_);
    posted_ = false;
    self = std::move(self_);
}

// --- beginning

body_reader server_core::begin_body(body_options options) {
    if (begun_body_) throw error(errc::invalid_argument, "receive_body", "this request has a reader; use that one");
    if (!asked_->body_follows() && !asked_->body().empty())
        throw error(errc::invalid_argument, "receive_body",
                    "the body is here as a whole: use request::body(), or have body_in_pieces say yes to this request");
    begun_body_ = std::make_shared<body_state>(mail_, std::move(options));
    return body_reader(begun_body_);
}

bool server_core::wants_pieces(const request& message) noexcept {
    bool wanted = false;
    guarded([&] { wanted = options_.body_in_pieces(message); });
    return wanted;
}

// The handler has returned. Whatever it left, the connection now reads a body if one follows.
void server_core::take_up_body(index_type index, const request& message, bool more_follows) {
    auto reader = std::exchange(begun_body_, nullptr);
    if (!message.body_follows()) {
        if (reader) end_body(reader, body_end::complete);  // there is none
        return;
    }
    message_limits limits = options_.limits.message;
    if (reader && reader->options.bytes_max == 0) reader->options.bytes_max = limits.body_bytes_max;
    if (reader) limits.body_bytes_max = static_cast<std::size_t>(reader->options.bytes_max);
    auto body = std::make_unique<inbound_body>(limits);
    const auto length = message.content_length();
    body->chunked = !length;
    body->left = length.value_or(0);
    body->awaits_continue = message.expects_continue() && !more_follows;
    body->answer = begun_;
    if (reader) {
        reader->attached = true;
        reader->connection = index;
        if (body->chunked) body->chunks.keep_trailers(&reader->trailers);
        body->reader = std::move(reader);
    }
    connections_[index].body = std::move(body);
}

// Its exchange waits in the queue, as the last.
void server_core::begin_reading(index_type index) {
    inbound_body& body = *connections_[index].body;
    const std::uint64_t most =
        body.reader ? body.reader->options.bytes_max : std::uint64_t{options_.limits.message.body_bytes_max};
    if (!body.chunked && body.left > most) {
        ++counters_.refused;
        return break_body(index, 413, "body too long", body_end::too_long);
    }
    if (!body.reader) return;  // the handler may still answer without it; what comes is read over until then
    if (!body.is_paused()) continue_body(index);
    (void)body_waits(index);
}

// "100 Continue" goes in front of the answer to this request and behind those before it.
void server_core::continue_body(index_type index) {
    connection& c = connections_[index];
    if (!std::exchange(c.body->awaits_continue, false)) return;
    auto& waiting = c.pending->waiting;
    constexpr std::string_view go_on = "HTTP/1.1 100 Continue\r\n\r\n";
    if (waiting.back().channel->kind == channel_kind::stream && waiting.back().bytes.empty())
        return;  // its head is out
    ++counters_.responses[0];
    if (waiting.size() == 1) {
        out_.append(go_on);
        return;
    }
    exchange told;
    told.bytes = go_on;
    c.body->continue_waits = true;
    c.pending->bytes += go_on.size();
    waiting.insert(waiting.end() - 1, std::move(told));
}

// --- coming in

// A reader was resumed.
void server_core::body_moved(body_state& state) {
    if (!state.attached || state.wants_pause()) return;
    continue_body(state.connection);
    // What was put out is sent, and input taken up, at once: nothing stays in the shared output (C2).
    settle(state.connection);
}

// Whether the connection is not to be read from: (I2) of body_reader.hpp, and of server.hpp.
bool server_core::body_waits(index_type index) {
    connection& c = connections_[index];
    if (c.paused) return true;
    if (!c.body->is_paused()) return output_is_full(index);
    ++counters_.read_pauses;
    pause(index);
    return true;
}

// Takes what is the body's off the front. Returns: how many bytes that was; 0 where it waits.
std::size_t server_core::read_body(index_type index, std::span<char> bytes) {
    connection& c = connections_[index];
    if (body_waits(index)) return 0;
    const std::size_t all = bytes.size();
    bytes = bytes.first(std::min(all, piece_bytes_max));
    inbound_body& body = *c.body;
    std::size_t read = 0, size = 0;
    bool complete = false;
    if (body.chunked) {
        const auto status = body.chunks.decode(bytes, read, size);
        if (status == chunked_decoder::status::refused) {
            ++counters_.refused;
            const int code = body.chunks.refusal_status();
            break_body(index, code, body.chunks.refusal_reason(),
                       code == 400 ? body_end::malformed : body_end::too_long);
            return all;
        }
        complete = status == chunked_decoder::status::complete;
    } else {
        read = size = static_cast<std::size_t>(std::min<std::uint64_t>(body.left, bytes.size()));
        body.left -= read;
        complete = body.left == 0;
    }
    body.awaits_continue = body.continue_waits = false;  // it has not waited
    body.since_timer += read;
    body.progressed = true;
    if (body.answer) c.pending->waiting.back().request_bytes += read;
    if (body.reader && size != 0 && !hand_over(*body.reader, bytes.first(size))) {
        break_body(index, 500, "the server failed to take the body", body_end::cut);
        return all;
    }
    if (complete)
        finish_body(index);
    else
        (void)body_waits(index);
    return read;
}

bool server_core::hand_over(body_state& reader, std::span<const char> piece) {
    reader.bytes += piece.size();
    if (!reader.options.on_piece) return true;
    bool returned = false;
    guarded([&] {
        reader.options.on_piece(body_reader(reader.shared_from_this()), {piece.data(), piece.size()});
        returned = true;
    });
    return returned;
}

// --- ending

void server_core::end_body(const std::shared_ptr<body_state>& state, body_end why) {
    state->attached = false;
    if (state->shut()) bodies_ended_.emplace_back(state, why);
}

void server_core::lose_body(connection& c, body_end why) {
    if (!c.body) return;
    if (c.body->reader) end_body(c.body->reader, why);
    c.body.reset();
    if (c.timer == timer_class::body) c.timer = timer_class::none;  // (C1)
}

void server_core::lose_body(connection& c, channel_end why) { lose_body(c, body_end_of(why)); }

// All of it has come; now the answer's time begins.
void server_core::finish_body(index_type index) {
    connection& c = connections_[index];
    const auto answer = c.body->answer;
    const bool closes = c.body->closes;
    lose_body(c, body_end::complete);
    if (answer && answer->attached && answer->kind == channel_kind::answer) {
        timers_.erase(answer->timeout);
        arm_answer(answer);
    }
    if (!closes) return;
    c.phase = phase::last;
    c.discarding = true;
}

// The request has been answered, or will not be, before its body had come (I4 of body_reader.hpp). Returns: whether the
// connection has to close, since nobody knows where the next request begins, or it would take too long to get there.
bool server_core::leave_body(connection& c) {
    inbound_body& body = *c.body;
    const bool goes_on = !body.closes && !body.chunked && !body.awaits_continue && body.left <= read_over_max;
    if (!goes_on) return lose_body(c, body_end::answered), true;
    if (const auto reader = std::exchange(body.reader, nullptr)) end_body(reader, body_end::answered);
    body.answer.reset();
    return false;
}

// Nothing behind what has been put out goes out, nor is it read.
void server_core::end_requests(index_type index) {
    connection& c = connections_[index];
    if (c.phase == phase::open) c.phase = phase::last;
    c.discarding = true;
    if (c.inbound) give_back(std::move(c.inbound));
    if (std::exchange(c.paused, false)) engine_->resume(token_of(index));
}

// (I5 of body_reader.hpp)
void server_core::break_body(index_type index, int status, std::string_view reason, body_end why) {
    connection& c = connections_[index];
    const auto answer = c.body->answer;
    lose_body(c, why);
    end_requests(index);
    if (!answer || !answer->attached) return;
    exchange& last = c.pending->waiting.back();
    if (answer->kind == channel_kind::answer && !answer->is_open()) {
        last.keep_alive = false;  // it was answered already, and only waits for its turn
        return;
    }
    const channel_end told = why == body_end::timed_out     ? channel_end::timed_out
                             : why == body_end::client_away ? channel_end::client_away
                                                            : channel_end::cut;
    end_channel(answer, told);
    if (answer->kind != channel_kind::answer) {
        c.broken = true;  // it has begun to say 200; settle() resets the connection
        return;
    }
    response late;
    late.problem(status, reason);
    append_late(last.bytes, late, last, true);
    c.pending->bytes += last.bytes.size();
    last.channel.reset();
}

// (C4) Between events.
void server_core::call_back_bodies() {
    for (const auto& [state, why] : std::exchange(bodies_ended_, {})) {
        const body_options done = std::exchange(state->options, {});
        if (!done.on_end) continue;
        const auto trailers = why == body_end::complete ? fields_of(state->trailers) : std::vector<header_field>();
        guarded([&] { done.on_end({.why = why, .bytes = state->bytes, .trailers = trailers}); });
    }
}

}  // namespace holdfast::net
