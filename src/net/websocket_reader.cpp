// SPDX-License-Identifier: Apache-2.0
#include "holdfast/net/websocket_reader.hpp"

#include <algorithm>
#include <cstring>

namespace holdfast::net {

websocket_reader::websocket_reader(websocket_role role, const websocket_limits& limits,
                                   websocket_deflater* deflater) noexcept
    : limits_(limits), deflater_(deflater), role_(role) {}

bool websocket_reader::refuse(std::uint16_t code, std::string_view reason) noexcept {
    refusal_code_ = code;
    refusal_reason_ = reason;
    state_ = state::refused;
    return false;
}

std::string_view websocket_reader::payload(std::span<const char> bytes) const noexcept {
    if (delivered_ == event::message && deflated_) return deflater_->message();
    if (delivered_ == event::message) return {bytes.data() + write_ - message_bytes_, message_bytes_};
    const std::string_view control{bytes.data() + write_ - control_bytes_, control_bytes_};
    return delivered_ == event::close && !control.empty() ? control.substr(2) : control;
}

// What the last call handed out is done with.
void websocket_reader::forget_delivered() noexcept {
    if (delivered_ == event::message) {
        message_bytes_ = 0;
        if (deflated_) deflater_->forget();
    } else if (delivered_ != event::need_more) {
        write_ -= control_bytes_;
        control_bytes_ = 0;
    }
    delivered_ = event::need_more;
}

// The next call's bytes begin with what is held.
websocket_reader::event websocket_reader::pause(std::size_t bytes) noexcept {
    kept_at_ = held() != 0 ? write_ - held() : bytes;
    read_ = write_ = held();
    return event::need_more;
}

websocket_reader::event websocket_reader::next(std::span<char> bytes) noexcept {
    forget_delivered();
    while (true) {
        if (state_ == state::refused) return event::refused;
        if (state_ == state::closed) {
            message_bytes_ = 0;  // a message that the close cut short
            return pause(bytes.size());
        }
        if (state_ == state::payload) {
            if (!take_payload(bytes)) continue;
            if (left_ != 0) return pause(bytes.size());
            delivered_ = end_frame(bytes);
            if (delivered_ != event::need_more) return delivered_;
        } else {
            if (read_ == bytes.size()) return pause(bytes.size());
            (void)step(static_cast<std::uint8_t>(bytes[read_++]));
        }
    }
}

bool websocket_reader::step(std::uint8_t byte) noexcept {
    switch (state_) {
        case state::opcode: return take_opcode(byte);
        case state::length_7: return take_length_7(byte);
        case state::length: return take_length(byte);
        default:  // key
            key_[count_++] = byte;
            if (count_ == key_.size()) state_ = state::payload;
            return true;
    }
}

bool websocket_reader::take_opcode(std::uint8_t byte) noexcept {
    using enum websocket_opcode;
    const unsigned reserved = byte & 0x70U;
    if (reserved != 0 && (reserved != 0x40U || deflater_ == nullptr))
        return refuse(websocket_code::protocol_error, "reserved bit set, no extension agreed");
    const unsigned code = byte & 0x0FU;
    if ((code > 2 && code < 8) || code > 10) return refuse(websocket_code::protocol_error, "reserved opcode");
    opcode_ = static_cast<websocket_opcode>(code);
    last_ = (byte & 0x80U) != 0;
    state_ = state::length_7;
    if (reserved != 0 && opcode_ != text && opcode_ != binary)
        return refuse(websocket_code::protocol_error, "deflate bit on no first frame of a message");
    if (in_control()) return last_ || refuse(websocket_code::protocol_error, "control frame in fragments");
    if (opcode_ == continuation)
        return within_message_ || refuse(websocket_code::protocol_error, "continuation of no message");
    if (within_message_) return refuse(websocket_code::protocol_error, "message begun within another");
    message_opcode_ = opcode_;
    within_message_ = true;
    deflated_ = reserved != 0;
    utf8_.reset();
    return true;
}

bool websocket_reader::take_length_7(std::uint8_t byte) noexcept {
    const bool masked = (byte & 0x80U) != 0;
    if (masked != (role_ == websocket_role::server))
        return refuse(websocket_code::protocol_error, masked ? "frame of a server is masked" : "frame is not masked");
    left_ = byte & 0x7FU;
    if (in_control()) {
        if (left_ > websocket_control_bytes_max)
            return refuse(websocket_code::protocol_error, "control frame of more than 125 bytes");
        if (opcode_ == websocket_opcode::close && left_ == 1)
            return refuse(websocket_code::protocol_error, "close frame of one byte");
        return length_known();
    }
    if (left_ <= 125) return length_known();
    long_length_ = left_ == 127;
    count_ = long_length_ ? 8 : 2;
    left_ = 0;
    state_ = state::length;
    return true;
}

bool websocket_reader::take_length(std::uint8_t byte) noexcept {
    if (long_length_ && count_ == 8 && byte >= 0x80)
        return refuse(websocket_code::protocol_error, "length of 2^63 or more");
    left_ = left_ << 8U | byte;
    if (--count_ != 0) return true;
    if (left_ < (long_length_ ? 65536U : 126U))
        return refuse(websocket_code::protocol_error, "length not in its shortest form");
    return length_known();
}

bool websocket_reader::length_known() noexcept {
    if (!in_control() && (left_ > limits_.frame_bytes_max || left_ > limits_.message_bytes_max - message_bytes_))
        return refuse(websocket_code::message_too_big, "message too big");
    count_ = phase_ = 0;
    state_ = role_ == websocket_role::server ? state::key : state::payload;
    return true;
}

bool websocket_reader::take_payload(std::span<char> bytes) noexcept {
    const auto run = static_cast<std::size_t>(std::min<std::uint64_t>(left_, bytes.size() - read_));
    if (run == 0) return true;
    if (held() == 0) write_ = read_;  // nothing to stand behind: it stays where it came
    const std::span<char> piece = bytes.subspan(write_, run);
    if (write_ != read_) std::memmove(piece.data(), bytes.data() + read_, run);
    if (role_ == websocket_role::server) {
        mask_websocket_bytes(piece, key_, phase_);
        phase_ = static_cast<std::uint8_t>((phase_ + run) % 4);
    }
    read_ += run;
    write_ += run;
    left_ -= run;
    if (in_control()) {
        control_bytes_ = static_cast<std::uint8_t>(control_bytes_ + run);
        return true;
    }
    message_bytes_ += run;
    if (is_text() && !deflated_ && !utf8_.take({piece.data(), run}))
        return refuse(websocket_code::not_utf8, "text is not UTF-8");
    return true;
}

bool websocket_reader::inflate(std::string_view payload) noexcept {
    switch (deflater_->inflate(payload, limits_.message_bytes_max)) {
        case websocket_deflater::outcome::too_big: return refuse(websocket_code::message_too_big, "message too big");
        case websocket_deflater::outcome::corrupt: return refuse(websocket_code::not_utf8, "message does not inflate");
        default:
            if (is_text() && !utf8_.take(deflater_->message()))
                return refuse(websocket_code::not_utf8, "text is not UTF-8");
            return true;
    }
}

websocket_reader::event websocket_reader::end_frame(std::span<const char> bytes) noexcept {
    state_ = state::opcode;
    switch (opcode_) {
        case websocket_opcode::ping: return event::ping;
        case websocket_opcode::pong: return event::pong;
        case websocket_opcode::close: return end_close(bytes);
        default:
            if (!last_) return event::need_more;
            if (deflated_ && !inflate({bytes.data() + write_ - message_bytes_, message_bytes_}))
                return event::need_more;
            if (is_text() && !utf8_.whole()) {
                (void)refuse(websocket_code::not_utf8, "text ends within a character");
                return event::need_more;
            }
            within_message_ = false;
            return event::message;
    }
}

websocket_reader::event websocket_reader::end_close(std::span<const char> bytes) noexcept {
    close_code_ = websocket_code::none;
    if (control_bytes_ != 0) {
        const char* const body = bytes.data() + write_ - control_bytes_;
        close_code_ =
            static_cast<std::uint16_t>(static_cast<std::uint8_t>(body[0]) << 8U | static_cast<std::uint8_t>(body[1]));
        if (!is_websocket_close_code(close_code_)) {
            (void)refuse(websocket_code::protocol_error, "close code that must not be sent");
            return event::need_more;
        }
        utf8_checker reason;
        if (!reason.take({body + 2, control_bytes_ - 2U}) || !reason.whole()) {
            (void)refuse(websocket_code::not_utf8, "close reason is not UTF-8");
            return event::need_more;
        }
    }
    state_ = state::closed;
    return event::close;
}

}  // namespace holdfast::net
