// SPDX-License-Identifier: Apache-2.0
// How near the quantiles of a latency histogram are to those of the samples, over nine shapes of traffic.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "holdfast/metrics/histogram_counts.hpp"
#include "support/scale.hpp"
#include "support/seed.hpp"
#include "workload/latency_shapes.hpp"

namespace {

namespace workload = holdfast::workload;

// The promise of the metrics: at a million samples the root of the mean squared error is at most 0.2 % on each shape,
// and no
// error is ever beyond a bucket's width, 1.6 %.
TEST(QuantileAccuracy, RootMeanSquareIsWithinTwoTenthsOfAPercent) {
    holdfast::test::seeded_random random;
    const std::uint64_t trials = holdfast::test::scaled(3);
    for (const auto shape : workload::latency_shapes) {
        double squares[3] = {0, 0, 0};
        constexpr double levels[3] = {0.9, 0.99, 0.999};
        for (std::uint64_t trial = 0; trial < trials; ++trial) {
            auto samples = workload::draw_latencies(shape, 1'000'000, random());
            holdfast::histogram_counts counts;
            for (const std::uint64_t sample : samples) counts.record(sample);
            for (std::size_t i = 0; i < 3; ++i) {
                const double exact = workload::sample_quantile(samples, levels[i]);
                const double error = counts.quantile(levels[i])->estimate / exact - 1;
                EXPECT_LE(std::abs(error), 1.0 / 64) << workload::name_of(shape) << " " << levels[i];
                squares[i] += error * error;
            }
        }
        for (std::size_t i = 0; i < 3; ++i) {
            const double rms = 100 * std::sqrt(squares[i] / static_cast<double>(trials));
            // A few trials estimate it to within a factor only; the bound closes in on 0.2 as they become many.
            EXPECT_LE(rms, 0.2 * (1 + 2 / std::sqrt(static_cast<double>(trials))))
                << workload::name_of(shape) << " " << levels[i];
            RecordProperty(std::string(workload::name_of(shape)) + "_" + std::to_string(levels[i]),
                           std::to_string(rms));
        }
    }
}

}  // namespace
