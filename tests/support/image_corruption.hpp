// SPDX-License-Identifier: Apache-2.0
// image_corruption.hpp - hostile images made from a sound one: what a peer, a bit flip or a cut could turn it into.
//
//   for_each_bit_flip     every bit of a range, one at a time
//   for_each_word_damage  every aligned word of 1, 2, 4 and 8 bytes of a range: 0, all ones, sign bit, +1, -1, doubled,
//                         byte-swapped, and sizes near the image's own
//   for_each_swap         two neighbouring words exchanged
//   for_each_truncation   cut at each given length, one less and one more
//   splice                the front of one image, the back of another
//   random_damage         a few random pieces of damage at once
//
// visit(damage, bytes) gets a writable, page-aligned image that is sound but for the damage, and may write to it: each
// visit starts from a fresh copy. damage::text() names it for the failure message.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "support/seed.hpp"
#include "support/single_step.hpp"

namespace holdfast::test {

/// A named part of an image: a header field, an array, a journal.
struct image_part {
    std::string name;
    std::size_t offset = 0;
    std::size_t bytes = 0;
};

struct damage {
    const char* kind;
    std::string part;
    std::size_t offset = 0;
    std::uint64_t value = 0;

    [[nodiscard]] std::string text() const {
        return std::string(kind) + " in " + part + " at byte " + std::to_string(offset) + ", value " +
               std::to_string(value);
    }
};

namespace rig {

// A working copy that is put right again before each visit.
class damage_bench {
 public:
    explicit damage_bench(std::span<const std::byte> sound)
        : sound_(sound.begin(), sound.end()), work_(std::max<std::size_t>(sound.size(), 1)) {}
    std::span<std::byte> fresh() {
        std::memcpy(work_.bytes().data(), sound_.data(), sound_.size());
        return work_.bytes().first(sound_.size());
    }

 private:
    std::vector<std::byte> sound_;
    shared_image work_;
};

inline std::uint64_t get_word(std::span<const std::byte> image, std::size_t offset, std::size_t width) {
    std::uint64_t word = 0;
    std::memcpy(&word, image.data() + offset, width);
    return word;
}

inline std::uint64_t swap_bytes(std::uint64_t word, std::size_t width) {
    return __builtin_bswap64(word) >> (64 - 8 * width);
}

inline std::vector<std::uint64_t> hostile_words(std::uint64_t word, std::size_t width, std::size_t image_bytes) {
    const std::uint64_t mask = width == 8 ? ~std::uint64_t{0} : (std::uint64_t{1} << (8 * width)) - 1;
    std::vector<std::uint64_t> values{0,
                                      mask,
                                      (mask >> 1) + 1,
                                      mask >> 1,
                                      word + 1,
                                      word - 1,
                                      word * 2,
                                      word + 64,
                                      swap_bytes(word, width),
                                      image_bytes,
                                      image_bytes - 1,
                                      image_bytes + 1,
                                      image_bytes * 2};
    for (std::uint64_t& value : values) value &= mask;
    std::sort(values.begin(), values.end());
    values.erase(std::unique(values.begin(), values.end()), values.end());
    std::erase(values, word);
    return values;
}

}  // namespace rig

/// Returns: the images shown, here and in all that follow.
template <class Visit>
std::uint64_t for_each_bit_flip(std::span<const std::byte> sound, const image_part& part, Visit&& visit) {
    rig::damage_bench bench(sound);
    for (std::size_t bit = 0; bit < part.bytes * 8; ++bit) {
        const std::span<std::byte> image = bench.fresh();
        image[part.offset + bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
        visit(damage{"bit flipped", part.name, part.offset + bit / 8, bit % 8}, image);
    }
    return part.bytes * 8;
}

template <class Visit>
std::uint64_t for_each_word_damage(std::span<const std::byte> sound, const image_part& part, Visit&& visit) {
    static constexpr std::array<const char*, 9> kinds{"", "byte", "half word", "", "word", "", "", "", "double word"};
    rig::damage_bench bench(sound);
    std::uint64_t shown = 0;
    for (const std::size_t width : {std::size_t{1}, std::size_t{2}, std::size_t{4}, std::size_t{8}})
        for (std::size_t at = (part.offset + width - 1) / width * width; at + width <= part.offset + part.bytes;
             at += width)
            for (const std::uint64_t value : rig::hostile_words(rig::get_word(sound, at, width), width, sound.size())) {
                const std::span<std::byte> image = bench.fresh();
                std::memcpy(image.data() + at, &value, width);
                visit(damage{kinds[width], part.name, at, value}, image);
                ++shown;
            }
    return shown;
}

template <class Visit>
std::uint64_t for_each_swap(std::span<const std::byte> sound, const image_part& part, std::size_t width,
                            Visit&& visit) {
    rig::damage_bench bench(sound);
    std::uint64_t shown = 0;
    for (std::size_t at = part.offset; at + 2 * width <= part.offset + part.bytes; at += width) {
        if (std::memcmp(sound.data() + at, sound.data() + at + width, width) == 0) continue;
        const std::span<std::byte> image = bench.fresh();
        std::swap_ranges(image.begin() + static_cast<std::ptrdiff_t>(at),
                         image.begin() + static_cast<std::ptrdiff_t>(at + width),
                         image.begin() + static_cast<std::ptrdiff_t>(at + width));
        visit(damage{"neighbours swapped", part.name, at, width}, image);
        ++shown;
    }
    return shown;
}

/// Cuts at each of `lengths`, one byte less and one more (within the sound size).
template <class Visit>
std::uint64_t for_each_truncation(std::span<const std::byte> sound, const std::vector<std::size_t>& lengths,
                                  Visit&& visit) {
    rig::damage_bench bench(sound);
    std::uint64_t shown = 0;
    for (const std::size_t length : lengths)
        for (const std::size_t cut : {length - 1, length, length + 1}) {
            if (cut >= sound.size()) continue;  // length 0 less one wraps: not a cut either
            visit(damage{"cut", "image", cut, 0}, bench.fresh().first(cut));
            ++shown;
        }
    return shown;
}

/// The first `at` bytes of `front`, then `back` from there on.
[[nodiscard]] inline std::vector<std::byte> splice(std::span<const std::byte> front, std::span<const std::byte> back,
                                                   std::size_t at) {
    std::vector<std::byte> image(front.begin(),
                                 front.begin() + static_cast<std::ptrdiff_t>(std::min(at, front.size())));
    if (at < back.size()) image.insert(image.end(), back.begin() + static_cast<std::ptrdiff_t>(at), back.end());
    return image;
}

/// `rounds` images with 1 to 8 random pieces of damage each, anywhere in `part`.
template <class Visit>
std::uint64_t random_damage(std::span<const std::byte> sound, const image_part& part, seeded_random& random,
                            std::uint64_t rounds, Visit&& visit) {
    rig::damage_bench bench(sound);
    for (std::uint64_t round = 0; round < rounds; ++round) {
        const std::span<std::byte> image = bench.fresh();
        for (std::uint64_t pieces = 1 + random.below(8); pieces > 0; --pieces) {
            const std::size_t width = std::size_t{1} << random.below(4);
            if (width > part.bytes) continue;
            const std::size_t at = part.offset + random.below(part.bytes - width + 1);
            const auto values = rig::hostile_words(rig::get_word(sound, at, width), width, sound.size());
            const std::uint64_t value = random.below(2) == 0 ? random() : values[random.below(values.size())];
            std::memcpy(image.data() + at, &value, width);
        }
        visit(damage{"random damage", part.name, part.offset, round}, image);
    }
    return rounds;
}

}  // namespace holdfast::test
