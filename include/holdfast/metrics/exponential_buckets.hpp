// SPDX-License-Identifier: Apache-2.0
// exponential_buckets.hpp - a latency histogram in the buckets of Prometheus' native (exponential) histograms.
//
// With schema s, bucket i counts values in (b^(i-1), b^i] for b = 2^(2^-s): 2^s buckets an octave. Values are seconds
// there and nanoseconds here, so edges never meet, and a bucket of ours may straddle one of theirs. It is counted whole
// where its middle lies: always the same one, so that counts only grow from one scrape to the next.
// Error: a sample stands in its own bucket or in one that begins or ends within half a bucket of ours from it, at most
// 1/128 (0.8 %) of its value. A quantile taken from them is off by that and by the width of their bucket: 2.2 % for
// schema 5. 0 ns is in the zero bucket; 2^40 ns and more is counted at 2^40 ns.
// Source: Prometheus, "Native histograms" specification, sections on schemas, spans and deltas.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "holdfast/metrics/histogram_counts.hpp"
#include "holdfast/metrics/log_linear.hpp"

namespace holdfast {

/// Consecutive buckets that are told of: `offset` buckets behind the last span, the first one's at index `offset`.
struct exponential_span {
    std::int32_t offset = 0;
    std::uint32_t length = 0;
};

struct exponential_buckets {
    std::int32_t schema = 5;
    double zero_threshold = 0x1p-128;  ///< seconds; the usual one
    std::uint64_t zero_count = 0;
    std::vector<exponential_span> spans;
    std::vector<std::int64_t> deltas;  ///< of each bucket's count from the one before it, the first from 0
};

/// Requires: -4 <= schema <= 8; above 6 there is nothing to gain. Cost: about 20 ns a filled bucket.
[[nodiscard]] inline exponential_buckets to_exponential(const histogram_counts& histogram, std::int32_t schema = 5) {
    exponential_buckets made;
    made.schema = schema;
    made.zero_count = histogram.counts()[0];
    // Differences are signed words there: what damage or a hostile peer counted beyond them is told as the greatest.
    constexpr std::uint64_t most = std::numeric_limits<std::int64_t>::max();
    std::uint64_t count = 0;  // of the bucket that is being filled
    std::int64_t written = 0;
    std::int32_t index = 0;
    const auto finish = [&] {
        if (count == 0) return;
        made.deltas.push_back(static_cast<std::int64_t>(count) - written);
        written = static_cast<std::int64_t>(count);
        ++made.spans.back().length;
        count = 0;
    };
    for (std::size_t bucket = 1; bucket < log_linear::buckets; ++bucket) {
        const std::uint64_t more = histogram.counts()[bucket];
        if (more == 0) continue;
        const double low = static_cast<double>(log_linear::lowest_of(bucket));
        const double high = static_cast<double>(log_linear::highest_of(bucket));
        const double middle = bucket == log_linear::overflow_bucket ? low : (low + high) / 2;
        const auto at = static_cast<std::int32_t>(std::ceil(std::ldexp(std::log2(middle * 1e-9), schema)));
        if (count == 0 || at != index) {
            const bool first = count == 0;
            finish();
            if (first)
                made.spans.push_back({at, 0});
            else if (at != index + 1)
                made.spans.push_back({at - index - 1, 0});
            index = at;
        }
        count += std::min(more, most - count);
    }
    finish();
    return made;
}

}  // namespace holdfast
