// SPDX-License-Identifier: Apache-2.0
// websocket_reader.hpp - takes WebSocket frames off received bytes, in place and strictly. Needs no socket.
//
// (I1) The events, their payloads and the verdict depend on the bytes alone, never on how they were cut into calls.
// (I2) What breaks a rule is refused at the byte that settles it: a reserved bit, an unknown opcode, a wrong mask bit,
// a
//      length that is too great or not in its shortest form by the header; text that is not UTF-8 by its first wrong
//      byte, in whatever fragment. A deflated message is judged when it is whole: it says nothing before.
// (I3) Payload is unmasked where it lies. Only what follows an earlier fragment moves, to the left, over framing. Bytes
//      before the payload under way are never written again; bytes behind the frame under way are never touched.
// (I4) Memory: at most message_bytes_max + 125 bytes have to be kept between calls, whatever the peer sends. No
//      allocation ever, but in the deflater, which all connections of a loop share.
// A refusal is final, and behind a close frame nothing is read: it is dropped.
// Source:  RFC 6455 sections 5, 7 and 8.1; RFC 7692 section 7.2.2.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "holdfast/net/utf8_checker.hpp"
#include "holdfast/net/websocket_deflater.hpp"
#include "holdfast/net/websocket_frame.hpp"

namespace holdfast::net {

class websocket_reader {
 public:
    enum class event : std::uint8_t { need_more, message, ping, pong, close, refused };

    /// `deflater`: deflated messages may come; it has to outlive this.
    explicit websocket_reader(websocket_role role, const websocket_limits& limits = {},
                              websocket_deflater* deflater = nullptr) noexcept;

    /// Reads on, up to the next event. `bytes` begins with the kept() bytes of the last need_more, possibly at another
    /// address, and goes on with what has arrived since.
    ///
    /// Returns: need_more: everything is read; keep kept(bytes), append to exactly those, call again. message, ping,
    /// pong, close: payload(bytes) tells; then call again with the same bytes. refused: tell the peer refusal_code(),
    /// then end the connection. Cost: each byte is looked at once over all calls; no allocation. A deflated message is
    /// inflated when it is whole.
    [[nodiscard]] event next(std::span<char> bytes) noexcept;

    /// Behind need_more: the payload so far of what is under way, a part of the bytes that were read.
    [[nodiscard]] std::span<char> kept(std::span<char> bytes) const noexcept { return bytes.subspan(kept_at_, held()); }

    /// Behind need_more: how much payload the frame under way still has to bring, as its header says; 0 before that is
    /// read.
    [[nodiscard]] std::size_t awaited() const noexcept {
        return state_ == state::payload ? static_cast<std::size_t>(left_) : 0;
    }

    /// Behind an event with a payload: what it says (a close's reason, without its code), until the next call; of a
    /// deflated message until the next call to any reader with the same deflater.
    [[nodiscard]] std::string_view payload(std::span<const char> bytes) const noexcept;
    [[nodiscard]] websocket_deflater* deflater() const noexcept { return deflater_; }
    /// Behind message: whether it is text.
    [[nodiscard]] bool is_text() const noexcept { return message_opcode_ == websocket_opcode::text; }
    /// Whether a frame of a message has been read that is not its last: only a continuation may go on.
    [[nodiscard]] bool is_within_message() const noexcept { return within_message_; }
    /// Behind need_more: whether something has begun whose last byte is to come, a message or a control frame.
    [[nodiscard]] bool is_under_way() const noexcept { return within_message_ || state_ != state::opcode; }

    /// Behind close: the code it told, or 1005.
    [[nodiscard]] std::uint16_t close_code() const noexcept { return close_code_; }

    /// Behind refused: 1002, 1007 or 1009.
    [[nodiscard]] std::uint16_t refusal_code() const noexcept { return refusal_code_; }
    /// Why, in words fit for the peer: fixed text, short enough for a close frame.
    [[nodiscard]] std::string_view refusal_reason() const noexcept { return refusal_reason_; }

 private:
    enum class state : std::uint8_t { opcode, length_7, length, key, payload, closed, refused };

    [[nodiscard]] std::size_t held() const noexcept { return message_bytes_ + control_bytes_; }
    [[nodiscard]] bool in_control() const noexcept { return opcode_ >= websocket_opcode::close; }
    void forget_delivered() noexcept;
    event pause(std::size_t bytes) noexcept;
    bool step(std::uint8_t byte) noexcept;
    bool take_opcode(std::uint8_t byte) noexcept;
    bool take_length_7(std::uint8_t byte) noexcept;
    bool take_length(std::uint8_t byte) noexcept;
    bool length_known() noexcept;
    bool take_payload(std::span<char> bytes) noexcept;
    bool inflate(std::string_view payload) noexcept;
    event end_frame(std::span<const char> bytes) noexcept;
    event end_close(std::span<const char> bytes) noexcept;
    bool refuse(std::uint16_t code, std::string_view reason) noexcept;

    websocket_limits limits_;
    std::size_t read_ = 0;   // everything before it has been judged
    std::size_t write_ = 0;  // end of the payload held, which is that of the message and then of a control frame
    std::size_t message_bytes_ = 0;  // held of the message under way or delivered; <= limits_.message_bytes_max
    std::size_t kept_at_ = 0;
    std::uint64_t left_ = 0;  // of the frame's payload; while a length is read, the length so far
    std::string_view refusal_reason_;
    websocket_deflater* deflater_;
    websocket_key key_{};
    std::uint16_t close_code_ = 0;
    std::uint16_t refusal_code_ = 0;
    utf8_checker utf8_;
    websocket_role role_;
    websocket_opcode opcode_ = websocket_opcode::continuation;          // of the frame under way
    websocket_opcode message_opcode_ = websocket_opcode::continuation;  // of the message under way or delivered
    std::uint8_t control_bytes_ = 0;                                    // held of the control frame
    std::uint8_t count_ = 0;                                            // length bytes still to come; key bytes read
    std::uint8_t phase_ = 0;                                            // of the key, for the next payload byte
    bool long_length_ = false;                                          // the length has eight bytes
    bool last_ = false;                                                 // the frame under way ends its message
    bool within_message_ = false;                                       // only a continuation may go on
    bool deflated_ = false;                                             // the message under way or delivered
    event delivered_ = event::need_more;                                // what payload() speaks of
    state state_ = state::opcode;
};

static_assert(sizeof(websocket_reader) <= 112, "one a connection, most of them idle");

}  // namespace holdfast::net
