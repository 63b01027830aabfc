// SPDX-License-Identifier: Apache-2.0
// access_hooks.hpp - tells a listener of each load and store of some bytes, before it happens, by whatever code does
// it: plain accesses, atomic ones of every kind, memcpy and memset.
//
// Code compiled with -fsanitize=thread calls __tsan_write8(address) and its kin in front of every access, and does its
// atomics through __tsan_atomic64_store(address, value, order) and its kin. Here these functions are our own
// (access_hooks.cpp) and thread sanitizer's library is not linked. So the containers' real headers are watched as they
// are, without a seam in them and at no cost to anybody else. What the compiler may not see, vector loads by inline
// assembly, the headers themselves replace by words under this option.
//
// Stores are reported in pieces of at most 8 bytes, none of which crosses an aligned word; a copy of n bytes is thus
// several stores in rising order, as a death could cut it.
// Threads: one. Signals: no instrumented code in handlers.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

namespace holdfast::test {

/// Hears of stores to the watched bytes. Called by the code that makes them: must not throw.
class store_listener {
 public:
    /// `bytes` is 1 to 8, within one aligned word. A compare-and-swap that fails is reported as a store, too.
    virtual void before_store(std::byte* at, std::size_t bytes) noexcept = 0;

 protected:
    ~store_listener() = default;
};
/// And of loads.
class access_listener : public store_listener {
 public:
    virtual void before_load(const std::byte* at, std::size_t bytes) noexcept = 0;

 protected:
    ~access_listener() = default;
};

/// Stands in for the memory itself: does the watched atomic accesses and fences, with the order that each asks for and
/// the address behind its call, which tells one place in the program from another. Must not throw.
class memory_listener {
 public:
    virtual std::uint64_t load(const std::byte* at, std::size_t bytes, std::memory_order order,
                               const void* place) noexcept = 0;
    virtual void store(std::byte* at, std::size_t bytes, std::uint64_t value, std::memory_order order,
                       const void* place) noexcept = 0;
    /// In front of a read-modify-write, which does nothing yet: others may go on first.
    virtual void before_update() noexcept = 0;
    /// A read-modify-write of the last value, which then happens in memory at once; `stores` is false for a
    /// compare-and-swap that fails.
    virtual void update(std::byte* at, std::size_t bytes, bool stores, std::memory_order order,
                        const void* place) noexcept = 0;
    virtual void fence(std::memory_order order, const void* place) noexcept = 0;

 protected:
    ~memory_listener() = default;
};
enum class memory_access : std::uint8_t { load, store, update, fence };

/// From now on until its end accesses to `bytes` are told to `listener`; atomic ones are left to `memory`, if there is
/// one. Requires: no other is alive.
class access_watch {
 public:
    access_watch(std::span<std::byte> bytes, store_listener& listener) noexcept;
    access_watch(std::span<std::byte> bytes, access_listener& listener, memory_listener* memory = nullptr) noexcept;
    access_watch(const access_watch&) = delete;
    access_watch& operator=(const access_watch&) = delete;
    ~access_watch();
};

/// While it lives, nothing is told: for what the listener itself does to the bytes.
class access_unwatched {
 public:
    access_unwatched() noexcept;
    access_unwatched(const access_unwatched&) = delete;
    access_unwatched& operator=(const access_unwatched&) = delete;
    ~access_unwatched();

 private:
    std::size_t bytes_, heard_bytes_;
};

/// While it lives, on the stack of the process that calls into a loop of looks, all looks but the first are that one
/// again: from the second load of a word at one place in the program on, loads give what they gave before, and neither
/// they nor stores are told, until the process loads a word that it has not looked at yet, or updates one. Another
/// process may be on between any two accesses of the first look, and none is between the looks: that is one of the
/// schedules that there are, and the others differ from those of a look less. Requires: no other is alive.
class one_look {
 public:
    one_look() noexcept;
    one_look(const one_look&) = delete;
    one_look& operator=(const one_look&) = delete;
    ~one_look();
    /// Of one whose process was dropped.
    static void forget() noexcept;
};

}  // namespace holdfast::test
