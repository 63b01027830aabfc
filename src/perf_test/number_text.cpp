// SPDX-License-Identifier: Apache-2.0
#include "perf_test/number_text.hpp"

#include <array>
#include <cmath>
#include <cstdio>

namespace holdfast::perf_test {

namespace {

/// Requires: below 1e9, so that the text fits.
[[nodiscard]] std::string fixed(double value, int decimals) {
    std::array<char, 64> text{};
    const int length = std::snprintf(text.data(), text.size(), "%.*f", decimals, value);
    return {text.data(), static_cast<std::size_t>(length)};
}

[[nodiscard]] std::string exponent(double value) {
    std::array<char, 64> text{};
    const int length = std::snprintf(text.data(), text.size(), "%.2e", value);
    return {text.data(), static_cast<std::size_t>(length)};
}

/// Digits in groups of three from the right, from five digits on.
[[nodiscard]] std::string grouped(std::string digits) {
    const std::size_t sign = digits.starts_with('-') ? 1 : 0;
    if (digits.size() - sign < 5) return digits;
    for (std::size_t at = digits.size(); at > sign + 3;) {
        at -= 3;
        digits.insert(at, 1, ' ');
    }
    return digits;
}

}  // namespace

std::string number_text(double value) {
    if (!std::isfinite(value)) return "?";
    if (value == 0) return "0";
    const double size = std::fabs(value);
    if (size < 1e-3 || size >= 1e9) return exponent(value);
    if (size >= 1000) {
        const double step = size >= 1e4 ? std::pow(10.0, std::floor(std::log10(size)) - 2) : 1;
        return grouped(fixed(std::round(value / step) * step, 0));
    }
    const int before = static_cast<int>(std::floor(std::log10(size))) + 1;
    return fixed(value, before >= 3 ? 0 : 3 - before);
}

std::string ratio_text(double ratio) {
    if (!std::isfinite(ratio)) return "?";
    const double size = std::fabs(ratio);
    if ((size != 0 && size < 0.1) || size >= 1e4) return number_text(ratio);
    return fixed(ratio, size < 9.995 ? 2 : size < 99.95 ? 1 : 0);
}

unit_scale scale_for(std::string_view unit, double typical) {
    struct step {
        double divisor;
        const char* name;
    };
    const double size = std::fabs(typical);
    if (unit == "ns") {
        constexpr std::array<step, 3> times{{{1e9, "s"}, {1e6, "ms"}, {1e3, "us"}}};
        for (const step& s : times)
            if (size >= s.divisor) return {s.divisor, s.name};
        return {1, "ns"};
    }
    if (unit.ends_with("/s")) {
        constexpr std::array<step, 3> rates{{{1e9, "G"}, {1e6, "M"}, {1e3, "k"}}};
        for (const step& s : rates)
            if (size >= s.divisor) return {s.divisor, std::string(s.name) + " " + std::string(unit)};
    }
    return {1, std::string(unit)};
}

}  // namespace holdfast::perf_test
