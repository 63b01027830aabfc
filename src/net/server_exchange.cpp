// SPDX-License-Identifier: Apache-2.0
// server_exchange.cpp - what travels on a connection: requests in, responses out, and the pauses between.
#include <time.h>

#include <array>
#include <charconv>
#include <cstdio>
#include <exception>
#include <utility>

#include "server_core.hpp"

namespace holdfast::net {

namespace {

constexpr std::size_t spare_inbound_max = 64;
constexpr std::size_t spare_bytes_max = 64U << 10U;
constexpr std::size_t linger_bytes_max = 4U << 20U;  // then the client is not reading, and a reset is no loss

void append_number(std::string& out, std::uint64_t number) {
    std::array<char, 20> digits;
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
    out.append(digits.data(), end);
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
    auto in = c.inbound ? std::move(c.inbound) : take_inbound();
    if (in->buffer.empty()) {
        serve(token.index, std::move(in), bytes);
    } else {
        in->buffer.append(bytes.data(), bytes.size());
        const std::span<char> all(in->buffer);
        serve(token.index, std::move(in), all);
    }
    settle(token.index);
}

// `bytes` is either the whole of in->buffer or the engine's, with in->buffer empty.
void server_core::serve(index_type index, std::unique_ptr<inbound_request> in, std::span<char> bytes) {
    const served result = serve_requests(index, *in, bytes);
    connection& c = connections_[index];
    if (c.phase != phase::open || result.kept == 0) return give_back(std::move(in));
    if (bytes.data() == in->buffer.data()) {
        in->buffer.erase(0, result.used);
        in->buffer.resize(result.kept);
    } else {
        in->buffer.assign(bytes.data() + result.used, result.kept);
    }
    c.inbound = std::move(in);
}

server_core::served server_core::serve_requests(index_type index, inbound_request& in, std::span<char> bytes) {
    connection& c = connections_[index];
    std::size_t used = 0;
    while (used < bytes.size()) {
        const auto rest = bytes.subspan(used);
        if (output_is_full(index)) return {used, rest.size()};
        if (!in.parser.started()) in.first_byte_ns = arrival_ns_;
        switch (in.parser.parse(rest)) {
            case parse_status::need_more:
                if (in.parser.head_complete()) send_continue(index, in);
                return {used, in.parser.kept()};
            case parse_status::refused:
                ++counters_.refused;
                refuse(index, in.parser.refusal_status(), in.parser.refusal_reason(), in.first_byte_ns, rest.size());
                return {};
            case parse_status::complete: break;
        }
        used += in.parser.consumed();
        answer_request(index, in, used < bytes.size());
        if (c.phase != phase::open) return {};
        in.parser.reset();
        c.continue_sent = false;
        if (c.timer == timer_class::header || c.timer == timer_class::body) c.timer = timer_class::none;  // (C1)
    }
    return {used, 0};
}

// (I2 of server.hpp) Tries to make room first; pauses the connection's input if there is none. If nobody is there to
// read, the connection answers nothing more, and settle() closes it.
bool server_core::output_is_full(index_type index) {
    const std::size_t most = options_.limits.output_bytes_max;
    if (unsent(index) < most) return false;
    connection& c = connections_[index];
    if (flush(index) == flushed::broken) {
        c.phase = phase::last;
        c.discarding = true;
        return true;
    }
    if (unsent(index) < most) return false;
    c.paused = true;
    ++counters_.read_pauses;
    engine_->pause(token_of(index));
    return true;
}

void server_core::on_end(connection_token token, int error) {
    connection& c = connections_[token.index];
    if (error != 0) {
        if (c.outbound || (c.inbound && c.inbound->parser.started())) ++counters_.lost;  // not idle
        return close(token.index, true);
    }
    c.peer_done = true;
    if (c.phase == phase::lingering) return close(token.index);
    if (c.phase == phase::open) {
        if (c.inbound && c.inbound->parser.started()) {
            ++counters_.lost;
            refuse(token.index, 400, "the request was cut short", c.inbound->first_byte_ns, c.inbound->buffer.size());
        }
        c.phase = phase::last;  // what is stuck may still be read by the peer
    }
    settle(token.index);
}

void server_core::on_sendable(connection_token token) {
    connections_[token.index].blocked = false;
    settle(token.index);
}

// --- answers

void server_core::call_handler(const request& message) {
    response_.reset();
    try {
        answer_(message, response_);
        return;
    } catch (...) {
        // What it says may name things a client must not see, and who embeds us can catch it in the handler.
    }
    ++counters_.handler_exceptions;
    response_.problem(500, "the server failed to answer this request");
}

void server_core::answer_request(index_type index, const inbound_request& in, bool more_follows) {
    connection& c = connections_[index];
    const request& message = in.parser.message();
    if (message.method() == method::connect)
        return refuse(index, 501, "this server is not a proxy", in.first_byte_ns, message.wire_bytes());
    ++counters_.requests;
    call_handler(message);
    // A drain answers what the client has already sent before it says goodbye.
    const bool ours = response_.closes() || (draining_ && !more_follows);
    const bool closing = ours || !message.keep_alive();
    const std::size_t bytes = append_response(output_of(index), message.method() == method::head, closing,
                                              message.minor_version() == 0 && !closing);
    report({.route = response_.route(),
            .status = response_.status(),
            .method = message.method(),
            .request_bytes = message.wire_bytes(),
            .response_bytes = bytes},
           in.first_byte_ns);
    if (!closing) return;
    c.phase = phase::last;
    c.discarding = message.keep_alive() || more_follows;  // a client that asked for the end sends nothing more
}

void server_core::refuse(index_type index, int status, std::string_view reason, std::uint64_t first_byte_ns,
                         std::size_t bytes) {
    connection& c = connections_[index];
    response_.reset();
    response_.problem(status, reason);
    const std::size_t sent = append_response(output_of(index), false, true, false);
    c.phase = phase::last;
    c.discarding = true;
    report({.status = status, .parsed = false, .request_bytes = bytes, .response_bytes = sent}, first_byte_ns);
    if (c.inbound) give_back(std::move(c.inbound));
}

void server_core::send_continue(index_type index, const inbound_request& in) {
    connection& c = connections_[index];
    if (c.continue_sent || !in.parser.message().expects_continue()) return;
    c.continue_sent = true;
    ++counters_.responses[0];
    output_of(index).append("HTTP/1.1 100 Continue\r\n\r\n");
}

void server_core::report(response_event event, std::uint64_t first_byte_ns) {
    ++counters_.responses[event.status / 100 - 1];
    if (!options_.on_response) return;
    event.latency_ns = monotonic_ns() - first_byte_ns;
    options_.on_response(event);
}

std::size_t server_core::append_response(std::string& out, bool without_body, bool closing, bool persistent_1_0) {
    const std::size_t before = out.size();
    const int status = response_.status();
    if (status == 200) {
        out.append("HTTP/1.1 200 OK\r\n");
    } else {
        out.append("HTTP/1.1 ");
        append_number(out, static_cast<std::uint64_t>(status));
        out.append(" ").append(reason_phrase(status)).append("\r\n");
    }
    append_date(out);
    out.append(response_.fields());
    if (closing) out.append("Connection: close\r\n");
    if (persistent_1_0) out.append("Connection: keep-alive\r\n");
    // RFC 9110 section 8.6: none in 204; one in 304 would have to be the length of what 200 sends, which nobody knows.
    const bool bodiless = status == 204 || status == 304;
    if (!bodiless) {
        out.append("Content-Length: ");
        append_number(out, response_.body().size());
        out.append("\r\n");
    }
    out.append("\r\n");
    if (!bodiless && !without_body) out.append(response_.body());
    return out.size() - before;
}

// RFC 9110 section 5.6.7, IMF-fixdate; made once a second, looked at once a wake-up.
void server_core::append_date(std::string& out) {
    if (!std::exchange(date_checked_, true)) {
        timespec now{};
        ::clock_gettime(CLOCK_REALTIME_COARSE, &now);
        if (now.tv_sec != date_second_) {
            constexpr std::array<const char*, 7> days{"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
            constexpr std::array<const char*, 12> months{"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                         "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
            tm utc{};
            ::gmtime_r(&now.tv_sec, &utc);
            std::array<char, 64> text;
            const int size = std::snprintf(text.data(), text.size(), "Date: %s, %02d %s %04d %02d:%02d:%02d GMT\r\n",
                                           days[static_cast<std::size_t>(utc.tm_wday)], utc.tm_mday,
                                           months[static_cast<std::size_t>(utc.tm_mon)], utc.tm_year + 1900,
                                           utc.tm_hour, utc.tm_min, utc.tm_sec);
            date_.assign(text.data(), static_cast<std::size_t>(size));
            date_second_ = now.tv_sec;
        }
    }
    out.append(date_);
}

// --- bytes out

std::size_t server_core::unsent(index_type index) const noexcept {
    const connection& c = connections_[index];
    return c.outbound ? c.outbound->bytes.size() - c.outbound->sent : out_.size();
}

std::string& server_core::output_of(index_type index) noexcept {
    connection& c = connections_[index];
    return c.outbound ? c.outbound->bytes : out_;
}

server_core::flushed server_core::flush(index_type index) {
    connection& c = connections_[index];
    if (unsent(index) == 0) return flushed::all;
    if (c.blocked) return flushed::blocked;
    const std::size_t already = c.outbound ? c.outbound->sent : 0;
    const std::string_view rest = std::string_view(output_of(index)).substr(already);
    const auto [taken, error] = engine_->send(token_of(index), rest);
    counters_.bytes_sent += taken;
    c.progressed |= taken != 0;
    if (error != 0) return flushed::broken;
    if (taken == rest.size()) {
        c.outbound.reset();
        out_.clear();
        if (out_.capacity() > options_.limits.output_bytes_max) std::string().swap(out_);
        return flushed::all;
    }
    c.blocked = true;
    if (!c.outbound) {
        c.outbound = std::make_unique<outbound_bytes>();
        c.outbound->bytes.assign(rest.substr(taken));
        out_.clear();
        return flushed::blocked;
    }
    c.outbound->sent += taken;
    // What has gone is dropped once it is the larger part, so that each byte is moved at most once on average.
    if (c.outbound->sent > c.outbound->bytes.size() / 2) {
        c.outbound->bytes.erase(0, c.outbound->sent);
        c.outbound->sent = 0;
    }
    return flushed::blocked;
}

// Ends every event of a connection: sends what is due, takes up paused input, counts what is held, sets the timer.
void server_core::settle(index_type index) {
    connection& c = connections_[index];
    while (true) {
        const flushed state = flush(index);
        if (state == flushed::broken) {
            ++counters_.lost;
            out_.clear();
            return close(index, true);
        }
        if (c.phase == phase::last && state == flushed::all) return finish(index);
        if (!c.paused || unsent(index) > options_.limits.output_bytes_max / 2) break;
        c.paused = false;
        if (c.inbound) {
            const std::span<char> held(c.inbound->buffer);
            serve(index, std::move(c.inbound), held);
        }
        if (!c.paused) engine_->resume(token_of(index));
    }
    if (keep_accounts(index)) rearm(index);
}

// (I3 of server.hpp) Returns false when the connection had to be given up.
bool server_core::keep_accounts(index_type index) {
    connection& c = connections_[index];
    const std::size_t held = (c.inbound ? c.inbound->buffer.size() : 0) + (c.outbound ? c.outbound->bytes.size() : 0);
    held_bytes_ += held - c.held_bytes;
    c.held_bytes = held;
    if (held == 0 || held_bytes_ <= options_.limits.held_bytes_max) return true;
    if (c.outbound) return close(index, true), false;
    refuse(index, 503, "the server holds too many unfinished requests", c.inbound->first_byte_ns, held);
    settle(index);
    return false;
}

void server_core::finish(index_type index) {
    connection& c = connections_[index];
    if (!c.discarding || c.peer_done) return close(index);
    engine_->shutdown_send(token_of(index));
    c.phase = phase::lingering;
    if (c.inbound) give_back(std::move(c.inbound));
    held_bytes_ -= std::exchange(c.held_bytes, 0);
    rearm(index);
}

std::unique_ptr<inbound_request> server_core::take_inbound() {
    if (spare_inbound_.empty()) return std::make_unique<inbound_request>(options_.limits.message);
    auto in = std::move(spare_inbound_.back());
    spare_inbound_.pop_back();
    return in;
}

void server_core::give_back(std::unique_ptr<inbound_request> in) noexcept {
    if (spare_inbound_.size() >= spare_inbound_max || in->buffer.capacity() > spare_bytes_max) return;
    in->parser.reset();
    in->buffer.clear();
    in->first_byte_ns = 0;
    spare_inbound_.push_back(std::move(in));  // reserved in the constructor
}

}  // namespace holdfast::net
