// SPDX-License-Identifier: Apache-2.0
// statistics.hpp - what a list of measured numbers says, with how sure it is.
//
// Rules that hold throughout:
//   I1. Nothing assumes a normal distribution. Times of programs are skewed, have several peaks and heavy tails.
//   I2. An interval is by order statistics: it lies between two of the samples and covers at least what it says for
//       every continuous distribution. It assumes that samples are independent; the autocorrelation says if they are.
//   I3. A number that is not finite is no measurement: it is refused, never left out in silence.
//   I4. Every function ends in O(n log n) time or better for any input; the exact tests are bounded by their own sizes.
// Percentiles between samples are interpolated: level q lies at q (n - 1) of the sorted samples counted from 0.
// Threads: pure functions. Throws: holdfast::error (invalid_argument) where I3 or a stated requirement is broken, and
// std::bad_alloc.
// Source: order-statistic intervals and the signed ranks: Conover, Practical Nonparametric Statistics, 3rd ed., 1999,
// sections 3.2, 3.4 and 5.7; percentiles: definition 7 of Hyndman and Fan, The American Statistician 50(4), 1996;
// fences: Tukey, Exploratory Data Analysis, 1977; slope: Sen, JASA 63, 1968; Holm, Scand. J. Statistics 6, 1979.
#pragma once

#include "holdfast/perf_test/result.hpp"

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace holdfast::perf_test {

/// Fills every field of a summary. Cost: O(n log n); a copy of the samples and about as much again.
[[nodiscard]] summary describe(std::span<const double> samples_in_time_order);

/// What a reader must be told about a sample: "unstable", "drift", "modes", "autocorrelation", each with what to do.
[[nodiscard]] std::vector<warning> warnings_of(const summary& samples);

/// When warnings_of speaks.
struct warning_limits {
    static constexpr double unstable = 0.05;         ///< half width of the median's interval, part of the median
    static constexpr double drift = 0.05;            ///< change over the run, part of the median, if also beyond noise
    static constexpr double autocorrelation = 0.3;   ///< if also beyond three standard errors, 3 / sqrt(n)
    static constexpr std::size_t samples_least = 6;  ///< fewer have no 95 % interval of the median
};

/// Level q of sorted samples, interpolated; 0 for no samples. Requires: sorted ascending, 0 <= q <= 1.
[[nodiscard]] double percentile_of_sorted(std::span<const double> sorted, double q) noexcept;

/// Ranks (from 1) of the two order statistics that hold level q of the distribution with the wanted confidence or
/// more, each side missing with at most half of what is left. A side without such a rank has none: too few samples.
struct rank_interval {
    std::optional<std::size_t> low, high;
};
[[nodiscard]] rank_interval quantile_ranks(std::size_t samples, double q, double confidence = 0.95);

/// Level q of the distribution that the samples came from. bounded: both ends hold; else an end is the extreme sample.
/// Samples may be in any order. Requires: 0 <= q <= 1.
[[nodiscard]] percentile quantile(std::span<const double> samples, double q, double confidence = 0.95);

/// The sign-test interval of the median. With fewer than 6 samples it is their range and covers less than 95 %.
[[nodiscard]] interval median_interval(std::span<const double> samples);

/// Mean of rates or ratios: exp of the mean of logarithms. Zero unless all samples are above zero.
[[nodiscard]] double geometric_mean(std::span<const double> samples);

/// Mean of rates over equal work: n over the sum of reciprocals. Zero unless all samples are above zero.
[[nodiscard]] double harmonic_mean(std::span<const double> samples);

/// Standard deviation over the mean; zero for a mean of zero.
[[nodiscard]] double coefficient_of_variation(const summary& samples) noexcept;

/// Weighted mean in which a sample of age a (the last has age 0) weighs 2^(-a / half_life). Requires: half_life > 0.
[[nodiscard]] double decayed_mean(std::span<const double> samples_in_time_order, double half_life);

/// Change from first to last by the median of slopes between all pairs of at most 128 medians of neighbours, over the
/// median of all; zero for fewer than three samples. One sample in four may be anything without moving it far.
[[nodiscard]] double robust_drift(std::span<const double> samples_in_time_order);

/// Clearly separate peaks of the distribution: 0 for no samples, else at least 1.
///
/// The density is estimated with a Gaussian kernel (bandwidth 0.7 n^-1/5 of the smaller of deviation and interquartile
/// range / 1.34). A valley separates two peaks if the square root of the density there is lower than at both by more
/// standard errors than chance gives (3 to 5, more for wider samples); a peak needs 5 % of the samples, and five. Peaks
/// nearer than about 2 % of the median are one: the difference would matter to nobody, and clocks have grains.
/// One bandwidth serves all: of several peaks, those much nearer to each other than to the rest may be counted as one.
/// Tested: at most 1 false alarm in 100 on normal, uniform, exponential, log-normal, Laplace, gamma and t(3) noise, 10
/// to 10 000 samples; two equal normal peaks 6 deviations apart are found in 19 of 20 cases of 60 samples.
[[nodiscard]] std::size_t count_modes(std::span<const double> samples);

/// Two-sided Wilcoxon test that differences are symmetric about zero. Zeros are left out, ties share their ranks.
/// Exact (given the ties) up to 50 differences that are not zero, beyond that the normal approximation with the
/// correction for ties and continuity. No difference at all: 1. Requires: no NaN; infinities rank last.
[[nodiscard]] double wilcoxon_signed_rank(std::span<const double> differences);

/// Holm's correction: p values of a family of tests, adjusted so that comparing each with the level alpha keeps the
/// chance of any false alarm at alpha or below. In the order given. Requires: 0 <= p <= 1.
[[nodiscard]] std::vector<double> holm_adjusted(std::span<const double> p_values);

}  // namespace holdfast::perf_test
