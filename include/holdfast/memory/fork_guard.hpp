// SPDX-License-Identifier: Apache-2.0
// fork_guard.hpp - tells a forked child that the handle it inherited is not its own.
//
// One word, set to 1 by its maker in a page that the kernel wipes to 0 in every child. Costs one load to ask.
#pragma once

#include <atomic>
#include <cstdint>
#include <new>
#include <string>
#include <utility>

#include "holdfast/memory/wiped_page.hpp"

namespace holdfast::memory {

class fork_guard {
 public:
    fork_guard() noexcept = default;

    /// Throws: no_space, unsupported.
    [[nodiscard]] static fork_guard make(const std::string& subject) {
        fork_guard guard;
        guard.page_ = wiped_page::make(subject);
        ::new (guard.page_.data()) std::atomic<std::uint32_t>(1);
        return guard;
    }

    /// True in the process that made the guard, false in its forked children.
    [[nodiscard]] bool same_process() const noexcept {
        const auto* const mark = static_cast<const std::atomic<std::uint32_t>*>(page_.data());
        // Relaxed: written before any other thread can see the guard, and wiped only in a new process.
        return mark != nullptr && mark->load(std::memory_order_relaxed) != 0;
    }

 private:
    wiped_page page_;
};

}  // namespace holdfast::memory
