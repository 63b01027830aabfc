// SPDX-License-Identifier: Apache-2.0
// latency_shapes.hpp - nine shapes of traffic on which estimators of percentiles are tried, in nanoseconds.
//
// Seven are independent draws of one distribution; in the last two the order matters: "drift" grows fourfold from the
// first sample to the last, "bursts" are 500 slow samples in a row.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string_view>
#include <vector>

namespace holdfast::workload {

enum class latency_shape : std::uint8_t {
    exponential,
    normal,
    lognormal_1,
    lognormal_2,
    uniform,
    pareto,
    two_modes,
    drift,
    bursts
};

inline constexpr std::array latency_shapes{
    latency_shape::exponential, latency_shape::normal,  latency_shape::lognormal_1,
    latency_shape::lognormal_2, latency_shape::uniform, latency_shape::pareto,
    latency_shape::two_modes,   latency_shape::drift,   latency_shape::bursts};

[[nodiscard]] constexpr std::string_view name_of(latency_shape shape) noexcept {
    constexpr std::array<std::string_view, latency_shapes.size()> names{"exponential",  "normal",   "lognormal(1)",
                                                                        "lognormal(2)", "uniform",  "Pareto(1.5)",
                                                                        "two modes",    "drift 4x", "bursts of 500"};
    return names[static_cast<std::size_t>(shape)];
}

/// `count` latencies of a shape, in the order in which they come. Cost: 10 to 60 ns each.
[[nodiscard]] inline std::vector<std::uint64_t> draw_latencies(latency_shape shape, std::size_t count,
                                                               std::uint64_t seed) {
    std::mt19937_64 engine(seed);
    std::uniform_real_distribution<> unit(0, 1);
    std::normal_distribution<> normal(0, 1);
    const auto exponential = [&] { return -std::log1p(-unit(engine)); };
    bool slow = false;
    const auto draw = [&](std::size_t i) -> double {
        switch (shape) {
            case latency_shape::exponential: return 50e3 * exponential();
            case latency_shape::normal: return 200e3 + 20e3 * normal(engine);
            case latency_shape::lognormal_1: return 20e3 * std::exp(normal(engine));
            case latency_shape::lognormal_2: return 20e3 * std::exp(2 * normal(engine));
            case latency_shape::uniform: return 100e3 * unit(engine);
            case latency_shape::pareto: return 10e3 * std::pow(1 - unit(engine), -1 / 1.5);
            case latency_shape::two_modes:
                return unit(engine) < 0.05 ? 600e3 + 30e3 * normal(engine) : 20e3 + 1e3 * normal(engine);
            case latency_shape::drift:
                return 50e3 * (1 + 3 * static_cast<double>(i) / static_cast<double>(count)) * exponential();
            case latency_shape::bursts:
                if (i % 500 == 0) slow = unit(engine) < 0.03;
                return (slow ? 500e3 : 50e3) * exponential();
        }
        return 0;
    };
    std::vector<std::uint64_t> drawn(count);
    for (std::size_t i = 0; i < count; ++i) drawn[i] = static_cast<std::uint64_t>(std::max(0.0, draw(i)));
    return drawn;
}

/// The sample of rank max(1, ceil(q * size)) in order of size. Changes the order. Requires: not empty, 0 <= q <= 1.
[[nodiscard]] inline double sample_quantile(std::vector<std::uint64_t>& samples, double q) {
    const double rank = std::max(1.0, std::ceil(q * static_cast<double>(samples.size())));
    const auto at = samples.begin() + static_cast<std::ptrdiff_t>(rank) - 1;
    std::nth_element(samples.begin(), at, samples.end());
    return static_cast<double>(*at);
}

}  // namespace holdfast::workload
