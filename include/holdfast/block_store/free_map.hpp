// SPDX-License-Identifier: Apache-2.0
// free_map.hpp - the writer's private list of free units: one bit each, learned from the shared words region by region
// when a search first comes by.
//
// Nothing of it lies in the segment, so there is nothing that a kill could leave half done, and nothing to rebuild when
// a writer attaches: the words alone say what is free (block_store_layout.hpp, I2).
// (I1) A set bit is a free unit. A clear bit is a unit in use, of the claim in preparation, or of a region not learned.
// (I2) free_[r] is the number of set bits of region r, or `unknown`.
// Cost: 1 bit a unit of private memory (1/512 of a store of 64-byte units); learning a region 4096 words, once.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "holdfast/block_store/view.hpp"

namespace holdfast::detail {

class block_free_map {
 public:
    block_free_map() = default;
    /// Throws: std::bad_alloc.
    explicit block_free_map(const block_view<const std::byte>& view)
        : view_(view),
          bits_((view.units() + 63) / 64),
          free_((view.units() + region_units - 1) / region_units, unknown) {}

    /// The first free unit in [from, to), or `to`.
    [[nodiscard]] std::uint64_t next_free(std::uint64_t from, std::uint64_t to) noexcept {
        while (from < to) {
            const std::uint64_t region = from / region_units;
            const std::uint64_t end = std::min((region + 1) * region_units, to);
            if (known(region) != 0) {
                std::uint64_t bits = bits_[from / 64] & (~std::uint64_t{0} << (from % 64));
                for (std::uint64_t at = from / 64 * 64; at < end; at += 64, bits = at < end ? bits_[at / 64] : 0)
                    if (bits != 0) {
                        const std::uint64_t found = at + static_cast<std::uint64_t>(std::countr_zero(bits));
                        return std::min(found, to);
                    }
            }
            from = end;
        }
        return to;
    }

    /// How many units from a free one on are free, counted up to `most`.
    [[nodiscard]] std::uint64_t run_length(std::uint64_t from, std::uint64_t most) noexcept {
        most = std::min(most, view_.units() - from);
        std::uint64_t length = 0;
        while (length < most) {
            const std::uint64_t at = from + length;
            if (known(at / region_units) == 0) break;
            const auto ones = static_cast<std::uint64_t>(std::countr_one(bits_[at / 64] >> (at % 64)));
            length += ones;
            if (ones != 64 - at % 64) break;
        }
        return std::min(length, most);
    }

    /// Requires: all of them free.
    void take(std::uint64_t first, std::uint64_t count) noexcept {
        for_each_word(first, count, [&](std::uint64_t word, std::uint64_t mask) {
            bits_[word] &= ~mask;
            free_[word / region_words] -= static_cast<std::uint32_t>(std::popcount(mask));
        });
    }
    /// Requires: the shared words say that they are free, or the claim that had them was dropped. In a region not
    /// learned the words will tell.
    void give(std::uint64_t first, std::uint64_t count) noexcept {
        for_each_word(first, count, [&](std::uint64_t word, std::uint64_t mask) {
            std::uint32_t& free = free_[word / region_words];
            if (free == unknown) return;
            free += static_cast<std::uint32_t>(std::popcount(mask & ~bits_[word]));
            bits_[word] |= mask;
        });
    }

 private:
    static constexpr std::uint64_t region_units = 4096;
    static constexpr std::uint64_t region_words = region_units / 64;
    static constexpr std::uint32_t unknown = ~std::uint32_t{0};

    template <class Change>
    static void for_each_word(std::uint64_t first, std::uint64_t count, Change&& change) {
        while (count != 0) {
            const std::uint64_t bit = first % 64, part = std::min(count, 64 - bit);
            const std::uint64_t ones = part == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << part) - 1;
            change(first / 64, ones << bit);
            first += part;
            count -= part;
        }
    }

    [[nodiscard]] std::uint32_t known(std::uint64_t region) noexcept {
        if (free_[region] == unknown) [[unlikely]]
            learn(region);
        return free_[region];
    }

    void learn(std::uint64_t region) noexcept {
        const std::uint64_t first = region * region_units, end = std::min(first + region_units, view_.units());
        std::uint32_t free = 0;
        for (std::uint64_t i = first; i < end; ++i) {
            if (view_.in_use(i)) continue;
            bits_[i / 64] |= std::uint64_t{1} << (i % 64);
            ++free;
        }
        free_[region] = free;
    }

    block_view<const std::byte> view_;
    std::vector<std::uint64_t> bits_;
    std::vector<std::uint32_t> free_;
};

}  // namespace holdfast::detail
