// SPDX-License-Identifier: Apache-2.0
// Binomial tails and the ranks that hold a quantile, against direct sums and against counting.
#include "holdfast/metrics/order_statistics.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace {

using holdfast::detail::binomial_at_most;
using holdfast::detail::ranks_around;

/// P(X <= k) by logarithms of factorials: slow, and good to about 1e-10 for the n below.
double by_definition(int n, int k, double p) {
    double sum = 0;
    for (int j = 0; j <= k; ++j)
        sum += std::exp(std::lgamma(n + 1.0) - std::lgamma(j + 1.0) - std::lgamma(n - j + 1.0) + j * std::log(p) +
                        (n - j) * std::log1p(-p));
    return sum;
}

TEST(Binomial, AgreesWithItsDefinition) {
    for (const int n : {1, 2, 10, 100, 999, 1001, 20000})
        for (const double p : {0.0001, 0.01, 0.1, 0.4999, 0.5, 0.5001, 0.9, 0.999})
            for (const double share : {0.0, 0.3, 0.5, 0.9, 1.0, 1.1, 1.5, 3.0}) {
                const int k = static_cast<int>(n * p * share);
                if (k > n) continue;
                EXPECT_NEAR(binomial_at_most(n, k, p), std::min(1.0, by_definition(n, k, p)), 0.001)
                    << n << " " << k << " " << p;
            }
}

TEST(Binomial, EndsAreExact) {
    EXPECT_EQ(binomial_at_most(10, -1, 0.5), 0);
    EXPECT_EQ(binomial_at_most(10, 10, 0.5), 1);
    EXPECT_EQ(binomial_at_most(10, 0, 0), 1);
    EXPECT_EQ(binomial_at_most(10, 9, 1), 0);
    EXPECT_NEAR(binomial_at_most(1e18, 0, 1e-18), std::exp(-1.0), 1e-6);
}

// No sum may run with the number of samples, and no step may leave the numbers.
TEST(Ranks, AreWithinTheSamplesAndWideEnoughForAnyNumber) {
    for (double n = 1; n < 1.9e19; n = std::ceil(n * 1.7)) {
        for (const double q : {0.0, 1e-9, 0.01, 0.5, 0.9, 0.99, 0.999, 0.9999999, 1.0}) {
            const auto found = ranks_around(n, q, 0.95);
            EXPECT_GE(found.lower, 1);
            EXPECT_LE(found.lower, found.upper);
            EXPECT_LE(found.upper, n);
            EXPECT_LE(found.lower, std::max(1.0, std::ceil(q * n)));
            EXPECT_GE(found.upper, std::ceil(q * n));
            EXPECT_GE(found.confidence, 0);
            EXPECT_LE(found.confidence, 1);
            if (found.lower > 1 || found.upper < n) {
                EXPECT_TRUE(found.confidence >= 0.95 || found.lower == 1 || found.upper == n) << n << " " << q;
            }
        }
    }
}

// Textbook values: 6 samples are the fewest whose extremes hold the median with 95 %; 10 give ranks 2 and 9.
TEST(Ranks, MedianOfFewSamples) {
    EXPECT_LT(ranks_around(5, 0.5, 0.95).confidence, 0.95);
    EXPECT_NEAR(ranks_around(6, 0.5, 0.95).confidence, 1 - 2 / 64.0, 1e-12);
    const auto ten = ranks_around(10, 0.5, 0.95);
    EXPECT_LE(ten.lower, 2);
    EXPECT_GE(ten.upper, 9);
    EXPECT_GE(ten.confidence, 1 - 2 * 11 / 1024.0 - 1e-12);
}

// Close enough to be of use: what is asked is not exceeded by much where ranks are fine-grained.
TEST(Ranks, AreNoWiderThanNeeded) {
    for (const double n : {1e4, 1e6, 1e9})
        for (const double q : {0.5, 0.9, 0.99}) EXPECT_LT(ranks_around(n, q, 0.95).confidence, 0.97) << n << " " << q;
}

}  // namespace
