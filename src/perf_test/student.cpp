// SPDX-License-Identifier: Apache-2.0
// student.cpp - Student's distribution by the continued fraction of the incomplete beta function.
// Source: Abramowitz and Stegun, Handbook of Mathematical Functions, 26.5.8 and 26.7.1; evaluation by Lentz, Applied
// Optics 15, 1976.
#include <cmath>

#include "holdfast/perf_test/compare.hpp"
#include "perf_test/log_gamma.hpp"

namespace holdfast::perf_test {

namespace {

// The fraction of 26.5.8; converges fast for x < (a + 1) / (a + b + 2).
double beta_fraction(double a, double b, double x) noexcept {
    constexpr double tiny = 1e-300;
    double c = 1, d = 1 - (a + b) * x / (a + 1);
    d = 1 / (std::fabs(d) < tiny ? tiny : d);
    double value = d;
    for (int m = 1; m <= 500; ++m) {
        const double steps[] = {m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
                                -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))};
        double factor = 1;
        for (const double step : steps) {
            d = 1 + step * d;
            d = 1 / (std::fabs(d) < tiny ? tiny : d);
            c = 1 + step / c;
            c = std::fabs(c) < tiny ? tiny : c;
            factor = c * d;
            value *= factor;
        }
        if (std::fabs(factor - 1) < 1e-15) break;
    }
    return value;
}

double incomplete_beta(double a, double b, double x, double one_minus_x) noexcept {
    if (x <= 0) return 0;
    if (one_minus_x <= 0) return 1;
    const double front =
        std::exp(log_gamma(a + b) - log_gamma(a) - log_gamma(b) + a * std::log(x) + b * std::log(one_minus_x));
    if (x < (a + 1) / (a + b + 2)) return front * beta_fraction(a, b, x) / a;
    return 1 - front * beta_fraction(b, a, one_minus_x) / b;
}

}  // namespace

double student_two_sided(double t, double df) noexcept {
    if (!(t > 0)) return 1;
    if (std::isinf(t)) return 0;
    if (df > 1e6) return std::erfc(t / std::sqrt(2.0));
    const double square = t * t;
    return incomplete_beta(df / 2, 0.5, df / (df + square), square / (df + square));
}

double student_quantile(double p, double df) noexcept {
    if (!(p < 1)) return 0;
    double low = 0, high = 1;
    while (student_two_sided(high, df) > p && high < 1e300) high *= 2;
    for (int i = 0; i < 200 && high - low > 1e-13 * high; ++i) {
        const double middle = low + (high - low) / 2;
        (student_two_sided(middle, df) > p ? low : high) = middle;
    }
    return low + (high - low) / 2;
}

}  // namespace holdfast::perf_test
