// SPDX-License-Identifier: Apache-2.0
// latency_interleaving.hpp - two processes that record latencies in one histogram, take its shard and give it back, or
// look (schedule_rig.hpp). Whatever the schedule and the death: each record is counted once, but for the one under way
// at a death, and a look finds what was finished before it.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>

#include "hooks/interleaving.hpp"
#include "support/hash_table_image.hpp"
#include "support/metrics_model.hpp"

namespace holdfast::test {

class latency_interleaving final : public interleaving {
 public:
    enum class does : std::uint8_t {
        record,  // in the shard of the process's number, or in the one that all share where there is no such
        take,    // the first shard by its word, or the shared one; record; and give it back
        look
    };
    struct step {
        does what = does::record;
        std::uint64_t value = 0;
    };
    using steps = std::array<std::array<step, operations>, 2>;

    /// `full`: the word of this value has no room in any shard that can be owned.
    latency_interleaving(const steps& asked, std::size_t owned, std::optional<std::uint64_t> full = {})
        : asked_(asked), bytes_(layout::latency_shard_bytes(owned + 1)), all_(bytes_.bytes(), owned + 1, "test") {
        for (std::size_t shard = 0; full && shard < owned; ++shard)
            all_[shard].counts[log_linear::bucket_of(*full)] = std::numeric_limits<std::uint32_t>::max();
        first_ = total_now();
    }

    [[nodiscard]] std::span<std::byte> image() override { return bytes_.bytes(); }
    void attach() override {
        for (unsigned process = 0; process < 2; ++process) lines_[process] = all_.line(process);
        seen_ = 0;
    }
    std::string run(unsigned process, unsigned operation) override {
        const step& asked = asked_[process][operation];
        if (asked.what == does::look) return look(1 - process);
        if (asked.what == does::record) {
            holdfast::detail::record_value(lines_[process], asked.value);
            return {};
        }
        const bool ours = all_.claim(0);
        auto line = all_.line(ours ? 0 : all_.owned());
        holdfast::detail::record_value(line, asked.value);
        if (ours) all_.give_back(0);
        return {};
    }
    std::string succeed() override { return run(0, begun(0) - 1); }
    std::string judge(std::optional<unsigned> dead) override {
        std::uint64_t least = 0, most = 0, sum = 0;
        std::uint64_t smallest = std::numeric_limits<std::uint64_t>::max(), greatest = 0;
        for (unsigned process = 0; process < 2; ++process)
            for (unsigned i = 0; i < begun(process); ++i) {
                if (asked_[process][i].what == does::look) continue;
                ++most;
                least += dead != process || i < ended(process) ? 1 : 0;
                sum += asked_[process][i].value;
                smallest = std::min(smallest, asked_[process][i].value);
                greatest = std::max(greatest, asked_[process][i].value);
            }
        const histogram_counts merged = all_.merged();
        const std::uint64_t counted = merged.total() - first_;
        if (counted < least || counted > most) return "counted " + std::to_string(counted) + " records";
        if (!dead && (merged.sum() != sum || merged.least_noted() != smallest || merged.greatest_noted() != greatest))
            return "sum or extremes are not those of the records";
        const bool free = all_.owned() == 0 || all_.claim(0);
        if (!dead && !free) return "the shard was not given back";
        for (std::size_t shard = 0; shard <= all_.owned(); ++shard) {  // whoever comes next
            auto line = all_.line(shard);
            holdfast::detail::record_value(line, 6000);
        }
        return total_now() == first_ + counted + all_.owned() + 1 ? "" : "the next owners' records are not counted";
    }

 private:
    [[nodiscard]] std::uint64_t total_now() const { return all_.merged().total(); }
    // What a merge loads, of the words that somebody stores to: it takes the shards in order, and of each its counts
    // first. Words that are only loaded change nothing about the schedules.
    [[nodiscard]] std::uint64_t total_of_stored() const {
        std::uint64_t total = 0;
        std::uint64_t sum = 0;
        const auto add = [&](const auto& shard) {
            std::array<std::size_t, 4> buckets{};
            for (unsigned i = 0; i < buckets.size(); ++i)
                buckets[i] = log_linear::bucket_of(asked_[i / operations][i % operations].value);
            std::sort(buckets.begin(), buckets.end());
            for (unsigned i = 0; i < buckets.size(); ++i)
                if (i == 0 || buckets[i] != buckets[i - 1])
                    total += shard.counts[buckets[i]].load(std::memory_order_relaxed);  // as merged()
            sum += shard.sum.load(std::memory_order_relaxed);                           // as merged()
        };
        for (std::size_t shard = 0; shard < all_.owned(); ++shard) add(all_[shard]);
        add(all_.shared());
        return total;
    }
    std::string look(unsigned other) {
        const std::uint64_t least = ended(other);
        const std::uint64_t found = total_of_stored() - first_;
        if (found < least || found > begun(other)) return "a look found records that were not there at the time";
        if (found < seen_) return "a look went back behind another";
        seen_ = found;
        return {};
    }

    steps asked_;
    aligned_bytes bytes_;
    holdfast::detail::latency_shards all_;
    std::array<holdfast::detail::recorder_line, 2> lines_{};
    std::uint64_t first_ = 0, seen_ = 0;
};

}  // namespace holdfast::test
