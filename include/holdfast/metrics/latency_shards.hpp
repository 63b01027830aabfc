// SPDX-License-Identifier: Apache-2.0
// latency_shards.hpp - a latency histogram over plain bytes: recording into a shard, claiming one, adding all of them
// up.
//
// Invariants I1 to I3: layout/latency_histogram_layout.hpp.
// Orders:  everything is relaxed but the owner word. Each count stands for itself (I1), a reader's sum is of words that
//          were true at some instant of its walk, and the next owner of a shard is ordered behind the last one either
//          by the owner word (W1/R1) or by the kernel's lock, which a process gives back after its last store.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "holdfast/error.hpp"
#include "holdfast/layout/latency_histogram_layout.hpp"
#include "holdfast/metrics/histogram_counts.hpp"
#include "holdfast/metrics/log_linear.hpp"

namespace holdfast::detail {

static_assert(log_linear::buckets <= layout::latency_count_words);

/// Counts one value in a shard that nobody else writes. Wait-free; one load and one store a word, no atomic addition.
inline void record_alone(layout::latency_shard& shard, std::uint64_t value_ns) noexcept {
    // Relaxed throughout: the words are ours alone to write (I2), and each stands for itself (I1).
    constexpr auto relaxed = std::memory_order_relaxed;
    if (value_ns > shard.greatest.load(relaxed)) shard.greatest.store(value_ns, relaxed);
    if (~value_ns > shard.least_complement.load(relaxed)) shard.least_complement.store(~value_ns, relaxed);
    shard.sum.store(shard.sum.load(relaxed) + value_ns, relaxed);
    std::atomic<std::uint64_t>& count = shard.counts[log_linear::bucket_of(value_ns)];
    count.store(count.load(relaxed) + 1, relaxed);
}

/// Counts one value in the shard that everybody shares (I3). Lock-free.
inline void record_shared(layout::latency_shard& shard, std::uint64_t value_ns) noexcept {
    // Relaxed throughout: additions commute and each word stands for itself (I1).
    constexpr auto relaxed = std::memory_order_relaxed;
    const auto raise = [](std::atomic<std::uint64_t>& word, std::uint64_t to) {
        std::uint64_t seen = word.load(relaxed);
        while (seen < to && !word.compare_exchange_weak(seen, to, relaxed)) {
        }
    };
    raise(shard.greatest, value_ns);
    raise(shard.least_complement, ~value_ns);
    shard.sum.fetch_add(value_ns, relaxed);
    shard.counts[log_linear::bucket_of(value_ns)].fetch_add(1, relaxed);
}

/// The shards in the body of a segment.
class latency_shards {
 public:
    latency_shards() = default;

    /// Throws: geometry_mismatch where `count` shards do not fit.
    latency_shards(std::span<std::byte> body, std::uint64_t count, std::string_view uri) {
        if (count == 0 || count > layout::latency_shards_max || body.size() / sizeof(layout::latency_shard) < count)
            throw error(errc::geometry_mismatch, std::string(uri),
                        "the header promises more shards than the segment has room for; restore or recreate it");
        shards_ = {reinterpret_cast<layout::latency_shard*>(body.data()), static_cast<std::size_t>(count)};
    }

    /// Shards that can be owned; the shared one is at this index.
    [[nodiscard]] std::size_t owned() const noexcept { return shards_.size() - 1; }
    [[nodiscard]] layout::latency_shard& operator[](std::size_t shard) const noexcept { return shards_[shard]; }

    /// Takes shard `shard` by its owner word: for memory whose kind has no lock file. An owner that dies without giving
    /// it back keeps it; its counts stay, and others use what is left, at worst the shared shard.
    [[nodiscard]] bool claim(std::size_t shard) const noexcept {
        std::uint64_t free = 0;
        // R1, pairs with W1. Weaker would let the new owner load counts older than the last owner's final stores, and
        // lose them. Relaxed on failure: nothing is read then.
        return shards_[shard].owner.compare_exchange_strong(free, 1, std::memory_order_acquire,
                                                            std::memory_order_relaxed);
    }

    void give_back(std::size_t shard) const noexcept {
        // W1, pairs with R1 in claim: what we counted is there before the shard is free.
        shards_[shard].owner.store(0, std::memory_order_release);
    }

    /// Adds what shard `shard` counted to `sum`.
    void add_to(histogram_counts& sum, std::size_t shard) const noexcept {
        const layout::latency_shard& from = shards_[shard];
        // Relaxed: a reader takes each word as it is at that instant (I1).
        constexpr auto relaxed = std::memory_order_relaxed;
        for (std::size_t bucket = 0; bucket < log_linear::buckets; ++bucket)
            sum.add(bucket, from.counts[bucket].load(relaxed));
        sum.note(from.sum.load(relaxed), ~from.least_complement.load(relaxed), from.greatest.load(relaxed));
    }

    [[nodiscard]] histogram_counts merged() const {
        histogram_counts sum;
        for (std::size_t shard = 0; shard < shards_.size(); ++shard) add_to(sum, shard);
        return sum;
    }

 private:
    std::span<layout::latency_shard> shards_;
};

}  // namespace holdfast::detail
