// SPDX-License-Identifier: Apache-2.0
// websocket_frame.hpp - the words of WebSocket: roles, opcodes, close codes, limits; and frames as they are written.
//
// Layout of a frame (RFC 6455 section 5.2), big-endian
//   offset  bytes  field
//        0      1  0x80 last of its message, 0x40 deflated message (on its first frame, where that was agreed on),
//                  0x30 reserved and 0, 0x0F opcode
//        1      1  0x80 masked, 0x7F payload bytes up to 125; 126: the next 2 bytes tell, 127: the next 8
//        2      0, 2 or 8  payload bytes, in the shortest of the three forms
//        -      0 or 4     masking key: from clients always, from servers never
//        -      n  payload, byte i combined with byte i mod 4 of the key
// Source: RFC 6455, RFC 7692; the registry of close codes at IANA (1012 to 1014).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace holdfast::net {

/// Which end of the connection we are.
enum class websocket_role : std::uint8_t { server, client };

enum class websocket_opcode : std::uint8_t { continuation = 0, text = 1, binary = 2, close = 8, ping = 9, pong = 10 };

/// Bounds of what a peer may send; a breach is answered with close code 1009 before a byte of it is kept.
struct websocket_limits {
    std::size_t frame_bytes_max = 1U << 20U;    ///< payload of one data frame, as it comes
    std::size_t message_bytes_max = 1U << 20U;  ///< payload of all frames of one message together, as it comes; and of
                                                ///< a deflated one what it says

    friend bool operator==(const websocket_limits&, const websocket_limits&) = default;
};

/// Close codes that the protocol itself gives a meaning to.
namespace websocket_code {
inline constexpr std::uint16_t normal = 1000;
inline constexpr std::uint16_t going_away = 1001;
inline constexpr std::uint16_t protocol_error = 1002;
inline constexpr std::uint16_t unsupported_data = 1003;
inline constexpr std::uint16_t none = 1005;      ///< never on the wire: the peer's close frame told no code
inline constexpr std::uint16_t abnormal = 1006;  ///< never on the wire: the connection ended without a close frame
inline constexpr std::uint16_t not_utf8 = 1007;  ///< or a deflated message that does not inflate
inline constexpr std::uint16_t policy_violation = 1008;
inline constexpr std::uint16_t message_too_big = 1009;
inline constexpr std::uint16_t extension_missing = 1010;
inline constexpr std::uint16_t internal_error = 1011;
inline constexpr std::uint16_t service_restart = 1012;
inline constexpr std::uint16_t try_again_later = 1013;
inline constexpr std::uint16_t bad_gateway = 1014;
}  // namespace websocket_code

/// Whether a code may stand in a close frame: 1000 to 1003, 1007 to 1014, and 3000 to 4999 for libraries and users.
[[nodiscard]] bool is_websocket_close_code(std::uint16_t code) noexcept;

inline constexpr std::size_t websocket_header_bytes_max = 14;
inline constexpr std::size_t websocket_control_bytes_max = 125;       ///< payload of a close, ping or pong
inline constexpr std::size_t websocket_close_reason_bytes_max = 123;  ///< beside its code

using websocket_key = std::array<std::uint8_t, 4>;

/// Masks or unmasks bytes in place: byte i is combined with byte (phase + i) mod 4 of the key.
/// Cost: eight bytes and more at a time.
void mask_websocket_bytes(std::span<char> bytes, const websocket_key& key, std::size_t phase = 0) noexcept;

/// Appends a frame; `key`: masks it, as a client must.
///
/// A server's frame is the same for every client: what goes to many is made once. `deflated`: says so.
/// Requires: a payload of at most 125 bytes and `last` for close, ping and pong; `deflated` only of the first frame of
/// a message. Throws: std::bad_alloc.
void append_websocket_frame(std::string& out, websocket_opcode opcode, bool last, std::string_view payload,
                            const websocket_key* key = nullptr, bool deflated = false);

/// Masking keys nobody can predict, from the kernel, some dozens a system call. A loop has one for all its connections.
///
/// Threads: one at a time. After a fork, a child that goes on with its parent's repeats its keys: make a new one.
class websocket_key_source {
 public:
    /// Throws: error(io) when the kernel has no randomness to give.
    [[nodiscard]] websocket_key next();
    /// The 16 bytes an opening handshake asks for, taken the same way.
    [[nodiscard]] std::array<std::uint8_t, 16> next_nonce();

 private:
    std::array<websocket_key, 64> keys_{};
    std::size_t left_ = 0;
};

}  // namespace holdfast::net
