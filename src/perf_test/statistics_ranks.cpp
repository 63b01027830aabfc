// SPDX-License-Identifier: Apache-2.0
// statistics_ranks.cpp - ranks of order statistics, signed ranks and families of tests.
#include "holdfast/error.hpp"
#include "holdfast/perf_test/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>

#include "perf_test/log_gamma.hpp"

namespace holdfast::perf_test {

namespace {

// The largest k in 0 to n with P(B <= k - 1) <= tail for B binomial (n, p): how many of the lowest ranks can be left
// out. The sum starts 12 deviations and 20 steps below the mean, where less than 1e-20 is missed.
std::size_t ranks_left_out(std::size_t n, double p, double tail) {
    if (p <= 0) return 0;
    if (p >= 1) return n;
    const auto count = static_cast<double>(n);
    const double start = std::floor(count * p - 12 * std::sqrt(count * p * (1 - p)) - 20);
    auto k = static_cast<std::size_t>(std::max(0.0, start));
    const auto at = static_cast<double>(k);
    const double log_mass = log_gamma(count + 1) - log_gamma(at + 1) - log_gamma(count - at + 1) + at * std::log(p) +
                            (count - at) * std::log1p(-p);
    double mass = std::exp(log_mass), sum = 0;
    for (; k < n; ++k) {
        sum += mass;
        if (sum > tail) return k;
        mass *= (count - static_cast<double>(k)) / (static_cast<double>(k) + 1) * (p / (1 - p));
    }
    return n;
}

// P(W <= w) for the sum of the ranks with a positive sign, each sign being a fair coin; ranks doubled to be integers.
double exact_lower_tail(std::span<const std::uint32_t> doubled_ranks, std::uint32_t doubled_w) {
    const std::size_t total = std::accumulate(doubled_ranks.begin(), doubled_ranks.end(), std::size_t{0});
    std::vector<double> chance(total + 1, 0.0);
    chance[0] = 1;
    std::size_t reached = 0;
    for (const std::uint32_t rank : doubled_ranks) {
        reached += rank;
        for (std::size_t w = reached + 1; w-- > 0;) chance[w] = chance[w] / 2 + (w >= rank ? chance[w - rank] / 2 : 0);
    }
    return std::accumulate(chance.begin(), chance.begin() + static_cast<std::ptrdiff_t>(doubled_w) + 1, 0.0);
}

}  // namespace

rank_interval quantile_ranks(std::size_t samples, double q, double confidence) {
    if (!(q >= 0 && q <= 1) || !(confidence > 0 && confidence < 1))
        throw error(errc::invalid_argument, "quantile_ranks", "the level must lie in 0 to 1, the confidence between");
    const double tail = (1 - confidence) / 2;
    const std::size_t below = ranks_left_out(samples, q, tail);      // X(below) > x_q with at most `tail`
    const std::size_t above = ranks_left_out(samples, 1 - q, tail);  // the same counted from the largest
    rank_interval out;
    if (below >= 1 && below <= samples) out.low = below;
    if (above >= 1 && above <= samples) out.high = samples + 1 - above;
    return out;
}

double wilcoxon_signed_rank(std::span<const double> differences) {
    std::vector<double> values;
    values.reserve(differences.size());
    for (const double d : differences) {
        if (std::isnan(d)) throw error(errc::invalid_argument, "wilcoxon_signed_rank", "a difference is not a number");
        if (d != 0) values.push_back(d);
    }
    if (values.empty()) return 1;
    std::sort(values.begin(), values.end(), [](double a, double b) { return std::fabs(a) < std::fabs(b); });
    const std::size_t n = values.size();
    const auto count = static_cast<double>(n);
    std::vector<std::uint32_t> doubled;  // filled for the exact test alone
    double positive = 0, ties = 0;       // sum of ranks of positive differences; sum of t^3 - t
    for (std::size_t i = 0, j = 0; i < n; i = j) {
        for (j = i; j < n && std::fabs(values[j]) == std::fabs(values[i]);) ++j;
        const double rank = static_cast<double>(i + j + 1) / 2, equal = static_cast<double>(j - i);
        ties += equal * equal * equal - equal;
        for (std::size_t k = i; k < j; ++k) {
            if (values[k] > 0) positive += rank;
            if (n <= 50) doubled.push_back(static_cast<std::uint32_t>(i + j + 1));
        }
    }
    const double least = std::min(positive, count * (count + 1) / 2 - positive);
    if (n <= 50)
        return std::min(1.0, 2 * exact_lower_tail(doubled, static_cast<std::uint32_t>(std::lround(2 * least))));
    const double mean = count * (count + 1) / 4;
    const double variance = count * (count + 1) * (2 * count + 1) / 24 - ties / 48;
    const double z = std::max(0.0, mean - least - 0.5) / std::sqrt(variance);
    return std::min(1.0, std::erfc(z / std::sqrt(2.0)));
}

std::vector<double> holm_adjusted(std::span<const double> p_values) {
    for (const double p : p_values)
        if (!(p >= 0 && p <= 1)) throw error(errc::invalid_argument, "holm_adjusted", "a p value lies in 0 to 1");
    std::vector<std::size_t> order(p_values.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return p_values[a] < p_values[b]; });
    std::vector<double> out(p_values.size());
    double largest = 0;
    for (std::size_t i = 0; i < order.size(); ++i) {
        const double adjusted = p_values[order[i]] * static_cast<double>(order.size() - i);
        largest = std::max(largest, std::min(1.0, adjusted));  // never smaller than a more significant one's
        out[order[i]] = largest;
    }
    return out;
}

}  // namespace holdfast::perf_test
