// SPDX-License-Identifier: Apache-2.0
// A consumer's performance tests, in the spelling of sources written for gtestx: every macro once, no main().
#include <gtestx/gtestx.h>
#include <unistd.h>

#include <map>
#include <queue>
#include <vector>

namespace {

const int rate = -1;
const int milliseconds = -1;

TEST(Plain, test) { ASSERT_NE(0, getpid()); }
PERF_TEST(Plain, perf) { getppid(); }
PERF_TEST_OPT(Plain, perfAtARate, 1000, 50) { getppid(); }
PERF_TEST_OPT(Plain, perfWithConstants, rate, milliseconds) { ASSERT_NE(0, getpid()) << PERF_ABORT; }

class Fixture : public testing::Test {
 protected:
    virtual ~Fixture() {}
    virtual void SetUp() override {
        for (int i = 0; i < 1000; i++) map_.emplace(i, 1);
    }
    virtual void TearDown() override {}
    std::map<int, int> map_;
    int search_key_ = 0;
};
TEST_F(Fixture, test) { ASSERT_NE(map_.find(999), map_.end()); }
PERF_TEST_F(Fixture, perf) { map_.find(++search_key_); }
PERF_TEST_F_OPT(Fixture, perfOpt, -1, 30) { map_.find(++search_key_); }

class Parameter : public testing::TestWithParam<int> {
 protected:
    std::vector<int> values_;
};
INSTANTIATE_TEST_CASE_P(Case, Parameter, testing::Values(1, 2));
TEST_P(Parameter, test) { values_.push_back(GetParam()); }
PERF_TEST_P(Parameter, perf) { values_.assign(10, GetParam()); }
PERF_TEST_P_OPT(Parameter, perfOpt, -1, 30) { values_.assign(10, GetParam()); }
INSTANTIATE_TEST_SUITE_P(Suite, Parameter, testing::Values(3));

template <class T>
class Typed : public testing::Test {
 protected:
    std::queue<T> queue_;
};
typedef testing::Types<int, std::vector<char>> Types;
TYPED_TEST_CASE(Typed, Types);
TYPED_TEST(Typed, test) { this->queue_.push(TypeParam()); }
TYPED_PERF_TEST(Typed, perf) {
    this->queue_.push(TypeParam());
    this->queue_.pop();
}
TYPED_PERF_TEST_OPT(Typed, perfOpt, -1, 30) {
    this->queue_.push(TypeParam());
    this->queue_.pop();
}

template <class T>
class TypedSuite : public testing::Test {};
TYPED_PERF_TEST_SUITE(TypedSuite, Types);
TYPED_PERF_TEST(TypedSuite, perf) { PERF_USE(TypeParam()); }

template <class T>
class PatternCase : public testing::Test {};
TYPED_PERF_TEST_CASE_P(PatternCase);
TYPED_TEST_P(PatternCase, test) {}
TYPED_PERF_TEST_P(PatternCase, perf) { PERF_USE(TypeParam()); }
TYPED_PERF_TEST_P_OPT(PatternCase, perfOpt, -1, 30) { PERF_USE(TypeParam()); }
REGISTER_TYPED_PERF_TEST_CASE_P(PatternCase, test, perf, perfOpt);
INSTANTIATE_TYPED_PERF_TEST_CASE_P(Prefix, PatternCase, Types);

template <class T>
class PatternSuite : public testing::Test {};
TYPED_TEST_SUITE_P(PatternSuite);
TYPED_PERF_TEST_P(PatternSuite, perf) { PERF_USE(TypeParam()); }
REGISTER_TYPED_TEST_SUITE_P(PatternSuite, perf);
INSTANTIATE_TYPED_TEST_SUITE_P(Prefix, PatternSuite, Types);

}  // namespace
