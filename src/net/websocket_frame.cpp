// SPDX-License-Identifier: Apache-2.0
#include "holdfast/net/websocket_frame.hpp"

#include <sys/random.h>

#include <algorithm>
#include <cstring>

#include "holdfast/error.hpp"

namespace holdfast::net {

bool is_websocket_close_code(std::uint16_t code) noexcept {
    return (code >= 1000 && code <= 1003) || (code >= 1007 && code <= 1014) || (code >= 3000 && code <= 4999);
}

void mask_websocket_bytes(std::span<char> bytes, const websocket_key& key, std::size_t phase) noexcept {
    std::array<char, 8> pattern;
    for (std::size_t i = 0; i < pattern.size(); ++i) pattern[i] = static_cast<char>(key[(phase + i) % 4]);
    std::uint64_t word;
    std::memcpy(&word, pattern.data(), 8);
    std::size_t at = 0;
    for (; bytes.size() - at >= 8; at += 8) {  // compilers make vectors of this
        std::uint64_t eight;
        std::memcpy(&eight, bytes.data() + at, 8);
        eight ^= word;
        std::memcpy(bytes.data() + at, &eight, 8);
    }
    for (std::size_t i = 0; at < bytes.size(); ++at, ++i) bytes[at] = static_cast<char>(bytes[at] ^ pattern[i]);
}

void append_websocket_frame(std::string& out, websocket_opcode opcode, bool last, std::string_view payload,
                            const websocket_key* key, bool deflated) {
    std::array<char, websocket_header_bytes_max> header;
    std::size_t size = 0;
    const auto put = [&](std::uint64_t byte) { header[size++] = static_cast<char>(byte & 0xFFU); };
    const auto put_length = [&](unsigned bytes) {
        for (unsigned shift = 8 * bytes; shift != 0; shift -= 8) put(std::uint64_t{payload.size()} >> (shift - 8));
    };
    const unsigned masked = key != nullptr ? 0x80U : 0;
    put((last ? 0x80U : 0) | (deflated ? 0x40U : 0) | static_cast<unsigned>(opcode));
    if (payload.size() <= 125) {
        put(masked | payload.size());
    } else if (payload.size() <= 0xFFFF) {
        put(masked | 126U);
        put_length(2);
    } else {
        put(masked | 127U);
        put_length(8);
    }
    if (key != nullptr)
        for (const std::uint8_t byte : *key) put(byte);
    const std::size_t whole = out.size() + size + payload.size();  // a frame is appended whole or, out of memory, not
    if (out.capacity() < whole) out.reserve(std::max(whole, 2 * out.capacity()));
    out.append(header.data(), size);
    out.append(payload);
    if (key != nullptr) mask_websocket_bytes(std::span(out).last(payload.size()), *key);
}

websocket_key websocket_key_source::next() {
    if (left_ == 0) {
        // Up to 256 bytes are given whole or not at all, and no signal interrupts.
        if (::getrandom(keys_.data(), sizeof keys_, 0) != static_cast<ssize_t>(sizeof keys_))
            throw error(errc::io, "WebSocket masking keys", "the kernel gave no random bytes; try again");
        left_ = keys_.size();
    }
    return keys_[--left_];
}

std::array<std::uint8_t, 16> websocket_key_source::next_nonce() {
    std::array<std::uint8_t, 16> nonce;
    for (std::size_t at = 0; at < nonce.size(); at += 4) std::ranges::copy(next(), nonce.begin() + at);
    return nonce;
}

}  // namespace holdfast::net
