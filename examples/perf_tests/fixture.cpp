// SPDX-License-Identifier: Apache-2.0
// A std::map of a thousand entries, built once by SetUp and not timed.
#include <holdfast/perf_test.hpp>

#include <map>

class StdMapTest : public testing::Test {
 protected:
    void SetUp() override {
        for (int key = 0; key < 1000; ++key) map_.emplace(key, 1);
    }

    std::map<int, int> map_;
    int key_ = 0;
};

TEST_F(StdMapTest, Find) { ASSERT_NE(map_.find(999), map_.end()); }

// One key again and again: the way to it stays in the cache and the branches are learnt. This is the least a hit can
// cost. Nothing but PERF_USE keeps the compiler from removing a find whose result nobody wants.
PERF_TEST_F(StdMapTest, FindPerf) { PERF_USE(map_.find(999)); }

// Another key each time, in an order that no branch predictor learns: 7919 is prime to 1000, so all keys come.
PERF_TEST_F(StdMapTest, FindScatteredPerf) {
    key_ = (key_ + 7919) % 1000;
    PERF_USE(map_.find(key_));
}
