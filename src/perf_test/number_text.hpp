// SPDX-License-Identifier: Apache-2.0
// number_text.hpp - measured numbers for people: as many digits as mean something, and a unit that suits the size.
#pragma once

#include <string>
#include <string_view>

namespace holdfast::perf_test {

/// Three significant digits and no exponent between 0.001 and 1e9: `0.0123`, `4.56`, `789`, `12 300`.
[[nodiscard]] std::string number_text(double value);

/// Two decimals below 10, fewer above: `0.87`, `1.63`, `24.1`, `310`.
[[nodiscard]] std::string ratio_text(double ratio);

/// What to divide values of `unit` by, and what the quotient is called, for values around `typical`:
/// 2.5e6 ns -> 1e6, `ms`; 3.1e6 requests/s -> 1e6, `M requests/s`.
struct unit_scale {
    double divisor = 1;
    std::string unit;
};
[[nodiscard]] unit_scale scale_for(std::string_view unit, double typical);

}  // namespace holdfast::perf_test
