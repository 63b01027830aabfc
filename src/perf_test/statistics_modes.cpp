// SPDX-License-Identifier: Apache-2.0
// statistics_modes.cpp - how many separate peaks a sample has.
//
// The square root of a kernel density has about the same standard error everywhere, sqrt(R / (4 n h)) with R the
// integral of the squared kernel, so one threshold serves the middle and the tails. Valleys that are shallower than it
// are filled, the shallowest first; then peaks with too few samples join the neighbour across the shallower valley.
#include "holdfast/error.hpp"
#include "holdfast/perf_test/statistics.hpp"

#include <algorithm>
#include <cmath>

namespace holdfast::perf_test {

namespace {

// A valley that counts is deeper than base + growth ln(1 + range / bandwidth) standard errors: the more places there
// are where one can arise by chance, the deeper it has to be. Found by simulation
// (tests/unit/perf_statistics_modes_test.cpp).
constexpr double depth_base = 1.4, depth_growth = 0.9;
constexpr double width_factor = 0.7;        // of deviation n^-1/5
constexpr double mass_least = 0.05;         // part of the samples in a peak,
constexpr double samples_least = 5;         // and their number
constexpr double resolution = 0.005;        // least bandwidth as a part of the median
constexpr std::size_t cells_a_width = 4;    // grid cells a bandwidth
constexpr std::size_t cells_max = 1 << 14;  // bounds the cost whatever the samples are

struct peak {
    double height = 0;        // square root of the density
    double mass = 0;          // samples between its valleys
    double valley_right = 0;  // height of the valley before the next peak
};

double bandwidth(std::span<const double> sorted) {
    const auto n = static_cast<double>(sorted.size());
    double mean = 0, squares = 0;
    const double low = percentile_of_sorted(sorted, 0.01), high = percentile_of_sorted(sorted, 0.99);
    for (std::size_t i = 0; i < sorted.size(); ++i) {  // deviation of the samples moved into 1 % to 99 %
        const double x = std::clamp(sorted[i], low, high), before = x - mean;
        mean += before / static_cast<double>(i + 1);
        squares += before * (x - mean);
    }
    const double range = (percentile_of_sorted(sorted, 0.75) - percentile_of_sorted(sorted, 0.25)) / 1.34;
    const double spread = std::min(std::sqrt(squares / n), range);
    return std::max(width_factor * spread * std::pow(n, -0.2),
                    resolution * std::fabs(percentile_of_sorted(sorted, 0.5)));
}

struct grid {
    std::vector<double> counts, root;  // samples in each cell; square root of the smoothed counts
};

// Cells of a quarter bandwidth over 2 % to 98 % and four bandwidths more; a peak that counts has samples in there.
grid smooth(std::span<const double> sorted, double width) {
    const double low = percentile_of_sorted(sorted, 0.02) - 4 * width;
    const double high = percentile_of_sorted(sorted, 0.98) + 4 * width;
    const double cell = width / cells_a_width;
    const auto cells = static_cast<std::size_t>(std::ceil((high - low) / cell)) + 1;
    grid out{std::vector<double>(cells, 0.0), std::vector<double>(cells, 0.0)};
    for (const double x : sorted)
        if (x >= low && x <= high) out.counts[std::min(cells - 1, static_cast<std::size_t>((x - low) / cell))] += 1;
    constexpr std::size_t reach = 4 * cells_a_width;
    double kernel[reach + 1];
    for (std::size_t i = 0; i <= reach; ++i) {
        const double z = static_cast<double>(i) / cells_a_width;
        kernel[i] = std::exp(-z * z / 2) / (std::sqrt(2 * 3.14159265358979323846) * cells_a_width);
    }
    for (std::size_t at = 0; at < cells; ++at) {
        if (out.counts[at] == 0) continue;
        for (std::size_t to = at > reach ? at - reach : 0; to <= std::min(cells - 1, at + reach); ++to)
            out.root[to] += out.counts[at] * kernel[to > at ? to - at : at - to];
    }
    for (double& x : out.root) x = std::sqrt(x);
    return out;
}

std::vector<peak> peaks_of(const grid& g) {
    std::vector<peak> out;
    peak current;
    double lowest = 0;  // since the last maximum
    bool rising = true;
    for (std::size_t i = 0; i < g.root.size(); ++i) {
        const double height = g.root[i], before = i > 0 ? g.root[i - 1] : 0;
        if (rising && height < before) {
            current.height = before;
            rising = false;
            lowest = height;
        } else if (!rising && height > before) {
            current.valley_right = lowest;
            out.push_back(current);
            current = {};
            rising = true;
        }
        if (!rising) lowest = std::min(lowest, height);
        current.mass += g.counts[i];
    }
    if (rising && !g.root.empty()) current.height = g.root.back();
    out.push_back(current);
    return out;
}

// The two peaks on the sides of the valley right of `left` become one.
void fill_valley(std::vector<peak>& peaks, std::size_t left) {
    peak& a = peaks[left];
    const peak& b = peaks[left + 1];
    a = {std::max(a.height, b.height), a.mass + b.mass, b.valley_right};
    peaks.erase(peaks.begin() + static_cast<std::ptrdiff_t>(left) + 1);
}

double depth_of(const std::vector<peak>& peaks, std::size_t left) {
    return std::min(peaks[left].height, peaks[left + 1].height) - peaks[left].valley_right;
}

void fill_shallow_valleys(std::vector<peak>& peaks, double least) {
    while (peaks.size() > 1) {
        std::size_t shallowest = 0;
        for (std::size_t i = 1; i + 1 < peaks.size(); ++i)
            if (depth_of(peaks, i) < depth_of(peaks, shallowest)) shallowest = i;
        if (depth_of(peaks, shallowest) >= least) return;
        fill_valley(peaks, shallowest);
    }
}

void join_small_peaks(std::vector<peak>& peaks, double least) {
    while (peaks.size() > 1) {
        const auto smallest =
            std::min_element(peaks.begin(), peaks.end(), [](const peak& a, const peak& b) { return a.mass < b.mass; });
        if (smallest->mass >= least) return;
        const auto at = static_cast<std::size_t>(smallest - peaks.begin());
        const bool to_left = at + 1 == peaks.size() || (at > 0 && peaks[at - 1].valley_right > peaks[at].valley_right);
        fill_valley(peaks, to_left ? at - 1 : at);
    }
}

}  // namespace

std::size_t count_modes(std::span<const double> samples) {
    if (samples.empty()) return 0;
    for (const double x : samples)
        if (!std::isfinite(x)) throw error(errc::invalid_argument, "count_modes", "a sample is not a finite number");
    std::vector<double> sorted(samples.begin(), samples.end());
    if (!std::is_sorted(sorted.begin(), sorted.end())) std::sort(sorted.begin(), sorted.end());
    const double scale = std::max(std::fabs(sorted.front()), std::fabs(sorted.back()));
    if (sorted.front() == sorted.back() || scale == 0) return 1;
    for (double& x : sorted) x /= scale;  // from here on no product can overflow
    const auto n = static_cast<double>(sorted.size());
    const double range = percentile_of_sorted(sorted, 0.98) - percentile_of_sorted(sorted, 0.02);
    const double width = std::max(bandwidth(sorted), (range + 1e-12) * cells_a_width / (cells_max - 64));
    std::vector<peak> peaks = peaks_of(smooth(sorted, width));
    // In counts a cell the root's error is sqrt(R / 4) with R = 1 / (2 sqrt(pi) cells_a_width).
    const double root_error = std::sqrt(1 / (2 * std::sqrt(3.14159265358979323846) * cells_a_width) / 4);
    fill_shallow_valleys(peaks, (depth_base + depth_growth * std::log1p(range / width)) * root_error);
    join_small_peaks(peaks, std::max(samples_least, mass_least * n));
    return peaks.size();
}

}  // namespace holdfast::perf_test
