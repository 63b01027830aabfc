// SPDX-License-Identifier: Apache-2.0
// latency_shards.hpp - a latency histogram over plain bytes: recording into a shard, claiming one, adding all of them
// up.
//
// Invariants I1 to I4: layout/latency_histogram_layout.hpp.
// Orders:  everything is relaxed but the owner word. Each count stands for itself (I1), a reader's sum is of words that
//          were true at some instant of its walk, and the next owner of a shard is ordered behind the last one either
//          by the owner word (W1/R1) or by the kernel's lock, which a process gives back after its last store.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>

#include "holdfast/error.hpp"
#include "holdfast/layout/latency_histogram_layout.hpp"
#include "holdfast/metrics/histogram_counts.hpp"
#include "holdfast/metrics/log_linear.hpp"

namespace holdfast::detail {

static_assert(log_linear::buckets <= std::tuple_size_v<decltype(layout::latency_shard::counts)> &&
              log_linear::buckets <= std::tuple_size_v<decltype(layout::shared_latency_shard::counts)>);

/// Counts one value in the shard that everybody shares (I3). Lock-free.
inline void record_shared(layout::shared_latency_shard& shard, std::uint64_t value_ns) noexcept {
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

/// Counts one value in a shard that nobody else writes; `shared` takes what its words have no room for (I4). Wait-free.
inline void record_alone(layout::latency_shard& shard, layout::shared_latency_shard& shared,
                         std::uint64_t value_ns) noexcept {
    // Relaxed throughout: the words are ours alone to write (I2), additions commute, and each word stands for itself.
    constexpr auto relaxed = std::memory_order_relaxed;
    if (value_ns > shard.greatest.load(relaxed)) shard.greatest.store(value_ns, relaxed);
    if (~value_ns > shard.least_complement.load(relaxed)) shard.least_complement.store(~value_ns, relaxed);
    shard.sum.store(shard.sum.load(relaxed) + value_ns, relaxed);
    const std::size_t bucket = log_linear::bucket_of(value_ns);
    const std::uint32_t count = shard.counts[bucket].load(relaxed);
    if (count == std::numeric_limits<std::uint32_t>::max())
        shared.counts[bucket].fetch_add(1, relaxed);
    else
        shard.counts[bucket].store(count + 1, relaxed);
}

/// What one recorder needs at hand: where it counts, and the values that take no thought (I5).
///
/// (I5) A value in [least, least + width) lies within the extremes that the shard has noted and below 2^40, so that
///      counting it is finding its bucket and nothing else. Everything else goes the long way round, record_rare().
/// A line lies in memory that the kernel wipes in a forked child: there the width is 0 and `shared` is null, and every
/// value goes the long way, to nowhere. So noticing the fork costs nothing on the short way.
struct alignas(64) recorder_line {
    std::uint64_t least = 0;
    std::uint64_t width = 0;
    layout::latency_shard* shard = nullptr;          ///< null: none of its own
    layout::shared_latency_shard* shared = nullptr;  ///< null: in a forked child
};

/// Establishes I5 from what the shard says; its bytes are input, so they can make the range empty but never too wide.
inline void widen(recorder_line& line) noexcept {
    // Relaxed: the words are ours alone to write (I2), and each stands for itself.
    line.least = ~line.shard->least_complement.load(std::memory_order_relaxed);
    // Relaxed: as above.
    const std::uint64_t last =
        std::min(line.shard->greatest.load(std::memory_order_relaxed), log_linear::overflow_from - 1);
    line.width = line.least <= last ? last - line.least + 1 : 0;
}

/// The long way: values beyond the extremes so far, at 2^40 and above, of full words (I4); recorders without a shard of
/// their own; forked children, where nothing is recorded.
[[gnu::noinline]] inline void record_rare(recorder_line& line, std::uint64_t value_ns) noexcept {
    if (line.shared == nullptr) return;
    if (line.shard == nullptr) return record_shared(*line.shared, value_ns);
    record_alone(*line.shard, *line.shared, value_ns);
    widen(line);
}

/// Counts one value. Wait-free but for a recorder that has no shard of its own, which is lock-free.
inline void record_value(recorder_line& line, std::uint64_t value_ns) noexcept {
    // Relaxed throughout: the words are ours alone to write (I2), and each stands for itself (I1).
    constexpr auto relaxed = std::memory_order_relaxed;
    if (value_ns - line.least >= line.width) [[unlikely]]
        return record_rare(line, value_ns);
    layout::latency_shard& shard = *line.shard;
    std::atomic<std::uint32_t>& count = shard.counts[log_linear::bucket_below_overflow(value_ns)];
    const std::uint32_t next = count.load(relaxed) + 1;
    if (next == 0) [[unlikely]]
        return record_rare(line, value_ns);
    count.store(next, relaxed);
    shard.sum.store(shard.sum.load(relaxed) + value_ns, relaxed);
}

/// The shards in the body of a segment.
class latency_shards {
 public:
    latency_shards() = default;

    /// Throws: geometry_mismatch where `count` shards do not fit.
    latency_shards(std::span<std::byte> body, std::uint64_t count, std::string_view uri) {
        if (count == 0 || count > layout::latency_shards_max || body.size() < layout::latency_shard_bytes(count))
            throw error(errc::geometry_mismatch, std::string(uri),
                        "the header promises more shards than the segment has room for; restore or recreate it");
        const std::size_t owned = static_cast<std::size_t>(count) - 1;
        shards_ = {reinterpret_cast<layout::latency_shard*>(body.data()), owned};
        shared_ = reinterpret_cast<layout::shared_latency_shard*>(body.data() + owned * sizeof(layout::latency_shard));
    }

    /// Shards that can be owned; the shared one comes behind them.
    [[nodiscard]] std::size_t owned() const noexcept { return shards_.size(); }
    [[nodiscard]] layout::latency_shard& operator[](std::size_t shard) const noexcept { return shards_[shard]; }
    [[nodiscard]] layout::shared_latency_shard& shared() const noexcept { return *shared_; }

    /// The line of a recorder that owns shard `shard`, or none where there is no such shard.
    [[nodiscard]] recorder_line line(std::size_t shard) const noexcept {
        recorder_line made;
        made.shared = shared_;
        if (shard >= owned()) return made;
        made.shard = &shards_[shard];
        widen(made);
        return made;
    }

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

    /// What every shard counted. Cost: about 1 us a shard.
    [[nodiscard]] histogram_counts merged() const {
        histogram_counts sum;
        for (const layout::latency_shard& shard : shards_) add(sum, shard);
        add(sum, *shared_);
        return sum;
    }

 private:
    template <class Shard>
    static void add(histogram_counts& sum, const Shard& from) noexcept {
        // Relaxed: a reader takes each word as it is at that instant (I1).
        constexpr auto relaxed = std::memory_order_relaxed;
        for (std::size_t bucket = 0; bucket < log_linear::buckets; ++bucket)
            sum.add(bucket, from.counts[bucket].load(relaxed));
        sum.note(from.sum.load(relaxed), ~from.least_complement.load(relaxed), from.greatest.load(relaxed));
    }

    std::span<layout::latency_shard> shards_;
    layout::shared_latency_shard* shared_ = nullptr;
};

}  // namespace holdfast::detail
