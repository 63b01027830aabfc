// SPDX-License-Identifier: Apache-2.0
// arrangement.hpp - a perfect hash of a few hundred known words: where each of them lies, by one multiplication, two
// loads from small tables that stay in the nearest cache, and no branch.
//
// Made by displacement: the upper bits of the product name a group, the bits below them a slot, and each group has a
// displacement that was tried until all of its words fell on free slots. It lies in private memory, so nothing in it is
// another process's doing. For a word that is not among them the answer is the place of another one, or 0: whoever asks
// compares.
//
// Source:  displacement by groups, largest first: Belazzougui, Botelho, Dietzfelbinger, Hash, Displace, and Compress,
//          ESA 2009, doi:10.1007/978-3-642-04128-0_61; the hash: Dietzfelbinger, Hagerup, Katajainen, Penttonen, A
//          Reliable Randomized Algorithm for the Closest-Pair Problem, 1997, doi:10.1006/jagm.1997.0873.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "holdfast/detail/hash.hpp"

namespace holdfast::detail {

/// A word and where it lies.
struct placed_word {
    std::uint64_t word = 0;
    std::uint16_t place = 0;
};

class key_arrangement {
 public:
    static constexpr std::size_t words_max = 1U << 14;

    key_arrangement() : key_arrangement(1, 0) {}
    /// Takes the memory for so many words, once: arrange() takes none. Requires: words <= words_max. Throws: bad_alloc.
    key_arrangement(std::size_t words, std::uint64_t seed)
        : random_(seed),
          displacements_(groups_for(words)),
          places_(slots_for(words)),
          taken_(slots_for(words)),
          order_(words),
          begins_(groups_for(words) + 1),
          by_size_(groups_for(words)) {}

    /// Where the word lies, if it is one of those arranged; else where another does, or 0.
    [[nodiscard, gnu::always_inline]] std::uint16_t place_of(std::uint64_t word) const noexcept {
        const std::uint64_t product = word * multiplier_;
        return places_[(product >> slot_shift_ & slot_mask_) ^ displacements_[product >> group_shift_]];
    }

    /// Arranges these words; of equal ones, which only damage brings about, the first counts. Returns: false if none of
    /// many multipliers would do, which takes words chosen for it, or if they are more than there is memory for: all
    /// places are 0 then. Cost: 20 to 40 ns a word, at random up
    /// to four times as long.
    [[nodiscard]] bool arrange(std::span<const placed_word> words) noexcept {
        if (words.size() > order_.size()) return clear(), false;
        const std::size_t groups = groups_for(words.size()), slots = slots_for(words.size());
        group_shift_ = 64 - static_cast<unsigned>(std::countr_zero(groups));
        slot_shift_ = group_shift_ - static_cast<unsigned>(std::countr_zero(slots));
        slot_mask_ = slots - 1;
        for (int attempt = 0; attempt < attempts_max; ++attempt) {
            multiplier_ = next_random() | 1U;
            sort_by_group(words, groups);
            std::fill_n(displacements_.begin(), groups, std::uint16_t{0});
            std::fill_n(places_.begin(), slots, std::uint16_t{0});
            std::fill_n(taken_.begin(), slots, std::uint8_t{0});
            std::size_t done = 0;
            while (done < groups && displace(by_size_[done], words)) ++done;
            if (done == groups) return true;
        }
        return clear(), false;
    }

    /// Forgets all words.
    void clear() noexcept {
        multiplier_ = 0;  // every word has the first group and its first slot
        displacements_[0] = 0;
        places_[0] = 0;
    }

 private:
    static constexpr int attempts_max = 64;

    // Two at least, so that no shift is by 64.
    [[nodiscard]] static std::size_t groups_for(std::size_t words) noexcept {
        return std::bit_ceil(std::max<std::size_t>(words / 3, 2));
    }
    [[nodiscard]] static std::size_t slots_for(std::size_t words) noexcept {
        return std::bit_ceil(std::max<std::size_t>(words + words / 2, 2));
    }
    [[nodiscard]] std::uint64_t group_of(std::uint64_t word) const noexcept {
        return word * multiplier_ >> group_shift_;
    }
    [[nodiscard]] std::uint64_t slot_of(std::uint64_t word) const noexcept {
        return word * multiplier_ >> slot_shift_ & slot_mask_;
    }

    /// order_[begins_[g], begins_[g + 1]): the words of group g, in the caller's order. by_size_: the groups with most
    /// words first.
    void sort_by_group(std::span<const placed_word> words, std::size_t groups) noexcept {
        std::fill_n(begins_.begin(), groups + 1, std::uint16_t{0});
        for (const placed_word& each : words) ++begins_[group_of(each.word) + 1];
        for (std::size_t i = 0; i < groups; ++i) by_size_[i] = static_cast<std::uint16_t>(i);
        std::sort(by_size_.begin(), by_size_.begin() + static_cast<std::ptrdiff_t>(groups),
                  [this](std::uint16_t a, std::uint16_t b) { return begins_[a + 1U] > begins_[b + 1U]; });
        for (std::size_t i = 0; i < groups; ++i)
            begins_[i + 1] = static_cast<std::uint16_t>(begins_[i + 1] + begins_[i]);
        // From the last word on, each in front of those of its group that are there: begins_[g + 1] counts down.
        for (std::size_t i = words.size(); i-- > 0;)
            order_[--begins_[group_of(words[i].word) + 1]] = static_cast<std::uint16_t>(i);
        // Now begins_[g + 1] is where g begins: one place back.
        std::move(begins_.begin() + 1, begins_.begin() + static_cast<std::ptrdiff_t>(groups) + 1, begins_.begin());
        begins_[groups] = static_cast<std::uint16_t>(words.size());
    }

    /// Tries displacements until the words of the group fall on free slots, each on its own.
    [[nodiscard]] bool displace(std::uint16_t group, std::span<const placed_word> words) noexcept {
        const std::size_t from = begins_[group], to = begins_[group + 1U];
        for (std::uint64_t displacement = 0; displacement <= slot_mask_; ++displacement) {
            std::size_t at = from;
            while (at < to && take(words, from, at, displacement)) ++at;
            if (at == to) {
                displacements_[group] = static_cast<std::uint16_t>(displacement);
                return true;
            }
            while (at-- > from) {
                const std::uint64_t slot = slot_of(words[order_[at]].word) ^ displacement;
                taken_[slot] = 0;
                places_[slot] = 0;
            }
        }
        return false;
    }
    [[nodiscard]] bool take(std::span<const placed_word> words, std::size_t from, std::size_t at,
                            std::uint64_t displacement) noexcept {
        const placed_word& wanted = words[order_[at]];
        const std::uint64_t slot = slot_of(wanted.word) ^ displacement;
        if (taken_[slot] != 0) {
            for (std::size_t i = from; i < at; ++i)  // the same word once more: it has its place
                if (words[order_[i]].word == wanted.word) return true;
            return false;
        }
        taken_[slot] = 1;
        places_[slot] = wanted.place;
        return true;
    }

    [[nodiscard]] std::uint64_t next_random() noexcept {  // Weyl's sequence, mixed
        random_ += hash_multipliers[0];
        std::uint64_t mixed = (random_ ^ random_ >> 32U) * hash_multipliers[1];
        mixed = (mixed ^ mixed >> 29U) * hash_multipliers[2];
        return mixed ^ mixed >> 32U;
    }

    std::uint64_t multiplier_ = 0;
    unsigned group_shift_ = 63, slot_shift_ = 62;
    std::uint64_t slot_mask_ = 1;
    std::uint64_t random_;
    std::vector<std::uint16_t> displacements_;  // of each group
    std::vector<std::uint16_t> places_;         // of the word in each slot
    // For arrange() alone.
    std::vector<std::uint8_t> taken_;
    std::vector<std::uint16_t> order_, begins_, by_size_;
};

}  // namespace holdfast::detail
