// SPDX-License-Identifier: Apache-2.0
// format.hpp - the one place that knows the formatting library.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <string>

namespace holdfast::cli {

using fmt::format;

/// Bytes for people: `4.0 KiB`, `1.3 GiB`; below 1 KiB `17 B`.
[[nodiscard]] inline std::string bytes_text(std::uint64_t bytes) {
    constexpr const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    if (bytes < 1024) return format("{} B", bytes);
    auto scaled = static_cast<double>(bytes);
    std::size_t unit = 0;
    while (scaled >= 1023.95 && unit < 6) {
        scaled /= 1024;
        ++unit;
    }
    return format("{:.1f} {}", scaled, units[unit]);
}

/// A count with its thousands apart: `1 234 567`.
[[nodiscard]] inline std::string count_text(std::uint64_t count) {
    const std::string digits = std::to_string(count);
    std::string text;
    for (std::size_t i = 0; i < digits.size(); ++i) {
        if (i != 0 && (digits.size() - i) % 3 == 0) text += ' ';
        text += digits[i];
    }
    return text;
}

}  // namespace holdfast::cli
