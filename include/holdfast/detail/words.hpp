// SPDX-License-Identifier: Apache-2.0
// words.hpp - how containers touch bytes that other processes touch at the same time: whole, aligned words, atomically.
//
// (I1) Bytes of entries and journals are read and written as aligned 8-byte words only, so a word is never torn, and a
//      value of up to 8 bytes that does not cross a word is replaced by one store.
// (I2) Words are loaded with acquire and stored with release. On x86-64 both are plain moves. They stand in for the
//      fences of a sequence lock: whoever sees a new word also sees the version that was stored before it.
// A copy may be torn as a whole; the caller accepts it only after the version check.
//
// A copy of as many bytes as the compiler knows may go by vectors (copy_by::best), two or four words at a load: an
// exception to "shared bytes are touched through atomics", as are tag lines (hash_table/line.hpp) and elements of an
// array (array/copy.hpp). On x86-64 vector loads come in program order, and no aligned word of 8 bytes in them is torn.
// Thread sanitizer builds and other processors take the words.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__SANITIZE_THREAD__)
#define HOLDFAST_WORDS_ALONE 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define HOLDFAST_WORDS_ALONE 1
#endif
#endif

#if defined(__SSE2__) && !defined(HOLDFAST_WORDS_ALONE)
#define HOLDFAST_WORDS_BY_VECTORS 1
#endif

namespace holdfast::detail {

template <class T>
[[nodiscard]] inline T load_acquire(const std::byte* at) noexcept {
    static_assert(std::atomic_ref<T>::is_always_lock_free);
    // atomic_ref wants a mutable object; a lock-free load does not write, so a read-only mapping will do.
    std::atomic_ref<T> ref(*reinterpret_cast<T*>(const_cast<std::byte*>(at)));
    return ref.load(std::memory_order_acquire);  // R, pairs with store_release; what it orders is said at each call
}

template <class T>
[[nodiscard]] inline T load_relaxed(const std::byte* at) noexcept {
    static_assert(std::atomic_ref<T>::is_always_lock_free);
    std::atomic_ref<T> ref(*reinterpret_cast<T*>(const_cast<std::byte*>(at)));
    return ref.load(std::memory_order_relaxed);  // why relaxed is enough is said at each call
}

template <class T>
inline void store_release(std::byte* at, T value) noexcept {
    static_assert(std::atomic_ref<T>::is_always_lock_free);
    std::atomic_ref<T> ref(*reinterpret_cast<T*>(at));
    ref.store(value, std::memory_order_release);  // W, pairs with load_acquire; what it orders is said at each call
}

/// How bytes of words are copied. `words` works everywhere; `best` is vectors where this build has them and the
/// compiler knows how many bytes there are.
enum class copy_by { words, best };

#if defined(HOLDFAST_WORDS_BY_VECTORS)
/// So many bytes from 8-aligned words, in one register.
template <std::size_t Bytes>
[[gnu::always_inline]] inline void copy_by_register(std::byte* to, const std::byte* from) noexcept {
    using words [[gnu::vector_size(Bytes), gnu::aligned(8), gnu::may_alias]] = std::uint64_t;
    using bytes [[gnu::vector_size(Bytes), gnu::aligned(1), gnu::may_alias]] = std::uint64_t;
    *reinterpret_cast<bytes*>(to) = *reinterpret_cast<const words*>(from);
}

/// Copies what whole registers hold of `bytes` bytes from 8-aligned words. Returns: how many those were. Straight code
/// where the compiler knows `bytes` and they are at most 128.
[[gnu::always_inline]] inline std::size_t copy_by_registers(std::byte* to, const std::byte* from,
                                                            std::size_t bytes) noexcept {
    std::size_t at = 0;
#if defined(__AVX__)
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC unroll 4  // clang does so by itself
#endif
    for (; at + 32 <= bytes; at += 32) copy_by_register<32>(to + at, from + at);
#endif
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC unroll 8
#endif
    for (; at + 16 <= bytes; at += 16) copy_by_register<16>(to + at, from + at);
    // In place of the acquire of each word (I2): on x86-64 no instruction; it keeps the compiler from loading what
    // comes behind the copy before it, and from loading the words again.
    std::atomic_thread_fence(std::memory_order_acquire);
    return at;
}
#endif

/// Copies bytes [offset, offset + bytes) of the 8-aligned words at `base` to private memory (I1, I2).
template <copy_by By = copy_by::words>
[[gnu::always_inline]] inline void copy_from_words(std::byte* to, const std::byte* base, std::size_t offset,
                                                   std::size_t bytes) noexcept {
    const std::size_t lead = offset % 8;
    base += offset;
    if (lead != 0) [[unlikely]] {
        base -= lead;
        const std::uint64_t word = load_acquire<std::uint64_t>(base) >> (8 * lead);
        const std::size_t part = bytes < 8 - lead ? bytes : 8 - lead;
        std::memcpy(to, &word, part);
        to += part;
        bytes -= part;
        base += 8;
    }
#if defined(HOLDFAST_WORDS_BY_VECTORS)
    if constexpr (By == copy_by::best) {
        if (__builtin_constant_p(bytes) && bytes >= 16) {
            const std::size_t done = copy_by_registers(to, base, bytes);
            to += done;
            base += done;
            bytes -= done;
        }
    }
#endif
    for (; bytes >= 8; bytes -= 8, to += 8, base += 8) {
        const std::uint64_t word = load_acquire<std::uint64_t>(base);
        std::memcpy(to, &word, 8);
    }
    if (bytes != 0) {
        const std::uint64_t word = load_acquire<std::uint64_t>(base);
        std::memcpy(to, &word, bytes);
    }
}

/// Replaces `part` bytes from byte `lead` of one word. Requires: the caller is the only writer of the word.
inline void store_part_of_word(std::byte* at, std::size_t lead, const std::byte* from, std::size_t part) noexcept {
    // Relaxed: nobody else stores to this word.
    std::uint64_t word = load_relaxed<std::uint64_t>(at);
    std::memcpy(reinterpret_cast<std::byte*>(&word) + lead, from, part);
    store_release<std::uint64_t>(at, word);
}

/// Copies private bytes to [offset, offset + bytes) of the 8-aligned words at `base` (I1, I2); neighbours in a word
/// shared with them keep their bytes. Requires: the caller is the only writer.
inline void copy_to_words(std::byte* base, std::size_t offset, const std::byte* from, std::size_t bytes) noexcept {
    const std::size_t lead = offset % 8;
    base += offset - lead;
    if (lead != 0) {
        const std::size_t part = bytes < 8 - lead ? bytes : 8 - lead;
        store_part_of_word(base, lead, from, part);
        from += part;
        bytes -= part;
        base += 8;
    }
    for (; bytes >= 8; bytes -= 8, from += 8, base += 8) {
        std::uint64_t word;
        std::memcpy(&word, from, 8);
        store_release<std::uint64_t>(base, word);
    }
    if (bytes != 0) store_part_of_word(base, 0, from, bytes);
}

/// Whether the first `bytes` bytes of the 8-aligned words at `base` equal those at `key` (I1, I2).
[[nodiscard, gnu::always_inline]] inline bool equal_words(const std::byte* base, const std::byte* key,
                                                          std::size_t bytes) noexcept {
    for (; bytes >= 8; bytes -= 8, base += 8, key += 8) {
        std::uint64_t word;
        std::memcpy(&word, key, 8);
        if (load_acquire<std::uint64_t>(base) != word) return false;
    }
    if (bytes == 0) return true;
    std::uint64_t word = 0;
    std::memcpy(&word, key, bytes);
    return ((load_acquire<std::uint64_t>(base) ^ word) << (64 - 8 * bytes)) == 0;
}

/// A copy of a few private bytes. A compiler keeps it in registers, as it cannot keep bytes whose address goes into a
/// call somewhere; whoever makes such a call passes a copy of the copy. Of zero bytes it is the bytes themselves.
template <std::size_t Bytes>
class kept_bytes {
 public:
    [[gnu::always_inline]] explicit kept_bytes(const std::byte* from) noexcept { std::memcpy(bytes_, from, Bytes); }
    [[nodiscard, gnu::always_inline]] const std::byte* data() const noexcept { return bytes_; }

 private:
    std::byte bytes_[Bytes];
};
template <>
class kept_bytes<0> {
 public:
    explicit kept_bytes(const std::byte* from) noexcept : at_(from) {}
    [[nodiscard]] const std::byte* data() const noexcept { return at_; }

 private:
    const std::byte* at_;
};
/// How many of so many bytes are kept that way: all, or none where they are not whole registers, or too many.
[[nodiscard]] constexpr std::size_t worth_keeping(std::size_t bytes) noexcept {
    return std::has_single_bit(bytes) && bytes <= 16 ? bytes : 0;
}

/// Tells the processor that this is a wait loop.
inline void pause() noexcept {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

}  // namespace holdfast::detail
