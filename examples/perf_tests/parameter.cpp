// SPDX-License-Identifier: Apache-2.0
// A std::unordered_map at several load factors.
#include <holdfast/perf_test.hpp>

#include <unordered_map>

class HashMapTest : public testing::TestWithParam<float> {
 protected:
    void SetUp() override {
        map_.max_load_factor(GetParam());
        for (int key = 0; key < entries; ++key) map_.emplace(key, 1);
    }

    static constexpr int entries = 1000;
    std::unordered_map<int, int> map_;
    unsigned search_key_ = 0;
};

INSTANTIATE_TEST_SUITE_P(LoadFactor, HashMapTest, testing::Values(3.0F, 1.0F, 0.3F));

TEST_P(HashMapTest, Find) { ASSERT_NE(map_.find(999), map_.end()); }

// MISSES ONLY: the key grows without end, so after the first thousand operations no key is found. It tells what a
// search for an absent key costs, and says nothing of a hit.
PERF_TEST_P(HashMapTest, FindPerf) { PERF_USE(map_.find(static_cast<int>(++search_key_ & 0x7fffffff))); }

// Hits only.
PERF_TEST_P(HashMapTest, FindHitPerf) { PERF_USE(map_.find(static_cast<int>(++search_key_ % entries))); }
