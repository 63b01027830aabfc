// SPDX-License-Identifier: Apache-2.0
// statistics.cpp - descriptions of one sample. The rank tests and the peaks have files of their own.
#include "holdfast/perf_test/statistics.hpp"

#include "holdfast/error.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>

namespace holdfast::perf_test {

namespace {

void require_finite(std::span<const double> samples) {
    for (std::size_t i = 0; i < samples.size(); ++i)
        if (!std::isfinite(samples[i]))
            throw error(errc::invalid_argument, "sample " + std::to_string(i),
                        "is not a finite number; a measurement that failed must be left out before statistics");
}

// The median of what is in `values`, which it reorders. Halves are added after halving: no overflow.
double median_in_place(std::span<double> values) noexcept {
    if (values.empty()) return 0;
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    if (values.size() % 2 == 1) return *middle;
    return *middle / 2 + *std::max_element(values.begin(), middle) / 2;
}

// Mean and deviation are taken of numbers divided by the largest, so that squares neither overflow nor vanish.
void describe_moments(std::span<const double> samples, summary& out) {
    const double scale = std::max(std::fabs(out.minimum), std::fabs(out.maximum));
    if (scale == 0) return;
    const auto n = static_cast<double>(samples.size());
    double mean = 0;
    for (std::size_t i = 0; i < samples.size(); ++i)
        mean += (samples[i] / scale - mean) / static_cast<double>(i + 1);  // cannot leave the range of the samples
    double squares = 0, products = 0, before = 0;
    for (std::size_t i = 0; i < samples.size(); ++i) {
        const double d = samples[i] / scale - mean;
        squares += d * d;
        if (i > 0) products += d * before;
        before = d;
    }
    out.mean = std::clamp(mean * scale, out.minimum, out.maximum);
    // Below the rounding of the numbers themselves there is no spread to speak of, and no order in it.
    if (squares <= n * 1e-30) return;
    if (samples.size() > 1) out.deviation = std::sqrt(squares / (n - 1)) * scale;
    out.autocorrelation = products / squares;
}

outlier_counts count_outliers(std::span<const double> sorted, const summary& s) noexcept {
    outlier_counts found;
    const double range = s.p75 - s.p25;
    // A fence stands at least the rounding of the numbers away, so that equal values computed differently stay inside.
    const double grain = 1e-12 * std::max(std::fabs(s.p25), std::fabs(s.p75));
    const double mild = std::max(1.5 * range, grain), severe = std::max(3 * range, grain);
    for (const double x : sorted) {
        if (x < s.p25 - severe)
            ++found.low_severe;
        else if (x < s.p25 - mild)
            ++found.low_mild;
        else if (x > s.p75 + severe)
            ++found.high_severe;
        else if (x > s.p75 + mild)
            ++found.high_mild;
    }
    return found;
}

interval median_interval_of_sorted(std::span<const double> sorted) {
    if (sorted.empty()) return {};
    const rank_interval ranks = quantile_ranks(sorted.size(), 0.5);
    return {sorted[ranks.low.value_or(1) - 1], sorted[ranks.high.value_or(sorted.size()) - 1]};
}

std::string format(const char* pattern, double a, double b) {
    char text[400];
    std::snprintf(text, sizeof text, pattern, a, b);
    return text;
}

}  // namespace

double percentile_of_sorted(std::span<const double> sorted, double q) noexcept {
    if (sorted.empty()) return 0;
    const double at = std::clamp(q, 0.0, 1.0) * static_cast<double>(sorted.size() - 1);
    const auto below = static_cast<std::size_t>(at);
    if (below + 1 >= sorted.size()) return sorted.back();
    const double part = at - static_cast<double>(below);
    return sorted[below] * (1 - part) + sorted[below + 1] * part;  // no difference of extremes: no overflow
}

summary describe(std::span<const double> samples) {
    require_finite(samples);
    summary out;
    out.count = samples.size();
    if (samples.empty()) return out;
    std::vector<double> sorted(samples.begin(), samples.end());
    std::sort(sorted.begin(), sorted.end());
    out.minimum = sorted.front();
    out.p05 = percentile_of_sorted(sorted, 0.05);
    out.p25 = percentile_of_sorted(sorted, 0.25);
    out.median = percentile_of_sorted(sorted, 0.5);
    out.p75 = percentile_of_sorted(sorted, 0.75);
    out.p95 = percentile_of_sorted(sorted, 0.95);
    out.maximum = sorted.back();
    out.median_95 = median_interval_of_sorted(sorted);
    out.outliers = count_outliers(sorted, out);
    describe_moments(samples, out);
    out.geometric_mean = geometric_mean(sorted);
    out.modes = count_modes(sorted);
    out.drift = robust_drift(samples);
    for (double& x : sorted) x = std::fabs(x - out.median);
    out.mad = median_in_place(sorted);
    return out;
}

percentile quantile(std::span<const double> samples, double q, double confidence) {
    require_finite(samples);
    if (!(q >= 0 && q <= 1)) throw error(errc::invalid_argument, "quantile", "the level must lie in 0 to 1");
    percentile out;
    out.level = q;
    if (samples.empty()) return out;
    std::vector<double> sorted(samples.begin(), samples.end());
    std::sort(sorted.begin(), sorted.end());
    const rank_interval ranks = quantile_ranks(sorted.size(), q, confidence);
    out.estimate = percentile_of_sorted(sorted, q);
    out.lower = std::min(out.estimate, sorted[ranks.low.value_or(1) - 1]);
    out.upper = std::max(out.estimate, sorted[ranks.high.value_or(sorted.size()) - 1]);
    out.bounded = ranks.low && ranks.high;
    return out;
}

interval median_interval(std::span<const double> samples) {
    require_finite(samples);
    std::vector<double> sorted(samples.begin(), samples.end());
    std::sort(sorted.begin(), sorted.end());
    return median_interval_of_sorted(sorted);
}

double geometric_mean(std::span<const double> samples) {
    require_finite(samples);
    double sum = 0;
    for (const double x : samples) {
        if (x <= 0) return 0;
        sum += std::log(x);
    }
    return samples.empty() ? 0 : std::exp(sum / static_cast<double>(samples.size()));
}

double harmonic_mean(std::span<const double> samples) {
    require_finite(samples);
    double mean = 0, least = 0;  // of least / x: each term lies in 0 to 1
    for (const double x : samples) {
        if (x <= 0) return 0;
        least = least == 0 ? x : std::min(least, x);
    }
    for (const double x : samples) mean += least / x;
    return samples.empty() ? 0 : least * (static_cast<double>(samples.size()) / mean);
}

double coefficient_of_variation(const summary& s) noexcept { return s.mean == 0 ? 0 : s.deviation / std::fabs(s.mean); }

double decayed_mean(std::span<const double> samples, double half_life) {
    require_finite(samples);
    if (!(half_life > 0)) throw error(errc::invalid_argument, "decayed_mean", "the half-life must be above zero");
    double mean = 0, weights = 0;
    const double keep = std::exp2(-1 / half_life);
    for (const double x : samples) {
        weights = weights * keep + 1;
        mean = mean * (1 - 1 / weights) + x / weights;
    }
    return mean;
}

double robust_drift(std::span<const double> samples) {
    require_finite(samples);
    constexpr std::size_t blocks_max = 128;
    const std::size_t n = samples.size(), blocks = std::min(n, blocks_max);
    if (n < 3) return 0;
    std::vector<double> at, level, part;
    for (std::size_t b = 0; b < blocks; ++b) {
        const std::size_t first = b * n / blocks, last = (b + 1) * n / blocks;
        part.assign(samples.begin() + static_cast<std::ptrdiff_t>(first),
                    samples.begin() + static_cast<std::ptrdiff_t>(last));
        level.push_back(median_in_place(part));
        at.push_back(static_cast<double>(first + last - 1) / 2);
    }
    std::vector<double> slopes;
    slopes.reserve(blocks * (blocks - 1) / 2);
    for (std::size_t i = 0; i < blocks; ++i)
        for (std::size_t j = i + 1; j < blocks; ++j)
            slopes.push_back(level[j] / (at[j] - at[i]) - level[i] / (at[j] - at[i]));
    const double slope = median_in_place(slopes);
    part.assign(samples.begin(), samples.end());
    const double median = std::fabs(median_in_place(part));
    if (median == 0) return 0;
    const double drift = slope / median * static_cast<double>(n - 1);
    return std::isfinite(drift) ? drift : 0;
}

std::vector<warning> warnings_of(const summary& s) {
    std::vector<warning> out;
    if (s.count == 0) return out;
    const double scale = std::fabs(s.median), n = static_cast<double>(s.count);
    const double half = scale > 0 ? (s.median_95.high - s.median_95.low) / 2 / scale : 0;
    if (s.count < warning_limits::samples_least) {
        out.push_back(
            {"unstable", format("only %.0f samples: no 95 %% interval of the median exists below %.0f; measure longer "
                                "(-time) or with fewer operations a batch",
                                n, static_cast<double>(warning_limits::samples_least))});
    } else if (half > warning_limits::unstable) {
        out.push_back(
            {"unstable",
             format("the median is known to +-%.1f %% only (more than %.0f %%): measure longer (-time), stop other "
                    "work on the machine, pin the test to a quiet CPU (-pin)",
                    half * 100, warning_limits::unstable * 100)});
    }
    // The slope's standard error in units of one sample's is sqrt(12 / n); 1.4826 MAD is a deviation.
    const double noise = scale > 0 ? 4 * std::sqrt(12 / n) * 1.4826 * s.mad / scale : 0;
    if (std::fabs(s.drift) > std::max(warning_limits::drift, noise)) {
        out.push_back(
            {"drift",
             format("the time changed by %+.1f %% from the first to the last sample: warm up longer, look for data "
                    "that grows while the test runs, or for a CPU that throttles; the median mixes both",
                    s.drift * 100, 0)});
    }
    if (s.modes > 1) {
        out.push_back(
            {"modes",
             format("the samples gather around %.0f separate values: the median tells of one of them only; look "
                    "at the plot, and for two code paths, cache or page placement, CPU frequency, or a neighbour "
                    "that comes and goes",
                    static_cast<double>(s.modes), 0)});
    }
    if (s.count >= 10 && s.autocorrelation > std::max(warning_limits::autocorrelation, 3 / std::sqrt(n))) {
        const double wider = std::sqrt((1 + s.autocorrelation) / std::max(1 - s.autocorrelation, 0.01));
        out.push_back(
            {"autocorrelation",
             format("neighbouring samples resemble each other (lag 1: %.2f), so the true interval is about "
                    "%.1f times as wide: measure longer, or compare interleaved instead of one after the other",
                    s.autocorrelation, wider)});
    }
    return out;
}

}  // namespace holdfast::perf_test
