// SPDX-License-Identifier: Apache-2.0
#include "holdfast/net/utf8_checker.hpp"

#include <cstddef>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>

#include <bit>
#endif

namespace holdfast::net {

namespace {

// First position in [from, size) whose byte is not ASCII; else size.
std::size_t skip_ascii(std::string_view bytes, std::size_t from) noexcept {
#if defined(__SSE2__)
    for (; bytes.size() - from >= 16; from += 16) {
        const __m128i block = _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes.data() + from));
        if (const auto mask = static_cast<unsigned>(_mm_movemask_epi8(block)); mask != 0)
            return from + static_cast<std::size_t>(std::countr_zero(mask));
    }
#else
    for (; bytes.size() - from >= 8; from += 8) {
        std::uint64_t block;
        std::memcpy(&block, bytes.data() + from, 8);
        if ((block & 0x8080808080808080U) != 0) break;
    }
#endif
    while (from < bytes.size() && static_cast<unsigned char>(bytes[from]) < 0x80) ++from;
    return from;
}

}  // namespace

bool utf8_checker::take(std::string_view bytes) noexcept {
    std::uint8_t more = more_, low = low_, high = high_;
    bool good = true;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        if (more == 0) {
            i = skip_ascii(bytes, i);
            if (i == bytes.size()) break;
            const auto lead = static_cast<unsigned char>(bytes[i]);
            // C0 and C1 would be overlong, F5 and above lie beyond U+10FFFF, 80 to BF begin nothing.
            good = lead >= 0xC2 && lead <= 0xF4;
            if (!good) break;
            more = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : 1;
            if (lead == 0xE0) low = 0xA0;   // below: overlong
            if (lead == 0xED) high = 0x9F;  // above: surrogates
            if (lead == 0xF0) low = 0x90;   // below: overlong
            if (lead == 0xF4) high = 0x8F;  // above: beyond U+10FFFF
        } else {
            const auto byte = static_cast<unsigned char>(bytes[i]);
            good = byte >= low && byte <= high;
            if (!good) break;
            --more;
            low = 0x80;
            high = 0xBF;
        }
    }
    more_ = good ? more : std::uint8_t{1};
    low_ = good ? low : std::uint8_t{0xFF};
    high_ = good ? high : std::uint8_t{0};
    return good;
}

}  // namespace holdfast::net
