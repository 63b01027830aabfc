// SPDX-License-Identifier: Apache-2.0
// shared_copy.hpp - copies out of shared memory at the speed of memcpy, for bytes that a version checked afterwards
// decides about.
//
// shared_bytes.hpp copies by atomic words of 8 bytes, which no compiler joins into wider ones: a quarter of what a core
// can do. Here 64 bytes go through vector registers by instructions that the compiler does not look into, so a race
// with a writer is no matter of the language, as it is none of the processor: the copy may be a mix, also within 16
// bytes, and the caller finds out. On x86-64 vector loads are ordered among each other and before the later load of the
// version like all loads. Elsewhere, and under sanitizers, which cannot look into the instructions either, the words of
// shared_bytes.hpp do it.
#pragma once

#include <cstddef>

#include "holdfast/detail/shared_bytes.hpp"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HOLDFAST_WORDS_ONLY 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define HOLDFAST_WORDS_ONLY 1
#endif
#endif

namespace holdfast::detail {

#if defined(__x86_64__) && !defined(HOLDFAST_WORDS_ONLY)
// The form without VEX would cost a dependency on the upper halves where the surrounding code uses AVX.
#if defined(__AVX__)
#define HOLDFAST_MOVE "vmovups "
#else
#define HOLDFAST_MOVE "movups "
#endif
inline void copy_16_from_shared(std::byte* to, const std::byte* from) noexcept {
    asm volatile(HOLDFAST_MOVE "(%0), %%xmm0\n\t" HOLDFAST_MOVE "%%xmm0, (%1)"
                 :
                 : "r"(from), "r"(to)
                 : "xmm0", "memory");
}
inline void copy_64_from_shared(std::byte* to, const std::byte* from) noexcept {
    asm volatile(HOLDFAST_MOVE "(%0), %%xmm0\n\t" HOLDFAST_MOVE "16(%0), %%xmm1\n\t" HOLDFAST_MOVE
                               "32(%0), %%xmm2\n\t" HOLDFAST_MOVE "48(%0), %%xmm3\n\t" HOLDFAST_MOVE
                               "%%xmm0, (%1)\n\t" HOLDFAST_MOVE "%%xmm1, 16(%1)\n\t" HOLDFAST_MOVE
                               "%%xmm2, 32(%1)\n\t" HOLDFAST_MOVE "%%xmm3, 48(%1)"
                 :
                 : "r"(from), "r"(to)
                 : "xmm0", "xmm1", "xmm2", "xmm3", "memory");
}
#undef HOLDFAST_MOVE

/// memcpy from shared to private memory. The result may be any mix of what was there meanwhile.
inline void copy_mix_from_shared(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
    if (bytes < 16) return copy_from_shared(to, from, bytes);
    for (; bytes >= 64; bytes -= 64, to += 64, from += 64) copy_64_from_shared(to, from);
    // Few instructions, so that copies out of memory that is far away overlap: the last 16 bytes may be copied twice.
    for (; bytes >= 16; bytes -= 16, to += 16, from += 16) copy_16_from_shared(to, from);
    if (bytes != 0) copy_16_from_shared(to + bytes - 16, from + bytes - 16);
}
#else
/// memcpy from shared to private memory. The result may be any mix of what was there meanwhile.
inline void copy_mix_from_shared(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
    copy_from_shared(to, from, bytes);
}
#endif

}  // namespace holdfast::detail

#undef HOLDFAST_WORDS_ONLY
