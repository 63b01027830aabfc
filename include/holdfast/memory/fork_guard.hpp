// SPDX-License-Identifier: Apache-2.0
// fork_guard.hpp - tells a forked child that the handle it inherited is not its own.
//
// One page, set to 1 by its maker and wiped to 0 by the kernel in every child (MADV_WIPEONFORK). Costs one load to ask.
// Source: madvise(2), MADV_WIPEONFORK.
#pragma once

#include <sys/mman.h>

#include <atomic>
#include <cstdint>
#include <new>
#include <string>
#include <utility>

#include "holdfast/memory/descriptor.hpp"

namespace holdfast::memory {

class fork_guard {
 public:
    fork_guard() noexcept = default;
    fork_guard(fork_guard&& other) noexcept : mark_(std::exchange(other.mark_, nullptr)) {}
    fork_guard& operator=(fork_guard&& other) noexcept {
        fork_guard taken(std::move(other));
        std::swap(mark_, taken.mark_);
        return *this;
    }
    fork_guard(const fork_guard&) = delete;
    fork_guard& operator=(const fork_guard&) = delete;
    ~fork_guard() {
        if (mark_ != nullptr) ::munmap(mark_, page_bytes);
    }

    /// Throws: no_space, unsupported.
    [[nodiscard]] static fork_guard make(const std::string& subject) {
        void* page = ::mmap(nullptr, page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (page == MAP_FAILED) throw_errno(errno, subject, "mapping the fork guard page");
        fork_guard guard;
        guard.mark_ = ::new (page) std::atomic<std::uint32_t>(1);
        if (::madvise(page, page_bytes, MADV_WIPEONFORK) != 0)
            throw_errno(errno, subject, "MADV_WIPEONFORK", "Linux 4.14 or newer is needed");
        return guard;
    }

    /// True in the process that made the guard, false in its forked children.
    [[nodiscard]] bool same_process() const noexcept {
        // Relaxed: written before any other thread can see the guard, and wiped only in a new process.
        return mark_ != nullptr && mark_->load(std::memory_order_relaxed) != 0;
    }

 private:
    static constexpr std::size_t page_bytes = 4096;
    std::atomic<std::uint32_t>* mark_ = nullptr;
};

}  // namespace holdfast::memory
