// SPDX-License-Identifier: Apache-2.0
// latency_subject.hpp - random histories of a latency histogram under store_rig.hpp: records by the owners of two
// shards, by those who have none, and by owners who come after another; some words are nearly full at the beginning.
// There is nothing to recover, so no death in recovery: who comes next counts on.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>

#include "hooks/store_rig.hpp"
#include "support/hash_table_image.hpp"
#include "support/metrics_model.hpp"

namespace holdfast::test {

class latency_subject {
 public:
    static constexpr unsigned length = 400;

    explicit latency_subject(std::uint64_t seed)
        : random_(seed), bytes_(layout::latency_shard_bytes(shards)), all_(bytes_.bytes(), shards, "test") {
        for (std::size_t shard = 0; shard + 1 < shards; ++shard)
            all_[shard].counts[log_linear::bucket_of(some_latencies[random_.below(some_latencies.size())])] =
                std::numeric_limits<std::uint32_t>::max() - static_cast<std::uint32_t>(random_.below(5));
        before_ = after_ = look();
        for (std::size_t shard = 0; shard < shards; ++shard) lines_[shard] = all_.line(shard);
    }

    [[nodiscard]] std::span<std::byte> image() noexcept { return bytes_.bytes(); }

    std::string next(store_rig& rig) {
        where_ = random_.below(shards);
        const std::uint64_t value = some_latencies[random_.below(some_latencies.size())];
        if (random_.one_in(16)) lines_[where_] = all_.line(where_);  // another owner
        after_ = before_;
        ++after_.counts[place_of(value)];
        after_.sum += value;
        after_.least = std::min(after_.least, value);
        after_.greatest = std::max(after_.greatest, value);
        is_after_ = false;
        rig.operate([&] { holdfast::detail::record_value(lines_[where_], value); }, [&] { return survive(rig); });
        before_ = after_;
        const found now = look();
        return now == before_ ? whole(now) : "the end is not what was recorded";
    }

 private:
    static constexpr std::size_t shards = 3;
    struct found {
        std::array<std::uint64_t, some_latencies.size()> counts{};  // by place
        std::uint64_t sum = 0, least = std::numeric_limits<std::uint64_t>::max(), greatest = 0;
        friend bool operator==(const found&, const found&) = default;
    };
    // The first value of its bucket.
    [[nodiscard]] static std::size_t place_of(std::uint64_t value) {
        std::size_t place = 0;
        while (log_linear::bucket_of(some_latencies[place]) != log_linear::bucket_of(value)) ++place;
        return place;
    }

    std::string survive(store_rig& rig) {
        const found now = look();
        const bool is_before = now.counts == before_.counts, is_after = now.counts == after_.counts;
        if (!is_before && !is_after) return "the counts are neither of both";
        if (is_after_ && !is_after) return "a record was taken back";
        is_after_ = is_after;
        const auto either = [](std::uint64_t is, std::uint64_t one, std::uint64_t other) {
            return is == one || is == other;
        };
        if (!either(now.sum, before_.sum, after_.sum) || !either(now.least, before_.least, after_.least) ||
            !either(now.greatest, before_.greatest, after_.greatest))
            return "sum or extremes are neither of both";
        if (rig.random().one_in(64))
            if (std::string why = whole(now); !why.empty()) return why;
        std::string why;
        rig.go_on([&] {
            auto next = all_.line(where_);
            found then = now;
            ++then.counts[place_of(5000)];
            holdfast::detail::record_value(next, 5000);
            if (look().counts != then.counts) why = "the next owner's record is not counted";
        });
        return why;
    }
    // What merged() adds up, of the buckets that there are values of.
    [[nodiscard]] found look() const {
        found sum;
        const auto add = [&sum](const auto& shard) {
            for (std::size_t place = 0; place < some_latencies.size(); ++place)
                if (place_of(some_latencies[place]) == place)
                    sum.counts[place] += shard.counts[log_linear::bucket_of(some_latencies[place])].load();
            sum.sum += shard.sum.load();
            sum.least = std::min(sum.least, ~shard.least_complement.load());
            sum.greatest = std::max(sum.greatest, shard.greatest.load());
        };
        for (std::size_t shard = 0; shard < all_.owned(); ++shard) add(all_[shard]);
        add(all_.shared());
        return sum;
    }
    // And of all others nothing.
    [[nodiscard]] std::string whole(const found& now) const {
        const histogram_counts merged = all_.merged();
        std::uint64_t total = 0;
        for (std::size_t place = 0; place < some_latencies.size(); ++place) {
            total += now.counts[place];
            if (place_of(some_latencies[place]) == place &&
                merged.counts()[log_linear::bucket_of(some_latencies[place])] != now.counts[place])
                return "merged counts are others";
        }
        return merged.total() == total && merged.sum() == now.sum ? "" : "a record is in a bucket of its neighbours";
    }

    draws random_;
    aligned_bytes bytes_;
    holdfast::detail::latency_shards all_;
    std::array<holdfast::detail::recorder_line, shards> lines_{};
    found before_, after_;
    std::size_t where_ = 0;
    bool is_after_ = false;
};

}  // namespace holdfast::test
