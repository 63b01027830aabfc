// SPDX-License-Identifier: Apache-2.0
#include "holdfast/perf_test/call_times.hpp"

#include <cstdint>
#include <optional>
#include <span>

namespace holdfast::perf_test {
namespace {

percentile percentile_of(double level, const quantile_estimate& estimate) {
    return {level, estimate.estimate, static_cast<double>(estimate.lower), static_cast<double>(estimate.upper),
            estimate.bounded};
}

}  // namespace

latency_result latency_of(const histogram_counts& counts) {
    latency_result result;
    result.count = counts.total();
    if (result.count == 0) return result;
    for (const double level : {0.5, 0.9, 0.99, 0.999}) {
        if (const std::optional<quantile_estimate> found = counts.quantile(level))
            result.percentiles.push_back(percentile_of(level, *found));
    }
    result.minimum = counts.quantile(0).value_or(quantile_estimate{}).estimate;
    result.maximum = counts.quantile(1).value_or(quantile_estimate{}).estimate;
    result.mean = static_cast<double>(counts.sum()) / static_cast<double>(result.count);
    const std::span<const std::uint64_t> buckets = counts.counts();
    for (std::size_t bucket = 0; bucket < buckets.size(); ++bucket) {
        if (buckets[bucket] == 0) continue;
        result.histogram.push_back({static_cast<double>(log_linear::lowest_of(bucket)),
                                    static_cast<double>(log_linear::highest_of(bucket)), buckets[bucket]});
    }
    return result;
}

latency_result latency_of(const call_times& times) {
    histogram_counts counts;
    times.add_to(counts);
    return latency_of(counts);
}

}  // namespace holdfast::perf_test
