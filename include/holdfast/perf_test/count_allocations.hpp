// SPDX-License-Identifier: Apache-2.0
// count_allocations.hpp - makes operator new count (counters.hpp: allocations). Include it in exactly one source file
// of a program: it replaces the global operators.
//
// They stand on malloc and free as the standard library's own do, so that address sanitizer, valgrind and heap
// profilers see every block; what sanitizers lose is the check that new is not paired with free.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <new>

#include "holdfast/perf_test/counters.hpp"

namespace holdfast::perf_test::detail {

inline const bool hook_announced = (announce_allocation_hook(), true);

inline void* allocate_counted(std::size_t bytes, std::size_t alignment) {
    note_allocation(bytes);
    const std::size_t wanted = bytes == 0 ? 1 : bytes;
    for (;;) {
        void* block = nullptr;
        if (alignment <= alignof(std::max_align_t))
            block = std::malloc(wanted);
        else if (::posix_memalign(&block, alignment, wanted) != 0)
            block = nullptr;
        if (block != nullptr) return block;
        const std::new_handler handler = std::get_new_handler();
        if (handler == nullptr) throw std::bad_alloc();
        handler();
    }
}

inline void* allocate_counted_or_null(std::size_t bytes, std::size_t alignment) noexcept {
    try {
        return allocate_counted(bytes, alignment);
    } catch (...) {
        return nullptr;
    }
}

}  // namespace holdfast::perf_test::detail

// Not inlined: a compiler that sees malloc on one side and operator delete on the other takes them for a mismatch.
#define HOLDFAST_COUNTED ::holdfast::perf_test::detail::allocate_counted
#define HOLDFAST_COUNTED_OR_NULL ::holdfast::perf_test::detail::allocate_counted_or_null

[[gnu::noinline]] void* operator new(std::size_t n) { return HOLDFAST_COUNTED(n, 0); }
[[gnu::noinline]] void* operator new[](std::size_t n) { return HOLDFAST_COUNTED(n, 0); }
[[gnu::noinline]] void* operator new(std::size_t n, std::align_val_t a) {
    return HOLDFAST_COUNTED(n, static_cast<std::size_t>(a));
}
[[gnu::noinline]] void* operator new[](std::size_t n, std::align_val_t a) {
    return HOLDFAST_COUNTED(n, static_cast<std::size_t>(a));
}
[[gnu::noinline]] void* operator new(std::size_t n, const std::nothrow_t&) noexcept {
    return HOLDFAST_COUNTED_OR_NULL(n, 0);
}
[[gnu::noinline]] void* operator new[](std::size_t n, const std::nothrow_t&) noexcept {
    return HOLDFAST_COUNTED_OR_NULL(n, 0);
}
[[gnu::noinline]] void* operator new(std::size_t n, std::align_val_t a, const std::nothrow_t&) noexcept {
    return HOLDFAST_COUNTED_OR_NULL(n, static_cast<std::size_t>(a));
}
[[gnu::noinline]] void* operator new[](std::size_t n, std::align_val_t a, const std::nothrow_t&) noexcept {
    return HOLDFAST_COUNTED_OR_NULL(n, static_cast<std::size_t>(a));
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete[](void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete[](void* p, std::size_t) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete[](void* p, std::align_val_t) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete[](void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, const std::nothrow_t&) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete[](void* p, const std::nothrow_t&) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::align_val_t, const std::nothrow_t&) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete[](void* p, std::align_val_t, const std::nothrow_t&) noexcept { std::free(p); }

#undef HOLDFAST_COUNTED
#undef HOLDFAST_COUNTED_OR_NULL
