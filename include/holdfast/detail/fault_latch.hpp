// SPDX-License-Identifier: Apache-2.0
// fault_latch.hpp - the first corruption a handle met, kept for whoever asks.
//
// Hot paths cannot throw; they return nothing and set the latch. Threads may share a handle, so the latch is atomic. It
// lies in private memory, never in a segment.
#pragma once

#include <atomic>
#include <optional>

#include "holdfast/error.hpp"

namespace holdfast::detail {

class fault_latch {
 public:
    fault_latch() = default;
    fault_latch(const fault_latch& other) noexcept : code_(other.raw()) {}
    fault_latch& operator=(const fault_latch& other) noexcept {
        // Relaxed, here and below: one word that orders nothing else.
        code_.store(other.raw(), std::memory_order_relaxed);
        return *this;
    }
    ~fault_latch() = default;

    /// Keeps `code` if it is the first, or the first damage after a mere `contended`.
    void set(errc code) noexcept {
        int seen = 0;
        // Relaxed: see above.
        if (code_.compare_exchange_strong(seen, static_cast<int>(code), std::memory_order_relaxed)) return;
        if (seen == static_cast<int>(errc::contended))
            code_.compare_exchange_strong(seen, static_cast<int>(code), std::memory_order_relaxed);
    }
    /// Forgets `contended`, which passes; damage stays. Returns: whether it was there.
    bool clear_contended() noexcept {
        int seen = static_cast<int>(errc::contended);
        // Relaxed: see above.
        return code_.compare_exchange_strong(seen, 0, std::memory_order_relaxed);
    }
    [[nodiscard]] std::optional<errc> get() const noexcept {
        const int code = raw();
        return code == 0 ? std::nullopt : std::optional<errc>(static_cast<errc>(code));
    }

 private:
    // Relaxed: see above.
    [[nodiscard]] int raw() const noexcept { return code_.load(std::memory_order_relaxed); }
    std::atomic<int> code_{0};
};

}  // namespace holdfast::detail
