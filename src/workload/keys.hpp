// SPDX-License-Identifier: Apache-2.0
// keys.hpp - the keys of a data set and the order in which they are asked for, the same for every subject.
//
// Keys are a bijection of a counter: random to look at, distinct by construction, and the keys that are absent come
// from the counters behind the last present one. The order of the questions is drawn with replacement and written down
// before anything is timed, so that a body only walks through an array: eight bytes of sequential reading an operation,
// and no pattern in the places of the data that a prefetcher could learn.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "holdfast/detail/hash.hpp"

namespace holdfast::workload {

/// A permutation of the 64-bit numbers (the finaliser of splitmix64; Steele, Lea, Flood, OOPSLA 2014).
[[nodiscard]] constexpr std::uint64_t scramble(std::uint64_t x) noexcept {
    x += 0x9e3779b97f4a7c15U;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
    return x ^ (x >> 31);
}

/// `count` distinct keys, never 0; sets with different `first` counters have no key in common.
[[nodiscard]] inline std::vector<std::uint64_t> make_keys(std::uint64_t first, std::uint64_t count) {
    std::vector<std::uint64_t> keys;
    keys.reserve(count);
    for (std::uint64_t counter = first; keys.size() < count; ++counter)
        if (const std::uint64_t key = scramble(counter); key != 0) keys.push_back(key);
    return keys;
}

/// Random numbers for choosing: one multiplication each.
class chooser {
 public:
    explicit chooser(std::uint64_t seed) noexcept : state_(seed) {}
    /// A number in [0, bound). Requires: bound > 0.
    std::uint64_t below(std::uint64_t bound) noexcept { return detail::multiply_high(scramble(state_++), bound); }

 private:
    std::uint64_t state_;
};

/// `count` keys drawn at random from `keys`, with replacement.
[[nodiscard]] inline std::vector<std::uint64_t> draw(std::span<const std::uint64_t> keys, std::uint64_t count,
                                                     std::uint64_t seed) {
    chooser choose(seed);
    std::vector<std::uint64_t> drawn(count);
    for (std::uint64_t& key : drawn) key = keys[choose.below(keys.size())];
    return drawn;
}

/// The same keys in an order that tells nothing of where they stood (Fisher and Yates).
[[nodiscard]] inline std::vector<std::uint64_t> shuffled(std::span<const std::uint64_t> keys, std::uint64_t seed) {
    chooser choose(seed);
    std::vector<std::uint64_t> order(keys.begin(), keys.end());
    for (std::size_t left = order.size(); left > 1; --left) std::swap(order[left - 1], order[choose.below(left)]);
    return order;
}

/// How many questions to write down for a data set: enough that no branch predictor learns their order and that one
/// walk through them touches far more of a large set than the caches hold, and few enough that the array itself does
/// not push a small set out of its cache.
[[nodiscard]] constexpr std::uint64_t questions_for(std::uint64_t entries) noexcept {
    if (entries <= 100'000) return std::uint64_t{1} << 16;
    return entries <= 2'000'000 ? std::uint64_t{1} << 20 : std::uint64_t{1} << 22;
}

/// Places drawn at random from a set of that size, as many as there are questions for it: a power of two.
[[nodiscard]] inline std::vector<std::uint32_t> draw_places(std::uint64_t size, std::uint64_t seed) {
    chooser choose(seed);
    std::vector<std::uint32_t> places(questions_for(size));
    for (std::uint32_t& place : places) place = static_cast<std::uint32_t>(choose.below(size));
    return places;
}

/// An endless walk through an array in slices: the next operations of a body.
class walk {
 public:
    walk() = default;
    explicit walk(std::span<const std::uint64_t> all) noexcept : all_(all) {}

    /// Calls body(slice) until `operations` were handed out, and adds up what it returns.
    template <class Body>
    std::uint64_t run(std::uint64_t operations, Body&& body) {
        std::uint64_t sum = 0;
        while (operations > 0) {
            const std::uint64_t left = all_.size() - at_;
            const std::uint64_t n = operations < left ? operations : left;
            sum += body(all_.subspan(at_, n));
            operations -= n;
            at_ = at_ + n == all_.size() ? 0 : at_ + n;
        }
        return sum;
    }

 private:
    std::span<const std::uint64_t> all_;
    std::uint64_t at_ = 0;
};

/// "1e4", "2e7", or the plain number.
[[nodiscard]] inline std::string count_text(std::uint64_t count) {
    std::uint64_t digits = count;
    unsigned zeros = 0;
    while (digits != 0 && digits % 10 == 0) {
        digits /= 10;
        ++zeros;
    }
    if (zeros < 3 || digits > 9) return std::to_string(count);
    return std::to_string(digits) + "e" + std::to_string(zeros);
}

/// Takes what was drawn in turn, from where the last walk ended; it goes on from the front. For the time of a loop all
/// that it knows is the compiler's to keep in registers: a member would be loaded anew behind each acquire load of a
/// subject, and be counted against that subject alone. Requires: as many as a power of two, which outlive it.
template <class T>
class drawn_walk {
 public:
    drawn_walk(const std::vector<T>& drawn, std::uint64_t& at) noexcept
        : drawn_(drawn.data()), last_(drawn.size() - 1), here_(at), at_(at) {}
    drawn_walk(const drawn_walk&) = delete;
    drawn_walk& operator=(const drawn_walk&) = delete;
    ~drawn_walk() { at_ = here_; }
    [[nodiscard]] const T& next() noexcept { return drawn_[here_++ & last_]; }

 private:
    const T* const drawn_;
    const std::uint64_t last_;
    std::uint64_t here_;
    std::uint64_t& at_;
};

}  // namespace holdfast::workload
