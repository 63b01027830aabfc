// SPDX-License-Identifier: Apache-2.0
// websocket_deflater.hpp - messages of WebSocket deflated and inflated one by one, for permessage-deflate.
//
// (I1) Each message is a stream of its own ("no context takeover", both ways): nothing of one is kept for the next. So
//      one deflater serves all connections of a loop, and a connection has no window.
// (I2) What a message inflates to never takes more memory than it may have bytes, and 32 KiB.
// (I3) Verdicts depend on the message alone, but for want of memory, which is called too big.
// It is made by the first connection that agreed on compression; its parts by the first message that needs them: some
// 40 KB to inflate, 260 KB to deflate (for each size of window that a client demands, 1.2 MB for all seven), and two
// buffers of 32 KiB. Larger ones go with their message.
// Source:  RFC 7692 section 7.2; RFC 1951; zlib does the work.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

namespace holdfast::net {

/// Threads: one at a time.
class websocket_deflater {
 public:
    /// Throws: error(unsupported) in a build without zlib (-DHOLDFAST_NET_DEFLATE=OFF); std::bad_alloc.
    websocket_deflater();
    websocket_deflater(const websocket_deflater&) = delete;
    websocket_deflater& operator=(const websocket_deflater&) = delete;
    ~websocket_deflater();

    enum class outcome : std::uint8_t { ok, corrupt, too_big };

    /// Inflates the payload of all frames of a message. A payload of no bytes is an empty message.
    ///
    /// Returns: ok: message() is what it says. corrupt: with 00 00 FF FF behind it, it is no series of whole blocks.
    /// too_big: more than `bytes_max` bytes, or more than there is memory for.
    /// Cost: up to 1032 bytes for each byte of payload; some 64 KiB are cleared or copied for small ones.
    [[nodiscard]] outcome inflate(std::string_view payload, std::size_t bytes_max) noexcept;

    /// Behind ok: until the next inflate() or forget().
    [[nodiscard]] std::string_view message() const noexcept;
    /// Gives back the memory of a large message.
    void forget() noexcept;

    /// Deflates a message, so that distances stay below 2^window_bits. Requires: 9 to 15.
    ///
    /// Returns: the payload of its frame, until the next deflate(). Empty: it would not be shorter, or there is no
    /// memory: send it as it is.
    [[nodiscard]] std::string_view deflate(std::string_view message, unsigned window_bits) noexcept;

 private:
    struct streams;

    std::unique_ptr<streams> streams_;
};

/// permessage-deflate as the opening handshake of a connection agreed on it.
struct websocket_deflate {
    websocket_deflater* deflater = nullptr;  ///< of the loop; outlives the session. None: nothing is compressed
    std::uint32_t bytes_min = 64;            ///< shorter messages are sent as they are
    std::uint8_t window_bits = 15;           ///< how far back the peer can look in what it inflates: 9 to 15
};

}  // namespace holdfast::net
