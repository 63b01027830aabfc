// SPDX-License-Identifier: Apache-2.0
// shared_copy.hpp - copies between private memory and bytes that another process may be writing or reading meanwhile,
// at the speed of memcpy, for bytes that a version checked afterwards decides about.
//
// A copy may be a mix of old and new bytes, also within a word: a number that must be whole in itself is loaded and
// stored by shared_bytes.hpp. The order of the parts is nobody's promise, only that all of them lie before what the
// caller loads or stores behind a fence.
//
// Atomic words of 8 bytes, which no compiler joins into wider ones, are a quarter of what a core can do. So on x86-64
// bytes go through vector registers by instructions that the compiler does not look into: a race with a writer is no
// matter of the language, as it is none of the processor. Vector loads are ordered among each other and before the
// later load of the version like all loads, and vector stores among each other and before the later store of the commit
// like all stores. Few instructions and no loop below 129 bytes: first and last part overlap, so some bytes may be
// copied twice. Elsewhere, and under sanitizers, which cannot look into the instructions either, atomic words do it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

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
/// One unaligned word of that type.
template <class T>
inline void copy_opaque_word(std::byte* to, const std::byte* from) noexcept {
    T word;
    asm volatile("mov (%1), %0\n\tmov %0, (%2)" : "=&r"(word) : "r"(from), "r"(to) : "memory");
}

// The form without VEX would cost a dependency on the upper halves where the surrounding code uses AVX.
#if defined(__AVX__)
#define HOLDFAST_MOVE "vmovups "
#else
#define HOLDFAST_MOVE "movups "
#endif
inline void copy_opaque_16(std::byte* to, const std::byte* from) noexcept {
    asm volatile(HOLDFAST_MOVE "(%0), %%xmm0\n\t" HOLDFAST_MOVE "%%xmm0, (%1)"
                 :
                 : "r"(from), "r"(to)
                 : "xmm0", "memory");
}
inline void copy_opaque_32(std::byte* to, const std::byte* from) noexcept {
    asm volatile(HOLDFAST_MOVE "(%0), %%xmm0\n\t" HOLDFAST_MOVE "16(%0), %%xmm1\n\t" HOLDFAST_MOVE
                               "%%xmm0, (%1)\n\t" HOLDFAST_MOVE "%%xmm1, 16(%1)"
                 :
                 : "r"(from), "r"(to)
                 : "xmm0", "xmm1", "memory");
}
inline void copy_opaque_64(std::byte* to, const std::byte* from) noexcept {
    asm volatile(HOLDFAST_MOVE "(%0), %%xmm0\n\t" HOLDFAST_MOVE "16(%0), %%xmm1\n\t" HOLDFAST_MOVE
                               "32(%0), %%xmm2\n\t" HOLDFAST_MOVE "48(%0), %%xmm3\n\t" HOLDFAST_MOVE
                               "%%xmm0, (%1)\n\t" HOLDFAST_MOVE "%%xmm1, 16(%1)\n\t" HOLDFAST_MOVE
                               "%%xmm2, 32(%1)\n\t" HOLDFAST_MOVE "%%xmm3, 48(%1)"
                 :
                 : "r"(from), "r"(to)
                 : "xmm0", "xmm1", "xmm2", "xmm3", "memory");
}
#undef HOLDFAST_MOVE

/// Requires: AVX; bytes >= 128. Registers of 32 bytes, whatever the rest of the program is compiled for; the upper
/// halves of all are cleaned at the end, so all are said to change: the optimiser may know of a caller that uses them.
inline void copy_opaque_by_32(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
    const std::byte* const last_from = from + bytes - 128;
    std::byte* const last_to = to + bytes - 128;
    // Blocks of 128 bytes from the front, then the last 128, which may overlap them.
    asm volatile(
        "jmp 2f\n"
        "1:\tvmovups (%0), %%ymm0\n\tvmovups 32(%0), %%ymm1\n\tvmovups 64(%0), %%ymm2\n\tvmovups 96(%0), %%ymm3\n\t"
        "vmovups %%ymm0, (%1)\n\tvmovups %%ymm1, 32(%1)\n\tvmovups %%ymm2, 64(%1)\n\tvmovups %%ymm3, 96(%1)\n\t"
        "sub $-128, %0\n\tsub $-128, %1\n"
        "2:\tcmp %2, %0\n\tjb 1b\n\t"
        "vmovups (%2), %%ymm0\n\tvmovups 32(%2), %%ymm1\n\tvmovups 64(%2), %%ymm2\n\tvmovups 96(%2), %%ymm3\n\t"
        "vmovups %%ymm0, (%3)\n\tvmovups %%ymm1, 32(%3)\n\tvmovups %%ymm2, 64(%3)\n\tvmovups %%ymm3, 96(%3)\n\t"
        "vzeroupper"
        : "+&r"(from), "+&r"(to)
        : "r"(last_from), "r"(last_to)
        : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12",
          "xmm13", "xmm14", "xmm15", "memory", "cc");
}

[[gnu::noinline]] inline void copy_opaque_long(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
    if (bytes >= 256 && __builtin_cpu_supports("avx")) return copy_opaque_by_32(to, from, bytes);
    for (; bytes > 64; bytes -= 64, to += 64, from += 64) copy_opaque_64(to, from);
    copy_opaque_64(to + bytes - 64, from + bytes - 64);  // overlaps: at least 64 bytes were there
}

// Always in place: as a call, which g++ 12 makes of it where there are many, 16 bytes take 54 instead of 41
// instructions (a snapshot's read).
[[gnu::always_inline]] inline void copy_opaque(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
    if (bytes > 128) return copy_opaque_long(to, from, bytes);
    if (bytes > 64) {
        copy_opaque_64(to, from);
        copy_opaque_64(to + bytes - 64, from + bytes - 64);
    } else if (bytes > 32) {
        copy_opaque_32(to, from);
        copy_opaque_32(to + bytes - 32, from + bytes - 32);
    } else if (bytes > 16) {
        copy_opaque_16(to, from);
        copy_opaque_16(to + bytes - 16, from + bytes - 16);
    } else if (bytes >= 8) {
        copy_opaque_word<std::uint64_t>(to, from);
        copy_opaque_word<std::uint64_t>(to + bytes - 8, from + bytes - 8);
    } else if (bytes >= 4) {
        copy_opaque_word<std::uint32_t>(to, from);
        copy_opaque_word<std::uint32_t>(to + bytes - 4, from + bytes - 4);
    } else {
        for (; bytes != 0; --bytes) copy_opaque_word<std::uint8_t>(to + bytes - 1, from + bytes - 1);
    }
}

/// memcpy from shared to private memory. The result may be any mix of what was there meanwhile.
inline void copy_from_shared(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
    copy_opaque(to, from, bytes);
}
/// memcpy from private to shared memory. Who looks meanwhile may see any mix of before and after, and bytes of `to` may
/// be stored twice.
inline void copy_to_shared(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
    copy_opaque(to, from, bytes);
}
#else
/// Bytes before `address` is 8-byte aligned.
[[nodiscard]] inline std::size_t bytes_to_word(const std::byte* address) noexcept {
    return static_cast<std::size_t>(-reinterpret_cast<std::uintptr_t>(address)) & 7U;
}

/// memcpy from shared to private memory. The result may be any mix of what was there meanwhile.
inline void copy_from_shared(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
    std::size_t i = 0;
    const std::size_t head = bytes_to_word(from);
    for (; i < head && i < bytes; ++i) to[i] = static_cast<std::byte>(shared_load<unsigned char>(from + i));
    for (; i + 8 <= bytes; i += 8) {
        const auto word = shared_load<std::uint64_t>(from + i);
        std::memcpy(to + i, &word, 8);
    }
    for (; i < bytes; ++i) to[i] = static_cast<std::byte>(shared_load<unsigned char>(from + i));
}
/// memcpy from private to shared memory. Who looks meanwhile may see any mix of before and after.
inline void copy_to_shared(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
    std::size_t i = 0;
    const std::size_t head = bytes_to_word(to);
    for (; i < head && i < bytes; ++i) shared_store(to + i, static_cast<unsigned char>(from[i]));
    for (; i + 8 <= bytes; i += 8) {
        std::uint64_t word;
        std::memcpy(&word, from + i, 8);
        shared_store(to + i, word);
    }
    for (; i < bytes; ++i) shared_store(to + i, static_cast<unsigned char>(from[i]));
}
#endif

/// From shared to private memory, a number of bytes that the compiler knows: a few loads that stay in registers, where
/// few words hold them and `from` is aligned for those.
template <std::size_t Bytes>
inline void copy_from_shared(std::byte* to, const std::byte* from) noexcept {
    // The widest word that so many bytes are a multiple of.
    using word =
        std::conditional_t<Bytes % 8 == 0, std::uint64_t,
                           std::conditional_t<Bytes % 4 == 0, std::uint32_t,
                                              std::conditional_t<Bytes % 2 == 0, std::uint16_t, unsigned char>>>;
    constexpr std::size_t words_max = 8;
    if (Bytes > words_max * sizeof(word) || reinterpret_cast<std::uintptr_t>(from) % sizeof(word) != 0)
        return copy_from_shared(to, from, Bytes);
    for (std::size_t i = 0; i < Bytes; i += sizeof(word)) {
        const word w = shared_load<word>(from + i);
        std::memcpy(to + i, &w, sizeof w);
    }
}

/// Runs take(part, offset) over private copies of parts of shared bytes, in order: for who stores them elsewhere by
/// means that want private ones.
template <class Take>
inline void for_each_private_part(std::span<const std::byte> shared, Take&& take) {
    std::byte part[512];
    for (std::size_t at = 0; at < shared.size(); at += sizeof part) {
        const std::size_t bytes = std::min(sizeof part, shared.size() - at);
        copy_from_shared(part, shared.data() + at, bytes);
        take(std::span<const std::byte>(part, bytes), at);
    }
}

}  // namespace holdfast::detail

#undef HOLDFAST_WORDS_ONLY
