// SPDX-License-Identifier: Apache-2.0
// scale.hpp - how much work a test does: HOLDFAST_TEST_SCALE (a float, 1 unless set; the long run sets 100).
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>

namespace holdfast::test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool sanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
inline constexpr bool sanitized = true;
#else
inline constexpr bool sanitized = false;
#endif
#else
inline constexpr bool sanitized = false;
#endif

/// The factor asked for by HOLDFAST_TEST_SCALE; nonsense counts as 1.
[[nodiscard]] inline double scale() {
    const char* text = std::getenv("HOLDFAST_TEST_SCALE");
    if (text == nullptr) return 1.0;
    const double value = std::strtod(text, nullptr);
    return value > 0 && value <= 1e6 ? value : 1.0;
}

/// `base` pieces of work times the scale, a tenth of it under a sanitizer, and never none.
[[nodiscard]] inline std::uint64_t scaled(std::uint64_t base) {
    const double work = static_cast<double>(base) * scale() * (sanitized ? 0.1 : 1.0);
    return std::max<std::uint64_t>(1, static_cast<std::uint64_t>(work));
}

/// One in so many, where that is enough for a test; every one in the long run.
[[nodiscard]] inline std::uint64_t one_in_so_many(std::uint64_t so_many) { return scale() >= 100 ? 1 : so_many; }

}  // namespace holdfast::test
