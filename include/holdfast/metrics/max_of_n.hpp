// SPDX-License-Identifier: Apache-2.0
// max_of_n.hpp - one percentile of an exponential latency from five words: the mean of the maxima of blocks of n.
//
// The greatest of n samples of an exponential distribution is, on average, its quantile p, if the harmonic number
// H(n) = 1 + 1/2 + ... + 1/n equals -ln(1 - p). No whole n does so exactly; the nearest to the real root is least
// biased: n = 5, 11, 56, 112, 561 and 5614 for p90, p95, p99, p99.5, p99.9 and p99.99 (-0.84, +0.81, +0.14, +0.04,
// +0.001 and 0 %).
//
// Limits. It is an estimate of that percentile for exponential traffic and of nothing else, and more samples do not
// help: the bias stays. In % of the true percentile, at a million samples:
//        normal  lognormal(1)  lognormal(2)  uniform  Pareto(1.5)  two modes  drift of 4x  bursts of 500
//   p90    -1.1           +13          +124     -7.4          +72       +605         -3.7            +14
//   p99    -0.3          +8.5           +57     -0.8          +81       -6.1          -12            -46
//   p99.9  -0.2          +5.4           +34     -0.1          +79       -0.2          -18            -70
// So heavy tails, several modes and bursts make it useless. latency_histogram answers every percentile of any traffic
// within 1.6 % for 9 KiB; tail_tracker is for the tail of any traffic whose samples are exchangeable. What is left for
// this one is a percentile per key where there are so many keys that 40 bytes each matter.
//
// State (I1) sum[blocks % 2] is the sum of the maxima of the first `blocks` blocks; the other sum is being made. The
//       store of `blocks` is the commit point: a kill loses the unfinished block's last sample, or that block, and
//       tears nothing. Zero bytes are an estimator that has seen nothing. Plain words: they may lie in shared memory of
//       any kind, with one writer at a time and any number of readers.
// Source: the estimator is a published one, corrected: published n are one or two too great, a merge that adds up
//         counters of unfinished blocks is wrong by half, and the first block was divided by zero. The study
//         percentile_max_of_n repeats all of that.
#pragma once

#include <atomic>
#include <cmath>
#include <cstdint>
#include <optional>
#include <type_traits>

namespace holdfast {

/// The whole number nearest to the real root n of H(n) = -ln(1 - p), at least 1. Requires: 0 < p < 1.
[[nodiscard]] inline std::uint64_t max_of_n_block(double p) noexcept {
    constexpr double euler = 0.57721566490153286;
    const double wanted = -std::log1p(-p);
    // H(x - 1/2) = ln x + euler + 1/(24 x^2) - ..., to 1e-4 already for x = 1; a few steps leave 1e-9.
    double x = std::exp(wanted - euler);
    for (int i = 0; i < 4; ++i)
        x *= std::exp(wanted - euler - std::log(x) - 1 / (24 * x * x) + 7 / (960 * x * x * x * x));
    const double nearest = std::round(x - 0.5);
    return nearest < 1 ? 1 : static_cast<std::uint64_t>(nearest);
}

/// The words of one estimator (I1).
struct max_of_n_state {
    std::uint64_t left = 0;     ///< samples until the block is full; 0 before the first sample
    std::int64_t greatest = 0;  ///< of the block so far
    std::uint64_t blocks = 0;   ///< finished
    double sum[2] = {0, 0};     ///< of their maxima
};
static_assert(sizeof(max_of_n_state) == 40 && std::is_trivially_copyable_v<max_of_n_state>);
static_assert(std::atomic_ref<std::uint64_t>::is_always_lock_free && std::atomic_ref<double>::is_always_lock_free);

/// What finished blocks say: all that there is to add up over threads, processes and hosts.
struct max_of_n_total {
    std::uint64_t blocks = 0;
    double sum = 0;  ///< double: it cannot overflow, and 10^6 blocks cost it less than 10^-10 of its value

    /// Adds another estimator's finished blocks. Requires: the same n, else the sum means nothing.
    void merge(const max_of_n_total& other) noexcept {
        blocks += other.blocks;
        sum += other.sum;
    }

    /// The estimate, in the unit of the samples; nothing before the first finished block.
    [[nodiscard]] std::optional<double> estimate() const noexcept {
        if (blocks == 0) return std::nullopt;
        return sum / static_cast<double>(blocks);
    }
};

/// A copy of the finished blocks. Threads: any, beside the writer; the state may lie in a read-only mapping.
/// Exact, unless the writer finished a block during each of 16 looks: then it is the look that fewest were finished
/// in, and its sum has at most one block more than the writer had finished when that look ended.
[[nodiscard]] inline max_of_n_total read(const max_of_n_state& state) noexcept {
    // atomic_ref of const objects arrives only with C++26; nothing is written through these.
    auto& words = const_cast<max_of_n_state&>(state);
    max_of_n_total best;
    std::uint64_t fewest = ~std::uint64_t{0};  // finished during the best look
    for (int looks = 0; looks < 16 && fewest != 0; ++looks) {
        max_of_n_total total;
        // R1, pairs with W1: the sum of these blocks is there. Weaker would let us see the count before the sum.
        total.blocks = std::atomic_ref(words.blocks).load(std::memory_order_acquire);
        // R2, pairs with W2: a sum that is being made for a later block comes with a later count. Weaker would let the
        // second look see the old count beside it.
        total.sum = std::atomic_ref(words.sum[total.blocks % 2]).load(std::memory_order_acquire);
        // Relaxed: ordered behind R2.
        const std::uint64_t finished = std::atomic_ref(words.blocks).load(std::memory_order_relaxed) - total.blocks;
        if (looks != 0 && finished >= fewest) continue;
        best = total;
        fewest = finished;
    }
    return best;
}

/// Writes a state: in memory of its own, or in shared memory as its only writer at a time.
class max_of_n {
 public:
    /// Goes on from what `state` holds, which may be all zeros and is never trusted: any bytes are some state.
    /// Requires: n >= 1, and that `state` lives longer and is written with no other n.
    max_of_n(max_of_n_state& state, std::uint64_t n) noexcept : state_(&state), n_(n) {
        if (state.left > n_) store(state_->left, std::uint64_t{0});
    }

    /// Takes a sample. Threads: one at a time. Cost: about 1 ns; a division nowhere.
    void record(std::int64_t sample) noexcept {
        // Ours alone to write, so plain loads will do for what no reader looks at; stores are atomic for the next
        // owner.
        std::uint64_t left = state_->left;
        if (left == 0) {
            left = n_;
            store(state_->greatest, sample);
        } else if (sample > state_->greatest) {
            store(state_->greatest, sample);
        }
        store(state_->left, --left);
        if (left == 0) finish();
    }

    [[nodiscard]] std::uint64_t n() const noexcept { return n_; }
    [[nodiscard]] max_of_n_total total() const noexcept { return read(*state_); }

 private:
    template <class T>
    static void store(T& word, T value) noexcept {
        // Relaxed: the word is of interest to its writer alone.
        std::atomic_ref<T>(word).store(value, std::memory_order_relaxed);
    }

    void finish() noexcept {
        const std::uint64_t blocks = state_->blocks;
        const double sum = state_->sum[blocks % 2] + static_cast<double>(state_->greatest);
        // W2, pairs with R2: who sees this sum sees that the block before it counts, and looks again.
        std::atomic_ref(state_->sum[(blocks + 1) % 2]).store(sum, std::memory_order_release);
        // W1, pairs with R1 in read(): the sum is there before the block counts.
        std::atomic_ref(state_->blocks).store(blocks + 1, std::memory_order_release);
    }

    max_of_n_state* state_;
    std::uint64_t n_;
};

}  // namespace holdfast
