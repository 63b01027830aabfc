// SPDX-License-Identifier: Apache-2.0
// tail_tracker.hpp - every high percentile of any traffic for a nanosecond a sample: the greatest of each 16 samples
// goes into a histogram, the rest is forgotten.
//
//   holdfast::tail_state state;                                                // 16 bytes; in shared memory if wanted
//   holdfast::tail_tracker tracker(state, recorder);                           // any histogram with record(value)
//   tracker.record(elapsed_ns);                                                // often
//   holdfast::tail_quantile(reader.merged(), 0.999)                            // anywhere
//
// The greatest of n independent samples is at most x with probability F(x)^n, whatever the distribution F is. So the
// quantile p of the samples is the quantile p^n of the greatest: with n = 16, p99 is read at level 0.8515, p99.9 at
// 0.9841 and p99.99 at 0.9984. Nothing about the shape of the tail is assumed.
//
// Limits. Samples of one block must be exchangeable: as good as independent draws of one distribution. A drift by a
// factor of 4 within the window shifts p99 by -2.5 % and p90 by -23 %. Bursts of slow samples longer than a block
// defeat it (-56 % at p99 for bursts of 500); tail_lanes spreads neighbours over many blocks and gets that back to -0.5
// %, for 16 bytes a lane. Low percentiles are destroyed: p90 is read at 0.185 and p50 at 0.000015. Keep a
// latency_histogram of all samples where these are wanted, and wherever another half a nanosecond does not matter: it
// has none of these limits.
//
// Crash: a killed writer loses the samples of its unfinished block; the state stays whole for the next one.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <vector>

#include "holdfast/metrics/histogram_counts.hpp"

namespace holdfast {

/// Samples a block.
inline constexpr std::uint32_t tail_block = 16;

/// One writer's unfinished block; zero bytes are none.
struct tail_state {
    std::uint64_t seen = 0;      ///< samples in the block, below tail_block
    std::uint64_t greatest = 0;  ///< of them
};
static_assert(sizeof(tail_state) == 16 && std::is_trivially_copyable_v<tail_state>);

/// Gives the greatest of each block to a histogram: a latency_recorder, or a histogram_counts of one's own.
/// Threads: one at a time.
template <class Histogram>
class tail_tracker {
 public:
    /// Goes on with the block in `state`, which is never trusted. Requires: both live longer than the tracker.
    tail_tracker(tail_state& state, Histogram& histogram) noexcept : state_(&state), histogram_(&histogram) {
        if (state.seen >= tail_block) state = {};
    }

    /// Takes a sample. Cost: about 1 ns, a record in the histogram for each 16th included.
    void record(std::uint64_t value) noexcept {
        state_->greatest = std::max(state_->greatest, value);
        if (++state_->seen < tail_block) return;
        const std::uint64_t greatest = state_->greatest;
        *state_ = {};  // first: a writer that is killed now loses a block, and its successor counts none twice
        histogram_->record(greatest);
    }

 private:
    tail_state* state_;
    Histogram* histogram_;
};

/// How many blocks were cut short by tail_lanes::flush, by how many samples they had. Sums and differences of it go
/// with those of the histogram.
struct tail_partial {
    std::array<std::uint64_t, tail_block> blocks{};  ///< blocks[m]: blocks of m samples, 1 <= m < tail_block

    void merge(const tail_partial& other) noexcept {
        for (std::size_t m = 0; m < blocks.size(); ++m) blocks[m] += other.blocks[m];
    }
};

/// A tail_tracker whose neighbouring samples go to different blocks, for traffic that is slow in bursts. Take many more
/// lanes than a burst has samples. Process-private; threads: one at a time.
template <class Histogram>
class tail_lanes {
 public:
    /// Requires: lanes >= 1, and that the histogram lives longer.
    tail_lanes(std::size_t lanes, Histogram& histogram)
        : lanes_(std::max<std::size_t>(1, lanes)), histogram_(&histogram) {}

    /// Takes a sample. Cost: about 1 ns while the lanes fit the first-level cache.
    void record(std::uint64_t value) noexcept {
        tail_tracker(lanes_[next_], *histogram_).record(value);
        next_ = next_ + 1 == lanes_.size() ? 0 : next_ + 1;
    }

    /// Ends a window: hands over all unfinished blocks and notes how long they were. Without it the last samples of a
    /// window, up to 15 a lane, are not seen before the next.
    void flush() noexcept {
        for (tail_state& lane : lanes_) {
            if (lane.seen == 0) continue;
            ++partial_.blocks[lane.seen];
            histogram_->record(lane.greatest);
            lane = {};
        }
    }

    /// What flush() cut short so far; tail_quantile needs it.
    [[nodiscard]] const tail_partial& partial() const noexcept { return partial_; }

 private:
    std::vector<tail_state> lanes_;
    Histogram* histogram_;
    std::size_t next_ = 0;
    tail_partial partial_;
};

/// Quantile `p` of the samples of which `maxima` holds the greatest of each block.
///
/// A block of m samples is at most the quantile with probability p^m, so the level to read at is the mean of these over
/// all blocks, cut short or not. Estimate, bounds and confidence are those of histogram_counts::quantile, of which a
/// sample is now a block. Requires: 0 <= p <= 1. Returns: nothing without a block.
[[nodiscard]] inline std::optional<quantile_estimate> tail_quantile(const histogram_counts& maxima, double p,
                                                                    const tail_partial& partial = {}) {
    const double total = static_cast<double>(maxima.total());
    if (total == 0 || !(p >= 0 && p <= 1)) return std::nullopt;
    double cut = 0;
    double level = 0;
    for (std::size_t m = 1; m < partial.blocks.size(); ++m) {
        cut += static_cast<double>(partial.blocks[m]);
        level += static_cast<double>(partial.blocks[m]) * std::pow(p, static_cast<double>(m));
    }
    level += std::max(0.0, total - cut) * std::pow(p, static_cast<double>(tail_block));
    return maxima.quantile(std::clamp(level / std::max(total, cut), 0.0, 1.0));
}

}  // namespace holdfast
