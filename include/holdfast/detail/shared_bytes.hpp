// SPDX-License-Identifier: Apache-2.0
// shared_bytes.hpp - single numbers in bytes that another process may be writing or reading meanwhile. Many bytes at
// once: shared_copy.hpp.
//
// Every access is a relaxed atomic of 1 to 8 bytes, whole in itself: a look that races with a writer meets old or new
// numbers, which belong together if a version checked afterwards says so, but is never undefined behaviour, and thread
// sanitizer is content without suppressions. On x86-64 and AArch64 these are plain moves.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace holdfast::detail {

static_assert(std::atomic_ref<std::uint64_t>::is_always_lock_free);

/// One relaxed load from bytes that may change under us; `from` is aligned for T. Never stores, so a read-only mapping
/// will do.
template <class T>
[[nodiscard]] inline T shared_load(const std::byte* from) noexcept {
    // atomic_ref of a const object arrives only with C++26; the object is not written through this reference.
    T& cell = *const_cast<T*>(reinterpret_cast<const T*>(from));
    // Relaxed: which bytes belong together is decided by the version that the caller checks after the copy.
    return std::atomic_ref<T>(cell).load(std::memory_order_relaxed);
}

/// One relaxed store to bytes that others may be reading; `to` is aligned for T.
template <class T>
inline void shared_store(std::byte* to, T value) noexcept {
    // Relaxed: the caller's later release store of a version is what publishes these bytes.
    std::atomic_ref<T>(*reinterpret_cast<T*>(to)).store(value, std::memory_order_relaxed);
}

}  // namespace holdfast::detail
