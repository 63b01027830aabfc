// SPDX-License-Identifier: Apache-2.0
// plot_axis.hpp - one axis of a chart: where a value lies, and which values are written.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

namespace holdfast::perf_test::plot {

struct axis {
    double low = 0, high = 1;     ///< of the values; high > low, and low > 0 on a logarithmic axis
    double begin = 0, end = 100;  ///< of the drawing
    bool logarithmic = false;

    [[nodiscard]] double at(double value) const {
        value = std::clamp(value, low, high);
        // Differences of logarithms: the quotients could overflow.
        const double part = logarithmic ? (std::log(value) - std::log(low)) / (std::log(high) - std::log(low))
                                        : (value - low) / (high - low);
        return begin + part * (end - begin);
    }

    /// Round values within the axis, few enough to be written beside each other.
    [[nodiscard]] std::vector<double> ticks() const { return logarithmic ? decades() : steps(low, high); }

 private:
    [[nodiscard]] static std::vector<double> steps(double from, double to) {
        const double rough = (to - from) / 6;
        const double power = std::pow(10.0, std::floor(std::log10(rough)));
        const double part = rough / power;
        const double step = power * (part <= 1 ? 1 : part <= 2 ? 2 : part <= 5 ? 5 : 10);
        std::vector<double> all;
        for (double n = std::ceil(from / step - 1e-9); n * step <= to + step * 1e-9 && all.size() < 20; ++n)
            all.push_back(n * step);
        return all;
    }

    [[nodiscard]] std::vector<double> decades() const {
        const double span = std::log10(high) - std::log10(low);
        if (span < 0.6) return steps(low, high);
        const std::vector<double> parts = span < 2.5 ? std::vector<double>{1, 2, 5} : std::vector<double>{1};
        // No more than some nine decades are written.
        const double every = std::max(1.0, std::ceil(span / 9));
        std::vector<double> all;
        for (double power = std::floor(std::log10(low)); power <= std::log10(high); power += every)
            for (const double part : parts)
                if (const double value = part * std::pow(10.0, power); value >= low * 0.999 && value <= high * 1.001)
                    all.push_back(value);
        return all;
    }
};

}  // namespace holdfast::perf_test::plot
