// SPDX-License-Identifier: Apache-2.0
// Latency histograms in a segment: shards claimed, given back, shared, read and refused.
#include "holdfast/metrics/latency_histogram.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <utility>
#include <vector>

#include "support/process.hpp"
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
    for (int i = 0; i < 4; ++i) recorders.push_back(histogram.recorder());
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
        latency_recorder recorder = histogram.recorder();
        EXPECT_FALSE(recorder.shared()) << "turn " << turn;
        recorder.record(5000);
        latency_recorder moved = std::move(recorder);
        moved.record(5000);
    }
    EXPECT_EQ(histogram.merged().total(), 6U);
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
    latency_recorder one = first.recorder();
    latency_recorder two = second.recorder();
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
            latency_recorder recorder = mine.recorder();
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
    latency_recorder recorder = histogram.recorder();
    recorder.record(1);
    const auto end = holdfast::test::in_child([&] { recorder.record(1); });
    EXPECT_TRUE(end.success()) << end.text();
    EXPECT_EQ(histogram.merged().total(), 1U);
    EXPECT_TRUE(histogram.recorder().shared()) << "the child's end must not free the parent's shard";
}

TEST(LatencyHistogram, RefusesOtherSegmentsAndGeometry) {
    const holdfast::test::unique_posix_name raw("raw");
    const holdfast::test::unique_posix_name bad("bad");
    const auto first = holdfast::segment::create(raw.uri(), raw_spec(), {}, [](auto) {});
    EXPECT_EQ(reason_of([&] { (void)latency_histogram_reader::attach(raw.uri()); }), errc::kind_mismatch);
    holdfast::segment_spec spec;
    spec.kind = holdfast::container_kind::latency_histogram;
    spec.policy = holdfast::writers::many;
    spec.geometry = {100, sizeof(holdfast::layout::latency_shard), 6, 40};
    spec.body_bytes = 4096;
    const auto second = holdfast::segment::create(bad.uri(), spec, {}, [](auto) {});
    EXPECT_EQ(reason_of([&] { (void)latency_histogram_reader::attach(bad.uri()); }), errc::geometry_mismatch);
    EXPECT_EQ(reason_of([] { (void)latency_histogram::create("heap:", {.shards = 0}); }), errc::invalid_argument);
}

}  // namespace
