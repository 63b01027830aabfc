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
// like all stores (but for those past the caches, which have a fence of their own). Few instructions and no loop from 8
// to 128 bytes: first and last part overlap, so some bytes may be copied twice. Elsewhere, and under sanitizers, which
// cannot look into the instructions either, atomic words do it.
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
using opaque_register [[gnu::vector_size(16)]] = unsigned char;

// The form without VEX would cost a dependency on the upper halves where the surrounding code uses AVX.
#if defined(__AVX__)
#define HOLDFAST_MOVE "vmovups "
#else
#define HOLDFAST_MOVE "movups "
#endif
/// So many bytes in memory, as an operand of an instruction: the compiler then folds their address into it.
template <std::size_t Bytes>
struct opaque_bytes {
    std::byte at[Bytes];
};

/// One word or register of that type, loaded or stored by an instruction that moves it.
template <class T>
[[nodiscard, gnu::always_inline]] inline T load_opaque(const std::byte* from) noexcept {
    const auto& shared = *reinterpret_cast<const opaque_bytes<sizeof(T)>*>(from);
    T word;
    if constexpr (sizeof(T) == 16)
        asm volatile(HOLDFAST_MOVE "%1, %0" : "=x"(word) : "m"(shared) : "memory");
    else if constexpr (sizeof(T) == 1)
        asm volatile("mov %1, %0" : "=q"(word) : "m"(shared) : "memory");
    else
        asm volatile("mov %1, %0" : "=r"(word) : "m"(shared) : "memory");
    return word;
}
template <class T>
[[gnu::always_inline]] inline void store_opaque(std::byte* to, T word) noexcept {
    auto& shared = *reinterpret_cast<opaque_bytes<sizeof(T)>*>(to);
    if constexpr (sizeof(T) == 16)
        asm volatile(HOLDFAST_MOVE "%1, %0" : "=m"(shared) : "x"(word) : "memory");
    else if constexpr (sizeof(T) == 1)
        asm volatile("mov %1, %0" : "=m"(shared) : "q"(word) : "memory");
    else
        asm volatile("mov %1, %0" : "=m"(shared) : "r"(word) : "memory");
}

/// Count words side by side: all are loaded before the first is stored.
template <class T, std::size_t Count>
[[gnu::always_inline]] inline void copy_opaque_words(std::byte* to, const std::byte* from) noexcept {
    T words[Count];
#pragma GCC unroll 4
    for (std::size_t i = 0; i < Count; ++i) words[i] = load_opaque<T>(from + i * sizeof(T));
#pragma GCC unroll 4
    for (std::size_t i = 0; i < Count; ++i) store_opaque<T>(to + i * sizeof(T), words[i]);
}
/// The first and the last Count words of so many bytes, which may overlap.
template <class T, std::size_t Count>
[[gnu::always_inline]] inline void copy_opaque_ends(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
    constexpr std::size_t end_bytes = Count * sizeof(T);
    copy_opaque_words<T, Count>(to, from);
    copy_opaque_words<T, Count>(to + bytes - end_bytes, from + bytes - end_bytes);
}

#undef HOLDFAST_MOVE

// Of those that vzeroupper and registers of 32 bytes change, the names that a compiler knows in any program.
#define HOLDFAST_VECTOR_REGISTERS                                                                              \
    "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", \
        "xmm13", "xmm14", "xmm15"

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
        : HOLDFAST_VECTOR_REGISTERS, "memory", "cc");
}

/// Whether registers of 32 bytes may be used. Where the program is compiled for them nothing is asked.
[[nodiscard, gnu::always_inline]] inline bool has_opaque_by_32() noexcept {
#if defined(__AVX__)
    return true;
#else
    return __builtin_cpu_supports("avx");
#endif
}

/// Requires: AVX. 64 bytes, as copy_opaque_by_32() does them.
[[gnu::always_inline]] inline void copy_opaque_64_by_32(std::byte* to, const std::byte* from) noexcept {
    asm volatile(
        "vmovups (%0), %%ymm0\n\tvmovups 32(%0), %%ymm1\n\t"
        "vmovups %%ymm0, (%1)\n\tvmovups %%ymm1, 32(%1)\n\t"
        "vzeroupper"
        :
        : "r"(from), "r"(to)
        : HOLDFAST_VECTOR_REGISTERS, "memory");
}
/// Requires: AVX; 64 <= bytes <= 128. The first and the last 64 of them, which may overlap.
[[gnu::always_inline]] inline void copy_opaque_ends_by_32(std::byte* to, const std::byte* from,
                                                          std::size_t bytes) noexcept {
    asm volatile(
        "vmovups (%0), %%ymm0\n\tvmovups 32(%0), %%ymm1\n\t"
        "vmovups -64(%0,%2), %%ymm2\n\tvmovups -32(%0,%2), %%ymm3\n\t"
        "vmovups %%ymm0, (%1)\n\tvmovups %%ymm1, 32(%1)\n\t"
        "vmovups %%ymm2, -64(%1,%2)\n\tvmovups %%ymm3, -32(%1,%2)\n\t"
        "vzeroupper"
        :
        : "r"(from), "r"(to), "r"(bytes)
        : HOLDFAST_VECTOR_REGISTERS, "memory");
}

#undef HOLDFAST_VECTOR_REGISTERS

/// Requires: bytes >= 64.
[[gnu::noinline]] inline void copy_opaque_long(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
    if (bytes >= 256 && has_opaque_by_32()) return copy_opaque_by_32(to, from, bytes);
    for (; bytes > 64; bytes -= 64, to += 64, from += 64) copy_opaque_words<opaque_register, 4>(to, from);
    to += bytes, from += bytes;  // the last ones overlap: at least 64 bytes were there
    copy_opaque_words<opaque_register, 4>(to - 64, from - 64);
}
/// Requires: bytes < 8.
[[gnu::noinline]] inline void copy_opaque_few(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
    if (bytes >= 4) return copy_opaque_ends<std::uint32_t, 1>(to, from, bytes);
    for (; bytes != 0; --bytes) copy_opaque_words<std::uint8_t, 1>(to + bytes - 1, from + bytes - 1);
}

// Always in place: as a call, which g++ 12 makes of it where there are many, 16 bytes take 54 instead of 41
// instructions (a snapshot's read). Two or three comparisons from 16 bytes on.
[[gnu::always_inline]] inline void copy_opaque(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
    if (bytes > 64) {
        // Half as many stores, of which many cores do one at a time, of either width.
        if (bytes <= 128 && has_opaque_by_32()) return copy_opaque_ends_by_32(to, from, bytes);
        copy_opaque_long(to, from, bytes);
    } else if (bytes > 32) {
        copy_opaque_ends<opaque_register, 2>(to, from, bytes);
    } else if (bytes >= 16) {
        copy_opaque_ends<opaque_register, 1>(to, from, bytes);
    } else if (bytes >= 8) {
        copy_opaque_ends<std::uint64_t, 1>(to, from, bytes);
    } else {
        copy_opaque_few(to, from, bytes);
    }
}

/// memcpy from shared to private memory. The result may be any mix of what was there meanwhile.
inline void copy_from_shared(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
    copy_opaque(to, from, bytes);
}
/// The same, always in place: for reads of which a call would be a fifth.
[[gnu::always_inline]] inline void copy_from_shared_here(std::byte* to, const std::byte* from,
                                                         std::size_t bytes) noexcept {
    copy_opaque(to, from, bytes);
}
/// The same of 64 to 128 bytes by registers of 32 bytes, for who has another way where the processor has none, or the
/// program is compiled for them. Returns: whether it was done.
[[nodiscard, gnu::always_inline]] inline bool copy_from_shared_by_32(std::byte* to, const std::byte* from,
                                                                     std::size_t bytes) noexcept {
#if defined(__AVX__)
    (void)to, (void)from, (void)bytes;
    return false;
#else
    if (!has_opaque_by_32()) return false;
    if (bytes == 64)
        copy_opaque_64_by_32(to, from);
    else
        copy_opaque_ends_by_32(to, from, bytes);
    return true;
#endif
}
/// memcpy from private to shared memory. Who looks meanwhile may see any mix of before and after, and bytes of `to` may
/// be stored twice.
inline void copy_to_shared(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
    copy_opaque(to, from, bytes);
}
/// memcpy to bytes of ours that nobody else looks at yet, without a call.
inline void copy_to_own(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
    copy_opaque(to, from, bytes);
}
/// copy_to_shared(), all whole lines of `to` by stores past the caches where the processor has them: those may become
/// visible behind later stores until fence_past_caches() has been called.
inline void copy_past_caches(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
    const std::size_t to_line = static_cast<std::size_t>(-reinterpret_cast<std::uintptr_t>(to)) & 63U;
    if (bytes < to_line + 64) return copy_opaque(to, from, bytes);
    copy_opaque(to, from, to_line);
    to += to_line, from += to_line, bytes -= to_line;
    for (; bytes >= 64; bytes -= 64, to += 64, from += 64)
        // Not of 32 bytes: a line is stored as a whole either way, and this is the baseline.
        asm volatile(
            "movups (%0), %%xmm0\n\tmovups 16(%0), %%xmm1\n\tmovups 32(%0), %%xmm2\n\tmovups 48(%0), %%xmm3\n\t"
            "movntdq %%xmm0, (%1)\n\tmovntdq %%xmm1, 16(%1)\n\tmovntdq %%xmm2, 32(%1)\n\tmovntdq %%xmm3, 48(%1)"
            :
            : "r"(from), "r"(to)
            : "xmm0", "xmm1", "xmm2", "xmm3", "memory");
    copy_opaque(to, from, bytes);
}
inline void fence_past_caches() noexcept { asm volatile("sfence" ::: "memory"); }
/// The processor's clock, for comparisons; always 0 where copy_past_caches() is an ordinary copy.
[[nodiscard]] inline std::uint64_t processor_ticks() noexcept { return __builtin_ia32_rdtsc(); }
/// The same once all stores so far, of either kind, have left the core.
[[nodiscard]] inline std::uint64_t processor_ticks_behind_stores() noexcept {
    asm volatile("mfence\n\tlfence" ::: "memory");
    return __builtin_ia32_rdtsc();
}
#else
/// memcpy to bytes of ours that nobody else looks at yet.
inline void copy_to_own(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
    if (bytes != 0) std::memcpy(to, from, bytes);
}
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
inline void copy_from_shared_here(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
    copy_from_shared(to, from, bytes);
}
[[nodiscard]] inline bool copy_from_shared_by_32(std::byte*, const std::byte*, std::size_t) noexcept { return false; }
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
inline void copy_past_caches(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
    copy_to_shared(to, from, bytes);
}
inline void fence_past_caches() noexcept {}
[[nodiscard]] inline std::uint64_t processor_ticks() noexcept { return 0; }
[[nodiscard]] inline std::uint64_t processor_ticks_behind_stores() noexcept { return 0; }
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
