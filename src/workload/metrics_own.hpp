// SPDX-License-Identifier: Apache-2.0
// metrics_own.hpp - our methods for percentiles, and the textbook ones that need no package: heap, selection, buckets.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <queue>
#include <vector>

#include "holdfast/metrics/latency_histogram.hpp"
#include "holdfast/metrics/max_of_n.hpp"
#include "holdfast/metrics/tail_tracker.hpp"
#include "workload/metrics_subject.hpp"

namespace holdfast::workload {

class own_latency_histogram final : public quantile_method {
 public:
    void record(std::span<const std::uint64_t> values) override {
        for (const std::uint64_t value : values) recorder_.record(value);
    }
    double quantile(double q) override { return histogram_.merged().quantile(q).value().estimate; }
    std::size_t bytes() const override { return sizeof(layout::latency_shard); }

 private:
    latency_histogram histogram_ = latency_histogram::create("anon:", {.shards = 1});
    latency_recorder recorder_ = histogram_.make_recorder();
};

class own_tail_tracker final : public quantile_method {
 public:
    void record(std::span<const std::uint64_t> values) override {
        for (const std::uint64_t value : values) tracker_.record(value);
    }
    double quantile(double q) override { return tail_quantile(histogram_.merged(), q).value().estimate; }
    std::size_t bytes() const override { return sizeof(tail_state) + sizeof(layout::latency_shard); }

 private:
    latency_histogram histogram_ = latency_histogram::create("anon:", {.shards = 1});
    latency_recorder recorder_ = histogram_.make_recorder();
    tail_state state_;
    tail_tracker<latency_recorder> tracker_{state_, recorder_};
};

class own_max_of_n final : public quantile_method {
 public:
    explicit own_max_of_n(double level) : estimator_(state_, max_of_n_block(level)) {}
    void record(std::span<const std::uint64_t> values) override {
        for (const std::uint64_t value : values) estimator_.record(static_cast<std::int64_t>(value));
    }
    double quantile(double) override { return estimator_.total().estimate().value_or(0); }
    std::size_t bytes() const override { return sizeof(max_of_n_state); }

 private:
    max_of_n_state state_;
    max_of_n estimator_;
};

/// Keeps as many of the greatest samples in a heap as lie at or above the percentile: exact, if the number of samples
/// is known before the first.
class heap_method final : public quantile_method {
 public:
    heap_method(double level, std::size_t expected)
        : kept_(expected + 1 -
                static_cast<std::size_t>(std::max(1.0, std::ceil(level * static_cast<double>(expected))))) {}
    void record(std::span<const std::uint64_t> values) override {
        for (const std::uint64_t value : values) {
            if (heap_.size() < kept_) {
                heap_.push(value);
            } else if (value > heap_.top()) {
                heap_.pop();
                heap_.push(value);
            }
        }
    }
    double quantile(double) override { return static_cast<double>(heap_.top()); }
    std::size_t bytes() const override { return heap_.size() * sizeof(std::uint64_t); }

 private:
    std::size_t kept_;
    std::priority_queue<std::uint64_t, std::vector<std::uint64_t>, std::greater<>> heap_;
};

/// Keeps everything and selects at the end: exact, by QuickSelect with a guard (std::nth_element).
class selection_method final : public quantile_method {
 public:
    void record(std::span<const std::uint64_t> values) override {
        all_.insert(all_.end(), values.begin(), values.end());
    }
    double quantile(double q) override {
        const double rank = std::max(1.0, std::ceil(q * static_cast<double>(all_.size())));
        const auto at = all_.begin() + static_cast<std::ptrdiff_t>(rank) - 1;
        std::nth_element(all_.begin(), at, all_.end());
        return static_cast<double>(*at);
    }
    std::size_t bytes() const override { return all_.size() * sizeof(std::uint64_t); }

 private:
    std::vector<std::uint64_t> all_;
};

/// Counts in buckets of equal width, 1 us up to 10 ms, one more for all beyond: what is written first everywhere.
class bucket_method final : public quantile_method {
 public:
    void record(std::span<const std::uint64_t> values) override {
        for (const std::uint64_t value : values) ++counts_[std::min<std::uint64_t>(value / width, buckets)];
        samples_ += values.size();
    }
    double quantile(double q) override {
        const double rank = std::max(1.0, std::ceil(q * static_cast<double>(samples_)));
        double seen = 0;
        std::size_t at = 0;
        while (at < buckets && seen + counts_[at] < rank) seen += counts_[at++];
        return (static_cast<double>(at) + 0.5) * width;
    }
    std::size_t bytes() const override { return counts_.size() * sizeof(counts_[0]); }

 private:
    static constexpr std::uint64_t width = 1000;
    static constexpr std::size_t buckets = 10'000;
    std::vector<std::uint32_t> counts_ = std::vector<std::uint32_t>(buckets + 1);
    std::uint64_t samples_ = 0;
};

}  // namespace holdfast::workload
