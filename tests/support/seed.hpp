// SPDX-License-Identifier: Apache-2.0
// seed.hpp - randomness that can be repeated: every random test draws from one of these and names the seed when it
// fails.
//
// HOLDFAST_TEST_SEED=N makes every seeded_random of the run start from N; without it each starts from the system's
// entropy.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

namespace holdfast::test {

/// The seed asked for by HOLDFAST_TEST_SEED, or a fresh one.
[[nodiscard]] inline std::uint64_t choose_seed() {
    if (const char* text = std::getenv("HOLDFAST_TEST_SEED"); text != nullptr && *text != '\0')
        return std::strtoull(text, nullptr, 0);
    std::random_device entropy;
    return (std::uint64_t{entropy()} << 32) | entropy();
}

/// A 64-bit generator whose seed is part of every assertion that fails while it is in scope.
///
/// Threads: as std::mt19937_64; make it in the test's own thread (it holds a gtest ScopedTrace).
class seeded_random {
 public:
    using result_type = std::uint64_t;

    seeded_random() : seeded_random(choose_seed()) {}
    explicit seeded_random(std::uint64_t seed)
        : seed_(seed),
          engine_(seed),
          trace_(__FILE__, __LINE__, "repeat with HOLDFAST_TEST_SEED=" + std::to_string(seed)) {}

    [[nodiscard]] std::uint64_t seed() const noexcept { return seed_; }
    std::uint64_t operator()() { return engine_(); }
    static constexpr std::uint64_t min() { return 0; }
    static constexpr std::uint64_t max() { return ~std::uint64_t{0}; }

    /// A number in [0, bound). Requires: bound > 0.
    std::uint64_t below(std::uint64_t bound) {
        return static_cast<std::uint64_t>((static_cast<wide>(engine_()) * bound) >> 64);
    }

 private:
    __extension__ using wide = unsigned __int128;
    std::uint64_t seed_;
    std::mt19937_64 engine_;
    ::testing::ScopedTrace trace_;
};

/// A hash of (seed, stream, index): the same random number again in another process, without sending it.
[[nodiscard]] constexpr std::uint64_t random_at(std::uint64_t seed, std::uint64_t stream,
                                                std::uint64_t index) noexcept {
    // Three rounds of the splitmix64 finaliser (Steele, Lea, Flood, OOPSLA 2014) over the three inputs.
    std::uint64_t x = seed;
    for (const std::uint64_t part : {stream, index, std::uint64_t{0}}) {
        x += part + 0x9E3779B97F4A7C15U;
        x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
        x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
        x ^= x >> 31;
    }
    return x;
}

/// `bytes` bytes, word after word of that stream.
[[nodiscard]] inline std::vector<std::byte> random_bytes(std::uint64_t seed, std::uint64_t stream, std::size_t bytes) {
    std::vector<std::byte> out(bytes);
    for (std::size_t at = 0; at < bytes; at += 8) {
        const std::uint64_t word = random_at(seed, stream, at / 8);
        std::memcpy(out.data() + at, &word, std::min<std::size_t>(bytes - at, 8));
    }
    return out;
}

}  // namespace holdfast::test
