// SPDX-License-Identifier: Apache-2.0
// client_exchange.cpp - a request out, its answer in, and how both end.
//
// Each function that answers a bool answers whether the exchange goes on: after false neither it nor the connection may
// be touched, for they are gone (E2).
#include <sys/epoll.h>
#include <sys/uio.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "client_core.hpp"

namespace holdfast::net {

namespace {

constexpr int client_rounds_max = 8;  // sends or receives of one connection in a turn

// One chunk; none for no data, which would be the last one.
void append_client_chunk(std::string& out, std::string_view data) {
    if (data.empty()) return;
    std::array<char, 16> digits{};
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), data.size(), 16).ptr;
    out.append(digits.data(), end).append("\r\n").append(data).append("\r\n");
}

client_error error_of(response_fault fault) noexcept {
    switch (fault) {
        case response_fault::head_too_large: return client_error::head_too_large;
        case response_fault::body_too_large: return client_error::body_too_large;
        default: return client_error::malformed;
    }
}

}  // namespace

// A pause is the caller's own, and so is a source that has nothing: neither is the other side's silence.
void client_core::renew_phase(client_exchange& x) {
    const bool source_waits = x.upload_waits && !x.all_sent;
    if (x.paused || source_waits) return set_phase(x, std::chrono::milliseconds{0}, client_error::none);
    if (x.stage == client_stage::awaiting)
        return set_phase(x, wait_of(x, &client_timeouts::first_byte), client_error::first_byte_timeout);
    if (x.stage == client_stage::sending || x.stage == client_stage::receiving)
        set_phase(x, wait_of(x, &client_timeouts::silence), client_error::silence_timeout);
}

void client_core::handle_busy(client_connection& c, std::uint32_t events) {
    constexpr std::uint32_t broken = EPOLLERR | EPOLLHUP;
    if (!c.carries->paused && (events & (EPOLLIN | broken)) != 0 && !receive(c)) return;
    if ((events & (EPOLLOUT | broken)) != 0 && !send(c)) return;
    watch_busy(c);
}

void client_core::watch_busy(client_connection& c) {
    const client_exchange& x = *c.carries;
    std::uint32_t events = x.paused || x.cancelled ? 0U : static_cast<std::uint32_t>(EPOLLIN);
    if (c.blocked) events |= EPOLLOUT;
    if (!x.paused) events |= c.transport->wants();
    watch(c, events);
}

bool client_core::send(client_connection& c) {
    client_exchange& x = *c.carries;
    c.blocked = false;
    if (c.transport->flush() == EAGAIN) {
        c.blocked = true;
        return true;
    }
    for (int round = 0; !x.all_sent && !x.cancelled && !c.refused; ++round) {
        if (!fill(x)) {
            end_exchange(x, client_error::upload_failed, "the source of the body failed, or gave another length");
            return false;
        }
        const std::string& body = x.asked.upload ? x.piece : x.asked.body;
        std::array<iovec, 2> parts{{{x.head.data() + x.head_sent, x.head.size() - x.head_sent},
                                    {const_cast<char*>(body.data()) + x.body_sent, body.size() - x.body_sent}}};
        if (parts[0].iov_len + parts[1].iov_len == 0) {
            if (x.upload_waits) {
                renew_phase(x);
                return true;
            }
            x.all_sent = true;
            if (x.stage == client_stage::sending) x.stage = client_stage::awaiting;
            renew_phase(x);
            return true;
        }
        if (round == client_rounds_max) {
            c.blocked = true;  // not it, but others have their turn first
            return true;
        }
        const client_transport::moved moved = c.transport->send(parts);
        if (moved.error == EAGAIN) {
            c.blocked = true;
            return true;
        }
        if (moved.error != 0) {
            // Who closes early may have said why before.
            c.refused = true;
            c.send_error = moved.error;
            return x.paused || receive(c);
        }
        x.sent = true;
        const std::size_t of_head = std::min(moved.bytes, parts[0].iov_len);
        x.head_sent += of_head;
        x.body_sent += moved.bytes - of_head;
        if (!x.all_sent) renew_phase(x);  // though the answer may have begun
    }
    return true;
}

// Asks the source of an upload for more where all it gave has left. Returns: false when it failed.
bool client_core::fill(client_exchange& x) {
    if (!x.asked.upload || x.upload_done || x.upload_waits || x.body_sent < x.piece.size()) return true;
    x.piece.clear();
    x.body_sent = 0;
    std::string given;
    upload_step said = upload_step::fail;
    call([&] { said = x.asked.upload(given); });
    if (said == upload_step::fail) return false;
    x.uploaded += given.size();
    if (x.asked.upload_bytes && x.uploaded > *x.asked.upload_bytes) return false;
    if (x.asked.upload_bytes)
        x.piece = std::move(given);
    else
        append_client_chunk(x.piece, given);
    x.upload_waits = said == upload_step::wait || (said == upload_step::more && x.piece.empty());
    if (said != upload_step::end) return true;
    x.upload_done = true;
    if (!x.asked.upload_bytes) x.piece += "0\r\n\r\n";
    return !x.asked.upload_bytes || x.uploaded == *x.asked.upload_bytes;
}

bool client_core::receive(client_connection& c) {
    client_exchange& x = *c.carries;
    for (int round = 0; round < client_rounds_max; ++round) {
        const client_transport::moved moved = c.transport->receive(*scratch_);
        if (moved.error == EAGAIN) {
            if (c.send_error == 0) return true;
            lose(c, c.send_error);  // nothing more has come, and nothing will
            return false;
        }
        // An end behind a send that failed is no orderly one: the failure was a reset's.
        if (moved.error != 0 || (moved.ended && c.send_error != 0)) {
            lose(c, moved.error != 0 ? moved.error : c.send_error);
            return false;
        }
        if (moved.bytes != 0) {
            x.answered = true;
            x.stage = client_stage::receiving;
            renew_phase(x);
            c.reader.buffer().append(scratch_->data(), moved.bytes);
        }
        c.ended = moved.ended;
        if (!take_answer(c)) return false;
        if (x.paused || x.cancelled || c.ended) return true;
        if (moved.bytes < scratch_->size() && !c.transport->holds_input() && c.send_error == 0) return true;
    }
    if (c.transport->holds_input()) touch(x);  // epoll does not know of it
    return true;
}

// What there is of the answer is told, as far as the caller wants it.
bool client_core::take_answer(client_connection& c) {
    client_exchange& x = *c.carries;
    if (x.paused || x.cancelled) return true;
    const response_reader::status now = c.reader.next(x.to_head(), c.ended);
    if (now == response_reader::status::malformed) {
        end_exchange(x, error_of(c.reader.fault()), std::string(c.reader.reason()));
        return false;
    }
    if (c.reader.has_head() && !std::exchange(x.head_told, true)) {
        x.response.status_ = c.reader.code();
        x.response.head_ = c.reader.head().substr(0, c.reader.head().size() - 2);
        // RFC 9112 section 9.5: who is refused need not send the rest. The connection ends with the answer.
        if (!x.all_sent && c.reader.code() >= 300) c.refused = true;
        call(x.calls.on_head, std::as_const(x.response));
        if (x.paused || x.cancelled) return true;
    }
    if (c.reader.has_head() && !c.reader.body().empty()) {
        if (x.calls.on_body)
            call(x.calls.on_body, c.reader.body());
        else
            x.response.body_.append(c.reader.body());
        c.reader.drop_body();
        if (x.paused || x.cancelled) return true;
    }
    if (now == response_reader::status::complete) {
        finish(c);
        return false;
    }
    if (!c.ended) return true;
    lose(c, 0);
    return false;
}

void client_core::finish(client_connection& c) {
    client_exchange& x = *c.carries;
    x.stage = client_stage::done;
    x.response.trailers_ = c.reader.trailers();
    bool kept = x.all_sent && !c.refused && !c.reader.closes() && !x.asked.close && !c.ended && !ending_;
    c.reader.drop();
    if (!c.reader.buffer().empty()) {
        ++counters_.unasked_bytes;
        kept = false;
    }
    c.carries = nullptr;
    x.on = nullptr;
    if (!kept)
        close(c);
    else if (c.transport->holds_input() && !c.transport->is_quiet())
        give_up(c);  // with what came behind the answer, or the end that did
    else
        keep(c);
    end_exchange(x, client_error::none, {});
}

// The connection ended, in order or not, and the answer has not.
void client_core::lose(client_connection& c, int code) {
    client_exchange& x = *c.carries;
    const bool again = !x.answered && x.reused && !x.fresh && x.asked.retry && !x.asked.upload && !x.cancelled &&
                       is_idempotent(x.asked.method);
    if (again) {
        close(c);
        ++counters_.retried;
        x.fresh = true;
        x.head_sent = x.body_sent = 0;
        x.all_sent = false;
        return queue(x, true);
    }
    if (code == tls_cut) ++counters_.tls_truncated;
    std::string detail = code != 0 ? c.transport->reason() : "the other side closed the connection";
    if (detail.empty()) detail = std::strerror(code);
    detail += x.answered ? ", inside the answer" : ", before an answer";
    end_exchange(x, x.answered ? client_error::truncated : client_error::closed_unanswered, std::move(detail));
}

void client_core::end_exchange(client_exchange& x, client_error error, std::string detail) {
    client_result result;
    result.id = {x.number};
    result.error = error;
    result.stage = x.stage;
    result.detail = std::move(detail);
    result.response = std::move(x.response);
    result.attempts = x.attempts;
    result.reused = x.reused;
    result.sent = x.sent;
    leave_queue(x);
    if (x.on != nullptr) close(*x.on);
    exchange_wheel_.disarm(x.place);
    by_place_[x.place] = nullptr;
    free_places_.push_back(x.place);
    const auto own = std::move(exchanges_.extract(x.number).mapped());
    ++(error == client_error::none ? counters_.answered : counters_.failed);
    dispatch_due_ = true;
    call(own->calls.on_done, std::move(result));
}

}  // namespace holdfast::net
