// SPDX-License-Identifier: Apache-2.0
// websocket_session.hpp - one end of a WebSocket connection behind its opening handshake, without the connection.
//
// It reads frames (websocket_reader.hpp), answers pings and the peer's close, appends what is to be sent to a buffer of
// its user's, and knows where the closing stands:
//
//   we closed  peer closed  may_send  done  then
//   no         no           yes       no
//   yes        no           no        no    wait for the peer's close; its messages still arrive
//   yes        yes          no        yes   send what is left; a server ends the connection, a client waits for that
//   yes        refused      no        yes   the same: the peer was told why, nothing more is read; also by refuse()
//   -          lost         no        yes   nothing is left to do
//
// (I1) Behind our close frame nothing is ever appended; behind the peer's, nothing is read.
// (I2) A ping is answered at once, if our close is not out: what is appended so is bounded by what was read (three
// bytes
//      for one, for a client; less than one for one, for a server). Who stops reading while output waits is safe.
// (I3) Whatever is sent obeys the rules that are enforced on what is received.
// (I4) Where deflating was agreed on, a message that is sent whole and gets shorter by it is sent deflated.
// Source:  RFC 6455 sections 5.4, 5.5 and 7; RFC 7692 section 7.2.1.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "holdfast/net/utf8_checker.hpp"
#include "holdfast/net/websocket_deflater.hpp"
#include "holdfast/net/websocket_frame.hpp"
#include "holdfast/net/websocket_reader.hpp"

namespace holdfast::net {

/// What became of something to be sent. Only `ok` appended bytes.
enum class websocket_sent : std::uint8_t {
    ok,
    closing,       ///< our close frame is out, or the connection is lost
    not_utf8,      ///< text or reason is not UTF-8; a text whose last piece ends within a character, too
    out_of_order,  ///< a piece of another kind than the message it would go on with
    too_long,      ///< a ping or pong of more than 125 bytes, a reason of more than 123
    bad_code       ///< no code for a close frame, or a reason without a code
};

/// Threads: one at a time.
class websocket_session {
 public:
    /// refused: the peer broke a rule; it has been told, and code() says how.
    using event = websocket_reader::event;

    /// A server's end. `deflate`: what the handshake agreed on.
    explicit websocket_session(const websocket_limits& limits = {}, const websocket_deflate& deflate = {}) noexcept
        : reader_(websocket_role::server, limits, deflate.deflater),
          window_bits_(deflate.window_bits),
          deflate_bytes_min_(deflate.bytes_min) {}
    /// A client's end. `keys` has to outlive it.
    websocket_session(websocket_key_source& keys, const websocket_limits& limits = {},
                      const websocket_deflate& deflate = {}) noexcept
        : reader_(websocket_role::client, limits, deflate.deflater),
          keys_(&keys),
          window_bits_(deflate.window_bits),
          deflate_bytes_min_(deflate.bytes_min) {}

    /// Reads on, as websocket_reader::next does, and appends the answers that the protocol owes to `out`.
    ///
    /// Returns: message, ping, pong: payload(bytes) tells, call again. close, refused: once; from then on need_more,
    /// and bytes are dropped. Throws: std::bad_alloc, and what key sources throw.
    [[nodiscard]] event next(std::span<char> bytes, std::string& out);
    [[nodiscard]] std::span<char> kept(std::span<char> bytes) const noexcept;
    /// As websocket_reader::awaited() has it.
    [[nodiscard]] std::size_t awaited() const noexcept { return input_ == input::open ? reader_.awaited() : 0; }
    [[nodiscard]] std::string_view payload(std::span<const char> bytes) const noexcept {
        return reader_.payload(bytes);
    }
    [[nodiscard]] bool is_text() const noexcept { return reader_.is_text(); }
    /// As websocket_reader::is_within_message() has it.
    [[nodiscard]] bool is_within_message() const noexcept { return reader_.is_within_message(); }
    /// As websocket_reader::is_under_way() has it.
    [[nodiscard]] bool is_under_way() const noexcept { return reader_.is_under_way(); }

    /// Appends a message, or a piece of one: the first pieces with `last` false, all with the same `text`. Pieces are
    /// sent as they are, and so is a message where `as_it_is` asks for it. (I4)
    [[nodiscard]] websocket_sent send(std::string& out, bool text, std::string_view payload, bool last = true,
                                      bool as_it_is = false);
    [[nodiscard]] websocket_sent ping(std::string& out, std::string_view payload = {});
    /// A pong nobody asked for, as a sign of life.
    [[nodiscard]] websocket_sent pong(std::string& out, std::string_view payload = {});
    /// Appends a close frame; `code` 1005 sends none. Between the pieces of a message too: the rest of it is not sent.
    [[nodiscard]] websocket_sent close(std::string& out, std::uint16_t code = websocket_code::normal,
                                       std::string_view reason = {});

    /// The peer broke a rule that no frame shows, of time say: closes for it, as close() does, and reads nothing more.
    [[nodiscard]] websocket_sent refuse(std::string& out, std::uint16_t code, std::string_view reason = {});

    /// The connection is gone, in whatever way. Without a close frame from the peer the code is 1006.
    void lost() noexcept;

    [[nodiscard]] bool may_send() const noexcept { return !close_sent_ && input_ != input::lost; }
    /// Whether nothing more will be read or appended.
    [[nodiscard]] bool done() const noexcept { return input_ == input::lost || (close_sent_ && input_ != input::open); }
    /// Whether both sides closed by the rules.
    [[nodiscard]] bool clean() const noexcept { return close_sent_ && clean_; }
    /// How it ended: the peer's close code or 1005, ours where the peer broke a rule, 1006 where the connection was
    /// lost before. 0 as long as neither happened.
    [[nodiscard]] std::uint16_t code() const noexcept { return code_; }

 private:
    enum class input : std::uint8_t { open, ended, lost };

    void append(std::string& out, websocket_opcode opcode, bool last, std::string_view payload, bool deflated = false);
    void append_close(std::string& out, std::uint16_t code, std::string_view reason);
    websocket_sent send_control(std::string& out, websocket_opcode opcode, std::string_view payload);

    websocket_reader reader_;
    websocket_key_source* keys_ = nullptr;  // of a client
    utf8_checker sent_utf8_;
    std::uint16_t code_ = 0;
    websocket_opcode sending_ = websocket_opcode::continuation;  // kind of the message under way; else continuation
    input input_ = input::open;
    bool close_sent_ = false;
    bool clean_ = false;        // the peer's close frame came
    std::uint8_t window_bits_;  // where there is a deflater, as is what follows
    std::uint32_t deflate_bytes_min_;
};

static_assert(sizeof(websocket_session) <= 128, "one a connection, most of them idle");

}  // namespace holdfast::net
