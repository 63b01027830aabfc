// SPDX-License-Identifier: Apache-2.0
// Every macro makes a test that runs its body in a loop, sees its fixture, and lives in a suite with ordinary tests.
#include "holdfast/perf_test.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <queue>
#include <string>
#include <vector>

#include "support/perf_results.hpp"

namespace {

namespace perf = holdfast::perf_test;
using holdfast::test::warns;

constexpr int any_rate = -1;
constexpr int short_time = 20;

// What the last finished test of this program found.
const perf::result& last_result() { return perf::session::get().results().back(); }

std::uint64_t plain_calls = 0;
TEST(PerfTestMacros, OrdinaryTestOfTheSameSuite) { SUCCEED(); }
PERF_TEST_OPT(PerfTestMacros, BodyRunsInALoop, any_rate, short_time) { PERF_USE(++plain_calls); }

class PerfTestFixture : public testing::Test {
 protected:
    virtual ~PerfTestFixture() {
        if (calls_ == 0) return;  // an ordinary test
        EXPECT_EQ(set_up_, 1);
        const perf::result& found = last_result();
        EXPECT_TRUE(found.good()) << found.failure;
        EXPECT_EQ(found.suite, "PerfTestFixture");
        EXPECT_GE(calls_, found.count);
        EXPECT_TRUE(found.samples.size() >= 30 || warns(found, "few")) << found.samples.size();
    }
    void SetUp() override { ++set_up_; }

    std::uint64_t calls_ = 0;
    int set_up_ = 0;
};
TEST_F(PerfTestFixture, OrdinaryTestOfTheSameFixture) { EXPECT_EQ(set_up_, 1); }
PERF_TEST_F_OPT(PerfTestFixture, SeesProtectedMembers, any_rate, short_time) { PERF_USE(++calls_); }

class PerfTestParameter : public testing::TestWithParam<int> {
 protected:
    ~PerfTestParameter() override {
        if (calls_ > 0) {
            EXPECT_EQ(last_result().parameter, std::to_string(GetParam()));
        }
    }
    std::uint64_t calls_ = 0;
};
INSTANTIATE_TEST_SUITE_P(Sizes, PerfTestParameter, testing::Values(1, 20, 300));
TEST_P(PerfTestParameter, OrdinaryTestOfTheSameFixture) { EXPECT_GT(GetParam(), 0); }
PERF_TEST_P_OPT(PerfTestParameter, SeesItsParameter, any_rate, short_time) { PERF_USE(calls_ += GetParam() > 0); }

template <class T>
class PerfTestTyped : public testing::Test {
 protected:
    std::queue<T> queue_;
};
using QueueTypes = testing::Types<int, std::vector<char>>;
TYPED_TEST_SUITE(PerfTestTyped, QueueTypes);
TYPED_TEST(PerfTestTyped, OrdinaryTestOfTheSameFixture) { this->queue_.push(TypeParam()); }
TYPED_PERF_TEST_OPT(PerfTestTyped, PushAndPop, any_rate, short_time) {
    static_assert(std::is_base_of_v<TestFixture, std::remove_reference_t<decltype(*this)>>);
    this->queue_.push(TypeParam());
    this->queue_.pop();
}

template <class T>
class PerfTestTypedPattern : public testing::Test {
 protected:
    std::queue<T> queue_;
};
TYPED_PERF_TEST_SUITE_P(PerfTestTypedPattern);
TYPED_TEST_P(PerfTestTypedPattern, OrdinaryTestOfTheSameFixture) { this->queue_.push(TypeParam()); }
TYPED_PERF_TEST_P_OPT(PerfTestTypedPattern, PushAndPop, any_rate, short_time) {
    this->queue_.push(TypeParam());
    this->queue_.pop();
}
REGISTER_TYPED_PERF_TEST_SUITE_P(PerfTestTypedPattern, OrdinaryTestOfTheSameFixture, PushAndPop);
INSTANTIATE_TYPED_PERF_TEST_SUITE_P(Queues, PerfTestTypedPattern, QueueTypes);

// The names for sources that spell out that their suites are of performance tests, and the older ones with CASE.
class PerfTestSpelledOut : public PerfTestParameter {};
INSTANTIATE_PERF_TEST_SUITE_P(Sizes, PerfTestSpelledOut, testing::Values(2, 3));
INSTANTIATE_PERF_TEST_CASE_P(OlderSizes, PerfTestSpelledOut, testing::Values(4));
PERF_TEST_P_OPT(PerfTestSpelledOut, SeesItsParameter, any_rate, short_time) { PERF_USE(calls_ += GetParam() > 1); }

template <class T>
class PerfTestTypedSpelledOut : public PerfTestTyped<T> {};
TYPED_PERF_TEST_SUITE(PerfTestTypedSpelledOut, QueueTypes);
TYPED_PERF_TEST_OPT(PerfTestTypedSpelledOut, Push, any_rate, short_time) {
    this->queue_.push(TypeParam());
    this->queue_.pop();
}
template <class T>
class PerfTestTypedOlder : public PerfTestTyped<T> {};
TYPED_PERF_TEST_CASE(PerfTestTypedOlder, QueueTypes);
TYPED_PERF_TEST_OPT(PerfTestTypedOlder, Push, any_rate, short_time) {
    this->queue_.push(TypeParam());
    this->queue_.pop();
}
template <class T>
class PerfTestTypedPatternOlder : public PerfTestTyped<T> {};
TYPED_PERF_TEST_CASE_P(PerfTestTypedPatternOlder);
TYPED_PERF_TEST_P_OPT(PerfTestTypedPatternOlder, Push, any_rate, short_time) {
    this->queue_.push(TypeParam());
    this->queue_.pop();
}
REGISTER_TYPED_PERF_TEST_CASE_P(PerfTestTypedPatternOlder, Push);
INSTANTIATE_TYPED_PERF_TEST_CASE_P(Queues, PerfTestTypedPatternOlder, QueueTypes);

TEST(PerfTestNames, EachIsInGoogleTestsList) {
    std::map<std::string, int> tests;
    const testing::UnitTest& all = *testing::UnitTest::GetInstance();
    for (int i = 0; i < all.total_test_suite_count(); ++i)
        tests[all.GetTestSuite(i)->name()] = all.GetTestSuite(i)->total_test_count();
    EXPECT_EQ(tests["Sizes/PerfTestSpelledOut"], 2);
    EXPECT_EQ(tests["OlderSizes/PerfTestSpelledOut"], 1);
    for (const char* const suite :
         {"PerfTestTypedSpelledOut/", "PerfTestTypedOlder/", "Queues/PerfTestTypedPatternOlder/"})
        for (const char* const type : {"0", "1"}) EXPECT_EQ(tests[std::string(suite) + type], 1) << suite << type;
}

// A fixture under another name than its own.
using PerfTestAlias = PerfTestParameter;
PERF_TEST_P_OPT(PerfTestAlias, FixtureMayBeAnAlias, any_rate, short_time) { PERF_USE(++calls_); }
INSTANTIATE_TEST_SUITE_P(Sizes, PerfTestAlias, testing::Values(7));

// Set-up and tear-down surround each batch, know how long it will be, and are not timed.
class PerfTestSetUp : public testing::Test {
 protected:
    PERF_BATCH(100);
    PERF_SETUP(operations) {
        EXPECT_TRUE(inputs_.empty());
        inputs_.assign(operations, 1);
        ++batches_;
    }
    PERF_TEARDOWN() { EXPECT_TRUE(inputs_.empty()); }
    ~PerfTestSetUp() override {
        EXPECT_GE(batches_, 30U);
        EXPECT_EQ(last_result().batch, 100U);
    }
    std::vector<int> inputs_;
    std::uint64_t batches_ = 0;
};
PERF_TEST_F_OPT(PerfTestSetUp, SurroundsEachBatch, any_rate, short_time) { inputs_.pop_back(); }

}  // namespace
