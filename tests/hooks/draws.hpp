// SPDX-License-Identifier: Apache-2.0
// draws.hpp - random numbers that cost next to nothing and come again with their seed.
#pragma once

#include <cstdint>

namespace holdfast::test {

/// Random numbers from one seed, one multiplication each (splitmix64: Steele, Lea, Flood, OOPSLA 2014).
class draws {
 public:
    explicit draws(std::uint64_t seed) noexcept : state_(seed) {}
    std::uint64_t operator()() noexcept {
        std::uint64_t x = state_ += 0x9E3779B97F4A7C15U;
        x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
        x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
        return x ^ (x >> 31);
    }
    /// In [0, bound). Requires: 0 < bound < 2^32.
    std::uint64_t below(std::uint64_t bound) noexcept { return ((*this)() >> 32) * bound >> 32; }
    bool one_in(std::uint64_t n) noexcept { return below(n) == 0; }

 private:
    std::uint64_t state_;
};

}  // namespace holdfast::test
