// SPDX-License-Identifier: Apache-2.0
// workloads.hpp - what the study times: steady, at the mercy of the caches, at the mercy of the branch predictor.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <vector>

namespace study {

inline constexpr std::array<const char*, 3> workloads{"chain", "reads", "sort"};

template <typename T>
void use(T& value) {
    asm volatile("" : "+r"(value) : : "memory");
}

inline std::function<void(std::uint64_t)> body_of(std::size_t workload) {
    if (workload == 0)
        return [](std::uint64_t n) {
            std::uint64_t x = n;
            for (; n > 0; --n) {
                x = x * 6364136223846793005U + 1;
                use(x);
            }
        };
    std::mt19937 random(1);
    if (workload == 1) {
        auto next = std::make_shared<std::vector<std::uint32_t>>(1U << 20);
        std::vector<std::uint32_t> order(next->size());
        for (std::uint32_t i = 0; i < order.size(); ++i) order[i] = i;
        std::shuffle(order.begin(), order.end(), random);
        for (std::size_t i = 0; i < order.size(); ++i) (*next)[order[i]] = order[(i + 1) % order.size()];
        return [next, at = std::uint32_t{0}](std::uint64_t n) mutable {
            for (; n > 0; --n) at = (*next)[at];
            use(at);
        };
    }
    std::vector<std::uint32_t> numbers(64);
    for (auto& x : numbers) x = static_cast<std::uint32_t>(random());
    return [numbers](std::uint64_t n) {
        std::array<std::uint32_t, 64> copy{};
        for (; n > 0; --n) {
            std::copy(numbers.begin(), numbers.end(), copy.begin());
            std::sort(copy.begin(), copy.end());
            std::uint32_t* data = copy.data();
            use(data);
        }
    };
}

}  // namespace study
