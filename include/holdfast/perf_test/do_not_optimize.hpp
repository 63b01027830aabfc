// SPDX-License-Identifier: Apache-2.0
// do_not_optimize.hpp - keeps the compiler from removing what is measured. No instruction is emitted for either.
//
// A compiler deletes a computation whose result nobody uses, and moves one that never changes out of the loop. Use the
// result of what you measure with do_not_optimize; hide an input behind it too, so that the compiler cannot know its
// value. Threads: no effect at run time.
#pragma once

#include <type_traits>

namespace holdfast::perf_test {

namespace detail {
// Where a value may stay while somebody looks at it: a register where one holds it, so that nothing is forced to
// memory.
template <class T>
concept in_register =
    (std::is_integral_v<T> || std::is_enum_v<T> || std::is_pointer_v<T>) && sizeof(T) <= sizeof(void*);
}  // namespace detail

/// The compiler must compute the value here and has to assume that somebody looked at it.
template <class T>
[[gnu::always_inline]] inline void do_not_optimize(const T& value) noexcept {
    if constexpr (detail::in_register<T>) {
        asm volatile("" : : "r"(value) : "memory");
    } else {
        asm volatile("" : : "m"(value) : "memory");
    }
}

/// Likewise, and has to assume that somebody changed the value.
template <class T>
    requires(!std::is_const_v<T>)
[[gnu::always_inline]] inline void do_not_optimize(T& value) noexcept {
    if constexpr (detail::in_register<T>) {
        asm volatile("" : "+r"(value) : : "memory");
    } else {
        asm volatile("" : "+m"(value) : : "memory");
    }
}

/// The compiler has to assume that somebody read and wrote all memory that others could reach.
[[gnu::always_inline]] inline void clobber_memory() noexcept { asm volatile("" : : : "memory"); }

/// The spelling of other harnesses.
template <class T>
[[gnu::always_inline]] inline void DoNotOptimize(T&& value) noexcept {
    do_not_optimize(value);
}
[[gnu::always_inline]] inline void ClobberMemory() noexcept { clobber_memory(); }

}  // namespace holdfast::perf_test

/// Uses the value of an expression: PERF_USE(map.find(key));
#define PERF_USE(...)                                               \
    do {                                                            \
        auto&& holdfast_perf_used = (__VA_ARGS__);                  \
        ::holdfast::perf_test::do_not_optimize(holdfast_perf_used); \
    } while (false)
