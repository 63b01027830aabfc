// SPDX-License-Identifier: Apache-2.0
// order_statistics.hpp - how far a quantile of some samples may be from that of what they were drawn from, whatever
// that is.
//
// Of n independent samples, the number K below the true quantile q is binomial(n, q). So the l-th and the u-th smallest
// sample hold the quantile between them with probability P(l <= K < u), for any continuous distribution, and with at
// least that for one with jumps.
// Source: David and Nagaraja, Order Statistics, 3rd ed., section 7.1.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace holdfast::detail {

/// P(X <= k) for X binomial(n, p). Requires: n >= 1 and 0 <= p <= 1; k is a whole number.
///
/// By the sum of its terms where these are few, else by the normal curve corrected for skewness, whose error is below
/// 0.001 there. Cost: up to 2 us.
[[nodiscard]] inline double binomial_at_most(double n, double k, double p) noexcept {
    if (k < 0) return 0;
    if (k >= n) return 1;
    if (p > 0.5) return 1 - binomial_at_most(n, n - k - 1, 1 - p);
    const double mean = n * p;
    if (mean <= 500) {  // the first term is at least exp(-2 * 500 * ln 2), which is no underflow
        double term = std::exp(n * std::log1p(-p));
        double sum = term;
        const double odds = p / (1 - p);
        for (double j = 0; j < k && (j < mean || term > 1e-18); ++j) {
            term *= odds * (n - j) / (j + 1);
            sum += term;
        }
        return std::min(sum, 1.0);
    }
    const double deviation = std::sqrt(mean * (1 - p));
    const double z = (k + 0.5 - mean) / deviation;
    const double density = std::exp(-z * z / 2) / 2.5066282746310002;  // the root of 2 pi
    const double skewness = (1 - 2 * p) / deviation;
    return std::clamp(std::erfc(-z / 1.4142135623730951) / 2 - density * skewness / 6 * (z * z - 1), 0.0, 1.0);
}

/// Two ranks and how likely the samples of these ranks hold the true quantile between them.
struct rank_interval {
    double lower = 1;
    double upper = 1;
    double confidence = 0;
};

/// Ranks for quantile q of n samples: close, but far enough apart for `wanted`, if n samples allow it; else the first
/// or the last rank, and the confidence that these give. Requires: n >= 1, 0 <= q <= 1.
[[nodiscard]] inline rank_interval ranks_around(double n, double q, double wanted) noexcept {
    const double spread = 1.96 * std::sqrt(n * q * (1 - q));
    const double step = std::max(1.0, std::floor(spread / 100));
    rank_interval found;
    found.lower = std::max(1.0, std::floor(q * n - spread));
    found.upper = std::min(n, std::ceil(q * n + spread) + 1);
    for (int tries = 0;; ++tries) {
        // n - K is binomial(n, 1 - q): both tails are sums of small terms, not differences from 1.
        found.confidence = std::clamp(
            1 - binomial_at_most(n, found.lower - 1, q) - binomial_at_most(n, n - found.upper, 1 - q), 0.0, 1.0);
        if (found.confidence >= wanted || (found.lower <= 1 && found.upper >= n) || tries == 16) return found;
        found.lower = std::max(1.0, found.lower - step);
        found.upper = std::min(n, found.upper + step);
    }
}

}  // namespace holdfast::detail
