// SPDX-License-Identifier: Apache-2.0
// copy.hpp - copies a wide element to private memory while its writer may be storing it.
//
// The copy may be torn; the caller accepts it only after the version check. Words of 8 bytes each load alone, eight for
// a cache line, cost half of what a small read may cost: so it goes by vectors where it may (detail/words.hpp).
#pragma once

#include <atomic>
#include <cstddef>

#include "holdfast/detail/shared_copy.hpp"
#include "holdfast/detail/words.hpp"

namespace holdfast::detail {

#if defined(HOLDFAST_WORDS_BY_VECTORS)
/// Up to here straight code of known length is fastest; longer ones go by the widest registers the processor has.
inline constexpr std::size_t straight_bytes_max = 128;

/// Copies `bytes` bytes from 8-aligned cells.
[[gnu::always_inline]] inline void copy_by_vectors(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
    if (bytes > straight_bytes_max) {
        copy_from_shared(to, from, bytes);
        // Acquire, pairs with U2 in write.hpp: on x86-64 no instruction; it keeps the compiler from loading the version
        // before the element.
        std::atomic_thread_fence(std::memory_order_acquire);
        return;
    }
    // Of 64 bytes two stores instead of four: an eighth of the time of a load.
    if (bytes >= 64 && copy_from_shared_by_32(to, from, bytes)) return;
    const std::size_t at = copy_by_registers(to, from, bytes);
    if (at < bytes) copy_from_words(to + at, from + at, 0, bytes - at);
}
#endif

/// Copies the first `bytes` bytes of the 8-aligned cells at `from`. A load that follows stays behind the copy.
template <copy_by By = copy_by::best>
inline void copy_cells(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
#if defined(HOLDFAST_WORDS_BY_VECTORS)
    if constexpr (By == copy_by::best) return copy_by_vectors(to, from, bytes);
#endif
    copy_from_words(to, from, 0, bytes);
}

}  // namespace holdfast::detail
