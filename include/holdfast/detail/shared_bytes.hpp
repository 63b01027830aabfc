// SPDX-License-Identifier: Apache-2.0
// shared_bytes.hpp - copies between private memory and bytes that another process may be writing or reading meanwhile.
//
// Every access to the shared side is a relaxed atomic of 1 or 8 bytes, so a copy that races with a writer yields a mix
// of old and new bytes (which the caller detects by a version checked afterwards) but is never undefined behaviour, and
// thread sanitizer is content without suppressions. On x86-64 and AArch64 these are plain moves: 8 bytes a cycle.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

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

/// Bytes before `address` is 8-byte aligned.
[[nodiscard]] inline std::size_t bytes_to_word(const std::byte* address) noexcept {
    return static_cast<std::size_t>(-reinterpret_cast<std::uintptr_t>(address)) & 7U;
}

/// memcpy from shared to private memory.
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

/// The same for a number of bytes that the compiler knows: a few loads instead of a call and its loops, where few words
/// hold them and `from` is aligned for those.
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

/// memcpy from private to shared memory.
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

}  // namespace holdfast::detail
