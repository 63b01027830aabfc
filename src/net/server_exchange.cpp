// SPDX-License-Identifier: Apache-2.0
// server_exchange.cpp - what travels on a connection: requests in, responses out, and the pauses between.
#include <time.h>

#include <exception>
#include <utility>

#include "buffer_room.hpp"
#include "connection_strand.hpp"
#include "holdfast/net/http_date.hpp"
#include "piece_writer.hpp"
#include "server_core.hpp"

namespace holdfast::net {

namespace {

constexpr std::size_t spare_inbound_max = 64;
// What one connection's requests are answered with before others are served: behind the answer that comes to it.
constexpr std::size_t share_of_turn_bytes = 32U << 10U;
constexpr std::size_t spare_bytes_max = 64U << 10U;
constexpr std::size_t linger_bytes_max = 4U << 20U;  // then the client is not reading, and a reset is no loss

// What a head can hold beside date and fields, generously.
constexpr std::size_t framing_bytes_max = 256;

constexpr std::string_view ok_line = "HTTP/1.1 200 OK\r\n";

// ok_begin: ok_line, and the field Date behind it.
void put_head(detail::piece_writer& piece, const response& answer, std::string_view ok_begin, bool closing) noexcept {
    if (const int status = answer.status(); status != 200) {
        piece.put("HTTP/1.1 ").put(static_cast<std::uint64_t>(status)).put(" ").put(reason_phrase(status)).put("\r\n");
        ok_begin.remove_prefix(ok_line.size());
    }
    piece.put(ok_begin).put(answer.fields());
    if (closing) piece.put("Connection: close\r\n");
    if (answer.status() == 426) piece.put("Connection: Upgrade\r\n");  // RFC 9110 section 7.8: it stands beside Upgrade
}

}  // namespace

// --- bytes in

void server_core::on_bytes(connection_token token, std::span<char> bytes) {
    connection& c = connections_[token.index];
    counters_.bytes_received += bytes.size();
    switch (c.phase) {
        case phase::open: break;
        case phase::lingering:
            c.lingered_bytes += bytes.size();
            if (c.lingered_bytes > linger_bytes_max) close(token.index, true);
            return;
        default: return;  // nothing behind the last request is interpreted (I4 of server.hpp)
    }
    if (c.socket) {
        read_socket(token.index, bytes);
        return settle(token.index);
    }
    auto in = c.inbound ? std::move(c.inbound) : take_inbound();
    in->parser.set_peer(c.aside && c.aside->peer ? &*c.aside->peer : nullptr);
    if (in->buffer.empty()) {
        serve(token.index, std::move(in), bytes);
    } else {
        in->buffer.append(bytes.data(), bytes.size());
        const std::span<char> all = in->unread();
        serve(token.index, std::move(in), all);
    }
    settle(token.index);
}

// `bytes` is either all of in->unread() or the engine's, with in->buffer empty.
void server_core::serve(index_type index, std::unique_ptr<inbound_request> in, std::span<char> bytes) {
    const served result = serve_requests(index, *in, bytes);
    connection& c = connections_[index];
    if (c.phase != phase::open || result.kept == 0) return give_back(std::move(in));
    if (bytes.data() == in->unread().data()) {
        in->used += result.used;
        in->buffer.resize(in->used + result.kept);
        // Not each time: of much that is answered in many parts, most would be moved with each.
        if (in->used >= in->buffer.size() / 2 || has_room_to_spare(in->buffer, in->buffer.size())) {
            keep_in_place(in->buffer, in->unread());
            in->used = 0;
        }
    } else {
        in->buffer.assign(bytes.data() + result.used, result.kept);
    }
    c.inbound = std::move(in);
}

server_core::served server_core::serve_requests(index_type index, inbound_request& in, std::span<char> bytes) {
    connection& c = connections_[index];
    // What a pause has held back came before it; its latency begins there.
    const std::uint64_t came_ns = in.held_since_ns != 0 ? std::exchange(in.held_since_ns, 0) : arrival_ns_;
    std::size_t used = 0;
    while (used < bytes.size()) {
        const auto rest = bytes.subspan(used);
        if (c.body) {
            const std::size_t taken = read_body(index, rest);
            if (c.phase != phase::open) return {};
            if (taken == 0) return {used, rest.size()};
            used += taken;
            continue;
        }
        if (output_is_full(index, taken_.is_a_share(index, arrival_ns_))) {
            in.held_since_ns = came_ns;
            return {used, rest.size()};
        }
        if (!in.parser.started()) in.first_byte_ns = came_ns;
        parse_status status = in.parser.parse(rest);
        if (status == parse_status::complete && in.parser.message().body_follows() &&
            !wants_pieces(in.parser.message()))
            status = in.parser.collect_body(rest);
        switch (status) {
            case parse_status::need_more:
                if (in.parser.started() && !std::exchange(in.in_parts, true)) ++counters_.partial_requests;
                if (in.parser.head_complete()) send_continue(index, in);
                return {used, in.parser.kept()};
            case parse_status::refused:
                ++counters_.refused;
                refuse(index, in, in.parser.refusal_status(), in.parser.refusal_reason(), rest.size());
                return {};
            case parse_status::complete: break;
        }
        used += in.parser.consumed();
        in.in_parts = false;
        answer_request(index, in, used < bytes.size());
        if (c.phase != phase::open) return {};
        in.parser.reset();
        in.time = {};
        c.continue_sent = false;
        if (c.timer != timer_class::write) c.timer = timer_class::none;  // (C1)
        if (c.socket) return read_socket(index, bytes.subspan(used)), served{};
    }
    return {used, 0};
}

// (I2 of server.hpp) Pauses the connection's input if there is no room, or if it had to be made, or if it has had its
// share of this turn: who asks in one go for much, and the kernel may take megabytes of it at once, or for what takes
// long, gets it in parts, and settle() sees to it that others are served in between. If nobody is there to read, the
// connection answers nothing more, and settle() closes it.
bool server_core::output_is_full(index_type index, bool has_had_its_time) {
    const std::size_t most = options_.limits.output_bytes_max;
    connection& c = connections_[index];
    connection_strand* const strand = strand_of(c);
    const bool calls_wait = strand != nullptr && !c.body && strand->is_full();
    if (!calls_wait && (!c.pending || c.socket || c.body || !c.pending->is_full(options_.limits))) {
        const bool has_room = c.unsent + out_.size() < most;
        const bool has_had_its_bytes = out_.size() >= share_of_turn_bytes && !c.socket && !c.body;
        if (has_room && !has_had_its_bytes && !has_had_its_time) return false;
        if (!flush(index)) {
            c.phase = phase::last;
            c.discarding = true;
            return true;
        }
        if (has_room || c.unsent <= most / 2) return pause(index, has_room), true;
    }
    ++counters_.read_pauses;
    pause(index);
    return true;
}

// Nothing more is read until settle() finds room, or until it has served others. What of it TLS keeps is known in the
// end of this turn, and counted then.
void server_core::pause(index_type index, bool for_others) {
    connection& c = connections_[index];
    c.paused = true;
    c.yields = for_others;
    engine_->pause(token_of(index));
    touch(index);
}

// Whether what a pause has held back may be taken up.
bool server_core::can_go_on(const connection& c) {
    if (c.yields) return true;
    if (c.unsent > options_.limits.output_bytes_max / 2) return false;
    if (c.socket ? !c.socket->begun || !c.socket->has_room()
        : c.body ? c.body->is_paused()
                 : c.pending && !c.pending->has_room_again(options_.limits))
        return false;
    return !waits_for_strand(c);
}

// Once, however often it is noticed.
void server_core::count_lost(connection& c) noexcept {
    if (std::exchange(c.peer_side, peer_side::lost) != peer_side::lost) ++counters_.lost;
}

void server_core::on_end(connection_token token, int error) {
    connection& c = connections_[token.index];
    if (error != 0) {
        if (c.unsent != 0 || c.pending || c.body || (c.inbound && c.inbound->parser.started()))
            count_lost(c);  // not idle
        return close(token.index, true, channel_end::client_away);
    }
    c.peer_side = peer_side::shut;
    if (c.phase == phase::lingering) return close(token.index);
    if (c.unsent != 0 || c.pending || c.body || (c.inbound && c.inbound->parser.started())) ++counters_.half_closed;
    if (c.phase == phase::open) {
        if (c.body) {
            count_lost(c);
            break_body(token.index, 400, "the request was cut short", body_end::client_away);
        }
        if (c.inbound && c.inbound->parser.started()) {
            count_lost(c);
            refuse(token.index, *c.inbound, 400, "the request was cut short", c.inbound->unread().size());
        }
        c.phase = phase::last;  // what is stuck may still be read by the peer
    }
    if (c.pending) leave_half_closed(c);
    settle(token.index);
}

void server_core::on_held(connection_token token) { touch(token.index); }

void server_core::on_sent(connection_token token, std::size_t unsent) {
    connection& c = connections_[token.index];
    if (unsent < c.unsent) {  // more of it is TLS's own
        counters_.bytes_sent += c.unsent - unsent;
        c.progressed = true;
    }
    const bool waited = c.waiting != 0;
    c.unsent = c.waiting = unsent;
    // What has left without a wait, as most does, changes nothing for a connection whose requests are all answered.
    if (unsent == 0 && !waited && c.phase == phase::open && !c.paused && !c.pending && !c.broken) return;
    settle(token.index);
}

// --- answers

void server_core::call_handler(const request& message) {
    response_.reset();
    response_.loop_.core = this;
    asked_ = &message;
    try {
        answer_(message, response_);
        response_.loop_.core = nullptr;
        return;
    } catch (...) {
        // What it says may name things a client must not see, and who embeds us can catch it in the handler.
    }
    response_.loop_.core = nullptr;
    ++counters_.handler_exceptions;
    if (begun_body_) end_body(std::exchange(begun_body_, nullptr), body_end::cut);
    if (begun_) {
        begun_->attached = true;  // by nothing any more: so it ends like any other
        if (begun_->kind == channel_kind::websocket) begun_->note_close(websocket_code::abnormal, {});
        end_channel(std::exchange(begun_, nullptr), channel_end::cut);
    }
    response_.problem(500, failed_to_answer);
}

void server_core::answer_request(index_type index, const inbound_request& in, bool more_follows) {
    connection& c = connections_[index];
    const request& message = in.parser.message();
    if (message.method() == method::connect)
        return refuse(index, in, 501, "this server is not a proxy", message.wire_bytes());
    ++counters_.requests;
    answering_ = index;
    goes_to_pool(message) ? call_on_pool(index, in.parser) : call_handler(message);
    if (begun_body_ || message.body_follows()) take_up_body(index, message, more_follows);
    if (begun_) {
        enter_exchange(index, in, more_follows);
        response_.file_.reset();  // a channel's answer has it, if any has
        if (c.body) begin_reading(index);
        return;
    }
    // A drain answers what the client has already sent before it says goodbye.
    bool ours = response_.closes() || (draining_ && !more_follows);
    if (c.body) {
        c.body->closes = ours || !message.keep_alive();
        ours |= leave_body(c);
        more_follows |= ours;
    }
    const bool closing = ours || !message.keep_alive();
    file_place place;  // of a response that the handler had made elsewhere
    if (response_.has_file()) place = place_for_file(response_);
    std::string& out = c.pending ? c.pending->behind() : out_;
    const std::size_t bytes = append_response(out, response_, message.method() == method::head, closing,
                                              message.minor_version() == 0 && !closing);
    if (c.pending) c.pending->bytes += bytes;
    const bool file = sends_file(response_, message.method());
    const std::uint64_t file_bytes = file ? response_.file_->layout.bytes : 0;
    if (file) enter_file(c, response_, std::move(place));
    response_.file_.reset();  // it is open no longer than it is needed
    report({.route = response_.route(),
            .status = response_.status(),
            .method = message.method(),
            .request_bytes = message.wire_bytes(),
            .response_bytes = bytes + file_bytes},
           in.first_byte_ns);
    if (!closing) return;
    c.phase = phase::last;
    c.discarding = message.keep_alive() || more_follows;  // a client that asked for the end sends nothing more
}

void server_core::refuse(index_type index, const inbound_request& in, int status, std::string_view reason,
                         std::size_t bytes) {
    connection& c = connections_[index];
    response_.reset();
    response_.problem(status, reason);
    // A HEAD has no body, whatever it is answered: RFC 9110 section 9.3.2.
    std::string& out = c.pending ? c.pending->behind() : out_;
    const std::size_t sent = append_response(out, response_, in.parser.message().method() == method::head, true, false);
    if (c.pending) c.pending->bytes += sent;
    c.phase = phase::last;
    c.discarding = true;
    report({.status = status, .parsed = false, .request_bytes = bytes, .response_bytes = sent}, in.first_byte_ns);
    if (c.inbound) give_back(std::move(c.inbound));
}

void server_core::send_continue(index_type index, const inbound_request& in) {
    connection& c = connections_[index];
    if (c.continue_sent || !in.parser.message().expects_continue()) return;
    c.continue_sent = true;
    ++counters_.responses[0];
    constexpr std::string_view go_on = "HTTP/1.1 100 Continue\r\n\r\n";
    (c.pending ? c.pending->behind() : out_).append(go_on);
    if (c.pending) c.pending->bytes += go_on.size();
}

void server_core::report(response_event event, std::uint64_t first_byte_ns) {
    ++counters_.responses[event.status / 100 - 1];
    if (!options_.on_response) return;
    event.latency_ns = monotonic_ns() - first_byte_ns;
    options_.on_response(event);
}

std::size_t server_core::append_response(std::string& out, const response& answer, bool without_body, bool closing,
                                         bool persistent_1_0) {
    // RFC 9110 section 8.6: no length in 204; one in 304 would have to be that of what 200 sends, which nobody knows.
    const bool bodiless = answer.status() == 204 || answer.status() == 304;
    const bool file = answer.has_file();  // follows by itself
    const std::string_view body = bodiless || without_body || file ? std::string_view() : answer.body();
    const std::uint64_t length = file ? answer.file_->layout.bytes : answer.body().size();
    const std::string_view begin = ok_begin();
    const std::size_t before = out.size();
    out.resize(before + framing_bytes_max + begin.size() + answer.fields().size() + body.size());
    detail::piece_writer piece(out.data() + before);
    put_head(piece, answer, begin, closing);
    if (persistent_1_0) piece.put("Connection: keep-alive\r\n");
    if (!bodiless) piece.put("Content-Length: ").put(length).put("\r\n");
    piece.put("\r\n").put(body);
    out.resize(static_cast<std::size_t>(piece.end() - out.data()));
    return out.size() - before;
}

std::size_t server_core::append_stream_head(std::string& out, const response& answer, bool closing, bool chunked) {
    const std::string_view begin = ok_begin();
    const std::size_t before = out.size();
    out.resize(before + framing_bytes_max + begin.size() + answer.fields().size());
    detail::piece_writer piece(out.data() + before);
    put_head(piece, answer, begin, closing);
    if (chunked && answer.status() != 204 && answer.status() != 304) piece.put("Transfer-Encoding: chunked\r\n");
    piece.put("\r\n");
    out.resize(static_cast<std::size_t>(piece.end() - out.data()));
    return out.size() - before;
}

// The date is the IMF-fixdate of RFC 9110 section 5.6.7.
void server_core::look_at_date() {
    date_looked_ms_ = now_ms_;
    timespec now{};
    ::clock_gettime(CLOCK_REALTIME_COARSE, &now);
    if (std::exchange(date_second_, now.tv_sec) == now.tv_sec) return;
    ok_begin_.assign(ok_line).append("Date: ");
    append_http_date(ok_begin_, now.tv_sec);
    ok_begin_.append("\r\n");
}

// --- bytes out

// Hands what has been gathered to the engine. Returns false when nobody is there any more to read it.
bool server_core::flush(index_type index) {
    connection& c = connections_[index];
    if (!out_.empty() && !c.broken) {
        const std::size_t given = c.unsent + out_.size();
        const engine::sent now = engine_->send(token_of(index), out_);
        const std::size_t before = given + now.overhead;
        counters_.bytes_sent += before - now.unsent;
        c.progressed |= now.unsent != before;
        c.unsent = now.unsent;
        c.waiting = now.waiting;
        c.broken = now.error != 0;
        if (out_.capacity() > options_.limits.output_bytes_max) std::string().swap(out_);
    }
    out_.clear();
    return !c.broken;
}

// Ends every event of a connection: sends what is due, takes up paused input, counts what is held, sets the timer.
void server_core::settle(index_type index) {
    connection& c = connections_[index];
    for (bool again = false;; again = true) {
        if (c.pending && !advance(index)) {
            ++counters_.files_cut;
            out_.clear();  // (C2)
            return close(index, true);
        }
        if (!flush(index)) {
            count_lost(c);
            return close(index, true, channel_end::client_away);
        }
        if (c.phase == phase::last && c.unsent == 0 && !c.pending) return finish(index);
        if (!c.paused || !can_go_on(c)) break;
        if (again) {  // it has filled its output twice: others are served first (I7 of engine.hpp)
            touch(index);
            break;
        }
        c.paused = false;
        if (c.socket) read_socket(index, {});
        if (c.inbound) {
            const std::span<char> held = c.inbound->unread();
            serve(index, std::move(c.inbound), held);
        }
        if (!c.paused) engine_->resume(token_of(index));
    }
    if (keep_accounts(index)) rearm(index);
}

void server_core::finish(index_type index) {
    connection& c = connections_[index];
    if (!c.discarding || c.peer_side != peer_side::open) return close(index);
    engine_->shutdown_send(token_of(index));
    c.phase = phase::lingering;
    if (std::exchange(c.paused, false)) engine_->resume(token_of(index));  // lingering is reading on
    if (c.inbound) give_back(std::move(c.inbound));
    account(c, 0);
    rearm(index);
}

std::unique_ptr<inbound_request> server_core::take_inbound() {
    if (spare_inbound_.empty()) {
        auto made = std::make_unique<inbound_request>(options_.limits.message);
        made->parser.stop_at_body(options_.body_in_pieces != nullptr);
        return made;
    }
    auto in = std::move(spare_inbound_.back());
    spare_inbound_.pop_back();
    return in;
}

void server_core::give_back(std::unique_ptr<inbound_request> in) noexcept {
    if (spare_inbound_.size() >= spare_inbound_max || in->buffer.capacity() > spare_bytes_max) return;
    in->parser.reset();
    in->buffer.clear();
    in->used = 0;
    in->first_byte_ns = 0;
    in->held_since_ns = 0;
    in->in_parts = false;
    in->time = {};
    spare_inbound_.push_back(std::move(in));  // reserved in the constructor
}

}  // namespace holdfast::net
