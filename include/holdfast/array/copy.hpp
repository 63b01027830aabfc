// SPDX-License-Identifier: Apache-2.0
// copy.hpp - copies a wide element to private memory while its writer may be storing it.
//
// The copy may be torn; the caller accepts it only after the version check. With vectors it is the second deliberate
// exception, beside tag lines (hash_table/line.hpp), to "shared bytes are touched through atomics": words of 8 bytes
// each load alone, eight for a cache line, cost half of what a small read may cost. On x86-64 vector loads come in
// program order and no aligned word of 8 bytes in them is torn, as with word loads. Thread sanitizer builds and other
// processors take the words.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "holdfast/detail/shared_copy.hpp"
#include "holdfast/detail/words.hpp"

#if defined(__SANITIZE_THREAD__)
#define HOLDFAST_ARRAY_WORDS 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define HOLDFAST_ARRAY_WORDS 1
#endif
#endif

#if defined(__SSE2__) && !defined(HOLDFAST_ARRAY_WORDS)
#include <immintrin.h>
#define HOLDFAST_ARRAY_VECTORS 1
#endif

namespace holdfast::detail {

/// How elements are copied. `words` works everywhere; `best` is vectors where this build has them.
enum class copy_by { words, best };

#if defined(HOLDFAST_ARRAY_VECTORS)
/// Up to here straight code of known length is fastest; longer ones go by the widest registers the processor has.
inline constexpr std::size_t straight_bytes_max = 128;

/// Copies `bytes` bytes from 8-aligned cells.
inline void copy_by_vectors(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
    if (bytes > straight_bytes_max) {
        copy_from_shared(to, from, bytes);
        std::atomic_thread_fence(std::memory_order_acquire);  // as below
        return;
    }
    std::size_t at = 0;
#if defined(__AVX__)
    for (; at + 32 <= bytes; at += 32)
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + at),
                            _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + at)));
#endif
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC unroll 8  // known sizes become straight code; clang does so by itself
#endif
    for (; at + 16 <= bytes; at += 16)
        _mm_storeu_si128(reinterpret_cast<__m128i*>(to + at),
                         _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + at)));
    if (at < bytes) copy_from_words(to + at, from + at, 0, bytes - at);
    // Acquire, pairs with U2 in write.hpp: on x86-64 no instruction; it keeps the compiler from loading the version
    // before the element, and from loading the element again.
    std::atomic_thread_fence(std::memory_order_acquire);
}
#endif

/// Copies the first `bytes` bytes of the 8-aligned cells at `from`. A load that follows stays behind the copy.
template <copy_by By = copy_by::best>
inline void copy_cells(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
#if defined(HOLDFAST_ARRAY_VECTORS)
    if constexpr (By == copy_by::best) return copy_by_vectors(to, from, bytes);
#endif
    copy_from_words(to, from, 0, bytes);
}

}  // namespace holdfast::detail
