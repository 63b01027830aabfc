// SPDX-License-Identifier: Apache-2.0
// log_gamma.hpp - the logarithm of the gamma function, from any thread.
#pragma once

#include <cmath>

namespace holdfast::perf_test {

/// Of x > 0. The plain lgamma writes a global.
[[nodiscard]] inline double log_gamma(double x) noexcept {
    int sign = 0;
    return ::lgamma_r(x, &sign);
}

}  // namespace holdfast::perf_test
