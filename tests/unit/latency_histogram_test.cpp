// SPDX-License-Identifier: Apache-2.0
// Latency histograms in a segment: shards claimed, given back, shared, read and refused.
#include "holdfast/metrics/latency_histogram.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "support/process.hpp"
#include "support/seed.hpp"
#include "support/unique_name.hpp"

namespace {

// The segments of these tests are registered beside nobody else's.
const holdfast::test::unique_directory registry("registry");
const holdfast::test::scoped_environment registered("HOLDFAST_REGISTRY", registry.path());

using holdfast::errc;
using holdfast::latency_histogram;
using holdfast::latency_histogram_reader;
using holdfast::latency_recorder;

holdfast::segment_spec raw_spec() {
    holdfast::segment_spec spec;
    spec.body_bytes = 4096;
    return spec;
}

template <class Call>
errc reason_of(Call&& call) {
    try {
        call();
    } catch (const holdfast::error& e) {
        return e.reason();
    }
    return errc{};
}

class LatencyHistogramKinds : public testing::TestWithParam<const char*> {
 protected:
    holdfast::test::unique_posix_name name_{"latency"};
    [[nodiscard]] std::string uri() const { return std::string(GetParam()) == "posix:" ? name_.uri() : GetParam(); }
};

// More recorders than shards: the surplus shares the last shard, and nothing is lost or counted twice.
TEST_P(LatencyHistogramKinds, EveryRecorderCounts) {
    const latency_histogram histogram = latency_histogram::create(uri(), {.shards = 2});
    std::vector<latency_recorder> recorders;
    for (int i = 0; i < 4; ++i) recorders.push_back(histogram.make_recorder());
    EXPECT_FALSE(recorders[0].shared());
    EXPECT_FALSE(recorders[1].shared());
    EXPECT_TRUE(recorders[2].shared());
    EXPECT_TRUE(recorders[3].shared());
    for (std::uint64_t i = 0; i < 4; ++i)
        for (int k = 0; k < 100; ++k) recorders[i].record(1000 + i);
    EXPECT_EQ(histogram.merged().total(), 400U);
    EXPECT_EQ(histogram.merged().sum(), 400U * 1000 + 100 * 6);
}

TEST_P(LatencyHistogramKinds, ShardIsGivenBackAndCountedOn) {
    const latency_histogram histogram = latency_histogram::create(uri(), {.shards = 1});
    for (int turn = 0; turn < 3; ++turn) {
        latency_recorder recorder = histogram.make_recorder();
        EXPECT_FALSE(recorder.shared()) << "turn " << turn;
        recorder.record(5000);
        latency_recorder moved = std::move(recorder);
        moved.record(5000);
    }
    EXPECT_EQ(histogram.merged().total(), 6U);
}

TEST_P(LatencyHistogramKinds, ShardOfARecorderThatIsAssignedToIsGivenBackAtOnce) {
    const latency_histogram histogram = latency_histogram::create(uri(), {.shards = 2});
    latency_recorder first = histogram.make_recorder(), second = histogram.make_recorder();
    EXPECT_TRUE(histogram.make_recorder().shared());
    first.record(1000);
    first = std::move(second);  // which lives on
    latency_recorder third = histogram.make_recorder();
    EXPECT_FALSE(third.shared());
    latency_recorder& same = first;
    first = std::move(same);
    EXPECT_FALSE(first.shared());
    EXPECT_TRUE(histogram.make_recorder().shared()) << "moved to itself it keeps its shard";
    first.record(2000);
    third.record(3000);
    EXPECT_EQ(histogram.merged().total(), 3U);
    EXPECT_EQ(histogram.merged().sum(), 6000U);
}

INSTANTIATE_TEST_SUITE_P(Memory, LatencyHistogramKinds, testing::Values("heap:", "anon:", "posix:"),
                         [](const auto& kind) {
                             std::string text = kind.param;
                             text.pop_back();
                             return text;
                         });

// Two handles on one segment exclude each other's shards as two processes do.
TEST(LatencyHistogram, HandlesOfOneSegmentShareNoShard) {
    const holdfast::test::unique_posix_name name("latency");
    const latency_histogram first = latency_histogram::create(name.uri(), {.shards = 1});
    const latency_histogram second = latency_histogram::attach(name.uri());
    latency_recorder one = first.make_recorder();
    latency_recorder two = second.make_recorder();
    EXPECT_FALSE(one.shared());
    EXPECT_TRUE(two.shared());
    one.record(10);
    two.record(10);
    EXPECT_EQ(latency_histogram_reader::attach(name.uri()).merged().total(), 2U);
}

TEST(LatencyHistogram, ShardOfAKilledProcessIsFreeAndItsCountsStay) {
    const holdfast::test::unique_posix_name name("latency");
    const latency_histogram histogram = latency_histogram::create(name.uri(), {.shards = 1});
    for (std::uint64_t round = 1; round <= 20; ++round) {
        holdfast::test::child_process child([&](holdfast::test::channel& talk) {
            latency_histogram mine = latency_histogram::attach(name.uri());
            latency_recorder recorder = mine.make_recorder();
            if (recorder.shared()) return 1;
            recorder.record(700);
            talk.signal();
            for (;;) ::pause();
        });
        ASSERT_TRUE(child.talk().wait()) << child.wait().text();
        ASSERT_TRUE(child.kill().signalled);
        ASSERT_EQ(histogram.merged().total(), round);
    }
}

TEST(LatencyHistogram, ForkedRecorderRecordsNothing) {
    const latency_histogram histogram = latency_histogram::create("anon:", {.shards = 1});
    latency_recorder recorder = histogram.make_recorder();
    recorder.record(1);
    const auto end = holdfast::test::in_child([&] { recorder.record(1); });
    EXPECT_TRUE(end.success()) << end.text();
    EXPECT_EQ(histogram.merged().total(), 1U);
    EXPECT_TRUE(histogram.make_recorder().shared()) << "the child's end must not free the parent's shard";
}

// A page of lines is 64 recorders: those of the second page record and are wiped in a child like those of the first.
TEST(LatencyHistogram, ManyRecordersShareOneHandle) {
    const latency_histogram histogram = latency_histogram::create("anon:", {.shards = 100});
    std::vector<latency_recorder> recorders;
    for (int i = 0; i < 150; ++i) recorders.push_back(histogram.make_recorder());
    for (auto& recorder : recorders) recorder.record(300);
    recorders.erase(recorders.begin(), recorders.begin() + 75);  // lines and shards come back and are given out again
    for (int i = 0; i < 75; ++i) recorders.push_back(histogram.make_recorder());
    EXPECT_EQ(std::ranges::count_if(recorders, [](const auto& one) { return one.shared(); }), 50);
    for (auto& recorder : recorders) recorder.record(300);
    const auto end = holdfast::test::in_child([&] {
        for (auto& recorder : recorders) recorder.record(300);
    });
    EXPECT_TRUE(end.success()) << end.text();
    EXPECT_EQ(histogram.merged().total(), 300U);
}

// I4: the last value that a 32-bit word can hold, and what comes behind it.
TEST(LatencyHistogram, FullWordGoesOnInTheSharedShard) {
    const latency_histogram histogram = latency_histogram::create("anon:", {.shards = 1});
    latency_recorder recorder = histogram.make_recorder();
    recorder.record(5000);
    const auto body = const_cast<holdfast::segment&>(histogram.segment()).body();
    auto* const shard = reinterpret_cast<holdfast::layout::latency_shard*>(body.data());
    const std::size_t bucket = holdfast::log_linear::bucket_of(5000);
    shard->counts[bucket].store(0xFFFFFFFFU - 2);
    for (std::uint64_t i = 1; i <= 10; ++i) {
        recorder.record(5000);
        ASSERT_EQ(histogram.merged().total(), 0xFFFFFFFFU - 2 + i);
    }
    EXPECT_EQ(shard->counts[bucket].load(), 0xFFFFFFFFU) << "it never wraps";
    EXPECT_EQ(histogram.merged().sum(), 11U * 5000);
    latency_recorder other = histogram.make_recorder();
    EXPECT_TRUE(other.shared());
    other.record(5000);
    EXPECT_EQ(histogram.merged().total(), 0xFFFFFFFFU + 9ULL);
}

// Attacks I5: a peer scribbles on the extremes, from which a recorder takes the range of its short way. Values outside
// must neither be counted in a wrong bucket nor reach beyond the shard.
TEST(LatencyHistogram, ScribbledExtremesMisplaceNothing) {
    holdfast::test::seeded_random random;
    const latency_histogram histogram = latency_histogram::create("anon:", {.shards = 1});
    latency_recorder recorder = histogram.make_recorder();
    const auto body = const_cast<holdfast::segment&>(histogram.segment()).body();
    auto* const shard = reinterpret_cast<holdfast::layout::latency_shard*>(body.data());
    holdfast::histogram_counts expected;
    for (int round = 0; round < 2000; ++round) {
        shard->least_complement.store(random() >> random.below(64));
        shard->greatest.store(random() >> random.below(64));
        for (int i = 0; i < 20; ++i) {
            const std::uint64_t value = random() >> random.below(64);
            recorder.record(value);
            expected.record(value);
        }
    }
    EXPECT_TRUE(std::ranges::equal(histogram.merged().counts(), expected.counts()));
}

TEST(LatencyHistogram, ShardIsNineKibibytes) {
    const latency_histogram one = latency_histogram::create("heap:", {.shards = 1});
    const latency_histogram eleven = latency_histogram::create("heap:", {.shards = 11});
    EXPECT_EQ(eleven.segment().info().body_bytes - one.segment().info().body_bytes, 10U * 9 * 1024);
}

TEST(LatencyHistogram, RefusesOtherSegmentsAndGeometry) {
    const holdfast::test::unique_posix_name raw("raw");
    const holdfast::test::unique_posix_name bad("bad");
    const auto first = holdfast::segment::create(raw.uri(), raw_spec(), {}, [](auto) {});
    EXPECT_EQ(reason_of([&] { (void)latency_histogram_reader::attach(raw.uri()); }), errc::kind_mismatch);
    holdfast::segment_spec spec;
    spec.kind = holdfast::container_kind::latency_histogram;
    spec.container_version = holdfast::detail::latency_histogram_version;
    spec.policy = holdfast::writers::many;
    spec.geometry = {100, sizeof(holdfast::layout::latency_shard), 6, 40};
    spec.body_bytes = 4096;
    const auto second = holdfast::segment::create(bad.uri(), spec, {}, [](auto) {});
    EXPECT_EQ(reason_of([&] { (void)latency_histogram_reader::attach(bad.uri()); }), errc::geometry_mismatch);
    EXPECT_EQ(reason_of([] { (void)latency_histogram::create("heap:", {.shards = 0}); }), errc::invalid_argument);
}

}  // namespace
