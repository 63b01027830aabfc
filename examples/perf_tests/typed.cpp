// SPDX-License-Identifier: Apache-2.0
// A std::queue by the type of its elements.
#include <holdfast/perf_test.hpp>

#include <queue>
#include <vector>

template <class T>
class QueueTest : public testing::Test {
 protected:
    std::queue<T> queue_;
};

using Elements = testing::Types<int, std::vector<char>>;
TYPED_TEST_SUITE(QueueTest, Elements);

TYPED_TEST(QueueTest, PushPop) {
    this->queue_.push(TypeParam());
    this->queue_.pop();
    EXPECT_TRUE(this->queue_.empty());
}

TYPED_PERF_TEST(QueueTest, PushPopPerf) {
    this->queue_.push(TypeParam());
    this->queue_.pop();
}
