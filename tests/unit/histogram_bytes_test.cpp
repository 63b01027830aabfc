// SPDX-License-Identifier: Apache-2.0
// Histograms as bytes: there and back, merged on the way, and refused for whatever can be wrong with them.
#include "holdfast/metrics/histogram_bytes.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <vector>

#include "support/seed.hpp"

namespace {

using holdfast::errc;
using holdfast::histogram_counts;
using holdfast::histogram_from_bytes;
using holdfast::histogram_to_bytes;

histogram_counts latencies(std::uint64_t seed, int count) {
    std::mt19937_64 engine(seed);
    std::lognormal_distribution<> draw(11, 0.5);
    histogram_counts made;
    for (int i = 0; i < count; ++i) made.record(static_cast<std::uint64_t>(draw(engine)));
    return made;
}

void sign(std::vector<std::byte>& bytes) {
    std::uint64_t sum = holdfast::detail::checksum(std::span(bytes).first(bytes.size() - 8));
    for (std::size_t i = bytes.size() - 8; i < bytes.size(); ++i, sum >>= 8)
        bytes[i] = static_cast<std::byte>(sum & 0xFF);
}

errc refusal(const std::vector<std::byte>& bytes) {
    try {
        (void)histogram_from_bytes(bytes);
    } catch (const holdfast::error& e) {
        return e.reason();
    }
    return errc{};
}

void expect_equal(const histogram_counts& a, const histogram_counts& b) {
    EXPECT_TRUE(std::ranges::equal(a.counts(), b.counts()));
    EXPECT_EQ(a.sum(), b.sum());
    EXPECT_EQ(a.least_noted(), b.least_noted());
    EXPECT_EQ(a.greatest_noted(), b.greatest_noted());
}

TEST(HistogramBytes, ThereAndBack) {
    holdfast::test::seeded_random random;
    expect_equal(histogram_from_bytes(histogram_to_bytes({})), {});
    for (const int count : {1, 2, 1000, 100000}) {
        const histogram_counts made = latencies(random(), count);
        expect_equal(histogram_from_bytes(histogram_to_bytes(made)), made);
    }
    histogram_counts full;
    for (std::size_t b = 0; b < holdfast::log_linear::buckets; ++b) full.add(b, ~std::uint64_t{0} - b);
    full.note(~std::uint64_t{0}, 0, ~std::uint64_t{0});
    const auto bytes = histogram_to_bytes(full);
    EXPECT_LE(bytes.size(), holdfast::histogram_bytes_max);
    expect_equal(histogram_from_bytes(bytes), full);
}

TEST(HistogramBytes, WindowWithoutExtremes) {
    const histogram_counts before = latencies(1, 1000);
    histogram_counts after = before;
    after.merge(latencies(2, 1000));
    const histogram_counts window = after.since(before);
    expect_equal(histogram_from_bytes(histogram_to_bytes(window)), window);
}

TEST(HistogramBytes, HostsMergeExactly) {
    histogram_counts direct;
    histogram_counts sent;
    for (std::uint64_t host = 0; host < 20; ++host) {
        const histogram_counts here = latencies(host, 500);
        direct.merge(here);
        sent.merge(histogram_from_bytes(histogram_to_bytes(here)));
    }
    expect_equal(sent, direct);
}

TEST(HistogramBytes, AMillionLatenciesTakeAboutAKibibyte) {
    EXPECT_LT(histogram_to_bytes(latencies(7, 1'000'000)).size(), 1200U);
}

TEST(HistogramBytes, AnyFlippedBitIsNoticed) {
    const auto whole = histogram_to_bytes(latencies(3, 300));
    for (std::size_t bit = 0; bit < 8 * whole.size(); ++bit) {
        auto bytes = whole;
        bytes[bit / 8] ^= std::byte{1} << bit % 8;
        EXPECT_NE(refusal(bytes), errc{}) << "bit " << bit;
    }
}

TEST(HistogramBytes, AnyTruncationIsNoticed) {
    const auto whole = histogram_to_bytes(latencies(3, 300));
    for (std::size_t size = 0; size < whole.size(); ++size) {
        std::vector<std::byte> bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
        EXPECT_NE(refusal(bytes), errc{}) << size;
        if (size >= 18) {
            sign(bytes);
            EXPECT_NE(refusal(bytes), errc{}) << size << ", signed";
        }
    }
}

// Each kind of wrong bytes, with a right checksum, has its own answer.
TEST(HistogramBytes, SaysWhatIsWrong) {
    histogram_counts one;
    one.record(5);  // "HFLH" 1 6 40 1 | 5 5 5 | 1 | 5 1
    const auto whole = histogram_to_bytes(one);
    ASSERT_EQ(whole.size(), 8U + 6 + 8);
    const auto changed = [&](const std::function<void(std::vector<std::byte>&)>& change) {
        auto bytes = whole;
        change(bytes);
        sign(bytes);
        return refusal(bytes);
    };
    const auto at = [&](std::size_t i, int value) {
        return changed([&](auto& bytes) { bytes[i] = static_cast<std::byte>(value); });
    };
    EXPECT_EQ(at(0, 'X'), errc::bad_magic);
    EXPECT_EQ(at(4, 2), errc::version_mismatch);
    EXPECT_EQ(at(5, 7), errc::geometry_mismatch);
    EXPECT_EQ(at(6, 41), errc::geometry_mismatch);
    EXPECT_EQ(at(7, 2), errc::corrupt) << "unknown extremes";
    EXPECT_EQ(at(9, 6), errc::corrupt) << "least above greatest";
    EXPECT_EQ(at(11, 0), errc::corrupt) << "bytes behind the end";
    EXPECT_EQ(at(11, 2), errc::truncated) << "a second bucket that is not there";
    EXPECT_EQ(at(13, 0), errc::corrupt) << "an empty bucket";
    EXPECT_EQ(changed([](auto& b) { b[13] = std::byte{0x81}, b.insert(b.begin() + 14, std::byte{0}); }), errc::corrupt)
        << "a varint longer than need be";
    EXPECT_EQ(changed([](auto& b) { b.insert(b.begin() + 8, 10, std::byte{0xFF}); }), errc::corrupt) << "over 64 bits";
    EXPECT_EQ(changed([](auto& b) { b[12] = std::byte{0xFF}, b.insert(b.begin() + 13, std::byte{0x7F}); }),
              errc::corrupt)
        << "a bucket behind the last";
    EXPECT_EQ(changed([](auto& b) { b.insert(b.begin() + 14, holdfast::histogram_bytes_max, std::byte{0}); }),
              errc::corrupt)
        << "more than any histogram";
}

}  // namespace
