// SPDX-License-Identifier: Apache-2.0
// sha1.hpp - SHA-1, for the one thing that still asks for it: Sec-WebSocket-Accept.
//
// There it proves that the answer was made for this request and not replayed by a cache; nothing is kept safe by it
// (RFC 6455 section 10.8). Never use it where somebody could gain by a collision.
// Source: FIPS 180-4 sections 5.1.1, 6.1.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace holdfast::net::detail {

/// One block of 64 bytes into the state.
inline void sha1_block(std::array<std::uint32_t, 5>& state, const unsigned char* block) noexcept {
    std::array<std::uint32_t, 80> w;
    for (std::size_t t = 0; t < 16; ++t)
        w[t] = std::uint32_t{block[4 * t]} << 24U | std::uint32_t{block[4 * t + 1]} << 16U |
               std::uint32_t{block[4 * t + 2]} << 8U | block[4 * t + 3];
    for (std::size_t t = 16; t < 80; ++t) w[t] = std::rotl(w[t - 3] ^ w[t - 8] ^ w[t - 14] ^ w[t - 16], 1);
    auto [a, b, c, d, e] = state;
    for (std::size_t t = 0; t < 80; ++t) {
        const std::uint32_t f = t < 20   ? ((b & c) | (~b & d)) + 0x5A827999U
                                : t < 40 ? (b ^ c ^ d) + 0x6ED9EBA1U
                                : t < 60 ? ((b & c) | (b & d) | (c & d)) + 0x8F1BBCDCU
                                         : (b ^ c ^ d) + 0xCA62C1D6U;
        const std::uint32_t next = std::rotl(a, 5) + f + e + w[t];
        e = d;
        d = c;
        c = std::rotl(b, 30);
        b = a;
        a = next;
    }
    state[0] += a;
    state[1] += b;
    state[2] += c;
    state[3] += d;
    state[4] += e;
}

[[nodiscard]] inline std::array<std::uint8_t, 20> sha1(std::string_view message) noexcept {
    std::array<std::uint32_t, 5> state{0x67452301U, 0xEFCDAB89U, 0x98BADCFEU, 0x10325476U, 0xC3D2E1F0U};
    const auto* const bytes = reinterpret_cast<const unsigned char*>(message.data());
    std::size_t at = 0;
    for (; message.size() - at >= 64; at += 64) sha1_block(state, bytes + at);
    // What is left, a one bit, zeros, and the length in bits as the last eight bytes of a block.
    std::array<unsigned char, 128> tail{};
    const std::size_t left = message.size() - at;
    message.copy(reinterpret_cast<char*>(tail.data()), left, at);
    tail[left] = 0x80;
    const std::size_t end = left < 56 ? 64 : 128;
    const std::uint64_t bits = std::uint64_t{message.size()} * 8;
    for (std::size_t i = 0; i < 8; ++i) tail[end - 1 - i] = static_cast<unsigned char>(bits >> (8 * i));
    for (std::size_t block = 0; block < end; block += 64) sha1_block(state, tail.data() + block);
    std::array<std::uint8_t, 20> digest;
    for (std::size_t i = 0; i < digest.size(); ++i)
        digest[i] = static_cast<std::uint8_t>(state[i / 4] >> (24U - 8U * (i % 4)));
    return digest;
}

}  // namespace holdfast::net::detail
