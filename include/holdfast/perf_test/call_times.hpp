// SPDX-License-Identifier: Apache-2.0
// call_times.hpp - times of single calls in the buckets of latency_histogram, as one worker gathers them.
//
// Plain memory with one writer; the reader waits for the writer's end (a join, or the kernel's word that the process is
// gone). It holds no pointer, so it may lie in memory that a forked worker shares with its parent.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "holdfast/metrics/histogram_counts.hpp"
#include "holdfast/metrics/log_linear.hpp"
#include "holdfast/perf_test/result.hpp"

namespace holdfast::perf_test {

/// Counts of times in nanoseconds; 18 KB.
class call_times {
 public:
    /// Counts `count` calls that took `ns`. Cost: about 1 ns.
    void record(std::uint64_t ns, std::uint64_t count = 1) noexcept {
        counts_[log_linear::bucket_of(ns)] += count;
        sum_ += ns * count;
        least_ = std::min(least_, ns);
        greatest_ = std::max(greatest_, ns);
    }

    /// Adds everything to `sum`.
    void add_to(histogram_counts& sum) const noexcept {
        for (std::size_t bucket = 0; bucket < counts_.size(); ++bucket) sum.add(bucket, counts_[bucket]);
        sum.note(sum_, least_, greatest_);
    }

 private:
    std::array<std::uint64_t, log_linear::buckets> counts_{};
    std::uint64_t sum_ = 0;
    std::uint64_t least_ = std::numeric_limits<std::uint64_t>::max();
    std::uint64_t greatest_ = 0;
};

/// The percentiles 50, 90, 99 and 99.9, the extremes and the mean of what was recorded.
[[nodiscard]] latency_result latency_of(const histogram_counts& counts);
[[nodiscard]] latency_result latency_of(const call_times& times);

}  // namespace holdfast::perf_test
