// SPDX-License-Identifier: Apache-2.0
// websocket_handshake.hpp - the opening handshake of WebSocket, both ends, without a connection.
//
// Server: a parsed request is judged; 101 is written or the refusal given as a response. Client: the request is
// written, the head of its answer is read. Extensions are checked for form and declined, but for permessage-deflate
// where that is asked for: it is agreed on without context takeover both ways, so that no end keeps a window for the
// other. Whether a page of that Origin may connect is not judged here: browsers let any page open a WebSocket anywhere,
// with the visitor's cookies, so a server that trusts those has to look at Origin itself.
// Source:  RFC 6455 sections 4 and 9.1, and its updates of the registries; RFC 7692 sections 5 and 7.1; RFC 9110
// sections 7.8 and 15.5.22.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/net/request.hpp"
#include "holdfast/net/response.hpp"
#include "holdfast/net/websocket_frame.hpp"

namespace holdfast::net {

/// What Sec-WebSocket-Accept has to say to a Sec-WebSocket-Key.
[[nodiscard]] std::array<char, 28> websocket_accept(std::string_view key) noexcept;

/// Whether a request asks to become a WebSocket connection (its Upgrade field names websocket). Others may be answered
/// as plain HTTP at the same path.
[[nodiscard]] bool asks_for_websocket(const request& asked) noexcept;

/// What a server makes of a request for WebSocket.
struct websocket_upgrade {
    int status = 101;           ///< 101, or the refusal's: 400, 405, 426
    std::string_view reason;    ///< of a refusal: fixed text, fit for the client
    std::string_view protocol;  ///< the subprotocol agreed on, one of ours; empty: none
    /// Of permessage-deflate: the window of what the server sends, 9 to 15 bits; 0: it is not agreed on.
    std::uint8_t window_bits = 0;
    bool window_bits_asked = false;  ///< the client demanded that, and has to be told
};

/// Judges a request for WebSocket. `protocols`: those spoken here; the first of the client's list that is among them is
/// agreed on, and none if there is none: whether to go on without is for the caller to say. `permessage_deflate`: the
/// first offer of it is agreed on that has each parameter once, knows no others, and asks for a window that zlib has.
///
/// Cost: linear in the fields; no allocation.
[[nodiscard]] websocket_upgrade judge_websocket_upgrade(const request& asked,
                                                        std::span<const std::string_view> protocols = {},
                                                        bool permessage_deflate = false) noexcept;

/// Appends the 101 that accepts a request. Requires: judged 101. Behind its last byte the connection speaks frames.
void append_websocket_accept(std::string& out, const request& asked, const websocket_upgrade& judged);

/// Makes the response of a refusal: a problem, with Upgrade and Sec-WebSocket-Version beside 426 and Allow beside 405.
void refuse_websocket(response& answer, const websocket_upgrade& judged);

/// A client's end of the handshake.
class websocket_opening {
 public:
    enum class status : std::uint8_t { need_more, complete, refused };

    struct options {
        std::string_view host;                          ///< as in the Host field, "example.org:8080"
        std::string_view target = "/";                  ///< path and query, encoded
        std::span<const std::string_view> protocols{};  ///< subprotocols, the most wanted first; each once
        std::span<const header_field> fields{};         ///< others to send: Origin, Cookie, Authorization
        std::size_t header_bytes_max = 16384;           ///< of the answer's head, with interim answers before it
        bool permessage_deflate = false;                ///< offers it, without context takeover both ways
    };

    /// Throws: error(invalid_argument) for a host, target, protocol or field that would not be a well-formed request,
    /// or a field that the handshake owns; what key sources throw.
    websocket_opening(websocket_key_source& keys, const options& chosen);

    /// What to send.
    [[nodiscard]] std::string_view request_bytes() const noexcept { return request_; }

    /// Reads the answer: `bytes` is all that has arrived since the request was sent.
    ///
    /// Returns: complete: frames begin at consumed(). refused: end the connection; code() and reason() tell why. The
    /// verdict depends on the bytes alone.
    [[nodiscard]] status read(std::string_view bytes);

    [[nodiscard]] std::size_t consumed() const noexcept { return consumed_; }
    /// The status code of the answer; 0 when no well-formed answer has come.
    [[nodiscard]] int code() const noexcept { return code_; }
    [[nodiscard]] std::string_view reason() const noexcept { return reason_; }
    /// The subprotocol the server chose; empty: none.
    [[nodiscard]] std::string_view protocol() const noexcept { return protocol_; }
    /// Whether the server agreed to deflate: make the session with a deflater, and its window of 15 bits.
    [[nodiscard]] bool permessage_deflate() const noexcept { return deflates_; }

 private:
    status read_head(std::string_view head);
    status refuse(std::string_view reason) noexcept;

    std::string request_;
    std::array<char, 28> accept_{};
    std::vector<std::string> protocols_;
    std::string protocol_;
    std::string_view reason_;
    std::size_t header_bytes_max_;
    std::size_t head_at_ = 0;   // behind the interim answers
    std::size_t scanned_ = 0;   // no empty line ends between there and here
    std::size_t consumed_ = 0;  // not 0: complete
    int code_ = 0;
    bool deflate_offered_;
    bool deflates_ = false;
};

}  // namespace holdfast::net
