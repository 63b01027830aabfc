// SPDX-License-Identifier: Apache-2.0
// spans.hpp - spans of time between a caller's std::chrono and the unsigned counts that a segment stores.
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>

namespace holdfast::detail {

/// Nanoseconds of a span; none of one below zero.
[[nodiscard]] constexpr std::uint64_t ns_of(std::chrono::nanoseconds span) noexcept {
    return span.count() > 0 ? static_cast<std::uint64_t>(span.count()) : 0;
}

/// The span of a stored count, which may be any; the longest there is for one that is longer.
template <class Span>
[[nodiscard]] constexpr Span span_of(std::uint64_t count) noexcept {
    constexpr std::uint64_t longest = std::numeric_limits<std::int64_t>::max();
    return Span(static_cast<std::int64_t>(count < longest ? count : longest));
}

}  // namespace holdfast::detail
