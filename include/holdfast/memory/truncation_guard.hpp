// SPDX-License-Identifier: Apache-2.0
// truncation_guard.hpp - turns the SIGBUS of a file cut off under its mapping into an answer.
// A lookup that met such a page may have answered from zeros: where the guard is installed, an answer is believed only
// after the handle's fault() was asked.
//
// Limit: a file ends at any byte, a mapping at a page. A file cut inside its last page shows zeros from there to the
// page's end and raises no signal, so no guard acts and fault() is silent; segment::cut_off() looks at the file's
// length and tells. Whoever attaches afterwards is refused (errc::truncated) in either case.
//
// Opt-in, because it installs a process-wide handler for SIGBUS. A fault inside a registered region is answered by
// putting a page of zeros there and marking the region; the reader goes on over zeros, which its bounds checks take as
// any other bytes, and then finds the mark. Faults elsewhere go to the handler that was there before. Threads:
// registering, releasing and faulting may run together. Source: sigaction(2), mmap(2).
#pragma once

#include <signal.h>
#include <sys/mman.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <utility>

#include "holdfast/error.hpp"

namespace holdfast::memory {

namespace detail {

struct guarded_region {
    std::atomic<std::uintptr_t> begin{0};  // 0 = free, 1 = being filled in
    std::atomic<std::uintptr_t> end{0};
    std::atomic<std::uint32_t> truncated{0};
    std::atomic<std::uint32_t> writable{0};
};

struct truncation_table {
    static constexpr std::size_t regions_max = 4096;
    std::array<guarded_region, regions_max> regions;
    std::atomic<std::size_t> used{0};  // regions at and behind this index were never filled in
    std::atomic<bool> installed{false};
    struct sigaction before{};
};

// The one piece of process-wide state in the core: a signal handler has no other way to find its data. Unused unless
// installed.
inline truncation_table guard_table;

inline void pass_on(int number, siginfo_t* info, void* context) noexcept {
    const struct sigaction& before = guard_table.before;
    if ((before.sa_flags & SA_SIGINFO) != 0 && before.sa_sigaction != nullptr) {
        before.sa_sigaction(number, info, context);
    } else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN && before.sa_handler != nullptr) {
        before.sa_handler(number);
    } else {
        ::signal(number, SIG_DFL);  // the faulting instruction runs again and takes the default action
    }
}

inline void on_bus_error(int number, siginfo_t* info, void* context) noexcept {
    constexpr std::uintptr_t page_mask = 4095;
    const int saved = errno;
    const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
    // R1, pairs with W1: an index below `used` has been filled in at least once.
    const std::size_t used = guard_table.used.load(std::memory_order_acquire);
    for (std::size_t i = 0; i < used; ++i) {
        guarded_region& region = guard_table.regions[i];
        // R2, pairs with W2: a begin that is seen comes with its end and flags.
        const std::uintptr_t begin = region.begin.load(std::memory_order_acquire);
        if (begin <= 1 || address < begin || address >= region.end.load(std::memory_order_relaxed)) continue;
        // Relaxed: the mark is read by the thread that faulted, or later, by whoever asks; it orders nothing else.
        region.truncated.store(1, std::memory_order_relaxed);
        const int protection =
            region.writable.load(std::memory_order_relaxed) != 0 ? PROT_READ | PROT_WRITE : PROT_READ;
        void* const page = reinterpret_cast<void*>(address & ~page_mask);
        if (::mmap(page, page_mask + 1, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED) {
            errno = saved;
            return;
        }
    }
    errno = saved;
    pass_on(number, info, context);
}

}  // namespace detail

/// Installs the SIGBUS handler. Segments attached afterwards report truncation under their mapping as errc::truncated.
/// Threads: call once, before other threads attach. Throws: io.
inline void install_truncation_guard() {
    // Relaxed: installation happens before the attaches that it is to cover, in program order or by the caller's own
    // ordering.
    if (detail::guard_table.installed.exchange(true, std::memory_order_relaxed)) return;
    struct sigaction action{};
    action.sa_sigaction = &detail::on_bus_error;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    sigemptyset(&action.sa_mask);
    if (::sigaction(SIGBUS, &action, &detail::guard_table.before) != 0)
        throw error(errc::io, "SIGBUS", "installing the truncation guard failed");
}

/// A region's entry in the guard; empty when the guard is not installed or its table is full.
class truncation_watch {
 public:
    truncation_watch() noexcept = default;
    truncation_watch(truncation_watch&& other) noexcept : region_(std::exchange(other.region_, nullptr)) {}
    truncation_watch& operator=(truncation_watch&& other) noexcept {
        truncation_watch taken(std::move(other));
        std::swap(region_, taken.region_);
        return *this;
    }
    truncation_watch(const truncation_watch&) = delete;
    truncation_watch& operator=(const truncation_watch&) = delete;
    ~truncation_watch() {
        // Relaxed: the owner unmaps after this; a fault of its own threads past that point is the caller's error.
        if (region_ != nullptr) region_->begin.store(0, std::memory_order_relaxed);
    }

    [[nodiscard]] static truncation_watch over(const void* address, std::size_t bytes, bool writable) noexcept {
        truncation_watch watch;
        if (!detail::guard_table.installed.load(std::memory_order_relaxed)) return watch;
        for (std::size_t i = 0; i < detail::truncation_table::regions_max; ++i) {
            detail::guarded_region& region = detail::guard_table.regions[i];
            std::uintptr_t free = 0;
            // Acquire, pairs with the release of nothing but earlier users' plain reuse; claims the entry for this
            // thread.
            if (!region.begin.compare_exchange_strong(free, 1, std::memory_order_acquire, std::memory_order_relaxed))
                continue;
            region.end.store(reinterpret_cast<std::uintptr_t>(address) + bytes, std::memory_order_relaxed);
            region.truncated.store(0, std::memory_order_relaxed);
            region.writable.store(writable ? 1 : 0, std::memory_order_relaxed);
            // W2, pairs with R2: publishes end and flags with begin.
            region.begin.store(reinterpret_cast<std::uintptr_t>(address), std::memory_order_release);
            std::size_t used = detail::guard_table.used.load(std::memory_order_relaxed);
            // W1, pairs with R1: makes the entry visible to the handler.
            while (used < i + 1 && !detail::guard_table.used.compare_exchange_weak(
                                       used, i + 1, std::memory_order_release, std::memory_order_relaxed)) {
            }
            watch.region_ = &region;
            return watch;
        }
        return watch;
    }

    /// Whether there is a guard that would act.
    [[nodiscard]] bool active() const noexcept { return region_ != nullptr; }
    [[nodiscard]] bool truncated() const noexcept {
        // Relaxed: see on_bus_error.
        return region_ != nullptr && region_->truncated.load(std::memory_order_relaxed) != 0;
    }

 private:
    detail::guarded_region* region_ = nullptr;
};

}  // namespace holdfast::memory
