// SPDX-License-Identifier: Apache-2.0
// A death at every store of random histories of a counter set and of a latency histogram (store_rig.hpp), and all
// interleavings of two operations of two of their writers, or of one and a reader, with few pre-emptions and a death
// anywhere (schedule_rig.hpp); and which of their memory orders they need (weak_interleaving.hpp).
#include "hooks/counter_interleaving.hpp"
#include "hooks/counter_subject.hpp"
#include "hooks/estimator_interleaving.hpp"
#include "hooks/latency_interleaving.hpp"
#include "hooks/latency_subject.hpp"
#include "hooks/volume.hpp"

namespace {

using namespace holdfast::test;

TEST(StoreDeaths, CounterSet) { die_at_every_store<counter_subject>("counter_set", 600'000); }
TEST(StoreDeaths, LatencyHistogram) { die_at_every_store<latency_subject>("latency_histogram", 100'000); }

constexpr std::size_t walk = counter_interleaving::walk;

TEST(Interleavings, CounterSetNames) {
    counter_interleaving same({{{twin_name, short_name}, {twin_name, short_name}}}, counter_names);
    interleave("counter_set: a name, another | the same", same);
    counter_interleaving twins({{{twin_name, other_twin}, {other_twin, twin_name}}}, counter_names);
    interleave("counter_set: a name, one like it | that one, the first", twins);
    counter_interleaving left({{{other_twin, short_name}, {twin_name, last_name}}}, counter_names, {{twin_name, 3}});
    interleave("counter_set, a name begun: one like it, another | it, a third", left);
    counter_interleaving whole({{{long_name, short_name}, {long_name, long_name}}}, counter_names, {{long_name, 19}});
    interleave("counter_set, a long name begun: it, another | it, it", whole);
}
TEST(Interleavings, CounterSetWithoutRoom) {
    counter_interleaving one({{{twin_name, short_name}, {other_twin, last_name}}}, 1);
    interleave("counter_set, room for one: a name, another | one like it, a third", one);
    counter_interleaving two({{{short_name, last_name}, {last_name, twin_name}}}, 2, {{other_twin, 2}});
    interleave("counter_set, room for two, one begun: a name, another | that, one like the begun one", two);
}
TEST(Interleavings, CounterSetBesideAWalk) {
    counter_interleaving walked({{{twin_name, short_name}, {walk, walk}}}, counter_names);
    interleave("counter_set: a name, another | walk, walk", walked);
    counter_interleaving taken_up({{{other_twin, twin_name}, {walk, walk}}}, counter_names, {{twin_name, 2}});
    interleave("counter_set, a name begun: one like it, it | walk, walk", taken_up);
}
TEST(Interleavings, CounterSetSuccessors) {
    counter_interleaving walked({{{twin_name, short_name}, {walk, walk}}}, counter_names);
    interleave_successors("counter_set: a name, another, successor | walk, walk", walked);
    counter_interleaving twins({{{twin_name, other_twin}, {other_twin, twin_name}}}, counter_names);
    interleave_successors("counter_set: a name, one like it, successor | that one, the first", twins);
}

using does = latency_interleaving::does;
constexpr std::uint64_t slow = 1U << 20U, quick = 5000;

TEST(Interleavings, LatencyHistogramShards) {
    latency_interleaving taken(
        {{{{{does::take, quick}, {does::take, slow}}}, {{{does::take, quick}, {does::take, quick}}}}}, 1);
    interleave("latency_histogram: take a shard and record, twice | the same", taken);
    latency_interleaving full(
        {{{{{does::record, quick}, {does::record, quick}}}, {{{does::record, quick}, {does::record, slow}}}}}, 2,
        quick);
    interleave("latency_histogram, full words: record, record | record, record", full);
    latency_interleaving shared(
        {{{{{does::record, quick}, {does::record, slow}}}, {{{does::record, slow}, {does::record, 3}}}}}, 0);
    interleave("latency_histogram, the shard of all: record, record | record, record", shared);
}
TEST(Interleavings, LatencyHistogramBesideALook) {
    latency_interleaving own({{{{{does::record, quick}, {does::record, slow}}}, {{{does::look}, {does::look}}}}}, 1);
    interleave("latency_histogram: record, record | look, look", own);
    latency_interleaving full({{{{{does::record, quick}, {does::record, quick}}}, {{{does::look}, {does::look}}}}}, 1,
                              quick);
    interleave("latency_histogram, full words: record, record | look, look", full);
}

TEST(Interleavings, LatencyHistogramEstimator) {
    for (const std::uint64_t before : {0U, 1U, 2U}) {
        estimator_interleaving ends(before);
        interleave("max_of_n: end a block, another | look, look", ends);
        interleave_successors("max_of_n: end a block, another, successor | look, look", ends);
    }
}

// Each word stands for itself: it does without any order, also where a load may give an older value.
TEST(Orders, CounterSetNeedsNone) {
    counter_interleaving twins({{{twin_name, other_twin}, {other_twin, twin_name}}}, counter_names);
    counter_interleaving left({{{other_twin, short_name}, {twin_name, last_name}}}, 2, {{twin_name, 3}});
    counter_interleaving walked({{{twin_name, short_name}, {walk, walk}}}, counter_names);
    for (counter_interleaving* const each : {&twins, &left, &walked}) {
        weak_interleaving test(*each);
        for (std::uint64_t seed = 1; seed <= 2000; ++seed) ASSERT_EQ(test.run(seed), "") << "seed " << seed;
        EXPECT_TRUE(test.rig().places().empty()) << "an order that is to be relaxed in turn";
    }
}
TEST(Orders, LatencyHistogram) {
    latency_interleaving taken(
        {{{{{does::take, quick}, {does::take, slow}}}, {{{does::take, quick}, {does::take, quick}}}}}, 1);
    expect_orders_matter("latency_histogram", {&taken});
}
TEST(Orders, LatencyHistogramEstimator) {
    estimator_interleaving two(2), one(1);
    expect_orders_matter("max_of_n", {&two, &one});
}

}  // namespace
