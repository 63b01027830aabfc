// SPDX-License-Identifier: Apache-2.0
#include "holdfast/net/websocket_session.hpp"

#include <array>
#include <cstring>

namespace holdfast::net {

void websocket_session::append(std::string& out, websocket_opcode opcode, bool last, std::string_view payload,
                               bool deflated) {
    if (keys_ == nullptr) return append_websocket_frame(out, opcode, last, payload, nullptr, deflated);
    const websocket_key key = keys_->next();
    append_websocket_frame(out, opcode, last, payload, &key, deflated);
}

void websocket_session::append_close(std::string& out, std::uint16_t code, std::string_view reason) {
    std::array<char, websocket_control_bytes_max> body;
    std::size_t size = 0;
    if (code != websocket_code::none) {
        body[0] = static_cast<char>(code >> 8U);
        body[1] = static_cast<char>(code & 0xFFU);
        size = 2 + reason.copy(body.data() + 2, websocket_close_reason_bytes_max);
    }
    append(out, websocket_opcode::close, true, {body.data(), size});
    close_sent_ = true;
}

websocket_session::event websocket_session::next(std::span<char> bytes, std::string& out) {
    if (input_ != input::open) return event::need_more;
    const event what = reader_.next(bytes);
    if (what == event::ping && may_send()) {
        append(out, websocket_opcode::pong, true, payload(bytes));
    } else if (what == event::close) {
        input_ = input::ended;
        clean_ = true;
        code_ = reader_.close_code();
        if (!close_sent_) append_close(out, code_, {});
    } else if (what == event::refused) {
        input_ = input::ended;
        code_ = reader_.refusal_code();
        if (!close_sent_) append_close(out, code_, reader_.refusal_reason());
    }
    return what;
}

std::span<char> websocket_session::kept(std::span<char> bytes) const noexcept {
    return input_ == input::open ? reader_.kept(bytes) : std::span<char>{};
}

websocket_sent websocket_session::send(std::string& out, bool text, std::string_view payload, bool last,
                                       bool as_it_is) {
    const websocket_opcode kind = text ? websocket_opcode::text : websocket_opcode::binary;
    const bool first = sending_ == websocket_opcode::continuation;
    if (!may_send()) return websocket_sent::closing;
    if (!first && sending_ != kind) return websocket_sent::out_of_order;
    utf8_checker checked = first ? utf8_checker{} : sent_utf8_;
    if (text && (!checked.take(payload) || (last && !checked.whole()))) return websocket_sent::not_utf8;
    websocket_deflater* const deflater = reader_.deflater();
    std::string_view deflated;
    if (deflater != nullptr && !as_it_is && first && last && payload.size() >= deflate_bytes_min_)
        deflated = deflater->deflate(payload, window_bits_);
    if (!deflated.empty())
        append(out, kind, last, deflated, true);
    else
        append(out, first ? kind : websocket_opcode::continuation, last, payload);
    sent_utf8_ = checked;  // what could not be appended, for lack of memory, was not sent
    sending_ = last ? websocket_opcode::continuation : kind;
    return websocket_sent::ok;
}

websocket_sent websocket_session::send_control(std::string& out, websocket_opcode opcode, std::string_view payload) {
    if (!may_send()) return websocket_sent::closing;
    if (payload.size() > websocket_control_bytes_max) return websocket_sent::too_long;
    append(out, opcode, true, payload);
    return websocket_sent::ok;
}

websocket_sent websocket_session::ping(std::string& out, std::string_view payload) {
    return send_control(out, websocket_opcode::ping, payload);
}

websocket_sent websocket_session::pong(std::string& out, std::string_view payload) {
    return send_control(out, websocket_opcode::pong, payload);
}

websocket_sent websocket_session::close(std::string& out, std::uint16_t code, std::string_view reason) {
    if (!may_send()) return websocket_sent::closing;
    if (code == websocket_code::none ? !reason.empty() : !is_websocket_close_code(code))
        return websocket_sent::bad_code;
    if (reason.size() > websocket_close_reason_bytes_max) return websocket_sent::too_long;
    utf8_checker checked;
    if (!checked.take(reason) || !checked.whole()) return websocket_sent::not_utf8;
    append_close(out, code, reason);
    return websocket_sent::ok;
}

websocket_sent websocket_session::refuse(std::string& out, std::uint16_t code, std::string_view reason) {
    const websocket_sent sent = close(out, code, reason);
    if (sent != websocket_sent::ok) return sent;
    input_ = input::ended;
    code_ = code;
    return sent;
}

void websocket_session::lost() noexcept {
    if (input_ == input::open) code_ = websocket_code::abnormal;
    input_ = input::lost;
}

}  // namespace holdfast::net
