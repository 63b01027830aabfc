// SPDX-License-Identifier: Apache-2.0
// histogram_counts.hpp - a private copy of a latency histogram: merged, subtracted, asked for quantiles.
//
// It is plain memory of one process.
// (I1) Everything it answers is derived from the bucket counts; sum, least and greatest value are hints that may be one
//      sample behind after a kill, and are believed only where the buckets agree.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "holdfast/metrics/log_linear.hpp"
#include "holdfast/metrics/order_statistics.hpp"

namespace holdfast {

/// What is known about a quantile.
///
/// `lower` and `upper` hold the quantile of the recorded samples for certain, and the quantile of what the samples were
/// drawn from with probability `confidence`, if they were drawn independently. That is at least 0.95 unless there are
/// too few samples for such bounds; `bounded` says which.
struct quantile_estimate {
    double estimate = 0;
    std::uint64_t lower = 0;
    std::uint64_t upper = 0;
    double confidence = 0;
    bool bounded = false;
};

/// Bucket counts of one histogram or the sum of many.
class histogram_counts {
 public:
    histogram_counts() : counts_(log_linear::buckets) {}

    /// Adds `count` samples of `bucket`; a bucket outside the scheme is ignored.
    void add(std::size_t bucket, std::uint64_t count) noexcept {
        if (bucket >= counts_.size()) return;
        counts_[bucket] = saturating(counts_[bucket], count);
    }

    /// Counts one sample, as a shard does.
    void record(std::uint64_t value) noexcept {
        add(log_linear::bucket_of(value), 1);
        note(value, value, value);
    }

    /// Takes note of a sum and of extremes, as a shard keeps them.
    void note(std::uint64_t sum, std::uint64_t least, std::uint64_t greatest) noexcept {
        sum_ += sum;
        least_ = std::min(least_, least);
        greatest_ = std::max(greatest_, greatest);
    }

    /// Adds another histogram's samples: exact, in any order.
    void merge(const histogram_counts& other) noexcept {
        for (std::size_t i = 0; i < counts_.size(); ++i) add(i, other.counts_[i]);
        note(other.sum_, other.least_, other.greatest_);
    }

    /// The samples recorded since `earlier`, an older copy of the same histogram.
    [[nodiscard]] histogram_counts since(const histogram_counts& earlier) const {
        histogram_counts window;
        for (std::size_t i = 0; i < counts_.size(); ++i)
            window.counts_[i] = counts_[i] - std::min(counts_[i], earlier.counts_[i]);
        window.sum_ = sum_ - earlier.sum_;
        return window;  // its extremes are unknown: those of all time say nothing about a window
    }

    [[nodiscard]] std::uint64_t total() const noexcept {
        std::uint64_t total = 0;
        for (const std::uint64_t count : counts_) total = saturating(total, count);
        return total;
    }
    [[nodiscard]] std::uint64_t sum() const noexcept { return sum_; }
    /// The extremes as noted, which is a hint (I1); the least is above the greatest where none is known.
    [[nodiscard]] std::uint64_t least_noted() const noexcept { return least_; }
    [[nodiscard]] std::uint64_t greatest_noted() const noexcept { return greatest_; }
    [[nodiscard]] std::span<const std::uint64_t> counts() const noexcept { return counts_; }

    /// The value below or at which a share `q` of the samples lies: sample number max(1, ceil(q * total)) in order of
    /// size.
    ///
    /// The estimate interpolates within the bucket, except where the bucket towers over its neighbours: then all its
    /// samples are likely one value, and the middle is nearer.
    /// Requires: 0 <= q <= 1. Returns: nothing without samples. Cost: a few passes over 2,241 buckets, about 5 us.
    [[nodiscard]] std::optional<quantile_estimate> quantile(double q) const {
        const std::uint64_t n = total();
        if (n == 0 || !(q >= 0 && q <= 1)) return std::nullopt;
        const double samples = static_cast<double>(n);
        const detail::rank_interval ranks = detail::ranks_around(samples, q, 0.95);
        quantile_estimate answer;
        answer.estimate = estimate(rank_of(std::ceil(q * samples), n), n);
        answer.lower = lowest(bucket_at(rank_of(ranks.lower, n)));
        answer.upper = highest(bucket_at(rank_of(ranks.upper, n)));
        answer.confidence = ranks.confidence;
        answer.bounded = ranks.confidence >= 0.95;
        return answer;
    }

    /// How many samples are less than each of `bounds`, for bounds that are bucket edges (any power of two is).
    [[nodiscard]] std::vector<std::uint64_t> cumulative(std::span<const std::uint64_t> bounds) const {
        std::vector<std::uint64_t> below;
        below.reserve(bounds.size());
        std::uint64_t seen = 0;
        std::size_t bucket = 0;
        for (const std::uint64_t bound : bounds) {
            while (bucket < counts_.size() && log_linear::highest_of(bucket) < bound)
                seen = saturating(seen, counts_[bucket++]);
            below.push_back(seen);
        }
        return below;
    }

 private:
    static std::uint64_t saturating(std::uint64_t a, std::uint64_t b) noexcept {
        return a + std::min(b, std::numeric_limits<std::uint64_t>::max() - a);
    }

    static std::uint64_t rank_of(double rank, std::uint64_t n) noexcept {
        if (!(rank > 1)) return 1;
        // 2^64 as a double is beyond the range of the conversion, so the comparison comes first.
        return rank >= static_cast<double>(n) ? n : static_cast<std::uint64_t>(rank);
    }

    /// The bucket of the sample of that rank, and how many samples lie below the bucket. Requires: 1 <= rank <=
    /// total().
    [[nodiscard]] std::size_t bucket_at(std::uint64_t rank, std::uint64_t* below = nullptr) const noexcept {
        std::uint64_t seen = 0;
        std::size_t bucket = 0;
        while (bucket + 1 < counts_.size() && counts_[bucket] < rank - seen) seen += counts_[bucket++];
        if (below != nullptr) *below = seen;
        return bucket;
    }

    // Whether an extreme is known and lies in the bucket (I1).
    [[nodiscard]] bool extreme_in(std::uint64_t extreme, std::size_t bucket) const noexcept {
        return least_ <= greatest_ && log_linear::lowest_of(bucket) <= extreme &&
               extreme <= log_linear::highest_of(bucket);
    }

    // The bucket's bounds, narrowed by the extremes where these lie inside it.
    [[nodiscard]] std::uint64_t lowest(std::size_t bucket) const noexcept {
        return extreme_in(least_, bucket) ? least_ : log_linear::lowest_of(bucket);
    }
    [[nodiscard]] std::uint64_t highest(std::size_t bucket) const noexcept {
        return extreme_in(greatest_, bucket) ? greatest_ : log_linear::highest_of(bucket);
    }

    [[nodiscard]] double estimate(std::uint64_t rank, std::uint64_t n) const noexcept {
        std::uint64_t below = 0;
        const std::size_t bucket = bucket_at(rank, &below);
        const double low = static_cast<double>(lowest(bucket));
        const double high = static_cast<double>(highest(bucket));
        const double count = static_cast<double>(counts_[bucket]);
        if (rank == 1 && extreme_in(least_, bucket)) return low;  // the least sample itself
        if (rank == n && extreme_in(greatest_, bucket)) return high;
        const double left = bucket > 0 ? static_cast<double>(counts_[bucket - 1]) : 0;
        const double right = bucket + 1 < counts_.size() ? static_cast<double>(counts_[bucket + 1]) : 0;
        if (count > 4 * (left + right) + 16) return low + (high - low) / 2;
        const double at = (static_cast<double>(rank - below) - 0.5) / count;
        return std::min(low + (high - low + 1) * at, high);
    }

    std::vector<std::uint64_t> counts_;
    std::uint64_t sum_ = 0;
    std::uint64_t least_ = std::numeric_limits<std::uint64_t>::max();
    std::uint64_t greatest_ = 0;
};

}  // namespace holdfast
