// SPDX-License-Identifier: Apache-2.0
// What a test may ask for itself, and how it ends early.
#include <holdfast/perf_test.hpp>

#include <unistd.h>

#include <algorithm>
#include <numeric>
#include <vector>

// 10,000 calls a second for 200 ms, unless the command line says otherwise (-hz, -time).
PERF_TEST_OPT(OptionsTest, SysCallAtARatePerf, 10000, 200) { getppid(); }

// A failed assertion ends the loop and the test: it is not repeated a million times. PERF_ABORT says so aloud.
PERF_TEST(OptionsTest, AbortPerf) { ASSERT_NE(getppid(), 0) << PERF_ABORT; }

// A body that uses up its input: a batch is exactly 64 sorts, and PERF_SETUP makes 64 shuffled inputs before each
// batch, untimed and without a clock inside the loop.
class SortTest : public testing::Test {
 protected:
    PERF_BATCH(64);
    PERF_SETUP(operations) {
        inputs_.assign(operations, std::vector<int>(256));
        for (auto& input : inputs_) {
            std::iota(input.begin(), input.end(), 0);
            for (std::size_t at = input.size() - 1; at > 0; --at) std::swap(input[at], input[random() % (at + 1)]);
        }
        next_ = 0;
    }
    PERF_TEARDOWN() { EXPECT_TRUE(std::is_sorted(inputs_.front().begin(), inputs_.front().end())); }

    std::size_t random() { return seed_ = seed_ * 6364136223846793005U + 1442695040888963407U, seed_ >> 33; }

    std::vector<std::vector<int>> inputs_;
    std::size_t next_ = 0;
    std::size_t seed_ = 1;
};

PERF_TEST_F(SortTest, SortPerf) {
    auto& input = inputs_[next_++];
    std::sort(input.begin(), input.end());
}
