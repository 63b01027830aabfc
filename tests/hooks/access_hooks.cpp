// SPDX-License-Identifier: Apache-2.0
// access_hooks.cpp - the functions that instrumented code calls, in place of thread sanitizer's. Compiled without
// instrumentation.
//
// Names and parameters are the interface between compiler and library as compiler-rt's tsan_interface.h and
// tsan_interface_atomic.h give it; g++ and clang call the same ones, except that clang has functions for memcpy and its
// kin, where with g++ the linker's --wrap leads here.
#include "hooks/access_hooks.hpp"

#include <array>
#include <cstdint>

namespace {

using holdfast::test::access_listener;
using holdfast::test::memory_listener;
using holdfast::test::store_listener;

constinit const std::byte* watched = nullptr;
constinit std::size_t watched_bytes = 0;
constinit std::size_t heard_bytes = 0;  // the same if somebody hears of loads, else none
constinit store_listener* of_stores = nullptr;
constinit access_listener* of_loads = nullptr;
constinit memory_listener* memory = nullptr;

// What one_look knows: loads of the first look, until they come again.
struct first_look {
    struct load {
        const void* at;
        const void* place;
        std::uint64_t value;
    };
    const void* owner = nullptr;  // on the process's stack; null: nobody looks
    bool repeats = false;
    std::size_t count = 0;
    std::array<load, 64> loads{};
};
first_look looked;

// Frames of other processes lie farther away, or above.
[[nodiscard]] inline bool is_looking() noexcept {
    if (looked.owner == nullptr) [[likely]]
        return false;
    constexpr std::uintptr_t deep = 32 * 1024;
    return reinterpret_cast<std::uintptr_t>(looked.owner) -
               reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0)) <
           deep;
}
[[nodiscard]] inline bool looks_again() noexcept { return is_looking() && looked.repeats; }
// In front of a load. Returns: what it gave before, or null when it is to be done.
[[nodiscard, gnu::noinline]] const std::uint64_t* loaded_before(const void* at, const void* place) noexcept {
    const std::uint64_t* known = nullptr;
    for (std::size_t i = 0; i < looked.count; ++i) {
        if (looked.loads[i].at != at) continue;
        known = &looked.loads[i].value;
        if (looked.loads[i].place == place) looked.repeats = true;
    }
    if (known == nullptr && looked.repeats) looked.owner = nullptr;
    return looked.repeats ? known : nullptr;
}
[[gnu::noinline]] void note_load(const void* at, const void* place, std::uint64_t value) noexcept {
    if (looked.owner == nullptr || looked.count == looked.loads.size()) return;
    looked.loads[looked.count++] = {at, place, value};
}

[[nodiscard]] inline std::size_t offset_of(const void* at) noexcept {
    return reinterpret_cast<std::uintptr_t>(at) - reinterpret_cast<std::uintptr_t>(watched);
}
[[nodiscard]] inline bool is_watched(const void* at) noexcept { return offset_of(at) < watched_bytes; }
[[nodiscard]] inline bool is_heard(const void* at) noexcept { return offset_of(at) < heard_bytes; }

// The longest piece of [at, at + bytes) that lies in one aligned word.
[[nodiscard]] inline std::size_t piece_of(const std::byte* at, std::size_t bytes) noexcept {
    const std::size_t room = 8 - (reinterpret_cast<std::uintptr_t>(at) & 7U);
    return bytes < room ? bytes : room;
}

[[gnu::noinline]] void tell_store(std::byte* at, std::size_t bytes) noexcept {
    while (bytes != 0 && is_watched(at)) {
        const std::size_t piece = piece_of(at, bytes);
        of_stores->before_store(at, piece);
        at += piece;
        bytes -= piece;
    }
}
[[gnu::noinline]] void tell_load(const std::byte* at, std::size_t bytes) noexcept {
    while (bytes != 0 && is_heard(at)) {
        const std::size_t piece = piece_of(at, bytes);
        of_loads->before_load(at, piece);
        at += piece;
        bytes -= piece;
    }
}
inline void on_store(void* at, std::size_t bytes) noexcept {
    if (is_watched(at)) [[unlikely]]
        tell_store(static_cast<std::byte*>(at), bytes);
}
inline void on_load(const void* at, std::size_t bytes) noexcept {
    if (is_heard(at)) [[unlikely]]
        tell_load(static_cast<const std::byte*>(at), bytes);
}

// None may become a call of memcpy or memset, which may be our own: hence the empty assembly, and the instructions
// themselves for what is long.
struct [[gnu::packed, gnu::may_alias]] any_word {
    std::uint64_t bits;
};
template <class T>
inline void step(T& to, const T& from) noexcept {
    to = from;
    asm volatile("" : : : "memory");
}
inline void move_up(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
#if defined(__x86_64__)
    if (bytes > 256) {
        asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
        return;
    }
#endif
    for (; bytes >= sizeof(any_word); to += sizeof(any_word), from += sizeof(any_word), bytes -= sizeof(any_word))
        step(*reinterpret_cast<any_word*>(to), *reinterpret_cast<const any_word*>(from));
    for (; bytes != 0; ++to, ++from, --bytes) step(*to, *from);
}
inline void move_down(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
    while (bytes-- != 0) step(to[bytes], from[bytes]);
}
inline void set_all(std::byte* to, int value, std::size_t bytes) noexcept {
#if defined(__x86_64__)
    if (bytes > 64) {
        asm volatile("rep stosb" : "+D"(to), "+c"(bytes) : "a"(value) : "memory");
        return;
    }
#endif
    const auto byte = static_cast<std::byte>(value);
    for (std::size_t i = 0; i < bytes; ++i) step(to[i], byte);
}

// Piece by piece, each told before it is moved.
[[gnu::noinline]] void move_told(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
    while (bytes != 0) {
        std::size_t piece = piece_of(is_watched(to) ? to : from, bytes);
        on_load(from, piece);
        on_store(to, piece);
        move_up(to, from, piece);
        to += piece;
        from += piece;
        bytes -= piece;
    }
}
void* copy(void* to, const void* from, std::size_t bytes) noexcept {
    if (bytes != 0 && (is_watched(to) || is_heard(from))) [[unlikely]]
        move_told(static_cast<std::byte*>(to), static_cast<const std::byte*>(from), bytes);
    else
        move_up(static_cast<std::byte*>(to), static_cast<const std::byte*>(from), bytes);
    return to;
}
void* move(void* to, const void* from, std::size_t bytes) noexcept {
    const auto distance = reinterpret_cast<std::uintptr_t>(to) - reinterpret_cast<std::uintptr_t>(from);
    if (distance >= bytes) return copy(to, from, bytes);
    on_load(from, bytes);
    on_store(to, bytes);
    move_down(static_cast<std::byte*>(to), static_cast<const std::byte*>(from), bytes);
    return to;
}
void* set(void* to, int value, std::size_t bytes) noexcept {
    auto* at = static_cast<std::byte*>(to);
    if (bytes == 0 || !is_watched(at)) {
        set_all(at, value, bytes);
        return to;
    }
    while (bytes != 0) {
        const std::size_t piece = piece_of(at, bytes);
        on_store(at, piece);
        set_all(at, value, piece);
        at += piece;
        bytes -= piece;
    }
    return to;
}

}  // namespace

namespace holdfast::test {

access_watch::access_watch(std::span<std::byte> bytes, store_listener& hears) noexcept {
    watched = bytes.data();
    watched_bytes = bytes.size();
    of_stores = &hears;
}
access_watch::access_watch(std::span<std::byte> bytes, access_listener& hears, memory_listener* stands_in) noexcept
    : access_watch(bytes, static_cast<store_listener&>(hears)) {
    heard_bytes = bytes.size();
    of_loads = &hears;
    memory = stands_in;
}
access_watch::~access_watch() {
    watched = nullptr;
    watched_bytes = heard_bytes = 0;
    of_stores = nullptr;
    of_loads = nullptr;
    memory = nullptr;
}

access_unwatched::access_unwatched() noexcept : bytes_(watched_bytes), heard_bytes_(heard_bytes) {
    watched_bytes = heard_bytes = 0;
}
access_unwatched::~access_unwatched() {
    watched_bytes = bytes_;
    heard_bytes = heard_bytes_;
}

one_look::one_look() noexcept {
    looked.repeats = false;
    looked.count = 0;
    looked.owner = this;
}
one_look::~one_look() { forget(); }
void one_look::forget() noexcept { looked.owner = nullptr; }

}  // namespace holdfast::test

// NOLINTBEGIN
extern "C" {

void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}

#define HOLDFAST_PLAIN(bytes)                                                      \
    void __tsan_read##bytes(void* at) { on_load(at, bytes); }                      \
    void __tsan_write##bytes(void* at) { on_store(at, bytes); }                    \
    void __tsan_unaligned_read##bytes(void* at) { on_load(at, bytes); }            \
    void __tsan_unaligned_write##bytes(void* at) { on_store(at, bytes); }          \
    void __tsan_volatile_read##bytes(void* at) { on_load(at, bytes); }             \
    void __tsan_volatile_write##bytes(void* at) { on_store(at, bytes); }           \
    void __tsan_unaligned_volatile_read##bytes(void* at) { on_load(at, bytes); }   \
    void __tsan_unaligned_volatile_write##bytes(void* at) { on_store(at, bytes); } \
    void __tsan_read_write##bytes(void* at) { on_store(at, bytes); }               \
    void __tsan_unaligned_read_write##bytes(void* at) { on_store(at, bytes); }
HOLDFAST_PLAIN(1)
HOLDFAST_PLAIN(2)
HOLDFAST_PLAIN(4)
HOLDFAST_PLAIN(8)
HOLDFAST_PLAIN(16)
void __tsan_read_range(void* at, std::size_t bytes) { on_load(at, bytes); }
void __tsan_write_range(void* at, std::size_t bytes) { on_store(at, bytes); }

void* __tsan_memcpy(void* to, const void* from, std::size_t bytes) { return copy(to, from, bytes); }
void* __tsan_memmove(void* to, const void* from, std::size_t bytes) { return move(to, from, bytes); }
void* __tsan_memset(void* to, int value, std::size_t bytes) { return set(to, value, bytes); }
void* __wrap_memcpy(void* to, const void* from, std::size_t bytes) { return copy(to, from, bytes); }
void* __wrap_memmove(void* to, const void* from, std::size_t bytes) { return move(to, from, bytes); }
void* __wrap_memset(void* to, int value, std::size_t bytes) { return set(to, value, bytes); }

// One thread: the strongest order gives every weaker one what it asks for, unless somebody stands in for the memory.
#define HOLDFAST_MODEL(at) (memory != nullptr && is_watched(at)) [[unlikely]]
#define HOLDFAST_AT(at) reinterpret_cast<std::byte*>(at)
#define HOLDFAST_ORDER(order) static_cast<std::memory_order>((order) & 0x7fff)
#define HOLDFAST_PLACE __builtin_return_address(0)
// Whether a compare-and-swap stores is asked behind the last moment at which others could go on.
#define HOLDFAST_BEFORE_UPDATE(at)          \
    if (looks_again()) [[unlikely]]         \
        holdfast::test::one_look::forget(); \
    if HOLDFAST_MODEL (at) memory->before_update()
#define HOLDFAST_UPDATE(at, bytes, stores, order)                                              \
    if HOLDFAST_MODEL (at)                                                                     \
        memory->update(HOLDFAST_AT(at), bytes, stores, HOLDFAST_ORDER(order), HOLDFAST_PLACE); \
    else                                                                                       \
        on_store(at, bytes)
#define HOLDFAST_FETCH(bits, name)                                                                             \
    std::uint##bits##_t __tsan_atomic##bits##_fetch_##name(std::uint##bits##_t* at, std::uint##bits##_t value, \
                                                           int order) {                                        \
        HOLDFAST_BEFORE_UPDATE(at);                                                                            \
        HOLDFAST_UPDATE(at, bits / 8, true, order);                                                            \
        return __atomic_fetch_##name(at, value, __ATOMIC_SEQ_CST);                                             \
    }
#define HOLDFAST_ATOMIC(bits)                                                                                       \
    std::uint##bits##_t __tsan_atomic##bits##_load(const std::uint##bits##_t* at, int order) {                      \
        const bool looks = is_watched(at) && is_looking();                                                          \
        if (looks) [[unlikely]]                                                                                     \
            if (const std::uint64_t* const known = loaded_before(at, HOLDFAST_PLACE))                               \
                return static_cast<std::uint##bits##_t>(*known);                                                    \
        std::uint##bits##_t value;                                                                                  \
        if HOLDFAST_MODEL (at) {                                                                                    \
            value = static_cast<std::uint##bits##_t>(memory->load(reinterpret_cast<const std::byte*>(at), bits / 8, \
                                                                  HOLDFAST_ORDER(order), HOLDFAST_PLACE));          \
        } else {                                                                                                    \
            on_load(at, bits / 8);                                                                                  \
            value = __atomic_load_n(at, __ATOMIC_SEQ_CST);                                                          \
        }                                                                                                           \
        if (looks) [[unlikely]]                                                                                     \
            note_load(at, HOLDFAST_PLACE, value);                                                                   \
        return value;                                                                                               \
    }                                                                                                               \
    void __tsan_atomic##bits##_store(std::uint##bits##_t* at, std::uint##bits##_t value, int order) {               \
        if (looks_again()) [[unlikely]]                                                                             \
            return __atomic_store_n(at, value, __ATOMIC_SEQ_CST);                                                   \
        if HOLDFAST_MODEL (at)                                                                                      \
            return memory->store(HOLDFAST_AT(at), bits / 8, value, HOLDFAST_ORDER(order), HOLDFAST_PLACE);          \
        on_store(at, bits / 8);                                                                                     \
        __atomic_store_n(at, value, __ATOMIC_SEQ_CST);                                                              \
    }                                                                                                               \
    std::uint##bits##_t __tsan_atomic##bits##_exchange(std::uint##bits##_t* at, std::uint##bits##_t value,          \
                                                       int order) {                                                 \
        HOLDFAST_BEFORE_UPDATE(at);                                                                                 \
        HOLDFAST_UPDATE(at, bits / 8, true, order);                                                                 \
        return __atomic_exchange_n(at, value, __ATOMIC_SEQ_CST);                                                    \
    }                                                                                                               \
    std::uint##bits##_t __tsan_atomic##bits##_compare_exchange_val(                                                 \
        std::uint##bits##_t* at, std::uint##bits##_t expected, std::uint##bits##_t value, int order, int failed) {  \
        HOLDFAST_BEFORE_UPDATE(at);                                                                                 \
        const bool equal = __atomic_load_n(at, __ATOMIC_SEQ_CST) == expected;                                       \
        HOLDFAST_UPDATE(at, bits / 8, equal, equal ? order : failed);                                               \
        __atomic_compare_exchange_n(at, &expected, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);               \
        return expected;                                                                                            \
    }                                                                                                               \
    int __tsan_atomic##bits##_compare_exchange_strong(std::uint##bits##_t* at, std::uint##bits##_t* expected,       \
                                                      std::uint##bits##_t value, int order, int failed) {           \
        HOLDFAST_BEFORE_UPDATE(at);                                                                                 \
        const bool equal = __atomic_load_n(at, __ATOMIC_SEQ_CST) == *expected;                                      \
        HOLDFAST_UPDATE(at, bits / 8, equal, equal ? order : failed);                                               \
        return __atomic_compare_exchange_n(at, expected, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);         \
    }                                                                                                               \
    int __tsan_atomic##bits##_compare_exchange_weak(std::uint##bits##_t* at, std::uint##bits##_t* expected,         \
                                                    std::uint##bits##_t value, int order, int failed) {             \
        HOLDFAST_BEFORE_UPDATE(at);                                                                                 \
        const bool equal = __atomic_load_n(at, __ATOMIC_SEQ_CST) == *expected;                                      \
        HOLDFAST_UPDATE(at, bits / 8, equal, equal ? order : failed);                                               \
        return __atomic_compare_exchange_n(at, expected, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);         \
    }                                                                                                               \
    HOLDFAST_FETCH(bits, add)                                                                                       \
    HOLDFAST_FETCH(bits, sub)                                                                                       \
    HOLDFAST_FETCH(bits, and)                                                                                       \
    HOLDFAST_FETCH(bits, or)                                                                                        \
    HOLDFAST_FETCH(bits, xor)                                                                                       \
    HOLDFAST_FETCH(bits, nand)
HOLDFAST_ATOMIC(8)
HOLDFAST_ATOMIC(16)
HOLDFAST_ATOMIC(32)
HOLDFAST_ATOMIC(64)
void __tsan_atomic_thread_fence(int order) {
    if (memory != nullptr && !looks_again()) memory->fence(HOLDFAST_ORDER(order), HOLDFAST_PLACE);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
void __tsan_atomic_signal_fence(int) { __atomic_signal_fence(__ATOMIC_SEQ_CST); }

}  // extern "C"
// NOLINTEND
