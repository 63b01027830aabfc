// SPDX-License-Identifier: Apache-2.0
// Latency histograms as native histograms: read back by the rules of the specification, and held against the samples.
#include "holdfast/metrics/exponential_buckets.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <random>
#include <ranges>

#include "support/seed.hpp"

namespace {

using holdfast::exponential_buckets;
using holdfast::histogram_counts;
using holdfast::to_exponential;

/// Index of a bucket and its count, as a reader of spans and deltas sees them.
std::map<int, std::uint64_t> read_back(const exponential_buckets& from) {
    std::map<int, std::uint64_t> buckets;
    std::size_t next = 0;
    std::int64_t count = 0;
    int index = 0;
    for (std::size_t s = 0; s < from.spans.size(); ++s) {
        EXPECT_TRUE(s == 0 || from.spans[s].offset > 0) << "spans that touch are one";
        EXPECT_GT(from.spans[s].length, 0U);
        index = s == 0 ? from.spans[s].offset : index + from.spans[s].offset;
        for (std::uint32_t i = 0; i < from.spans[s].length; ++i) {
            count += from.deltas.at(next++);
            EXPECT_GT(count, 0);
            buckets[index++] = static_cast<std::uint64_t>(count);
        }
    }
    EXPECT_EQ(next, from.deltas.size());
    return buckets;
}

std::uint64_t total(const std::map<int, std::uint64_t>& buckets) {
    std::uint64_t sum = 0;
    for (const auto& [index, count] : buckets) sum += count;
    return sum;
}

TEST(ExponentialBuckets, EmptyHasNoSpan) {
    const exponential_buckets none = to_exponential({});
    EXPECT_TRUE(none.spans.empty());
    EXPECT_TRUE(none.deltas.empty());
    EXPECT_GT(none.zero_threshold, 0) << "by which a collector knows a native histogram without samples";
}

TEST(ExponentialBuckets, ZeroIsInTheZeroBucket) {
    histogram_counts counts;
    counts.record(0);
    counts.record(0);
    counts.record(1'000'000'000);
    const exponential_buckets made = to_exponential(counts);
    EXPECT_EQ(made.zero_count, 2U);
    const auto buckets = read_back(made);
    ASSERT_EQ(buckets.size(), 1U);
    // 1 s lies on an edge of theirs, log2 = 0; the middle of our bucket is just above or below it.
    EXPECT_NEAR(buckets.begin()->first, 0, 1);
}

// Any sample stands in the bucket that the specification gives it, or in one whose edge is within 1/128 of it.
TEST(ExponentialBuckets, SamplesStandWhereTheyBelong) {
    holdfast::test::seeded_random random;
    for (const std::int32_t schema : {0, 3, 5, 6}) {
        for (int round = 0; round < 3000; ++round) {
            const std::uint64_t sample = 1 + (random() >> (24 + random.below(40)));
            histogram_counts one;
            one.record(sample);
            const auto buckets = read_back(to_exponential(one, schema));
            ASSERT_EQ(buckets.size(), 1U);
            const double edges_an_octave = std::ldexp(1.0, schema);
            const double upper = std::exp2(buckets.begin()->first / edges_an_octave);
            const double lower = std::exp2((buckets.begin()->first - 1) / edges_an_octave);
            const double seconds = static_cast<double>(sample) * 1e-9;
            EXPECT_LE(seconds, upper * (1 + 1.01 / 128)) << sample << " schema " << schema;
            EXPECT_GE(seconds, lower * (1 - 1.01 / 128)) << sample << " schema " << schema;
        }
    }
}

TEST(ExponentialBuckets, NothingIsLostAndQuantilesAgree) {
    holdfast::test::seeded_random random;
    std::mt19937_64 engine(random());
    std::lognormal_distribution<> draw(12, 1.5);
    histogram_counts counts;
    for (int i = 0; i < 200000; ++i) counts.record(static_cast<std::uint64_t>(draw(engine)));
    const exponential_buckets made = to_exponential(counts);
    const auto buckets = read_back(made);
    EXPECT_EQ(total(buckets) + made.zero_count, counts.total());
    for (const double q : {0.5, 0.9, 0.99}) {
        double left = q * static_cast<double>(counts.total());
        auto at = buckets.begin();
        for (; left > static_cast<double>(at->second); ++at) left -= static_cast<double>(at->second);
        const double middle = std::exp2((at->first - 0.5) / 32);
        const double ours = counts.quantile(q)->estimate * 1e-9;
        EXPECT_NEAR(middle, ours, ours * 0.02) << q;
    }
}

// Whoever may write a histogram may count whatever a word holds.
TEST(ExponentialBuckets, CountsBeyondASignedWordAreTheGreatestOne) {
    constexpr std::uint64_t most = std::numeric_limits<std::int64_t>::max();
    const std::size_t here = holdfast::log_linear::bucket_of(1'000'000);
    for (const std::uint64_t count : {most, most + 1, ~std::uint64_t{0}}) {
        histogram_counts counts;
        counts.add(here, count);
        counts.add(here + 1, count);  // of the same exponential bucket or of the next
        counts.add(here + 200, 1);    // far below, then as far above
        counts.add(here + 400, count);
        const auto told = read_back(to_exponential(counts));
        EXPECT_EQ(told.begin()->second, most) << count;
        EXPECT_EQ(told.rbegin()->second, most) << count;
        EXPECT_EQ(std::ranges::count(told | std::views::values, 1U), 1) << count;
    }
}

// What a collector subtracts from one scrape to the next must not fall anywhere.
TEST(ExponentialBuckets, CountsOnlyGrow) {
    holdfast::test::seeded_random random;
    histogram_counts counts;
    std::map<int, std::uint64_t> before;
    for (int scrape = 0; scrape < 200; ++scrape) {
        for (int i = 0; i < 50; ++i) counts.record(random() >> random.below(64));
        const auto now = read_back(to_exponential(counts));
        for (const auto& [index, count] : before) {
            ASSERT_TRUE(now.contains(index));
            ASSERT_GE(now.at(index), count);
        }
        before = now;
    }
}

}  // namespace
