// SPDX-License-Identifier: Apache-2.0
// mutation.hpp - inputs made from those of a corpus by a number: the same number, the same input.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace holdfast::fuzz {

using input = std::vector<std::uint8_t>;

/// Numbers from a seed. Source: splitmix64, Steele, Lea, Flood, OOPSLA 2014.
class numbers {
 public:
    explicit numbers(std::uint64_t seed) : state_(seed) {}
    std::uint64_t operator()() noexcept {
        std::uint64_t x = state_ += 0x9E3779B97F4A7C15U;
        x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
        x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
        return x ^ (x >> 31);
    }
    /// Below `bound`; 0 where that is 0.
    std::size_t below(std::size_t bound) noexcept {
        return bound == 0 ? 0 : static_cast<std::size_t>((*this)() % bound);
    }

 private:
    std::uint64_t state_;
};

inline constexpr std::size_t input_bytes_max = 16'384;

namespace detail {

/// A number that programs stumble over, near `word` or near a size.
[[nodiscard]] inline std::uint64_t hostile_word(std::uint64_t word, std::size_t bytes, numbers& draw) noexcept {
    const std::array<std::uint64_t, 14> values{0,
                                               ~std::uint64_t{0},
                                               std::uint64_t{1} << 63,
                                               word + 1,
                                               word - 1,
                                               word * 2,
                                               word ^ 1,
                                               bytes,
                                               word + 8,
                                               word - 8,
                                               std::uint64_t{1} << 31,
                                               std::uint64_t{1} << 15,
                                               0x7f,
                                               draw()};
    return values[draw.below(values.size())];
}

inline void change_word(input& of, numbers& draw) {
    const std::size_t width = std::size_t{1} << draw.below(4);
    if (of.size() < width) return;
    std::size_t at = draw.below(of.size() - width + 1);
    if (draw() % 2 == 0) at = at / width * width;  // as fields lie
    std::uint64_t word = 0;
    std::memcpy(&word, of.data() + at, width);
    word = hostile_word(word, of.size(), draw);
    std::memcpy(of.data() + at, &word, width);
}

/// A piece of `from` over, or between, the bytes of `of`.
inline void put_piece(input& of, const input& from, numbers& draw) {
    if (from.empty()) return;
    const std::size_t begin = draw.below(from.size());
    const std::size_t bytes = 1 + draw.below(std::min<std::size_t>(from.size() - begin, 64));
    const input piece(from.begin() + static_cast<std::ptrdiff_t>(begin),
                      from.begin() + static_cast<std::ptrdiff_t>(begin + bytes));
    const std::size_t at = draw.below(of.size() + 1);
    if (draw() % 2 == 0 && of.size() + bytes <= input_bytes_max)
        of.insert(of.begin() + static_cast<std::ptrdiff_t>(at), piece.begin(), piece.end());
    else
        std::copy_n(piece.begin(), std::min(bytes, of.size() - at), of.begin() + static_cast<std::ptrdiff_t>(at));
}

inline void take_piece(input& of, numbers& draw) {
    if (of.empty()) return;
    const std::size_t at = draw.below(of.size());
    const std::size_t bytes = 1 + draw.below(std::min<std::size_t>(of.size() - at, 64));
    of.erase(of.begin() + static_cast<std::ptrdiff_t>(at), of.begin() + static_cast<std::ptrdiff_t>(at + bytes));
}

}  // namespace detail

/// Input number `round` of a seed: one of `corpus` with 1 to 8 changes. Requires: the corpus is not empty.
[[nodiscard]] inline input mutated(const std::vector<input>& corpus, std::uint64_t seed, std::uint64_t round) {
    numbers draw(seed ^ (round * 0xD6E8FEB86659FD93U));
    input made = corpus[draw.below(corpus.size())];
    for (std::size_t changes = 1 + draw.below(8); changes > 0; --changes) {
        switch (draw.below(8)) {
            case 0:
                if (!made.empty()) made[draw.below(made.size())] ^= static_cast<std::uint8_t>(1U << draw.below(8));
                break;
            case 1:
                if (!made.empty()) made[draw.below(made.size())] = static_cast<std::uint8_t>(draw());
                break;
            case 2: detail::take_piece(made, draw); break;
            case 3: detail::put_piece(made, made, draw); break;
            case 4: detail::put_piece(made, corpus[draw.below(corpus.size())], draw); break;
            case 5:
                if (!made.empty() && draw() % 4 == 0) made.resize(draw.below(made.size()));
                break;
            default: detail::change_word(made, draw);
        }
    }
    return made;
}

}  // namespace holdfast::fuzz
