// SPDX-License-Identifier: Apache-2.0
// turn_clock.hpp - how long a loop has served one connection's requests in this turn, so that others are served in
// between.
#pragma once

#include <cstdint>

namespace holdfast::net {

/// CLOCK_MONOTONIC.
[[nodiscard]] std::uint64_t monotonic_ns() noexcept;

/// Reading the clock costs a twentieth of a quick request. So it is read for requests that others of the same
/// connection follow alone, behind the first and the second, and from there behind each fourth, or behind each where
/// they are slow: a share is exceeded by three requests at most.
class turn_clock {
 public:
    turn_clock() = default;

    static constexpr std::uint64_t share_ns = 100'000;  ///< as long as 32 KiB of short answers take

    /// To be asked before each request of a connection, in whatever parts its bytes come. `turn`: another number each.
    /// Returns: whether those before it have taken a share; the next one then begins another.
    [[nodiscard]] bool is_a_share(std::uint32_t connection, std::uint64_t turn) noexcept {
        if (connection != connection_ || turn != turn_) *this = {connection, turn};
        if (answered_++ != next_) return false;
        return look();
    }

 private:
    turn_clock(std::uint32_t connection, std::uint64_t turn) noexcept : connection_(connection), turn_(turn) {}

    [[nodiscard]] bool look() noexcept {
        const std::uint64_t now_ns = monotonic_ns();
        if (begun_ns_ == 0) begun_ns_ = now_ns;
        const std::uint64_t taken_ns = now_ns - begun_ns_;
        const bool slow = taken_ns > share_ns / 8;
        next_ += next_ == 1 || slow ? 1 : 4;
        if (taken_ns < share_ns) return false;
        *this = {connection_, turn_};
        return true;
    }

    std::uint32_t connection_ = ~std::uint32_t{0};
    std::uint64_t turn_ = 0;
    unsigned answered_ = 0;
    unsigned next_ = 1;           // to look at the clock behind
    std::uint64_t begun_ns_ = 0;  // behind the first
};

}  // namespace holdfast::net
