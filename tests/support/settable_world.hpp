// SPDX-License-Identifier: Apache-2.0
// settable_world.hpp - the wall clock, the time since boot and the kernel's random bytes as a test wants them.
//
// Include it in one source file of a program: it defines clock_gettime() and getrandom() themselves, so everything in
// the program that asks, the library's headers and the standard library alike, gets the test's answers. By default all
// are the kernel's. CLOCK_MONOTONIC is never touched: nobody can set it. A forked child has settings of its own.
#pragma once

#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "support/seed.hpp"

namespace holdfast::test {

struct world_settings {
    std::atomic<std::int64_t> frozen_ns{0};       // CLOCK_REALTIME stands here; 0: it runs
    std::atomic<std::int64_t> shift_ns{0};        // a running CLOCK_REALTIME is off by this
    std::atomic<std::int64_t> boot_shift_ns{0};   // CLOCK_BOOTTIME is off by this
    std::atomic<std::int64_t> boot_frozen_ns{0};  // CLOCK_BOOTTIME stands here; 0: it runs
    std::atomic<std::uint64_t> random_seed{0};    // getrandom() draws from this; 0: from the kernel
    std::atomic<std::uint64_t> random_drawn{0};
    std::atomic<bool> random_refused{false};  // getrandom() answers ENOSYS
};
inline world_settings world;

/// The world at a given moment, with given random bytes, for as long as it lives.
class still_world {
 public:
    explicit still_world(std::int64_t unix_ns, std::uint64_t seed) {
        world.frozen_ns = unix_ns;
        world.random_seed = seed;
        world.random_drawn = 0;
    }
    still_world(const still_world&) = delete;
    still_world& operator=(const still_world&) = delete;
    ~still_world() {
        world.frozen_ns = 0;
        world.random_seed = 0;
    }
    static void pass(std::int64_t ns) { world.frozen_ns += ns; }
};

/// CLOCK_BOOTTIME at the beginning of this second, for as long as it lives.
class still_boot {
 public:
    still_boot() {
        struct timespec now{};
        ::clock_gettime(CLOCK_BOOTTIME, &now);
        world.boot_frozen_ns = now.tv_sec * std::int64_t{1'000'000'000};
    }
    still_boot(const still_boot&) = delete;
    still_boot& operator=(const still_boot&) = delete;
    ~still_boot() { world.boot_frozen_ns = 0; }
};

}  // namespace holdfast::test

extern "C" {

inline constexpr std::int64_t ns_per_s = 1'000'000'000;

int clock_gettime(clockid_t clock, struct timespec* now) noexcept {
    using holdfast::test::world;
    const auto answer = static_cast<int>(::syscall(SYS_clock_gettime, clock, now));
    if (answer != 0 || (clock != CLOCK_REALTIME && clock != CLOCK_BOOTTIME)) return answer;
    const bool wall = clock == CLOCK_REALTIME;
    std::int64_t ns = wall ? world.frozen_ns.load() : world.boot_frozen_ns.load();
    if (ns == 0) ns = now->tv_sec * ns_per_s + now->tv_nsec + (wall ? world.shift_ns : world.boot_shift_ns);
    now->tv_sec = ns / ns_per_s;
    now->tv_nsec = ns % ns_per_s;
    return 0;
}

ssize_t getrandom(void* into, std::size_t bytes, unsigned flags) {
    using holdfast::test::world;
    if (world.random_refused) {
        errno = ENOSYS;
        return -1;
    }
    if (world.random_seed == 0) return ::syscall(SYS_getrandom, into, bytes, flags);
    for (std::size_t at = 0; at < bytes; at += sizeof(std::uint64_t)) {
        const std::uint64_t word = holdfast::test::random_at(world.random_seed, 0, world.random_drawn++);
        const std::size_t rest = bytes - at;
        std::memcpy(static_cast<char*>(into) + at, &word, rest < sizeof word ? rest : sizeof word);
    }
    return static_cast<ssize_t>(bytes);
}
}
