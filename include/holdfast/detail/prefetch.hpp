// SPDX-License-Identifier: Apache-2.0
// prefetch.hpp - asking for a cache line without waiting for it.
//
// Written out: g++ takes a function that does nothing but __builtin_prefetch() for one without effect, and drops the
// calls of it that it has not put in line by then.
#pragma once

#include <cstddef>

namespace holdfast::detail {

/// Asks for the cache line of any address; one that is not mapped does nothing.
[[gnu::always_inline]] inline void prefetch(const std::byte* at) noexcept {
#if defined(__x86_64__)
    asm volatile("prefetcht0 %0" : : "m"(*at));
#else
    __builtin_prefetch(at);
#endif
}

}  // namespace holdfast::detail
